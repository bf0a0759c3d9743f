"""A small world for each kind of data, of one shape each, and rankers fitted to it.

`conftest` hands out the fixtures. What they give is shared by a session: copy before changing it.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayesrank.datasets import ComparisonData
from bayesrank.estimators import LabelRanker, Ranker

RNG = np.random.default_rng(0)

# Drinks: nine items of two features, 64 comparisons; 13 may be taken to be ties.
DRINKS = ("ale", "cocoa", "cola", "gin", "juice", "milk", "mate", "tea", "water")
TASTE = pd.DataFrame(RNG.normal(size=(9, 2)), index=DRINKS, columns=["sweet", "strong"])
_SKILL = TASTE["sweet"].to_numpy() - 0.5 * TASTE["strong"].to_numpy()


def _played(rng: np.random.Generator, count: int) -> Any:
    """Numbers of winner and loser, shape (count, 2), and by how much the first was ahead."""
    pairs = np.array([rng.choice(9, 2, replace=False) for _ in range(count)])
    margin = _SKILL[pairs[:, 0]] - _SKILL[pairs[:, 1]] + 1.4 * rng.normal(size=count)
    return np.where(margin[:, None] > 0, pairs, pairs[:, ::-1]), margin


PAIRS, _MARGIN = _played(RNG, 64)
WINS = np.array(DRINKS, object)[PAIRS]
TIED = np.abs(_MARGIN) <= np.sort(np.abs(_MARGIN))[12]
DAYS = np.r_[0, 100, RNG.integers(0, 100, 62)]
DATES = np.datetime64("2024-01-01") + DAYS

# A log of the same comparisons: two judges, two categories, and who was served first.
LOG: dict[str, Any] = {
    "position": np.where(_MARGIN > 0, 1, -1),
    "judge": np.array(["Ann", "Dan"], object)[RNG.integers(2, size=64)],
    "category": np.array(["cold", "hot"], object)[RNG.integers(2, size=64)],
}
DATA = ComparisonData(DRINKS, PAIRS, TIED)

# Orders: of three or four drinks, two of them in a group at times.
ORDERS: list[list[Any]] = [
    [DRINKS[k] for k in RNG.permutation(9)[: 3 + number % 2]] for number in range(24)
]
ORDERS[5] = ["tea", ["milk", "gin"]]

# Trips: what two features say of the order of three labels, and of which are relevant.
LABELS = ["sea", "hills", "town"]
WEATHER = pd.DataFrame(RNG.normal(3.0, 2.0, size=(24, 2)), columns=["warmth", "rain"])
_WORTH = np.c_[WEATHER - 3.0, 0.3 * (WEATHER["warmth"] - WEATHER["rain"])]
_WORTH += 0.7 * RNG.normal(size=(24, 3))
RANKINGS = [[LABELS[a] for a in np.argsort(-row) if row[a] > 0] for row in _WORTH]
RELEVANT = [list(order) for order in RANKINGS]


@pytest.fixture(scope="session")
def paired() -> Ranker:
    """Independent skills at a given scale."""
    return Ranker(items=DRINKS, hyperparameters={"scale": 1.3}).fit(WINS)


@pytest.fixture(scope="session")
def featured() -> Ranker:
    """Skills by features."""
    return Ranker(item_features=TASTE, hyperparameters="prior").fit(WINS)


@pytest.fixture(scope="session")
def moving() -> Ranker:
    """Skills that walk; one more item is in no comparison."""
    given = {"scale": 1.0, "drift": 0.8}
    ranker = Ranker(time="walk", hyperparameters=given, items=[*DRINKS, "wine"])
    return ranker.fit(WINS, time=DATES)


@pytest.fixture(scope="session")
def ordered() -> Ranker:
    """Skills from orders, at a given scale."""
    return Ranker(items=DRINKS, hyperparameters={"scale": 1.3}).fit(ORDERS)


@pytest.fixture(scope="session")
def logged() -> Ranker:
    """A log with every column; the solver for judges learned its scales."""
    return Ranker(items=DRINKS).fit(WINS, ties=TIED, **LOG)


@pytest.fixture(scope="session")
def averaged() -> Ranker:
    """A log with ties and positions; EP averaged over its scales."""
    return Ranker(items=DRINKS).fit(WINS, ties=TIED, position=LOG["position"])


@pytest.fixture(scope="session")
def labelled() -> LabelRanker:
    """Orders and relevant labels by smooth functions of the weather."""
    model = LabelRanker(kernel="rbf", n_basis=6, random_state=3, hyperparameters="prior")
    return model.fit(WEATHER, RANKINGS, RELEVANT)
