"""Plots of intervals and bounds: what is on the axes, not how it looks."""

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from bayesrank import bounds, plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def segments(ax):
    return np.array([c.get_segments()[0][:, 0] for c in ax.collections])


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_intervals_are_drawn_from_end_to_end_in_their_group():
    groups = {
        "a": [bounds.ErrorInterval("bound", 0.3, 0.1, 0.5)],
        "b": [
            bounds.ErrorInterval("bound", 0.2, 0.15, 0.3),
            bounds.ErrorInterval("bootstrap", 0.2, 0.18, 0.22),
        ],
    }
    ax = plots.plot_error_intervals(groups, truth=0.25)
    np.testing.assert_allclose(segments(ax), [[0.1, 0.5], [0.15, 0.3], [0.18, 0.22]])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]
    assert legend_texts(ax) == ["guaranteed (no assumption)", "bootstrap", "truth"]
    truth: Any = ax.get_lines()[-1]
    assert truth.get_xdata()[0] == 0.25


def test_curves_meet_the_accuracy_where_the_inversion_says():
    rho = [0.5, 0.5]
    ax = plots.plot_bound_curves(
        {"one": lambda n: bounds.finite_class_bound(rho, n)},
        np.geomspace(10, 1e5, 60),
        epsilon=0.05,
    )
    dot: Any = next(line for line in ax.get_lines() if line.get_marker() == "o")
    needed = bounds.finite_class_examples(rho, 0.05)
    assert float(dot.get_xdata()[0]) == pytest.approx(needed, rel=0.02)
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_curve_that_stays_above_gets_no_dot():
    ax = plots.plot_bound_curves({"flat": lambda n: 0.5}, [10, 100], epsilon=0.05)
    assert all(line.get_marker() != "o" for line in ax.get_lines())


def test_coverage_counts_every_sample_and_names_both_lines():
    result = bounds.Coverage(np.linspace(0.0, 0.2, 101), np.full(101, 0.4))
    ax = plots.plot_coverage(result, 0.1)
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sum(bar.get_height() for bar in bars) == 101
    assert legend_texts(ax) == ["90% of samples are below 0.180", "the bound for 90%: 0.400"]
    assert ax.get_xlim()[1] > 0.4


def test_parts_add_up_to_the_bound():
    rng = np.random.default_rng(0)
    problem = bounds.GaussianQueries(np.array([1.0, 0.0]), size=5)
    result = bounds.cross_validation_bound(
        lambda features, labels, query: bounds.least_squares(features, labels),
        lambda weights, features: features @ weights,
        problem.sample(20, rng),
        problem.sample(20, rng),
    )
    ax = plots.plot_bound_parts({"twenty": result}, risks=[0.2])
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sum(bar.get_width() for bar in bars) == pytest.approx(result.bound)
    assert ax.texts[0].get_text() == f" {result.bound:.2f}"


def test_posterior_of_a_figure_names_mean_and_interval():
    draws = np.linspace(0.2, 0.4, 201)
    ax = plots.plot_figure_posterior({"NDCG": draws}, xlabel="figure")
    assert legend_texts(ax) == ["NDCG: 0.300 (90%: 0.210 to 0.390)"]
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    area = sum(bar.get_height() * bar.get_width() for bar in bars)
    assert area == pytest.approx(1.0)
    assert plots.plot_figure_posterior({"flat": np.ones(5)}).get_xlim()[0] < 1.0


def test_axes_of_ones_own_are_used():
    _, ax = plt.subplots()
    assert plots.plot_figure_posterior({"NDCG": np.arange(5.0)}, ax=ax) is ax
