"""Cases of `benchmarks.calibration` in which people differ: users who rate, and judges."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.stats import norm

from bayesrank import CollaborativeGP, CollaborativeOrdinalGP
from bayesrank.estimators import ArenaRanker
from bayesrank.models.comparisons import judged_comparisons
from benchmarks.calibration import Trial, drawn, of_draws, of_levels, of_normals
from benchmarks.ratings_few import LEVELS, draw, of_the_prior

__all__ = ["arena", "numbers", "ratings"]

_FIRST_SEED = 3_000_000  # of ratings, on which nothing was chosen
_USER_SPREAD = 0.3
_ONE_SD = float(2.0 * norm.cdf(1.0) - 1.0)  # probability of the interval from -1 to 1


def arena(seed: int, *, rows: int, judges: int = 0, categories: int = 0) -> Trial:
    """Games of twenty items, one of them at home, with ties; perhaps with judges and categories."""
    rng, n = np.random.default_rng(seed), 20
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(rows)])
    said: dict[str, Any] = {"outcomes": np.full(rows, 2), "position": np.ones(rows, int)}
    given: dict[str, Any] = {}
    if judges:
        given = {
            "judge": rng.integers(judges, size=rows),
            "category": rng.integers(categories, size=rows),
        }
        said |= {"judges": given["judge"], "num_judges": judges}
        said |= {"categories": given["category"], "num_categories": categories}
    truth = drawn(judged_comparisons, seed, n, pairs, **said)
    tied, first = truth["comparison"] == 1, truth["comparison"] > 0
    games = np.where(first[:, None], pairs, pairs[:, ::-1])
    ranker = ArenaRanker(items=range(n))
    ranker.fit(games, ties=tied, position=np.where(first, 1, -1), **given)
    return of_draws(ranker.samples(), truth["f"])


def ratings(seed: int, *, num_users: int, num_items: int) -> Trial:
    """Levels by users who told half of theirs: the others."""
    attempts = itertools.count(_FIRST_SEED + 1000 * seed)
    found = draw("prior", num_users, num_items, next(attempts))
    while len(np.unique(found.levels[found.told])) < LEVELS:
        found = draw("prior", num_users, num_items, next(attempts))
    levels, told = found
    users, items = np.nonzero(told)
    model = CollaborativeOrdinalGP().fit(users, items, levels[told])
    return of_levels(model.predict_proba(*np.nonzero(~told)), levels[~told], seed)


def numbers(seed: int, *, num_users: int, num_items: int) -> Trial:
    """Numbers by users who told half of theirs: the others, noise included."""
    rng, n, m = np.random.default_rng([_FIRST_SEED, seed]), num_users, num_items
    mean, kernel = of_the_prior(rng, m)
    f = mean + rng.normal(size=(n, m)) @ np.linalg.cholesky(kernel).T
    scale, noise = np.exp(_USER_SPREAD * rng.normal(size=(2, n, 1)))
    values = mean.mean() + scale * (f - mean.mean()) + noise * rng.normal(size=(n, m))
    told = np.argsort(rng.random((n, m)), axis=1) < m // 2
    users, items = np.nonzero(told)
    model = CollaborativeGP().fit(users, items, values[told])
    low, high = model.predict_interval(*np.nonzero(~told), level=_ONE_SD)
    return of_normals((low + high) / 2.0, (high - low) / 2.0, values[~told])
