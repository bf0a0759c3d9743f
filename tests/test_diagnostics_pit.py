"""The PIT of levels: uniform for right predictions, and not for wrong ones."""

import numpy as np
from scipy import stats

from bayesrank.diagnostics import randomized_pit

RNG = np.random.default_rng(20)
PROBABILITY = RNG.dirichlet(np.ones(4), 400)
LEVELS = (PROBABILITY.cumsum(axis=1) < RNG.random((400, 1))).sum(axis=1)


def test_pit_is_within_its_level_and_uniform_if_predictions_are_right():
    values = randomized_pit(PROBABILITY, LEVELS)
    edges = np.c_[np.zeros(400), PROBABILITY.cumsum(axis=1)]
    rows = np.arange(400)
    assert np.all((edges[rows, LEVELS] <= values) & (values <= edges[rows, LEVELS + 1]))
    assert stats.kstest(values, "uniform").pvalue > 0.05
    narrow = PROBABILITY**3 / (PROBABILITY**3).sum(axis=1, keepdims=True)
    assert stats.kstest(randomized_pit(narrow, LEVELS), "uniform").pvalue < 0.01
