"""The PIT of levels: uniform for right predictions, and not for wrong ones."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import stats

from bayesrank.plots import plot_pit, randomized_pit

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


def test_the_line_is_the_distribution_less_the_diagonal():
    ax = plot_pit(PROBABILITY, LEVELS, seed=1)
    values = randomized_pit(PROBABILITY, LEVELS, seed=1)
    lines = [np.asarray(line.get_xydata()) for line in ax.lines]
    x, y = max(lines, key=len).T
    expected = np.array([(values <= at).mean() - at for at in x])
    np.testing.assert_allclose(y, expected, atol=0.006)
    plt.close("all")


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"levels \(3,\)"):
        randomized_pit(PROBABILITY, LEVELS[:3])
    with pytest.raises(ValueError, match="columns for 0 to 2"):
        randomized_pit(PROBABILITY[:, :3], LEVELS)
