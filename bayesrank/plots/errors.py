"""Errors and metrics of a ranking with their intervals."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from bayesrank.plots.figure import axes_or_new, frame, plain_legend, shorten

if TYPE_CHECKING:
    from bayesrank.bounds import ErrorInterval

_METHODS = {
    "bound": ("guaranteed (no assumption)", "C3"),
    "normal": ("normal approximation", "C0"),
    "bootstrap": ("bootstrap", "C2"),
    "posterior": ("posterior (model is right)", "C4"),
}


def plot_error_intervals(
    groups: "Mapping[str, Sequence[ErrorInterval]]",
    *,
    truth: float | None = None,
    xlabel: str = "Expected share of pairs in the wrong order",
    ax: Axes | None = None,
) -> Axes:
    """Draw intervals of one expected error, coloured by what they assume, in groups.

    Parameters
    ----------
    groups
        What `bayesrank.bounds.error_intervals` returns, by a name such as the size of the sample;
        drawn from top to bottom.
    truth
        The expected error, where it is known: a vertical line.
    xlabel
        Name and unit of the axis.
    ax
        Axes to draw on; a new figure if not given.
    """
    rows = sum(len(intervals) for intervals in groups.values()) + len(groups) - 1
    ax = axes_or_new(ax, 7.5, 1.4 + 0.24 * rows)
    place, centres, named = 0.0, [], set()
    for intervals in groups.values():
        for row, interval in enumerate(intervals):
            label, color = _METHODS[interval.method]
            ax.hlines(place + row, interval.low, interval.high, color, lw=5, alpha=0.45)
            once = None if label in named else label
            ax.plot(interval.estimate, place + row, "o", color=color, label=once)
            named.add(label)
        centres.append(place + (len(intervals) - 1) / 2)
        place += len(intervals) + 1
    if truth is not None:
        ax.axvline(truth, color="0.2", ls="--", lw=1.2, label="truth")
    ax.set_yticks(centres, list(groups), parse_math=False)
    ax.set_ylim(place - 1.4, -0.6)
    ax.tick_params(axis="y", length=0)
    frame(ax, xlabel, None)
    ax.spines["left"].set_visible(False)
    plain_legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    return ax


def plot_metrics(
    names: Sequence[str],
    mean: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw a point and an interval for each metric.

    Parameters
    ----------
    names
        Names of the metrics, from the top.
    mean, low, high
        Their values and the ends of their intervals, shape (n,); an end that is NaN is not drawn.
    ax
        Axes to draw on; a new figure if not given.
    """
    values = np.asarray(mean, float)
    ends = np.stack([values - np.asarray(low, float), np.asarray(high, float) - values])
    ax = axes_or_new(ax, 6.0, 1.0 + 0.3 * len(values))
    places = np.arange(len(values))
    ax.errorbar(values, places, xerr=np.nan_to_num(np.maximum(ends, 0.0)), fmt="o", capsize=3)
    ax.set_yticks(places, [shorten(name) for name in names], parse_math=False)
    ax.invert_yaxis()
    ax.set_xlabel("Mean over queries")
    return ax
