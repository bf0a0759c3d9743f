"""The picture of the next question shows what the loop believes."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection
from matplotlib.container import ErrorbarContainer
from scipy.special import ndtr

from bayesrank.active import Beliefs
from bayesrank.plots import plot_question

BELIEFS = Beliefs(np.array([1.0, -2.0, 4.0, 0.0]), np.diag([1.0, 4.0, 0.25, 9.0]), 0.5)
PAIRS = np.array([[0, 1], [0, 3], [2, 1], [1, 3]])
SCORES = np.array([0.1, 0.4, 0.0, 0.3])


def test_items_and_candidates_are_where_they_belong():
    figure = plot_question(BELIEFS, PAIRS, SCORES, names=["a", "b", "c", "d"])
    left, right = figure.axes[:2]
    assert figure.get_suptitle() == "Why ask: a or d?"
    texts = left.get_legend_handles_labels()[1]
    assert texts[1:] == ["a: now rank 2", "d: now rank 3"]
    np.testing.assert_allclose(np.asarray(left.lines[0].get_ydata()), [3.25, 0.25, -0.75, -2.75])
    (dots,) = (c for c in right.collections if isinstance(c, PathCollection))
    order = np.argsort(SCORES)
    variance = np.array([5.0, 10.0, 4.25, 13.0])
    win = ndtr(np.array([3.0, 1.0, 6.0, -2.0]) / np.sqrt(0.5 + variance))
    np.testing.assert_allclose(np.asarray(dots.get_offsets()), np.c_[win, np.sqrt(variance)][order])
    np.testing.assert_allclose(np.asarray(dots.get_array()), SCORES[order])
    star = next(line for line in right.lines if line.get_marker() == "*")
    np.testing.assert_allclose(np.array(star.get_data(), float).ravel(), [win[1], np.sqrt(10.0)])
    plt.close(figure)


def test_names_with_dollars_are_no_formulas():
    figure = plot_question(BELIEFS, PAIRS, SCORES, names=["$x_$y", "b", "c", "$_$"])
    figure.canvas.draw()
    assert figure.get_suptitle() == "Why ask: $x_$y or $_$?"
    plt.close(figure)


def test_draws_match_the_band():
    figure = plot_question(BELIEFS, PAIRS, SCORES, question=(2, 1))
    draws = np.random.default_rng(0).multivariate_normal(
        BELIEFS.mean, BELIEFS.covariance, size=200_000
    )
    draws -= draws.mean(axis=1, keepdims=True)
    bar = figure.axes[0].containers[0]
    assert isinstance(bar, ErrorbarContainer)
    bars = bar.lines[2][0].get_segments()[0]
    assert bars[1, 1] - bars[0, 1] == pytest.approx(2 * draws[:, 2].std(), rel=0.01)
    plt.close(figure)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"scores \(3,\)"):
        plot_question(BELIEFS, PAIRS, SCORES[:3])
    with pytest.raises(ValueError, match="no candidate"):
        plot_question(BELIEFS, PAIRS[:0], SCORES[:0])
    with pytest.raises(ValueError, match="one for each of the 4 items"):
        plot_question(BELIEFS, PAIRS, SCORES, names=["a"])
    with pytest.raises(ValueError, match="pairs names an item that is not one of 0 to 3"):
        plot_question(BELIEFS, PAIRS + 2, SCORES)
    with pytest.raises(ValueError, match="question names an item"):
        plot_question(BELIEFS, PAIRS, SCORES, question=(0, -1))
    with pytest.raises(ValueError, match="scores has one that is not a finite number"):
        plot_question(BELIEFS, PAIRS, np.full(len(SCORES), np.nan))
