"""The probability integral transform of levels: uniform if predictions are right."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def randomized_pit(
    probability: ArrayLike, levels: ArrayLike, *, seed: int = 0
) -> NDArray[np.float64]:
    r"""Probability integral transform of levels, uniform if the predictions are right.

    For a level :math:`y` with probabilities :math:`p_k` it is a draw from the interval between
    :math:`\sum_{k < y} p_k` and :math:`\sum_{k \le y} p_k`.

    Parameters
    ----------
    probability
        Predicted probabilities of the levels, shape (K, r).
    levels
        What the levels were, from 0, shape (K,).
    seed
        Seed of the draws.

    Returns
    -------
    ndarray of shape (K,)
        Numbers from 0 to 1.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a level is out of range.

    References
    ----------
    .. [1] Czado, C., Gneiting, T. and Held, L. (2009). Predictive model assessment for count data.
       Biometrics, 65, 1254-1261.
    """
    p, seen = np.asarray(probability, float), np.asarray(levels)
    if p.ndim != 2 or seen.shape != p.shape[:1] or seen.dtype.kind not in "iu":
        raise ValueError(
            f"probability has shape {p.shape}, levels {seen.shape} of dtype {seen.dtype}; pass "
            "(K, r) and (K,) integers"
        )
    if seen.size and not 0 <= seen.min() <= seen.max() < p.shape[1]:
        raise ValueError(
            f"levels are from {seen.min()} to {seen.max()}; probability has columns for 0 to "
            f"{p.shape[1] - 1}"
        )
    rows = np.arange(len(seen))
    upper = p.cumsum(axis=1)[rows, seen]
    return upper - np.random.default_rng(seed).random(len(seen)) * p[rows, seen]
