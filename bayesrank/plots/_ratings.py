"""Pictures of ratings: what users agree on, and whether predicted probabilities are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from bayesrank.plots._figure import axes_or_new, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_tastes(
    mean: ArrayLike,
    spread: ArrayLike,
    names: Sequence[object],
    *,
    ax: Axes | None = None,
    labels: int = 4,
) -> Axes:
    """Draw how much items are liked, and how much users differ about them.

    Parameters
    ----------
    mean
        Shared mean of the users' functions at each item, shape (m,).
    spread
        Standard deviation of the users' functions at each item, shape (m,).
    names
        One name for each item.
    ax
        Axes to draw on; a new figure if not given.
    labels
        How many of the best liked, the least liked and the most controversial items are named.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Raises
    ------
    ValueError
        If there are not as many of each, or none.
    """
    x, y = np.asarray(mean, float), np.asarray(spread, float)
    if not x.shape == y.shape == (len(names),) or not len(names):
        raise ValueError(
            f"mean, spread and names have {x.size}, {y.size} and {len(names)} entries; pass one of "
            "each for an item"
        )
    from matplotlib.patheffects import withStroke

    ax = axes_or_new(ax, 8.0, 5.5)
    ax.plot(x, y, "o", color="C0", alpha=0.5, markersize=5)
    order = np.argsort(x)
    groups = (
        (np.argsort(-y)[:labels], "C3", "most controversial"),
        (order[::-1][:labels], "C2", "liked best"),
        (order[:labels], "0.35", "liked least"),
    )
    named: set[int] = set()
    taken: list[tuple[float, float]] = []
    for group, colour, meaning in groups:
        ax.plot([], [], "o", color=colour, markersize=6, label=meaning)
        for item in (int(i) for i in group if int(i) not in named):
            named.add(item)
            right = x[item] < np.median(x)
            ax.plot(x[item], y[item], "o", color=colour, markersize=6)
            ax.annotate(
                shorten(str(names[item])),
                (x[item], y[item]),
                xytext=(6 if right else -6, _clear_of(taken, x, y, item)),
                textcoords="offset points",
                ha="left" if right else "right",
                fontsize="small",
                color=colour,
                parse_math=False,  # a name with dollars is no formula
                path_effects=[withStroke(linewidth=2.0, foreground="white")],
            )
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.12)
    ax.set_xlabel("How much it is liked on average (in units of a rating's noise)")
    ax.set_ylabel("How much users differ about it (sd)")
    ax.set_title("What is liked, and what is controversial", fontsize="medium")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3}
    ax.legend(fontsize="small", frameon=False, **below)
    return ax


def _clear_of(
    taken: list[tuple[float, float]], x: NDArray[np.float64], y: NDArray[np.float64], item: int
) -> float:
    """Height of a label above its point, in points, at which it meets no label before it."""
    place = (x[item] - x.min()) / max(np.ptp(x), 1e-12)
    height = 300.0 * (y[item] - y.min()) / max(np.ptp(y), 1e-12)
    for offset in (3.0, -11.0, 15.0, -23.0, 27.0):
        apart = (abs(place - a) > 0.35 or abs(height + offset - b) > 11.0 for a, b in taken)
        if all(apart):
            break
    taken.append((place, height + offset))
    return offset


def plot_reliability(
    probability: ArrayLike, happened: ArrayLike, *, ax: Axes | None = None, bins: int = 10
) -> Axes:
    """Draw how often things happened that were given a probability, against the probability.

    Parameters
    ----------
    probability
        Probabilities of events, any shape.
    happened
        Whether each happened, same shape.
    ax
        Axes to draw on; a new figure if not given.
    bins
        Number of bins, with as many events each; fewer, if there are fewer events.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on. Bars are 90% intervals of a frequency (Wilson's), events taken as
        independent.

    Raises
    ------
    ValueError
        If the shapes differ, there is no event, or something is no probability.
    """
    p, seen = np.ravel(np.asarray(probability, float)), np.ravel(np.asarray(happened, bool))
    if p.shape != seen.shape or not p.size:
        raise ValueError(
            f"probability has {p.size} entries, happened {seen.size}; pass as many, one or more"
        )
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("probability has an entry that is not from 0 to 1; remove the event")
    if bins < 1:
        raise ValueError(f"bins is {bins}; pass at least 1")
    ax = axes_or_new(ax, 5.0, 5.0)
    groups = np.array_split(np.argsort(p, kind="stable"), min(bins, p.size))
    centre = np.array([p[g].mean() for g in groups])
    share = np.array([seen[g].mean() for g in groups])
    ends = np.array([_wilson(int(seen[g].sum()), len(g)) for g in groups]).T
    ax.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    ax.errorbar(centre, share, np.abs(ends - share), fmt="o-", color="C0", markersize=5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("Predicted probability of a level")
    ax.set_ylabel("How often it was the rating")
    ax.set_title("Are the probabilities right? (on the line: yes)", fontsize="medium")
    return ax


def _wilson(count: int, number: int) -> tuple[float, float]:
    interval = binomtest(count, number).proportion_ci(0.9, method="wilson")
    return interval.low, interval.high
