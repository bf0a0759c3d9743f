"""Pictures of ratings: what users agree on, and whether predicted probabilities are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    ax = axes_or_new(ax, 8.0, 5.5)
    ax.plot(x, y, "o", color="C0", alpha=0.5, markersize=5)
    order = np.argsort(x)
    groups = (
        (np.argsort(-y)[:labels], "C3", "most controversial"),
        (order[::-1][:labels], "C2", "liked best"),
        (order[:labels], "0.35", "liked least"),
    )
    named: set[int] = set()
    places = _LabelPlacer(x, y, np.concatenate([group for group, *_ in groups]))
    for group, colour, meaning in groups:
        ax.plot([], [], "o", color=colour, markersize=6, label=meaning)
        for item in (int(i) for i in group if int(i) not in named):
            named.add(item)
            right, text = bool(x[item] < np.median(x)), shorten(str(names[item]))
            ax.plot(x[item], y[item], "o", color=colour, markersize=6)
            ax.annotate(
                text,
                (x[item], y[item]),
                xytext=(6 if right else -6, places.place(item, text, right)),
                textcoords="offset points",
                ha="left" if right else "right",
                fontsize="small",
                color=colour,
                parse_math=False,  # a name with dollars is no formula
                zorder=1,  # no label hides a point
            )
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.12, y=0.12)
    ax.set_xlabel("How much it is liked on average (in units of a rating's noise)")
    ax.set_ylabel("How much users differ about it (sd)")
    ax.set_title("What is liked, and what is controversial", fontsize="medium")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3}
    ax.legend(fontsize="small", frameon=False, **below)
    return ax


class _LabelPlacer:
    """Places for the labels of points, beside them, where little is covered."""

    _OFFSETS = (3.0, -11.0, 15.0, -23.0, 27.0, -35.0)
    _WIDTH, _HEIGHT, _LETTER, _LINE = 430.0, 300.0, 5.0, 11.0  # about, in points
    _MARGIN = 34.0  # above the highest point; then comes the title

    def __init__(
        self, x: NDArray[np.float64], y: NDArray[np.float64], named: NDArray[np.intp]
    ) -> None:
        self._x = self._WIDTH * (x - x.min()) / max(np.ptp(x), 1e-12)
        self._y = self._HEIGHT * (y - y.min()) / max(np.ptp(y), 1e-12)
        self._weight = np.ones(len(x))
        self._weight[named] = 3.0
        self._taken: list[tuple[float, float, float]] = []

    def place(self, item: int, text: str, right: bool) -> float:
        """Height above its point, in points, of a label that begins or ends there."""
        length = self._LETTER * len(text)
        start = self._x[item] + (6.0 if right else -6.0 - length)
        heights = self._y[item] + np.array(self._OFFSETS)
        # A label far from its point is as bad as one that covers another point.
        cost = [k + self._covered(start, length, up) for k, up in enumerate(heights)]
        best = self._OFFSETS[int(np.argmin(cost))]
        self._taken.append((start, length, self._y[item] + best))
        return best

    def _covered(self, start: float, length: float, bottom: float) -> float:
        """How many points are behind a label; named ones count more, labels and title much more."""
        across = (start < self._x) & (self._x < start + length)
        behind = across & (bottom - 4.0 < self._y) & (self._y < bottom + self._LINE)
        labels = sum(
            start < other + width and other < start + length and abs(bottom - up) < self._LINE
            for other, width, up in self._taken
        )
        above = bottom + self._LINE > self._HEIGHT + self._MARGIN
        return float(self._weight[behind].sum() + 100 * (labels + above))


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
    from scipy.stats import binomtest

    interval = binomtest(count, number).proportion_ci(0.9, method="wilson")
    return interval.low, interval.high
