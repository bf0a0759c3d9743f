"""Probit outcomes with a tie width, integrated over normal margins, and their derivatives."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Floats = NDArray[np.float64]

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


class Moments(NamedTuple):
    """Log probability of each outcome and its derivatives, all of shape (K,)."""

    log_z: Floats
    mean: Floats  # derivative by the mean of the margin
    mean2: Floats  # second derivative
    width: Floats  # derivative by the tie width
    width2: Floats  # second derivative
    cross: Floats  # mixed derivative


def moments(
    outcome: NDArray[np.int64], mean: Floats, variance: Floats, tie_width: float
) -> Moments:
    """Average the probability of outcomes 2, 1 or 0 (won, tied, lost) over K normal margins."""
    s, tied = np.sqrt(2.0 + variance), outcome == 1
    # Seen from the side that won, and of ties from that of the lower tail, where nothing cancels,
    # a performance is between two edges. They move with the tie width, and one may be infinite.
    side = np.where((outcome == 0) | (tied & (mean > 0)), -1.0, 1.0)
    moves, seen = np.where(tied, 1.0, -1.0), side * mean
    high = (seen + moves * tie_width) / s
    low = np.where(tied, (seen - tie_width) / s, -np.inf)
    upper, lower = log_ndtr(high), log_ndtr(low)
    log_z = upper + np.log(-np.expm1(lower - upper))
    at_high, at_low = (np.exp(-0.5 * x**2 - _LOG_SQRT_2PI - log_z) / s for x in (high, low))
    down, up = high * at_high / s, np.where(tied, low, 0.0) * at_low / s
    first, width = at_high - at_low, moves * at_high + at_low
    return Moments(
        log_z,
        side * first,
        up - down - first**2,
        width,
        up - down - width**2,
        -side * (moves * down + up + first * width),
    )
