"""A picture of skills that move: lines over time with bands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from bayesrank._validate import check_level
from bayesrank.plots.figure import axes_or_new, frame, shorten

_APART = 0.045  # heights of two names, as a share of the axis


def plot_skills_over_time(
    times: ArrayLike,
    means: ArrayLike,
    sds: ArrayLike,
    names: Sequence[object],
    *,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the skills of items over time, with an interval at every time.

    Bands of more than about six items hide each other: pass the columns of those to show.

    Parameters
    ----------
    times
        Numbers or dates, increasing, shape (T,).
    means, sds
        Posterior means and standard deviations, shape (T, n), as `bayesrank.Ranker.skills_at` has
        them.
    names
        One name for each of the n items.
    level
        Probability of the intervals, which are normal.
    ax
        Axes to draw on; a new figure if not given.

    Raises
    ------
    ValueError
        If shapes do not fit, or times do not increase.
    """
    when: Any = np.asarray(times)
    mean, sd = np.asarray(means, float), np.asarray(sds, float)
    if when.ndim != 1 or not mean.shape == sd.shape == (when.size, len(names)) or not mean.size:
        raise ValueError(
            f"times, means and sds have shapes {when.shape}, {mean.shape} and {sd.shape}, beside "
            f"{len(names)} names; pass (T,), twice (T, n), and n names"
        )
    if (when[1:] <= when[:-1]).any():
        raise ValueError("times do not increase; sort them, and the rows of means and sds")
    half = ndtri(0.5 + check_level(level) / 2.0) * sd
    ax = axes_or_new(ax, 8.5, 4.8)
    for item in range(len(names)):
        color = f"C{item % 10}"
        ends = mean[:, item] - half[:, item], mean[:, item] + half[:, item]
        ax.fill_between(when, *ends, color=color, alpha=0.12, lw=0)
        ax.plot(when, mean[:, item], color=color, lw=2)
    low, high = ax.get_ylim()
    heights = _apart(mean[-1], _APART * (high - low))
    for item, height in enumerate(heights):
        ax.annotate(
            shorten(names[item]),
            (1.01, height),
            xycoords=ax.get_yaxis_transform(),
            va="center",
            color=f"C{item % 10}",
            parse_math=False,
        )
    ax.margins(x=0.0)
    if when.dtype.kind == "M":
        places = AutoDateLocator(maxticks=8)
        ax.xaxis.set_major_locator(places)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(places))
    title = f"Skills over time, with {100 * level:g}% intervals"
    frame(ax, "Time", "Skill (relative to the average item)", title)
    return ax


def _apart(heights: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Heights of names, moved until neighbours are apart, their middle where it was."""
    order = np.argsort(heights)
    moved = heights[order].copy()
    for place in range(1, moved.size):
        moved[place] = max(moved[place], moved[place - 1] + least)
    moved += heights.mean() - moved.mean()
    placed = np.empty_like(moved)
    placed[order] = moved
    return placed
