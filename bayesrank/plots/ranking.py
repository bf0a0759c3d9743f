"""Plots of a ranking: its items with intervals, and the probabilities of their pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from bayesrank._validate import check_count
from bayesrank.plots.figure import axes_or_new, heat_map, ranked_labels, shorten
from bayesrank.ranking import RankSummary
from bayesrank.ranking.columns import span, whole_percent


def plot_ranking(
    summary: RankSummary,
    *,
    ax: Axes | None = None,
    max_items: int = 40,
    xlabel: str | None = None,
) -> Axes:
    """Draw each item's skill with its uncertainty, best on top, and the ranks it may have.

    Dots of provisional items are hollow.

    Parameters
    ----------
    summary
        What `bayesrank.ranking.summarize` returns.
    ax
        Axes to draw on; a new figure if not given.
    max_items
        Most items to show, at least 2. The best three quarters of that number and the last quarter
        are shown, and the gap is marked.
    xlabel
        Name and unit of the axis; by default they are those of skills or scores.

    Raises
    ------
    ValueError
        If ``max_items`` is less than 2.
    """
    check_count(max_items, "max_items", 2)
    if xlabel is None:
        skill = summary.measure == "skill"
        xlabel = "Skill (higher is better; only differences matter)" if skill else "Score"
    n = len(summary)
    tail = max(1, max_items // 4) if n > max_items else 0
    head = max_items - tail if tail else n
    shown = np.r_[0:head, n - tail : n]
    place = np.arange(head + tail) + np.r_[np.zeros(head), np.ones(tail)]
    ax = axes_or_new(ax, 7.5, 1.7 + 0.25 * (head + tail + (tail > 0)))
    _draw_skills(ax, summary, shown, place)
    if tail:
        at = {"ha": "center", "va": "center", "transform": ax.get_yaxis_transform()}
        ax.text(0.5, head, f"… {n - head - tail} more …", color="0.4", **at)
    _name_rows(ax, summary, shown, place)
    ax.set_xlabel(xlabel)
    what = "skills" if summary.measure == "skill" else "scores"
    title = f"Posterior means and {100 * summary.level:g}% credible intervals of {what} and ranks"
    if summary.provisional[shown].any():
        title += "\nhollow dot: provisional, too few comparisons"
    if summary.num_components > 1:
        title += "\ndotted line: no comparison links the items above and below"
    ax.set_title(title, fontsize="medium", pad=22)
    return ax


def _draw_skills(ax: Axes, summary: RankSummary, shown: Any, place: Any) -> None:
    """Dots and bars of the items `shown` (m,), at the heights `place` (m,)."""
    for row in place[::2]:
        ax.axhspan(row - 0.5, row + 0.5, color="0.96", zorder=0)
    ax.hlines(place, summary.skill_lower[shown], summary.skill_upper[shown], "C0", lw=3, alpha=0.4)
    ax.plot(summary.mean[shown], place, "o", color="C0", markersize=5)
    unsure = summary.provisional[shown]
    ax.plot(summary.mean[shown][unsure], place[unsure], "o", color="white", markersize=2.5)
    ax.set_ylim(place[-1] + 0.6, -0.6)
    for row in np.flatnonzero(np.diff(summary.component[shown])):
        ax.axhline((place[row] + place[row + 1]) / 2, color="0.3", lw=1, ls=":")


def _name_rows(ax: Axes, summary: RankSummary, shown: Any, place: Any) -> None:
    """Ranks and names at the left, likely ranks at the right."""
    labels = ranked_labels(summary.names, summary.rank)
    # Names with dollars are no formulas.
    ax.set_yticks(place, [labels[i] for i in shown], parse_math=False)
    right = ax.secondary_yaxis("right")
    ends = zip(summary.rank_lower[shown], summary.rank_upper[shown], strict=True)
    right.set_yticks(place, [span(f"{a}", f"{b}") for a, b in ends])
    likely = f"{100 * summary.level:g}% ranks"
    for text, x, side in (("Rank and item", -0.012, "right"), (likely, 1.012, "left")):
        ax.text(x, 1.01, text, ha=side, va="bottom", color="0.3", transform=ax.transAxes)
    for axis in (ax, right):
        axis.tick_params(axis="y", length=0)
    ax.spines[["top", "left", "right"]].set_visible(False)
    right.spines["right"].set_visible(False)


def plot_pairwise(summary: RankSummary, better: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the probability that each item is better than each other, in ranked order.

    Some labels of many items are left out, but no item.

    Parameters
    ----------
    summary
        What `bayesrank.ranking.summarize` returns. Nothing is drawn of two items of different
        components.
    better
        Probability that one item of the ranking is better than another, for the first m items or
        all, in ranked order, shape (m, m): of a ranker's ``prob_better``, or counted by
        `bayesrank.ranking.pairwise_probability`.
    ax
        Axes to draw on; a new figure if not given.

    Raises
    ------
    ValueError
        If `better` is not a matrix of probabilities of so many items.
    """
    probability = np.array(better, float)
    n = len(probability) if probability.ndim else 0
    if probability.shape != (n, n) or not 0 < n <= len(summary):
        raise ValueError(
            f"better has shape {probability.shape}; pass a row and a column for each of the first "
            f"items of the ranking, {len(summary):,} at most"
        )
    if not ((probability >= 0.0) & (probability <= 1.0)).all():
        raise ValueError("better is not between 0 and 1; pass probabilities")
    component = summary.component[:n]
    probability[component[:, None] != component] = np.nan
    labels = [shorten(name) for name in summary.names[:n]]
    rows = ranked_labels(summary.names[:n], summary.rank[:n])
    side, longest = float(np.clip(0.5 * n, 3.5, 7.0)), 0.08 * max(map(len, labels))
    ax = axes_or_new(ax, side + 2.2 + longest, side + 1.0 + longest)
    bar = heat_map(ax, probability, rows, labels, low=0.0, what="", write=whole_percent)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_ylabel("Rank and item")
    ax.set_xlabel("than this item")
    title = "Probability that the row's item is better (%)"
    if component[-1] > 0:
        title += "; grey: no comparison links them"
    if n < len(summary):
        title += f"\nthe first {n} of {len(summary):,} items"
    ax.set_title(title, fontsize="medium")
    return ax


