"""Folds of one size compile once: clones and new estimators of one program share code."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from compilations import compilations
from sklearn.model_selection import KFold

from bayesrank import ArenaRanker, CollaborativeOrdinalGP, PairwiseRanker, PreferenceGP

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2))
PAIRS = np.array([RNG.choice(6, 2, replace=False) for _ in range(24)])
USERS, ITEMS = np.divmod(np.arange(60), 5)
LEVELS = 1 + (USERS + ITEMS) % 3


def rank(rows: np.ndarray) -> Any:
    return PairwiseRanker(items=range(6), hyperparameters="map").fit(PAIRS[rows])


def rank_log(rows: np.ndarray) -> Any:
    return ArenaRanker(items=range(6)).fit(PAIRS[rows])


def rank_features(rows: np.ndarray) -> Any:
    return PreferenceGP(hyperparameters="map").fit(X, PAIRS[rows])


def rate(rows: np.ndarray) -> Any:
    model = CollaborativeOrdinalGP(max_iterations=2, tol=1.0)
    return model.fit(USERS[rows], ITEMS[rows], LEVELS[rows])


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    with compilations() as events:
        yield events


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EM has not converged")
@pytest.mark.parametrize(
    ("fit", "count"), [(rank, 24), (rank_log, 24), (rank_features, 24), (rate, 60)]
)
def test_further_folds_compile_nothing(
    fit: Callable[[np.ndarray], Any], count: int, compiled: list[str]
) -> None:
    first, *further = [train for train, _ in KFold(3).split(np.arange(count))]
    fit(first)
    compiled.clear()
    for rows in further:
        fit(rows)
    assert compiled == []
    jax.jit(lambda x: x + count)(np.ones(count + 1))
    assert compiled != []  # the listener hears
