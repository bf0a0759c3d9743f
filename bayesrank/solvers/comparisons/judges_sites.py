"""Probit outcomes with a tie width, integrated over normal margins, and their derivatives."""

from __future__ import annotations

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
    s = np.sqrt(2.0 + variance)
    # A win of either side is Phi(z), with z falling as the tie width grows.
    sign = np.where(outcome == 2, 1.0, -1.0)
    z = (sign * mean - tie_width) / s
    log_z = log_ndtr(z)
    ratio = np.exp(-0.5 * z**2 - _LOG_SQRT_2PI - log_z)
    bend = -ratio * (z + ratio) / s**2
    found = Moments(log_z, sign * ratio / s, bend, -ratio / s, bend.copy(), -sign * bend)
    tied = outcome == 1
    if tied.any():
        for whole, part in zip(found, _ties(mean[tied], s[tied], tie_width), strict=True):
            whole[tied] = part
    return found


def _ties(mean: Floats, s: Floats, width: float) -> Moments:
    # On the side of the lower tail, so that far from zero nothing cancels.
    side = np.where(mean > 0, -1.0, 1.0)
    mean = side * mean
    high, low = (mean + width) / s, (mean - width) / s
    upper, lower = log_ndtr(high), log_ndtr(low)
    log_z = upper + np.log(-np.expm1(lower - upper))
    at_high = np.exp(-0.5 * high**2 - _LOG_SQRT_2PI - log_z) / s
    at_low = np.exp(-0.5 * low**2 - _LOG_SQRT_2PI - log_z) / s
    first, width1 = at_high - at_low, at_high + at_low
    down, up = high * at_high / s, low * at_low / s
    return Moments(
        log_z,
        side * first,
        up - down - first**2,
        width1,
        up - down - width1**2,
        side * (-down - up - first * width1),
    )
