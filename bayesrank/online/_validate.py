"""Checks of a chunk of a stream: it is understood whole, or refused whole."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from tinygp.kernels import Kernel

from bayesrank._process import enter_jax
from bayesrank._tables import column_names, plain_array
from bayesrank._validate import check_column, refuse_rows

# Beyond this, squares and cubes of features would soon leave the range of double precision.
LARGEST = 1e30


def check_kernel(kernel: Any) -> Kernel | None:
    """Return a kernel of tinygp, or None."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {kernel!r}; pass a kernel of tinygp, or None")
    return kernel


def check_rows(X: ArrayLike, num_features: int | None) -> NDArray[np.float64]:
    """Return examples as an array of shape (n, d)."""
    enter_jax()
    if sparse.issparse(X):
        raise ValueError("X is sparse; pass X.toarray(), a chunk at a time")
    rows: Any = plain_array(X)
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {rows.dtype}; pass a table of numbers")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"X has shape {rows.shape}; pass (n, d), one row for each example")
    if num_features is not None and rows.shape[1] != num_features:
        raise ValueError(
            f"X has {rows.shape[1]} columns, but the examples before had {num_features}; "
            "give all examples the same features"
        )
    rows = rows.astype(np.float64)
    unusable = ~(np.abs(rows) <= LARGEST)
    if unusable.any():
        row, column = np.argwhere(unusable)[0]
        raise ValueError(
            f"X is {rows[row, column]:g} in row {row}, column {column}; pass finite numbers of "
            f"at most {LARGEST:g}, or leave the example out. Nothing of the chunk was learned"
        )
    return rows


def check_column_names(X: Any, known: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the names of a table's columns, or the known ones where `X` has none."""
    columns = column_names(X)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return known
    if known is not None and columns != known.tolist():
        raise ValueError(
            f"X has the columns {columns}, but the examples before had {known.tolist()}; give "
            "all examples the same columns in the same order"
        )
    return np.array(columns, object)


def check_levels_from_one(y: ArrayLike, num_rows: int, num_levels: int) -> NDArray[np.int64]:
    """Return levels as an integer array of shape (n,)."""
    levels: Any = plain_array(y)
    wanted = f"a level for each row of X, numbered from 1 for the lowest to {num_levels}"
    check_column(levels, "y", num_rows, "biuf", wanted)
    fix = f"pass levels 1 to {num_levels}, or leave it out. Nothing of the chunk was learned"
    refuse_rows(levels, lambda v: ~np.isin(v, np.arange(1, num_levels + 1)), "y", fix)
    return levels.astype(np.int64)
