"""Skew vectors and what they do to the k-partite ranking error.

Notation of Rajaram and Agarwal, "Generalization bounds for k-partite ranking" (NIPS 2005 workshop
on Learning to Rank): levels ``1 .. k``, of which ``rho_l`` is the share of level ``l`` in the
sample (the *skew vector*), ``gamma(rho) = sum_{l < m} rho_l rho_m``, and

    C_{l, alpha} = sum_{m != l} |m - l|**alpha rho_m / gamma(rho).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_not_negative, check_share

Array = NDArray[np.float64]


def skew_vector(labels: ArrayLike, num_levels: int | None = None) -> Array:
    """Shares of the levels in a sample, shape ``(k,)``, with sum 1 (Definition 3).

    Parameters
    ----------
    labels
        Ratings, whole numbers, shape ``(M,)``.
    num_levels
        Length of the result; the levels are then ``1 .. num_levels``. Without it they run from the
        lowest to the highest label (only differences of levels enter the bounds).

    Raises
    ------
    ValueError
        If there are no labels, or a label is not a whole number or not among the levels.

    Examples
    --------
    >>> skew_vector([1, 1, 2, 4])
    array([0.5 , 0.25, 0.  , 0.25])
    """
    values = np.asarray(labels, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"labels must have shape (M,) with M >= 1, got {values.shape}")
    whole = np.isfinite(values) & (values == np.round(values))
    if not whole.all():
        raise ValueError(f"labels must be whole numbers, got {values[~whole][0]:g}; number them")
    first = values.min() if num_levels is None else 1
    last = values.max() if num_levels is None else num_levels
    if values.min() < first or values.max() > last:
        raise ValueError(
            f"labels run from {values.min():g} to {values.max():g}, which are not all among the "
            f"levels 1 .. {num_levels}; renumber them, or leave num_levels out"
        )
    counts = np.bincount((values - first).astype(int), minlength=int(last - first) + 1)
    return counts / values.size


def check_skew(rho: ArrayLike) -> Array:
    """Return the skew vector if it is one of at least two levels that occur."""
    shares = np.asarray(rho, dtype=np.float64)
    if shares.ndim != 1 or np.any(shares < 0) or not math.isclose(shares.sum(), 1, abs_tol=1e-8):
        raise ValueError(f"rho must be shares that sum to 1, got {rho}; see skew_vector")
    if np.count_nonzero(shares) < 2:
        raise ValueError("rho has one level only: with a single rating there is nothing to rank")
    return shares


def check_delta(delta: float) -> float:
    """Return `delta` if it is a probability of failure that a bound can be given for."""
    return check_share(delta, "delta", usual="0.05")


def pair_share(rho: ArrayLike) -> float:
    """Share ``gamma(rho)`` of pairs of unlike level among ordered pairs of examples."""
    shares = check_skew(rho)
    return float((1.0 - np.sum(shares**2)) / 2.0)


def level_constants(rho: ArrayLike, alpha: float = 0.0) -> Array:
    """Constants ``C_{l, alpha}`` of Theorem 1, ``(k,)``: how much an example of a level can change.

    Parameters
    ----------
    rho
        Skew vector, shape ``(k,)``.
    alpha
        Weight of mistakes, ``(m - l)**alpha``; not below zero.

    Raises
    ------
    ValueError
        If `rho` is not a skew vector of at least two levels, or `alpha` is below zero.
    """
    shares = check_skew(rho)
    alpha = check_not_negative(alpha, "alpha")
    level = np.arange(len(shares))
    gap = np.abs(level[:, None] - level)
    weight = np.where(gap > 0, np.maximum(gap, 1.0) ** alpha, 0.0)
    return weight @ shares / pair_share(shares)


def skew_factor(rho: ArrayLike, alpha: float = 0.0) -> float:
    """Factor ``sum_l rho_l C_{l, alpha}**2`` in which the skew enters both theorems.

    For two levels it is ``1 / (rho_1 rho_2)``, at least 4.
    """
    shares = check_skew(rho)
    return float(shares @ level_constants(shares, alpha) ** 2)
