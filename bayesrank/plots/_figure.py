"""What the pictures share: a figure when none is given, and labels that can be read."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 28


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return ``ax``, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def shorten(name: str) -> str:
    """Cut a long name in the middle: long names often differ at their ends alone."""
    if len(name) <= _LONGEST:
        return name
    tail = _LONGEST // 2
    return f"{name[: _LONGEST - 1 - tail].rstrip()}…{name[-tail:].lstrip()}"


def ranked_labels(names: Sequence[str], ranks: Iterable[int] | None = None) -> list[str]:
    """Put its rank in front of each name; without `ranks`, names are in ranked order."""
    places = range(1, len(names) + 1) if ranks is None else ranks
    return [f"{place}. {shorten(name)}" for place, name in zip(places, names, strict=True)]


def thin(n: int, most: int) -> list[int]:
    """Evenly spaced positions out of ``0..n-1``, the first one included, at most ``most``."""
    return list(range(0, n, -(-n // most)))
