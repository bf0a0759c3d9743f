"""A picture of ratings: what users agree on, and what they differ about."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from bayesrank.plots.figure import axes_or_new, frame, shorten


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
        How many of the best liked, least liked and most controversial items are named, by numbers
        in a list beside the picture.

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
    ax.plot(x, y, "o", color="C0", alpha=0.3, markersize=5)
    order = np.argsort(-x, kind="stable")
    best = min(labels, (len(names) + 1) // 2)  # no item is both
    least = min(labels, len(names) - best)
    extremes = (
        (order[:best], "o", "C2", "C2", "liked best"),
        (order[::-1][:least], "o", "0.35", "0.35", "liked least"),
        (np.argsort(-y, kind="stable")[:labels], "o", "none", "C3", "most controversial"),
    )
    for items, marker, face, edge, meaning in extremes:
        style = {"markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": 2.0}
        size = 11 if face == "none" else 6
        ax.plot(x[items], y[items], marker, markersize=size, label=meaning, ls="", **style)
    named = [int(i) for i in order if any(i in items for items, *_ in extremes)]
    lines = [f"{number}  {shorten(names[i])}" for number, i in enumerate(named, start=1)]
    beside = {"va": "top", "fontsize": "small", "transform": ax.transAxes, "parse_math": False}
    ax.text(1.03, 1.0, "\n".join(lines), **beside)
    for number, item in enumerate(named, start=1):
        where = {"xytext": (6, 4), "textcoords": "offset points", "fontsize": "small"}
        ax.annotate(str(number), (x[item], y[item]), **where)
    ax.margins(x=0.12, y=0.12)
    ax.set_ylim(bottom=0.0)
    across = "How much it is liked on average (in units of a rating's noise)"
    up = "How much users differ about it (SD)"
    frame(ax, across, up, "What is liked, and what is controversial")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3}
    ax.legend(fontsize="small", frameon=False, **below)
    return ax
