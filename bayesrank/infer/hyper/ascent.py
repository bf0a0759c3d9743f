"""The top of a function of which only the slope is known well, as where both are estimates.

Slopes alone judge the lengths of quasi-Newton steps (BFGS). A step is too long if the function
falls at its end by more than half as steeply as it rose at its beginning. Values, whose errors need
not be those of the slopes, decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_LONGEST = 1.0
_MOST_SHORTENED = 12
# A step that takes away less than this share of the slope was far too short.
_STRAIGHT = 0.1
_ARRIVED = "a further step would gain next to nothing"
_TOO_MANY = "the number of steps has reached its limit"
_STUCK = "no step along the slope leads to a point that can be evaluated"


class Summit(NamedTuple):
    """End of an ascent."""

    x: Numbers  # the point, shape (d,)
    success: bool  # whether it is a top, and what there is to say
    message: str


def ascend(
    slope: Callable[[Numbers], Numbers | None],
    start: Numbers,
    bounds: tuple[Numbers, Numbers],
    *,
    max_steps: int,
    gain: float,
) -> Summit:
    """Go up by a slope (d,), None where there is none, until a step would gain less than `gain`."""
    low, high = bounds
    point, here = start, slope(start)
    if here is None:
        return Summit(start, False, _STUCK)
    # The first step goes as far in all coordinates: those with little slope are not forgotten.
    inverse, known = np.diag(1 / np.maximum(np.abs(here), gain)), False
    for _ in range(max_steps):
        inside = np.where(here > 0, point < high, point > low)
        direction = np.where(inside, inverse @ np.where(inside, here, 0.0), 0.0)
        direction *= min(1.0, _LONGEST / max(float(np.linalg.norm(direction)), 1e-300))
        expected = (0.5 if known else 1.0) * float(here @ direction)
        if expected < gain:
            return Summit(point, True, _ARRIVED)
        found = _along(slope, point, direction, float(here @ direction), bounds)
        if found is None:
            return Summit(point, False, _STUCK)
        new, there = found
        moved, lost = new - point, here - there
        if moved @ lost > _STRAIGHT * (here @ moved):
            if not known:
                inverse *= float(moved @ lost) / float(lost @ inverse @ lost)
            inverse, known = _updated(inverse, moved, lost), True
        else:  # The slope has hardly changed: the next step this way is many times as long.
            inverse = inverse + np.outer(moved, moved) / (_STRAIGHT * float(here @ moved))
        point, here = new, there
    return Summit(point, False, _TOO_MANY)


def _along(
    slope: Callable[[Numbers], Numbers | None],
    point: Numbers,
    direction: Numbers,
    rise: float,
    bounds: tuple[Numbers, Numbers],
) -> tuple[Numbers, Numbers] | None:
    """A point along a direction that is not far beyond the top there, and the gradient at it."""
    length = 1.0
    for _ in range(_MOST_SHORTENED):
        new = np.clip(point + length * direction, *bounds)
        there = slope(new)
        if there is None:
            length *= 0.25
            continue
        end = float(there @ direction)
        if end >= -0.5 * rise:
            return new, there
        length *= rise / (rise - end)
    return None


def _updated(inverse: Numbers, moved: Numbers, lost: Numbers) -> Numbers:
    """The inverse of minus the curvature after what a step has shown of it (BFGS)."""
    curved = float(moved @ lost)
    left = np.eye(moved.size) - np.outer(moved, lost) / curved
    return left @ inverse @ left.T + np.outer(moved, moved) / curved
