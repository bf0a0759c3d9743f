"""Folds of one size compile once: clones and new estimators of one program share code."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from compilations import compilations
from sklearn.model_selection import KFold

from bayesrank import CollaborativeOrdinalGP, PreferenceGP, Ranker

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2))
PAIRS = np.array([RNG.choice(6, 2, replace=False) for _ in range(24)])
USERS, ITEMS = np.divmod(np.arange(60), 5)
LEVELS = 1 + (USERS + ITEMS) % 3


FITS: dict[str, Callable[[np.ndarray], Any]] = {
    "pairs": lambda rows: Ranker(items=range(6), hyperparameters="map").fit(PAIRS[rows]),
    "log": lambda rows: Ranker(items=range(6)).fit(PAIRS[rows]),
    "features": lambda rows: PreferenceGP(hyperparameters="map").fit(X, PAIRS[rows]),
    "ratings": lambda rows: CollaborativeOrdinalGP(max_iterations=2, tol=1.0).fit(
        USERS[rows], ITEMS[rows], LEVELS[rows]
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:EM has not converged")
@pytest.mark.parametrize("name", FITS)
def test_further_folds_compile_nothing(name: str) -> None:
    fit, count = FITS[name], 60 if name == "ratings" else 24
    first, *further = [train for train, _ in KFold(3).split(np.arange(count))]
    fit(first)
    with compilations() as events:
        for rows in further:
            fit(rows)
        assert events == []
        jax.jit(lambda x: x + count)(np.ones(count + 1))
    assert events != []  # the listener hears
