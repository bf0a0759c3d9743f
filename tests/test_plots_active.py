"""Plots of active learning: what is on the axes, not how it looks."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import pyplot as plt

from bayesrank.active import Beliefs, margin_variance
from bayesrank.plots import plot_gain_surface, plot_learning_curves, plot_skill_surface


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def plane():
    """Items on a grid, and beliefs that are least sure of the item in the corner."""
    rng = np.random.default_rng(0)
    X = np.stack(np.meshgrid(np.arange(5.0), np.arange(4.0)), axis=-1).reshape(-1, 2)
    variance = np.linspace(0.5, 1.0, len(X))
    return X, Beliefs(jnp.asarray(rng.normal(size=len(X))), jnp.diag(variance), 1.0)


@pytest.mark.parametrize("band", ["sd", "se"])
def test_learning_curves_show_averages_and_bands(band):
    rng = np.random.default_rng(0)
    curves = {"random": rng.uniform(size=(6, 10)), "entropy": rng.uniform(size=(4, 8))}
    ax = plot_learning_curves(curves, band=band, reference={"all answers": 0.2})
    for line, area, table in zip(ax.get_lines(), ax.collections, curves.values(), strict=False):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, table.shape[1] + 1))
        np.testing.assert_allclose(np.asarray(line.get_ydata()), table.mean(axis=0))
        spread = table.std(axis=0, ddof=1) / (np.sqrt(len(table)) if band == "se" else 1)
        corners: Any = area.get_paths()[0].vertices
        assert corners[:, 1].max() == pytest.approx((table.mean(axis=0) + spread).max())
    legend: Any = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(curves)
    assert np.asarray(ax.get_lines()[2].get_ydata())[0] == 0.2
    assert [text.get_text() for text in ax.texts] == ["all answers"]
    assert "4 or 6 trials" in ax.get_title() and ax.get_xlabel() == "answers"


def test_one_trial_has_no_band():
    ax = plot_learning_curves({"one": [[0.3, 0.2]]})
    corners: Any = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].max() == 0.3 and ax.get_title() == "one trial"


def test_skill_surface_shows_means_and_comparisons(plane):
    X, beliefs = plane
    ax = plot_skill_surface(beliefs, X, comparisons=[[0, 1], [7, 1]], feature_names=("a", "b"))
    levels: Any = ax.collections[0]
    assert levels.levels[0] <= float(beliefs.mean.min())
    assert levels.levels[-1] >= float(beliefs.mean.max())
    arrows: Any = [text for text in ax.texts if getattr(text, "arrow_patch", None)]
    ends = [(*arrow.xyann, *arrow.xy) for arrow in arrows]
    np.testing.assert_array_equal(ends, [[*X[1], *X[0]], [*X[1], *X[7]]])
    np.testing.assert_array_equal(ax.get_lines()[-1].get_xydata(), X[[0, 1, 7]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")


def test_gain_surface_marks_the_best_question(plane):
    X, beliefs = plane
    ax = plot_gain_surface(beliefs, X, margin_variance)
    lines: Any = ax.get_lines()
    anchor, partner = (line.get_xydata()[0] for line in lines[-2:])
    # The margin of the two items that are known least varies most.
    np.testing.assert_array_equal(sorted(map(tuple, (anchor, partner))), X[[18, 19]])
    ax = plot_gain_surface(beliefs, X, margin_variance, anchor=3)
    np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), X[[3]])
    np.testing.assert_array_equal(ax.get_lines()[1].get_xydata(), X[[19]])
    assert "item 3" in ax.get_title()
    ax = plot_gain_surface(beliefs, X, margin_variance, num_items=7)
    lines = ax.get_lines()
    marked = [tuple(line.get_xydata()[0]) for line in lines]
    assert sorted(marked) == sorted(map(tuple, X[[5, 6]]))


def test_axes_that_are_given_are_drawn_on(plane):
    X, beliefs = plane
    _, (one, two, three) = plt.subplots(1, 3)
    assert plot_learning_curves({"one": [[0.3, 0.2]]}, ax=one) is one
    assert plot_skill_surface(beliefs, X, ax=two) is two
    assert plot_gain_surface(beliefs, X, margin_variance, anchor=0, ax=three) is three


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"curves": {}}, "curves is empty"),
        ({"curves": {"a": [0.1, 0.2]}}, r"curves\['a'\] has shape \(2,\)"),
        ({"curves": {"a": [[0.1, np.nan]]}}, "give finite errors"),
        ({"curves": {"a": [[0.1, 0.2], [0.1]]}}, "each trial the same number of answers"),
        ({"curves": {"a": [[0.1]]}, "band": "range"}, "band must be 'sd' or 'se', got 'range'"),
    ],
)
def test_bad_curves_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_learning_curves(**arguments)


def test_bad_maps_are_refused(plane):
    X, beliefs = plane
    with pytest.raises(ValueError, match="two features of each"):
        plot_skill_surface(beliefs, X[:, :1])
    with pytest.raises(ValueError, match="not all on one line"):
        plot_skill_surface(beliefs, np.c_[X[:, 0], X[:, 0]])
    with pytest.raises(ValueError, match="winner and loser"):
        plot_skill_surface(beliefs, X, comparisons=[0, 1])
    with pytest.raises(ValueError, match="from 0 to 19"):
        plot_skill_surface(beliefs, X, comparisons=[[0, 20]])
    with pytest.raises(ValueError, match="anchor is 20; items are numbered from 0 to 19"):
        plot_gain_surface(beliefs, X, margin_variance, anchor=20)
    with pytest.raises(ValueError, match="num_items is 1; at least 2 of the 20 items"):
        plot_gain_surface(beliefs, X, margin_variance, num_items=1)
