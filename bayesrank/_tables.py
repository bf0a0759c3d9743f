"""Columns and tables of any library as plain arrays: pandas, polars, pyarrow, lists.

A `Column` is its distinct cells and, for each row, which of them it holds: a log of a million rows
has few distinct names, and everything is checked once a distinct cell.
"""

import json
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "column_names", "from_frame", "missing", "no_rank", "plain_array"]


class Column(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    name
        As the table spells it.
    values
        The distinct cells in the order of their first appearance, blanks around them removed; a
        cell that holds nothing is "".
    codes
        Which of them each row holds, shape (K,).
    """

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, cells: Iterable[Any]) -> "Column":
        """Make one of its cells, row by row: texts, numbers, dates, lists or nothing."""
        import pandas as pd  # what needs no tables does not wait for it

        rows = np.fromiter(cells, object)
        try:
            codes, values = pd.factorize(rows)  # -1 for what holds nothing: the last text
        except TypeError:  # lists
            codes, values = pd.factorize(np.fromiter(map(_text, rows), object))
        texts = np.array([*(_text(value).strip() for value in values), ""], object)
        merged, distinct = pd.factorize(texts)
        return cls(name, tuple(distinct.tolist()), merged[codes].astype(np.int64)).kept(slice(None))

    def kept(self, rows: Any) -> "Column":
        """Some of the rows, and of the cells those that they hold."""
        import pandas as pd

        codes, seen = pd.factorize(self.codes[rows])
        return Column(self.name, tuple(self.values[i] for i in seen), codes.astype(np.int64))

    def holds(self, cell: str) -> NDArray[np.bool_]:
        """Rows that hold a cell, shape (K,)."""
        number = self.values.index(cell) if cell in self.values else -1
        return self.codes == number


def from_frame(frame: Any) -> tuple[Column, ...]:
    """Columns of a data frame: pandas, Polars, Arrow, or a mapping of names to cells.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    import narwhals as nw

    if isinstance(frame, dict):
        return tuple(Column.of(str(name), cells) for name, cells in frame.items())
    table = nw.from_native(frame, eager_only=True)
    return tuple(Column.of(str(name), table[name].to_list()) for name in table.columns)


def _text(cell: Any) -> str:
    """A cell as its text; lists as JSON, with the text of what JSON does not know."""
    if cell is None:
        return ""
    if isinstance(cell, list | dict | np.ndarray):
        return json.dumps(cell, ensure_ascii=False, default=_known)
    return cell if isinstance(cell, str) else str(cell)


def _known(cell: Any) -> Any:
    return cell.tolist() if isinstance(cell, np.ndarray | np.generic) else str(cell)


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
