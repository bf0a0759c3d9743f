"""Calibration slopes of level probabilities, with their standard errors over sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import entr, logsumexp

__all__ = ["Calibration", "calibration", "slope"]

Array = NDArray[Any]
_RESAMPLES = 20


class Calibration(NamedTuple):
    """Log loss, entropy of the predictions themselves, slope, and its standard error."""

    log_loss: float
    entropy: float
    slope: float
    slope_se: float

    def __str__(self) -> str:
        return (
            f"log loss {self.log_loss:.3f}, own entropy {self.entropy:.3f}, "
            f"slope {self.slope:.2f} ({self.slope_se:.2f})"
        )


def slope(probs: Array, levels: Array) -> float:
    """Power of the probabilities that makes the levels most probable; below 1 they are too sure.

    Parameters
    ----------
    probs, levels
        Probabilities of the levels, shape (n, k), and the levels from 0, shape (n,).
    """
    log_p = np.log(np.maximum(probs, 1e-12))

    def loss(log_power: float) -> float:
        scaled = np.exp(log_power) * log_p
        chosen = scaled[np.arange(len(levels)), levels]
        return float((logsumexp(scaled, axis=1) - chosen).mean())

    best: Any = minimize_scalar(loss, bounds=(-3.0, 2.0), method="bounded")
    return float(np.exp(best.x))


def calibration(sets: list[tuple[Array, Array]]) -> Calibration:
    """Pool sets of probabilities and levels; the error is that of drawing the sets again."""
    probs, levels = (np.concatenate(parts) for parts in zip(*sets, strict=True))
    rng, slopes = np.random.default_rng(0), []
    for again in rng.integers(0, len(sets), (_RESAMPLES, len(sets))):
        parts = zip(*(sets[number] for number in again), strict=True)
        slopes.append(slope(*(np.concatenate(part) for part in parts)))
    log_loss = -np.log(probs[np.arange(len(levels)), levels]).mean()
    own = entr(probs).sum(1).mean()
    return Calibration(float(log_loss), float(own), slope(probs, levels), float(np.std(slopes)))
