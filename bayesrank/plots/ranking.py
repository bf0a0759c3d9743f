"""The ranking as a forest plot: one line an item, best on top."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayesrank._validate import check_count
from bayesrank.plots.figure import axes_or_new, ranked_labels
from bayesrank.ranking import RankSummary
from bayesrank.ranking.columns import span


def plot_ranking(
    summary: RankSummary,
    *,
    ax: Axes | None = None,
    max_items: int = 40,
    xlabel: str = "Skill (higher is better; only differences matter)",
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
        Name and unit of the skill axis.

    Raises
    ------
    ValueError
        If ``max_items`` is less than 2.
    """
    check_count(max_items, "max_items", 2)
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
    title = f"Posterior means and {100 * summary.level:g}% credible intervals of skills and ranks"
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
