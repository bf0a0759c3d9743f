"""What the pictures share: a figure when none is given, and labels that can be read."""

from collections.abc import Sequence
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
    """Cut a long name, with an ellipsis."""
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1].rstrip() + "…"


def ranked_labels(names: Sequence[str]) -> list[str]:
    """Put its place in front of each name; ``names`` are in ranked order."""
    return [f"{place}. {shorten(name)}" for place, name in enumerate(names, start=1)]


def thin(n: int, most: int) -> list[int]:
    """Evenly spaced positions out of ``0..n-1``, the first one included, at most ``most``."""
    return list(range(0, n, -(-n // most)))
