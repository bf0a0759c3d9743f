"""Few users: the default beside full Bayes, NUTS over the program with mean and kernel unknown.

`collaborative_ordinal_gp` has mean, kernel, base and gaps as parameters, which EM gives one value
each. Here they have the densities that its strengths state (the kernel an inverse Wishart of the
same strength, the mean its normal), and wide priors where it states none: base scales, level, gaps.
All is drawn from standard variables, the kernel by Bartlett's decomposition, which NUTS likes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
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
_FURTHER_USERS, _MEAN_STRENGTH, _USER_SPREAD = 30.0, 12.0, 0.3  # EM's defaults


def _program(users: Any, items: Any, levels: Any, *, num_users: int, num_items: int) -> None:
    n, m = num_users, num_items
    strength = m + _FURTHER_USERS
    degrees = strength - m - 1.0
    scales = jnp.asarray(numpyro.sample("scales", dist.LogNormal(0.0, 1.5).expand([2])))
    level = jnp.asarray(numpyro.sample("level", dist.Normal(0.0, 3.0)))
    base = 0.5 * (scales[0] * jnp.ones((m, m)) + scales[1] * jnp.eye(m))
    squares = dist.Gamma((degrees - jnp.arange(m)) / 2.0, 0.5)
    diagonal = jnp.sqrt(jnp.asarray(numpyro.sample("diagonal", squares)))
    below = numpyro.sample("below", dist.Normal().expand([m * (m - 1) // 2]))
    wishart = jnp.diag(diagonal).at[jnp.tril_indices(m, -1)].set(below)
    inverse = solve_triangular(wishart, jnp.eye(m), lower=True)
    root = math.sqrt(strength) * jnp.linalg.cholesky(base) @ inverse.T
    mean = jnp.asarray(numpyro.sample("mean", dist.Normal().expand([m])))
    each = jnp.asarray(numpyro.sample("each", dist.Normal().expand([n, m])))
    f = level + root @ mean / math.sqrt(_MEAN_STRENGTH) + each @ root.T
    gaps = jnp.asarray(numpyro.sample("gaps", dist.LogNormal(0.0, 1.0).expand([LEVELS - 2])))
    own = dist.LogNormal(0.0, _USER_SPREAD)
    gaps *= jnp.asarray(numpyro.sample("gap_factor", own.expand([n, LEVELS - 2])))
    noise = jnp.asarray(numpyro.sample("noise_factor", own.expand([n])))
    edges = centred_thresholds(gaps)
    told = OrderedProbit(f[users, items], edges[users], noise[users]).log_prob(levels)
    numpyro.factor("rating", jnp.asarray(told).sum())
    every = OrderedProbit(f[..., None], edges[:, None, None], noise[:, None, None])
    numpyro.deterministic("probability", jnp.exp(every.log_prob(jnp.arange(LEVELS))))


def report(num_users: int, num_items: int, num_sets: int, seed: int) -> Iterator[str]:
    """Say how calibrated full Bayes and the default are on the same sets."""
    program = partial(_program, num_users=num_users, num_items=num_items)
    options: Any = {"num_warmup": 300, "num_samples": 400, "progress_bar": False}
    mcmc = MCMC(NUTS(program, max_tree_depth=7), jit_model_args=True, **options)
    for kind in ("prior", "tastes"):
        sets = [draw(kind, num_users, num_items, seed + s) for s in range(num_sets)]
        sets = [x for x in sets if len(np.unique(x.levels[x.told])) == LEVELS]
        full = [_full(mcmc, x, number) for number, x in enumerate(sets)]
        default = [predicted(x, {}) for x in sets]
        gaps = np.array([_loss(*b) - _loss(*a) for a, b in zip(full, default, strict=True)])
        error = gaps.std() / math.sqrt(len(sets) - 1)
        name = f"{num_users} x {num_items}, {kind}, {len(sets)} sets"
        yield f"{name}, full Bayes: {calibration(full)}"
        yield f"{name}, default: {calibration(default)}"
        yield f"{name}, default less full Bayes: {gaps.mean():+.4f} +- {error:.4f}"


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
