"""What the pictures share: a figure when none is given, labels that can be read, heat maps."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

_LONGEST = 28
_WRITTEN, _PALE = 20, 0.15  # most rows with numbers in the cells; share of colours left out


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def shorten(name: object) -> str:
    """Cut a long name in the middle: long names often differ at their ends alone."""
    text = str(name)
    if len(text) <= _LONGEST:
        return text
    tail = _LONGEST // 2
    return f"{text[: _LONGEST - 1 - tail].rstrip()}…{text[-tail:].lstrip()}"


def ranked_labels(names: Sequence[str], ranks: Iterable[int]) -> list[str]:
    """Put its rank in front of each name."""
    return [f"{rank}. {shorten(name)}" for rank, name in zip(ranks, names, strict=True)]


def frame(ax: Axes, xlabel: str, ylabel: str | None, title: str | None = None) -> None:
    """Name axes and picture, and leave out the lines above and at the right."""
    ax.set_xlabel(xlabel)
    if ylabel is not None:
        ax.set_ylabel(ylabel)
    if title is not None:
        ax.set_title(title, fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)


def heat_map(
    ax: Axes,
    values: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    low: float,
    what: str,
    write: Callable[[float], str],
    most: int = 30,
) -> Any:
    """Draw cells (n, n) from `low` to 1, red to blue, with numbers if few; return the bar."""
    ax.set_facecolor("0.85")  # of what is not known
    margin = _PALE * (1.0 - low)  # the darkest colours stay unused
    image = ax.imshow(values, cmap="RdBu", vmin=low - margin, vmax=1.0 + margin, aspect="auto")
    bar = ax.figure.colorbar(image, ax=ax)
    bar.ax.set_ylim(low, 1.0)
    bar.set_label(what)
    n = len(values)
    places = list(range(0, n, -(-n // most)))
    style: dict[str, Any] = {"parse_math": False}
    ax.set_xticks(places, [columns[place] for place in places], rotation=90, **style)
    ax.set_yticks(places, [rows[place] for place in places], **style)
    if n <= _WRITTEN:
        middle = (low + 1.0) / 2
        for (row, column), value in np.ndenumerate(values):
            text = "" if np.isnan(value) else write(value)
            if text and (row != column or low < 0.0):
                color = "white" if abs(value - middle) > 0.95 * (1.0 - middle) else "black"
                at: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": "small",
                    "color": color,
                }
                ax.text(column, row, text, **at)
    return bar
