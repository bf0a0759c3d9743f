"""Curvature of a log density around its mode, and the scale on which the density is about white."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["whitening_root"]

_STEP = 0.02  # of the differences of gradients, on the unconstrained scale
# A log hyperparameter that the data leave open has a prior of about unit scale: flat or wrong
# directions are made moderate.
_LEAST_CURVATURE = 0.25


def whitening_root(
    gradient: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """Root of the covariance that the curvature of a log density stands for.

    Parameters
    ----------
    gradient
        Gradient of the log density at a vector, shape (d,): one that holds EP's sites fixed is
        right, and its own derivative is not, so that it is taken a little way along each axis.
    centre
        A point near the mode, shape (d,).
    slope
        The gradient there.

    Returns
    -------
    ndarray
        ``R`` with ``R R'`` the inverse of minus the Hessian, shape (d, d).
    """
    steps = _STEP * np.eye(centre.size)
    precision = -np.stack([gradient(centre + step) - slope for step in steps]) / _STEP
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    return vectors / np.sqrt(np.maximum(values, _LEAST_CURVATURE))
