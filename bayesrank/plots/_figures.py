"""Figures of a ranking with their intervals, below each other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrank.plots._figure import axes_or_new, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_figures(
    names: Sequence[str],
    mean: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a point and an interval for each figure.

    Parameters
    ----------
    names
        Names of the figures, from the top.
    mean, low, high
        Their values and the ends of their intervals, shape (n,); an end that is NaN is not drawn.
    ax
        Axes to draw on.

    Returns
    -------
    Axes
    """
    values = np.asarray(mean, float)
    ends = np.stack([values - np.asarray(low, float), np.asarray(high, float) - values])
    ax = axes_or_new(ax, 6.0, 1.0 + 0.3 * len(values))
    places = np.arange(len(values))
    ax.errorbar(values, places, xerr=np.nan_to_num(np.maximum(ends, 0.0)), fmt="o", capsize=3)
    ax.set_yticks(places, [shorten(str(name)) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel("Mean over queries")
    return ax
