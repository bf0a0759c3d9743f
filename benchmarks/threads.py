"""Threads that come all at once to a process where nothing is compiled, in either precision."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import click
import jax
import numpy as np
from joblib import Parallel, delayed

_X = np.random.default_rng(0).normal(size=(6, 2))
_PAIRS = np.array([[0, 1], [1, 2], [2, 3], [4, 5], [0, 3], [1, 4]])


def _program() -> Callable[[], Any]:
    import numpyro
    import numpyro.distributions as dist

    from bayesrank.infer import EP

    def model(x: Any, y: Any) -> None:
        weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)

    engine = EP(model)
    return lambda: engine.run(jax.random.key(0), _X, _X[:, 0] > 0).mean["weights"]


def _pairwise() -> Callable[[], Any]:
    from bayesrank import PairwiseRanker

    return lambda: PairwiseRanker(hyperparameters="map").fit(_PAIRS).predict()


def _kernel() -> Callable[[], Any]:
    from bayesrank import PreferenceGP

    return lambda: PreferenceGP(hyperparameters="prior").fit(_X, _PAIRS).predict(_X)


def _lists() -> Callable[[], Any]:
    from bayesrank import LambdaRank

    return lambda: LambdaRank(num_steps=20).fit(_X, [0, 1] * 3, [0, 0, 1, 1, 2, 2]).predict(_X)


_WORKS = {"EP": _program, "PairwiseRanker": _pairwise, "PreferenceGP": _kernel}
_WORKS |= {"LambdaRank": _lists}


def start_together(seed: int, threads: int = 8) -> list[str]:
    """Let threads compute at once, half in double precision; return what came out otherwise.

    Each result is held against what is computed alone afterwards, in the same process, with the
    precision switched to and fro.  To be called in a process where nothing was computed.
    """
    calls = {name: make() for name, make in _WORKS.items()}
    work = [(list(calls)[k % len(calls)], k // len(calls) % 2 == 1) for k in range(threads)]
    work = [work[k] for k in np.random.default_rng(seed).permutation(threads)]
    gate = threading.Barrier(threads)
    sys.setswitchinterval(1e-5)

    def enter(name: str, double: bool) -> Any:
        with jax.enable_x64(double):
            gate.wait()
            return calls[name]()

    together = Parallel(n_jobs=threads, backend="threading")(delayed(enter)(*one) for one in work)
    wrong = []
    for (name, double), found in zip(work, list(together), strict=True):
        jax.config.update("jax_enable_x64", double)
        if not np.array_equal(found, calls[name]()):
            wrong.append(f"{name} in {'double' if double else 'single'} precision")
    return wrong


@click.command()
@click.option("--times", type=click.IntRange(1), default=20, help="Processes, one after another.")
def threads(times: int) -> None:
    """Eight threads start at once where nothing is compiled: each computes what it does alone."""
    spawn = multiprocessing.get_context("spawn")
    wrong = []
    for seed in range(times):
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            wrong += pool.submit(start_together, seed).result()
    click.echo(f"{times} processes: {len(wrong)} results differ {', '.join(wrong)}".rstrip())


COMMANDS = (threads,)
