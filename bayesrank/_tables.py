"""Columns and tables of any library as plain arrays: pandas, polars, pyarrow, lists."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["column_names", "missing", "no_rank", "plain_array"]


def missing(value: Any) -> bool:
    """Whether a cell of a table holds nothing: None, NaN, or what pandas has in their place."""
    itself = value is not None and value == value
    return not (isinstance(itself, bool | np.bool) and itself)  # pandas' NA: neither, but NA


def column_names(table: Any) -> list[Any] | None:
    """Names of a table's columns in their order, or None if it is no table."""
    names = getattr(table, "column_names", None)  # in pyarrow, `columns` are the columns themselves
    names = getattr(table, "columns", None) if names is None else names
    return None if names is None else list(names)


def plain_array(values: Any) -> NDArray[Any]:
    """Return an array, of numbers if all are; cells that hold nothing become NaN.

    NumPy makes an array of objects of a table whose columns are of unlike kinds, or of nullable
    ones, though each cell is a number.

    Parameters
    ----------
    values
        Anything that NumPy makes an array of.

    Returns
    -------
    ndarray
        Of integers, truth values or double precision where `values` became an array of objects and
        all of them are numbers or nothing; else as NumPy makes it.
    """
    array = np.asarray(values)
    if array.dtype != object or not array.ndim:
        return array
    samples = {type(cell): cell for cell in array.flat}
    numbers = {kind for kind in samples if issubclass(kind, Real | np.bool)}
    others = samples.keys() - numbers
    if not numbers or not all(missing(samples[kind]) for kind in others):
        return array
    if others:
        cells = [np.nan if type(cell) in others else cell for cell in array.flat]
        return np.array(cells, np.float64).reshape(array.shape)
    if numbers <= {bool, np.bool}:
        return array.astype(bool)
    whole = all(issubclass(kind, Integral | np.bool) for kind in numbers)
    try:
        return array.astype(np.int64 if whole else np.float64)
    except OverflowError:  # beyond 64 bits
        return array.astype(np.float64)


def no_rank(table: NDArray[np.float64]) -> tuple[int, int] | None:
    """Row and column of the first cell of a table that is no rank among its columns, if any.

    Ranks go from 1, the best, to the number of columns. Labels that share a rank may have the mean
    of those that they take up, a half number; NaN says nothing.
    """
    known = (table >= 1) & (table <= table.shape[1]) & (2 * table % 1 == 0)
    wrong = np.argwhere(~np.isnan(table) & ~known)
    return (int(wrong[0, 0]), int(wrong[0, 1])) if len(wrong) else None
