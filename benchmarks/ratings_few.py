"""Few users: simulated ratings of which half are held out, calibration and log loss."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import invwishart, norm

from bayesrank.infer import ConvergenceWarning
from bayesrank.solvers.collaborative import EM
from benchmarks.slopes import calibration

__all__ = ["LEVELS", "SETTINGS", "FewRatings", "draw", "of_the_prior", "predicted", "report"]

Array = NDArray[Any]
LEVELS = 5
SETTINGS = ((30, 12, 40), (60, 30, 10), (120, 50, 5))
"""Numbers of users, items and sets."""


class FewRatings(NamedTuple):
    """Levels of all users and items, shape (n, m), and which of them are told."""

    levels: Array
    told: Array


def draw(kind: str, num_users: int, num_items: int, seed: int) -> FewRatings:
    """Ratings of a kernel drawn from the program's prior ("prior"), or of three tastes ("tastes").

    Half of the items are told, of each user. From the prior, strengths run from the number of items
    to ten times it, the mean's from 2 to 15 users, and users differ in thresholds and noise.
    """
    rng, n, m = np.random.default_rng([seed, num_users, num_items]), num_users, num_items
    mean, kernel = (of_the_prior if kind == "prior" else _of_tastes)(rng, m)
    f = mean + rng.normal(size=(n, m)) @ np.linalg.cholesky(kernel).T
    size = np.sqrt(1.0 + np.trace(kernel) / m + mean.var())
    shares = rng.dirichlet(np.full(LEVELS, 8.0))
    edges = size * norm.ppf(np.cumsum(shares)[:-1]) + mean.mean()
    spread = 0.3 * (kind == "prior")
    gaps = np.diff(edges) * np.exp(spread * rng.normal(size=(n, LEVELS - 2)))
    own = np.hstack([np.zeros((n, 1)), np.cumsum(gaps, axis=1)])
    own += edges.mean() - own.mean(1, keepdims=True)
    noise = np.exp(spread * rng.normal(size=(n, 1)))
    levels = ((f + noise * rng.normal(size=(n, m)))[:, :, None] > own[:, None]).sum(2)
    told = np.argsort(rng.random((n, m)), axis=1) < m // 2
    return FewRatings(levels, told)


def of_the_prior(rng: np.random.Generator, m: int) -> tuple[Array, Array]:
    """Mean and kernel of m items from the program's prior, their strengths drawn as well."""
    strength = np.exp(rng.uniform(np.log(m + 4), np.log(10 * m)))
    shared, size = rng.uniform(0.1, 0.9), 3.0 * np.exp(0.5 * rng.normal())
    base = size * (shared * np.ones((m, m)) + (1.0 - shared) * np.eye(m))
    kernel = invwishart(strength, base * (strength - m - 1)).rvs(random_state=rng)
    kappa = np.exp(rng.uniform(np.log(2.0), np.log(15.0)))
    return np.linalg.cholesky(kernel) @ rng.normal(size=m) / np.sqrt(kappa), kernel


def _of_tastes(rng: Any, m: int) -> tuple[Array, Array]:
    tastes = 0.8 * rng.normal(size=(m, 3))
    return 0.7 * rng.normal(size=m), tastes @ tastes.T + 0.5 + 0.25 * np.eye(m)


def report(num_users: int, num_items: int, num_sets: int, seed: int) -> Iterator[str]:
    """Say how calibrated the default is, and with a prior worth as many users as items."""
    options: dict[str, dict[str, Any]] = {
        "default": {},
        "as many users as items": {"strength": float(num_items), "learn_base": False},
    }
    for kind in ("prior", "tastes"):
        sets = [draw(kind, num_users, num_items, seed + s) for s in range(num_sets)]
        sets = [x for x in sets if len(np.unique(x.levels[x.told])) == LEVELS]
        for name, option in options.items():
            found = calibration([predicted(x, option) for x in sets])
            yield f"{num_users} x {num_items}, {kind}, {len(sets)} sets, {name}: {found}"


def predicted(ratings: FewRatings, options: dict[str, Any]) -> tuple[Array, Array]:
    """Probabilities of the levels held out, by EM with these options, and the levels."""
    n, m = ratings.told.shape
    users, items = np.nonzero(ratings.told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = EM("probit", max_iterations=200, tol=1e-4, **options).run(
            users, items, ratings.levels[users, items], num_users=n, num_items=m, progress_bar=False
        )
    others = np.nonzero(~ratings.told)
    return result.predict_proba(*others), ratings.levels[others]
