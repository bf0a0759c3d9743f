"""Few users: the default beside full Bayes, NUTS over a program with mean and kernel unknown.

`collaborative_ordinal_gp` has mean, kernel, base and gaps as parameters, which EM gives one value
each, and strengths that are given. Here all of them are unknown, with the densities that
`benchmarks.ratings_few` draws from: the kernel an inverse Wishart whose strength runs from the
number of items to ten times it, the mean worth 2 to 15 users. Base scales, level and gaps have wide
priors. All is drawn from standard variables, the kernel by Bartlett's decomposition.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray
from numpyro.infer import MCMC, NUTS

from bayesrank.distributions.ordinal import OrderedProbit, centred_thresholds
from benchmarks.ratings_few import LEVELS, FewRatings, draw, predicted
from benchmarks.slopes import calibration

__all__ = ["report"]

Array = NDArray[Any]
_USER_SPREAD = 0.3  # EM's default


def _program(users: Any, items: Any, levels: Any, *, num_users: int, num_items: int) -> None:
    n, m = num_users, num_items
    strength = _log_uniform("strength", m + 4.0, 10.0 * m)
    mean_strength = _log_uniform("mean_strength", 2.0, 15.0)
    scales = jnp.asarray(numpyro.sample("scales", dist.LogNormal(0.0, 1.5).expand([2])))
    level = jnp.asarray(numpyro.sample("level", dist.Normal(0.0, 3.0)))
    base = 0.5 * (scales[0] * jnp.ones((m, m)) + scales[1] * jnp.eye(m))
    degrees = strength - jnp.arange(m)
    # Squares over their degrees depend on the strength by their spread only.
    ratios = jnp.asarray(numpyro.sample("ratios", dist.Gamma(degrees / 2.0, degrees / 2.0)))
    below = numpyro.sample("below", dist.Normal().expand([m * (m - 1) // 2]))
    wishart = jnp.diag(jnp.sqrt(degrees * ratios)).at[jnp.tril_indices(m, -1)].set(below)
    inverse = solve_triangular(wishart, jnp.eye(m), lower=True)
    root = jnp.sqrt(strength - m - 1.0) * jnp.linalg.cholesky(base) @ inverse.T
    mean = jnp.asarray(numpyro.sample("mean", dist.Normal().expand([m])))
    each = jnp.asarray(numpyro.sample("each", dist.Normal().expand([n, m])))
    f = level + root @ mean / jnp.sqrt(mean_strength) + each @ root.T
    gaps = jnp.asarray(numpyro.sample("gaps", dist.LogNormal(0.0, 1.0).expand([LEVELS - 2])))
    own = dist.LogNormal(0.0, _USER_SPREAD)
    gaps *= jnp.asarray(numpyro.sample("gap_factor", own.expand([n, LEVELS - 2])))
    noise = jnp.asarray(numpyro.sample("noise_factor", own.expand([n])))
    edges = centred_thresholds(gaps)
    told = OrderedProbit(f[users, items], edges[users], noise[users]).log_prob(levels)
    numpyro.factor("rating", jnp.asarray(told).sum())
    every = OrderedProbit(f[..., None], edges[:, None, None], noise[:, None, None])
    numpyro.deterministic("probability", jnp.exp(every.log_prob(jnp.arange(LEVELS))))


def _log_uniform(name: str, low: float, high: float) -> Any:
    share = jnp.asarray(numpyro.sample(name, dist.Uniform()))
    return low * (high / low) ** share


def report(
    num_users: int, num_items: int, num_sets: int, seed: int, results: Path | None = None
) -> Iterator[str]:
    """Say how calibrated full Bayes and the default are on the same sets.

    What a file of results, a line of JSON for each set, has already is not run again; sets are
    added to it as they are done.
    """
    known = _known(results)
    program = partial(_program, num_users=num_users, num_items=num_items)
    options: Any = {"num_warmup": 300, "num_samples": 400, "progress_bar": False}
    mcmc = MCMC(NUTS(program, max_tree_depth=7), jit_model_args=True, **options)
    for kind in ("prior", "tastes"):
        found = []
        for number in range(num_sets):
            ratings = draw(kind, num_users, num_items, seed + number)
            if len(np.unique(ratings.levels[ratings.told])) < LEVELS:
                continue
            name = f"{kind}, {num_users} x {num_items}, {seed + number}"
            if name not in known:
                known[name] = (*_full(mcmc, ratings, number), predicted(ratings, {})[0])
                _keep(results, name, known[name])
            found.append(known[name])
        full = [(probability, levels) for probability, levels, _ in found]
        default = [(probability, levels) for _, levels, probability in found]
        gaps = np.array([_loss(*b) - _loss(*a) for a, b in zip(full, default, strict=True)])
        error = gaps.std() / math.sqrt(len(found) - 1)
        name = f"{num_users} x {num_items}, {kind}, {len(found)} sets"
        yield f"{name}, full Bayes: {calibration(full)}"
        yield f"{name}, default: {calibration(default)}"
        yield f"{name}, default less full Bayes: {gaps.mean():+.4f} +- {error:.4f}"


def _known(results: Path | None) -> dict[str, tuple[Array, Array, Array]]:
    if results is None or not results.exists():
        return {}
    rows = (json.loads(line) for line in results.read_text().splitlines())
    return {name: (np.array(full), np.array(y), np.array(em)) for name, full, y, em in rows}


def _keep(results: Path | None, name: str, found: tuple[Array, Array, Array]) -> None:
    if results is not None:
        with results.open("a") as file:
            file.write(json.dumps([name, *(x.round(6).tolist() for x in found)]) + "\n")


def _full(mcmc: MCMC, ratings: FewRatings, seed: int) -> tuple[Array, Array]:
    users, items = np.nonzero(ratings.told)
    others = np.nonzero(~ratings.told)
    with jax.enable_x64(True):
        told = (jnp.asarray(x) for x in (users, items, ratings.levels[users, items]))
        mcmc.run(jax.random.key(seed), *told)
        mean = np.asarray(mcmc.get_samples()["probability"].mean(axis=0))
    return mean[others], ratings.levels[others]


def _loss(probability: Array, levels: Array) -> float:
    return float(-np.log(probability[np.arange(len(levels)), levels]).mean())
