"""Checks of what callers hand to the ranking functions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def check_samples(samples: ArrayLike) -> Array:
    """Return ``samples`` as a finite floating array of shape ``(draws, n)``."""
    array = np.asarray(samples)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"samples must be real numbers, got dtype {array.dtype}")
    if np.iscomplexobj(array):
        raise ValueError("samples must be real, got complex numbers")
    if array.ndim != 2:
        raise ValueError(
            f"samples must have shape (draws, n), got {array.shape}; "
            "flatten chains and batches first with samples.reshape(-1, n)"
        )
    if 0 in array.shape:
        raise ValueError(f"samples must hold at least one draw of one item, got {array.shape}")
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        draw, item = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"samples must be finite, got {array[draw, item]} in draw {draw} of item {item}; "
            "look for a fit that diverged"
        )
    return array


def check_level(level: float) -> float:
    """Return ``level`` if it lies strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}; use 0.9 for 90%")
    return float(level)


def check_k(k: int, n: int) -> int:
    """Return ``k`` if it is a whole number from 1 to ``n``."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        raise ValueError(f"k must be a whole number from 1 to the number of items {n}, got {k!r}")
    return int(k)
