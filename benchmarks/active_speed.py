"""Seconds and memory of choosing the best of all pairs."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from bayesrank.active import (
    Acquisition,
    Beliefs,
    FactoredBeliefs,
    bald,
    best_batch,
    best_pair,
    best_pairs,
    entropy_gain,
    eubo,
    margin_variance,
    pool_entropy,
    pool_error,
    pool_variance,
    random_gain,
)

__all__ = ["CASES", "measure"]

_ALONE: dict[str, Acquisition] = {
    "entropy": entropy_gain,
    "bald": bald,
    "variance": margin_variance,
    "eubo": eubo,
    "random": random_gain(jax.random.key(0)),
}


def _beliefs(n: int) -> Beliefs:
    """Skills that share forty factors, in single precision."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n, 40)).astype(np.float32) / np.sqrt(np.float32(40))
    covariance = factors @ factors.T
    covariance[np.diag_indices(n)] += np.float32(0.1)
    return Beliefs(rng.normal(size=n).astype(np.float32), covariance, 0.5)


def _all(name: str, n: int) -> Callable[[], Any]:
    beliefs = Beliefs(*map(jax.device_put, _beliefs(n)))
    return lambda: best_pairs(_ALONE[name], beliefs, 10)


def _pool(acquisition: Callable[..., Any]) -> Callable[[], Any]:
    beliefs, rng = _beliefs(506), np.random.default_rng(1)
    pool = np.stack(np.triu_indices(506, 1), axis=1)[rng.choice(127_765, 1_000, replace=False)]
    with_pool = Partial(acquisition, pool=jax.numpy.asarray(pool))
    return lambda: best_pairs(with_pool, beliefs, 10, candidates=pool)


def _items(acquisition: Acquisition) -> Callable[[], Any]:
    beliefs = _beliefs(506)
    return lambda: best_pairs(acquisition, beliefs, 10)


def _batch() -> Callable[[], Any]:
    beliefs = _beliefs(506)
    return lambda: best_batch(bald, beliefs, 10)


def _factored(n: int, rank: int) -> Callable[[], Any]:
    """Skills on random Fourier features of a plane, less known towards its rim."""
    rng = np.random.default_rng(0)
    places = rng.random((n, 2)).astype(np.float32)
    waves = places @ (6.0 * rng.normal(size=(2, rank // 2)).astype(np.float32))
    known = 1.0 + 5.0 * np.exp(-8.0 * np.sum((places - 0.5) ** 2, axis=1, keepdims=True))
    factor = np.hstack([np.cos(waves), np.sin(waves)]) / (known * np.float32((rank // 2) ** 0.5))
    diagonal = 0.02 * rng.random(n).astype(np.float32)
    beliefs = FactoredBeliefs(0.3 * rng.normal(size=n), factor, diagonal, 0.5)
    return lambda: best_pair(beliefs).score


# name: how to set it up, and the target in seconds, where there is one
CASES: dict[str, tuple[Callable[[], Callable[[], Any]], float | None]] = {
    **{f"{k}, 127,765 pairs": ((lambda k=k: _all(k, 506)), 0.05) for k in _ALONE},
    **{f"{k}, 12,497,500 pairs": ((lambda k=k: _all(k, 5_000)), 5.0) for k in _ALONE},
    "bald, best of 30,000 items, 400 factors": (lambda: _factored(30_000, 400), 1.0),
    "bald, best of 1,000,000 items, 20 factors": (lambda: _factored(1_000_000, 20), None),
    "bald, batch of 10 of 127,765 pairs": (_batch, None),
    "pool entropy, 1,000 pairs on 1,000": (lambda: _pool(pool_entropy), None),
    "pool variance, 127,765 pairs": (lambda: _items(pool_variance), 0.05),
    "pool error, 1,000 pairs on 1,000": (lambda: _pool(pool_error), None),
    "pool entropy, 127,765 pairs on 506 items": (lambda: _items(pool_entropy), 0.05),
}


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process.

    Returns
    -------
    dict
        Seconds of the first call (compiling included), median and smallest of five later ones, and
        peak memory above what the process held before, the beliefs included, in MB.
    """
    before = _peak_mb()
    set_up, target = CASES[name]
    run = set_up()
    first, *later = (_seconds(run) for _ in range(6))
    return {
        "first_s": first,
        "median_s": float(np.median(later)),
        "min_s": min(later),
        "target_s": target,
        "peak_mb": _peak_mb() - before,
    }


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