def plot_similarity(kernel: ArrayLike, names: Sequence[object], *, ax: Axes | None = None) -> Axes:
    """Draw the correlations of items over users, alike ones side by side.

    Some labels of many items are left out, but no item.

    Parameters
    ----------
    kernel
        Covariance of the users' functions at the items, shape (m, m), of two items or more.
    names
        One name for each item.
    ax
        Axes to draw on; a new figure if not given.

    Raises
    ------
    ValueError
        If it is not a covariance of as many items as there are names.
    """
    covariance = np.asarray(kernel, float)
    m = len(names)
    if covariance.shape != (m, m) or m < 2:
        raise ValueError(
            f"kernel has shape {covariance.shape} and there are {m} names; pass a covariance of "
            "two items or more, and one name each"
        )
    sd = np.sqrt(np.diagonal(covariance))
    if not (np.isfinite(covariance).all() and (sd > 0).all()):
        raise ValueError(
            "kernel is not a covariance; it needs finite entries and positive variances"
        )
    correlation = covariance / np.outer(sd, sd)
    order = _alike_together(correlation)
    labels = [shorten(names[item]) for item in order]
    side = float(np.clip(0.4 * m, 3.5, 9.0))
    ax = axes_or_new(ax, side + 4.0, side + 2.5)
    correlation = correlation[np.ix_(order, order)]
    what = "Correlation over users"
    heat_map(ax, correlation, labels, labels, low=-1.0, what=what, write="{:.2f}".format, most=40)
    ax.set_title(
        "What do the same people like?\nblue: liked by the same users; red: by different users",
        fontsize="medium",
    )
    return ax


def _alike_together(correlation: np.ndarray) -> np.ndarray:
    """Order of items (m,) in which neighbours are alike, from a hierarchy of clusters."""
    apart = 1.0 - 0.5 * (correlation + correlation.T)
    np.fill_diagonal(apart, 0.0)
    distance = squareform(np.maximum(apart, 0.0), checks=False)
    return leaves_list(linkage(distance, method="average", optimal_ordering=True))
