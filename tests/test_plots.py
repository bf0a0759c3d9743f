"""Pictures: what is on the axes, not how it looks; axes, names and refusals that all share."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from bayesrank import plots
from bayesrank.ranking import pairwise_probability, summarize

NAMES = ["$5 {a_ $", "a very long name, much too long 7b-instruct", "eve", "dan"]
OVER = np.zeros((2, 4)), np.ones((2, 4))
MEANS, SDS = np.array([1.0, -2.0, 4.0, 0.0]), np.array([1.0, 2.0, 0.5, 3.0])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def make_draws(n, draws=200):
    rng = np.random.default_rng(n)
    return rng.permutation(n) * 0.3 + rng.normal(size=(draws, n))


def texts(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def heat(ax):
    return np.asarray(ax.images[0].get_array())


def draw_pairs(samples, names=None, *, components=None, most=None, ax=None):
    """Pairs of the first items of a ranking by draws."""
    summary = summarize(samples, names, components=components)
    return plots.plot_pairwise(
        summary, pairwise_probability(samples[:, summary.indices[:most]]), ax=ax
    )


# Draws with names on axes that may be given; those of several panels make their figure.
PICTURES: dict[str, Callable[..., Any]] = {
    "ranking": lambda names, **ax: plots.plot_ranking(summarize(make_draws(4), names), **ax),
    "pairs": lambda names, **ax: draw_pairs(make_draws(4), names, **ax),
    "similarity": lambda names, **ax: plots.plot_similarity(np.eye(4), names, **ax),
    "tastes": lambda names, **ax: plots.plot_tastes(MEANS, SDS, names, **ax),
    "time": lambda names, **ax: plots.plot_skills_over_time([0, 1], *OVER, names, **ax),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_names_are_no_formulas_given_axes_are_used_and_settings_stay(picture):
    draw = PICTURES[picture]
    backend, settings = matplotlib.get_backend(), dict(matplotlib.rcParams)
    drawn: Any = draw(NAMES)
    (drawn if isinstance(drawn, Figure) else drawn.figure).canvas.draw()
    if not isinstance(drawn, Figure):
        before, ax = plt.get_fignums(), Figure().subplots()
        assert draw(NAMES, ax=ax) is ax and plt.get_fignums() == before
    assert matplotlib.get_backend() == backend and dict(matplotlib.rcParams) == settings


@pytest.mark.slow
def test_import_loads_no_jax():
    code = "import sys, bayesrank.plots; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    (plots.plot_ranking, (summarize(make_draws(3)),), {"max_items": 1}, "max_items is 1; pass"),
    (plots.plot_pairwise, (summarize(make_draws(3)), np.zeros(3)), {}, r"shape \(3,\); pass a row"),
    (plots.plot_pairwise, (summarize(make_draws(3)), np.zeros((4, 4))), {}, "items .*, 3 at most"),
    (plots.plot_pairwise, (summarize(make_draws(3)), np.zeros((0, 0))), {}, r"shape \(0, 0\)"),
    (plots.plot_pairwise, (summarize(make_draws(3)), np.full((2, 2), np.nan)), {}, "between 0 and"),
    (plots.plot_similarity, (np.eye(2), ["a"]), {}, r"shape \(2, 2\) and there are 1 names"),
    (plots.plot_similarity, (np.eye(1), ["a"]), {}, "of two items or more"),
    (plots.plot_similarity, (np.diag([1.0, 0.0]), "ab"), {}, "kernel is not a covariance"),
    (plots.plot_tastes, ([0.0], [1.0, 2.0], ["a"]), {}, "have 1, 2 and 1 entries; pass one of"),
    (plots.plot_tastes, ([], [], []), {}, "have 0, 0 and 0 entries"),
    (plots.plot_skills_over_time, ([0.0], *OVER, NAMES), {}, r"shapes \(1,\), \(2, 4\) and"),
    (plots.plot_skills_over_time, ([1, 0], *OVER, NAMES), {}, "times do not increase; sort"),
    (plots.plot_skills_over_time, ([0, 1], *OVER, NAMES), {"level": 1}, "level is 1"),
]


@pytest.mark.parametrize(("plot", "args", "options", "message"), REFUSED)
def test_what_cannot_be_drawn_is_refused(plot, args, options, message):
    with pytest.raises(ValueError, match=message):
        plot(*args, **options)


def test_ranking_shows_every_item_with_its_numbers():
    summary = summarize(make_draws(4), NAMES)
    ax = plots.plot_ranking(summary)
    dots, bars = ax.get_lines()[0], ax.collections[0]
    np.testing.assert_allclose(np.asarray(dots.get_xdata()), summary.mean)
    ends = np.array(bars.get_segments())[:, :, 0]  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(ends, np.c_[summary.skill_lower, summary.skill_upper])
    assert [text.split(". ")[0] for text in texts(ax.yaxis)] == ["1", "2", "3", "4"]
    (long,) = [text for text in texts(ax.yaxis) if "…" in text]
    assert "a very" in long and long.endswith("7b-instruct") and len(long) < 35
    (right,) = ax.child_axes
    ends = zip(summary.rank_lower, summary.rank_upper, strict=True)
    assert texts(right.yaxis) == [f"{a}" if a == b else f"{a}–{b}" for a, b in ends]
    top, bottom = ax.get_ylim()
    assert top > bottom, "the best item is not on top"
    assert "90%" in ax.get_title() and "higher is better" in ax.get_xlabel()


def test_skills_over_time_have_lines_bands_and_names_that_are_apart():
    days = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], "datetime64[D]")
    means, sds = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 2.0]]), np.ones((3, 2))
    ax = plots.plot_skills_over_time(days, means, sds, ["eve", "dan"], level=0.5)
    for item, line in enumerate(ax.get_lines()):
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), means[:, item])
        band = np.asarray(ax.collections[item].get_paths()[0].vertices)[:, 1]
        np.testing.assert_allclose(
            [band.min(), band.max()], means[[0, 2], item] + [-0.6745, 0.6745], atol=1e-4
        )
    heights = [text.get_position()[1] for text in ax.texts]
    assert abs(heights[0] - heights[1]) > 0.1 and np.isclose(np.mean(heights), 2.0)
    assert "50%" in ax.get_title()


def test_provisional_items_have_hollow_dots():
    draws = np.random.default_rng(0).normal(size=(500, 5)) * [0.1, 0.1, 9.0, 0.1, 0.1]
    summary = summarize(draws + [5.0, 4.0, 3.0, 2.0, 1.0], prior_sd=9.0)
    ax = plots.plot_ranking(summary)
    hollow = np.asarray(ax.get_lines()[1].get_ydata())
    np.testing.assert_array_equal(hollow, np.flatnonzero(summary.provisional))
    assert len(hollow) == 1 and "hollow dot: provisional" in ax.get_title()
    sure = plots.plot_ranking(summarize(np.delete(draws, 2, 1) + np.arange(4)))
    assert "hollow" not in sure.get_title()


def test_ranking_of_many_shows_both_ends():
    summary = summarize(make_draws(60, 50))
    ax = plots.plot_ranking(summary, max_items=12)
    places = [int(text.split(".")[0]) for text in texts(ax.yaxis)]
    assert places == [*range(1, 10), 58, 59, 60]
    assert [t.split(". ")[1] for t in texts(ax.yaxis)] == [summary.names[p - 1] for p in places]
    assert any(text.get_text() == "… 48 more …" for text in ax.texts)
    assert len(texts(plots.plot_ranking(summary, max_items=60).yaxis)) == 60


@pytest.mark.parametrize(("n", "most"), [(1, 1), (4, 150), (40, 25), (40, 40)])
def test_pairs_are_those_of_the_ranking(n, most):
    samples = make_draws(n, 60) + 30.0 * (np.arange(n) == 3)
    summary = summarize(samples, [f"item {i}" for i in range(n)])
    ax = draw_pairs(samples, [f"item {i}" for i in range(n)], most=most)
    shown = summary.indices[:most]
    np.testing.assert_allclose(heat(ax), pairwise_probability(samples)[np.ix_(shown, shown)])
    labels = [f"{r}. {name}" for r, name in zip(summary.rank, summary.names, strict=True)][:most]
    assert texts(ax.yaxis) == labels[:: 2 if most == 40 else 1]
    assert ("the first 25 of 40 items" in ax.get_title()) == (most < n)
    written = [text.get_text() for text in ax.texts]
    assert len(written) == (12 if n == 4 else 0) and (n != 4 or {"<1", ">99"} <= set(written))


def test_nothing_is_drawn_of_pairs_that_no_comparison_links():
    samples, component = make_draws(5), np.array([0, 1, 0, 1, 0])
    summary = summarize(samples, components=component)
    ax = draw_pairs(samples, components=component)
    inside = summary.component[:, None] == summary.component
    np.testing.assert_array_equal(np.isfinite(heat(ax)), inside)
    assert [text.split(".")[0] for text in texts(ax.yaxis)] == ["1", "2", "3", "1", "2"]
    assert "grey: no comparison links them" in ax.get_title()
    assert "no comparison links" in plots.plot_ranking(summary).get_title()


def test_items_that_are_alike_stand_together():
    rng = np.random.default_rng(1)
    loading = np.repeat(np.eye(3), 4, axis=0) + 0.1 * rng.normal(size=(12, 3))
    scale = np.diag(rng.uniform(0.5, 2.0, 12))
    kernel, mixed = scale @ (loading @ loading.T + 0.2 * np.eye(12)) @ scale, rng.permutation(12)
    ax = plots.plot_similarity(kernel[np.ix_(mixed, mixed)], [f"{i}$" for i in mixed])
    order = [int(text[:-1]) for text in texts(ax.yaxis)]
    kinds = [i // 4 for i in order]
    assert kinds[::4] == kinds[3::4]
    sd = np.sqrt(np.diag(kernel))
    np.testing.assert_allclose(heat(ax), (kernel / np.outer(sd, sd))[np.ix_(order, order)])
    assert len(ax.texts) == 144 and {"1.00"} <= {text.get_text() for text in ax.texts}


def test_tastes_are_numbered_and_each_is_in_all_its_groups():
    ax = plots.plot_tastes([2.0, 0.0, 3.0, 1.0], [3.0, 1.0, 1.0, 2.0], NAMES, labels=1)
    beside, *numbers = (text.get_text() for text in ax.texts)
    assert beside.splitlines() == ["1  eve", f"2  {NAMES[0]}", "3  a very long n…ng 7b-instruct"]
    assert numbers == ["1", "2", "3"]
    assert legend(ax) == ["liked best", "liked least", "most controversial"]
    marked = [float(np.asarray(line.get_xdata())[0]) for line in ax.lines[1:]]
    assert marked == [3.0, 0.0, 2.0]
    assert len(plots.plot_tastes([0.0], [1.0], ["a"]).texts) == 2


def test_of_few_items_none_is_liked_best_and_least():
    """Most controversial is a ring around the mark of liking, whose colour stays."""
    ax = plots.plot_tastes([2.0, 0.0, 3.0], [3.0, 1.0, 1.0], list("abc"), labels=4)
    best, least, ring = ax.lines[1:]
    assert [list(np.asarray(line.get_xdata())) for line in (best, least)] == [[3.0, 2.0], [0.0]]
    assert ring.get_markerfacecolor() == "none"
    assert ring.get_markersize() > best.get_markersize()
