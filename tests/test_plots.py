"""Plots: what is on the axes, not how it looks."""

import subprocess
import sys
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from bayesrank.plots import plot_pairwise, plot_rank_distribution, plot_ranking
from bayesrank.ranking import (
    consensus_ranking,
    pairwise_probability,
    rank_distribution,
    summarize,
)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def make_draws(n, draws=200):
    rng = np.random.default_rng(n)
    return rng.permutation(n) * 0.3 + rng.normal(size=(draws, n))


def tick_texts(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def heat(ax):
    (image,) = [artist for artist in ax.get_children() if isinstance(artist, AxesImage)]
    return np.asarray(image.get_array())


def test_names_with_dollars_are_no_formulas():
    names = ["$5 {a_ $", "bob", "eve"]
    draws = make_draws(3)
    pictures = [plot_ranking(summarize(draws, names)), plot_pairwise(draws, names)]
    for ax in (*pictures, plot_rank_distribution(draws, names)):
        ax.figure.canvas.draw()
        assert any(text.endswith(names[0]) for text in tick_texts(ax.yaxis))


def test_ranking_shows_every_item_with_its_numbers():
    summary = summarize(make_draws(4), ["ann", "bob", "eve", "a very long name, much too long"])
    ax = plot_ranking(summary)
    dots: Any = ax.get_lines()[0]
    np.testing.assert_allclose(dots.get_xdata(), summary.mean)
    bars: Any = ax.collections[0]
    ends = np.array(bars.get_segments())[:, :, 0]
    np.testing.assert_allclose(ends, np.c_[summary.skill_lower, summary.skill_upper])
    assert [text.split(". ")[0] for text in tick_texts(ax.yaxis)] == ["1", "2", "3", "4"]
    assert sum("…" in text for text in tick_texts(ax.yaxis)) == 1
    (right,) = ax.child_axes
    ends = zip(summary.rank_lower, summary.rank_upper, strict=True)
    assert tick_texts(right.yaxis) == [f"{a}" if a == b else f"{a} to {b}" for a, b in ends]
    top, bottom = ax.get_ylim()
    assert top > bottom, "the best item is not on top"
    assert "90%" in ax.get_title() and "higher is better" in ax.get_xlabel()


def test_provisional_items_have_hollow_dots():
    draws = np.random.default_rng(0).normal(size=(500, 5)) * [0.1, 0.1, 9.0, 0.1, 0.1]
    summary = summarize(draws + [5.0, 4.0, 3.0, 2.0, 1.0])
    ax = plot_ranking(summary)
    hollow: Any = ax.get_lines()[1]
    np.testing.assert_array_equal(hollow.get_ydata(), np.flatnonzero(summary.provisional))
    assert len(hollow.get_ydata()) == 1 and "hollow dot: provisional" in ax.get_title()
    assert (
        "hollow" not in plot_ranking(summarize(np.delete(draws, 2, 1) + np.arange(4))).get_title()
    )


def test_ranking_of_many_shows_both_ends():
    summary = summarize(make_draws(300, 50))
    ax = plot_ranking(summary, max_items=12)
    texts = tick_texts(ax.yaxis)
    places = [int(text.split(".")[0]) for text in texts]
    assert places == [*range(1, 10), 298, 299, 300]
    assert [text.split(". ")[1] for text in texts] == [summary.name[p - 1] for p in places]
    assert any(text.get_text() == "… 288 more …" for text in ax.texts)
    assert len(tick_texts(plot_ranking(summary, max_items=300).yaxis)) == 300
    with pytest.raises(ValueError, match="max_items must be at least 2, got 1"):
        plot_ranking(summary, max_items=1)


@pytest.mark.parametrize("n", [1, 4, 30, 300])
def test_heat_maps_hold_the_right_numbers_in_ranked_order(n):
    samples = make_draws(n, 60)
    names = [f"item {i}" for i in range(n)]
    order = consensus_ranking(samples, "mean")
    pairs = plot_pairwise(samples, names, max_items=n)
    ranks = plot_rank_distribution(samples, names)
    np.testing.assert_allclose(heat(pairs), pairwise_probability(samples)[order][:, order])
    np.testing.assert_allclose(heat(ranks), rank_distribution(samples)[order])
    for ax in (pairs, ranks):
        rows = tick_texts(ax.yaxis)
        assert len(rows) == min(n, 30) and rows[0] == f"1. {names[order[0]]}"
        assert ax.get_title() and ax.get_xlabel() and ax.get_ylabel()
        ax.figure.canvas.draw()
    written = [text.get_text() for text in pairs.texts]
    expected = [f"{100 * p:.0f}" for p in heat(pairs)[~np.eye(n, dtype=bool)]]
    certain = {"0": "<1", "100": ">99"}
    assert written == ([certain.get(text, text) for text in expected] if n == 4 else [])


def test_no_number_of_draws_makes_a_chance_0_or_100():
    samples = make_draws(4) + 50.0 * np.arange(4)
    for ax, texts in (
        (plot_pairwise(samples), {"<1", ">99"}),
        (plot_rank_distribution(samples), {">99"}),
    ):
        assert {text.get_text() for text in ax.texts} == texts


def test_pairs_of_many_items_are_those_of_the_ranking_and_say_what_is_left_out():
    samples = make_draws(40)
    names = [f"item {i}" for i in range(40)]
    summary = summarize(samples, names)
    ax = plot_pairwise(samples, names, max_items=25)
    shown = [f"{r}. {name}" for r, name in zip(summary.rank, summary.name, strict=True)][:25]
    assert tick_texts(ax.yaxis) == shown
    probability = pairwise_probability(samples)
    np.testing.assert_allclose(heat(ax), probability[np.ix_(summary.item[:25], summary.item[:25])])
    assert "the best 25 of 40 items" in ax.get_title()
    assert "left out" not in plot_pairwise(samples, names).get_title()
    with pytest.raises(ValueError, match="max_items must be at least 1, got 0"):
        plot_pairwise(samples, max_items=0)


def test_nothing_is_drawn_of_pairs_that_no_comparison_links():
    samples, component = make_draws(5), np.array([0, 1, 0, 1, 0])
    summary = summarize(samples, components=component)
    ax = plot_pairwise(samples, components=component)
    inside = summary.component[:, None] == summary.component
    np.testing.assert_array_equal(np.isfinite(heat(ax)), inside)
    assert [text.split(".")[0] for text in tick_texts(ax.yaxis)] == ["1", "2", "3", "1", "2"]
    assert "grey: no comparison links them" in ax.get_title()
    assert "no comparison links" in plot_ranking(summary).get_title()


def test_long_names_keep_both_ends():
    names = [f"a-model-of-a-very-long-name-{size}b-instruct" for size in (7, 70)]
    (one, other) = tick_texts(plot_pairwise(make_draws(2), names).yaxis)
    assert one != other and len(other) < 35
    assert {text.split("name-")[-1] for text in (one, other)} != {""}


def test_given_axes_are_used_and_no_figure_is_made():
    before = plt.get_fignums()
    for draw in (
        lambda ax: plot_ranking(summarize(make_draws(5)), ax=ax),
        lambda ax: plot_pairwise(make_draws(5), ax=ax),
        lambda ax: plot_rank_distribution(make_draws(5), ax=ax),
    ):
        ax = Figure().subplots()
        assert draw(ax) is ax
    assert plt.get_fignums() == before


def test_backend_and_settings_stay_as_they_are(tmp_path):
    backend, settings = matplotlib.get_backend(), dict(matplotlib.rcParams)
    figure: Any = plot_ranking(summarize(make_draws(6))).figure
    figure.savefig(tmp_path / "ranking.png")
    assert (tmp_path / "ranking.png").read_bytes().startswith(b"\x89PNG")
    assert matplotlib.get_backend() == backend and dict(matplotlib.rcParams) == settings


def test_import_does_not_load_matplotlib():
    code = "import sys, bayesrank.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("plot", [plot_pairwise, plot_rank_distribution])
def test_bad_input_is_refused(plot):
    with pytest.raises(ValueError, match=r"shape \(draws, n\)"):
        plot(np.zeros(3))
    with pytest.raises(ValueError, match="one name per item"):
        plot(np.zeros((2, 3)), ["a"])
