"""How learners of a stream get better: their running loss, and where it would end at best."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from bayesrank.plots.figure import axes_or_new, frame


def plot_running_loss(
    losses: Mapping[str, ArrayLike],
    *,
    floor: float | None = None,
    start: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw the average loss of all examples so far, for several learners of one stream.

    Parameters
    ----------
    losses
        Loss of each example by name of the learner, in the order of the stream: shape (T,), or
        (trials, T) for the mean over trials.
    floor
        Loss that nobody can beat, drawn as a dashed line.
    start
        Number of examples from which to draw; the scale of examples is logarithmic.
    ax
        Axes to draw on; a new figure if not given.

    Raises
    ------
    ValueError
        If there is no learner, or a stream is shorter than ``start``.
    """
    if not losses:
        raise ValueError("losses is empty; pass the losses of at least one learner")
    ax = axes_or_new(ax, 7.5, 4.5)
    ends = []
    for name, loss in losses.items():
        table = np.atleast_2d(np.asarray(loss, float))
        length = table.shape[1]
        if length < max(start, 1):
            raise ValueError(
                f"losses[{name!r}] has {length} examples, fewer than start ({start}); pass a "
                "longer stream or a smaller start"
            )
        running = (table.cumsum(1) / np.arange(1, length + 1)).mean(0)
        shown = np.unique(np.geomspace(max(start, 1), length, 300).astype(int))
        (line,) = ax.plot(shown, running[shown - 1], linewidth=1.5)
        ends.append((float(running[-1]), name, line.get_color(), length))
    if floor is not None:
        ax.axhline(floor, color="0.4", linestyle="--", linewidth=1)
        ends.append((floor, "the best possible", "0.4", ends[0][3]))
    ax.set_xscale("log")
    frame(ax, "examples", "average rank loss so far")
    ax.set_ylim(bottom=0.0)
    _name_lines(ax, ends)
    return ax


def _name_lines(ax: Axes, ends: list[tuple[float, str, str, int]]) -> None:
    """Write each name beside the end of its line, far enough from its neighbours to be read."""
    low, high = ax.get_ylim()
    gap, place = 0.05 * (high - low), -np.inf
    for value, name, color, length in sorted(ends):
        place = max(value, place + gap)
        ax.annotate(
            f"{name} {value:.3f}",
            (length, value),
            (1.02, (place - low) / (high - low)),
            textcoords="axes fraction",
            color=color,
            va="center",
            fontsize="small",
            annotation_clip=False,
            parse_math=False,  # a name with dollars is no formula
        )
