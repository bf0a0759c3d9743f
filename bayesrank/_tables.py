"""Columns and tables of any library as plain arrays: pandas, polars, pyarrow, lists.

A `Column` is its distinct cells and, for each row, which of them it holds. Even a log of a million
rows has few distinct names, and each check looks once at a distinct cell.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Column(NamedTuple):
    """One column of a table."""

    name: str  # as the table spells it
    # The distinct cells in the order of their first appearance, blanks around them removed; a cell
    # that holds nothing is "".
    values: tuple[str, ...]
    codes: NDArray[np.int64]  # which of them each row holds, shape (K,)

    @classmethod
    def of(cls, name: str, cells: Iterable[Any]) -> "Column":
        """Make one of its cells, row by row: texts, numbers, dates, lists or nothing."""
        rows = list(cells)
        try:
            codes, distinct = numbered(rows)
        except TypeError:  # lists
            codes, distinct = numbered([_text(cell) for cell in rows])
        texts = [_text(cell).strip() for cell in distinct]
        return cls(name, (), codes).renamed(texts)

    def renamed(self, texts: Sequence[str]) -> "Column":
        """Other texts in the place of its distinct cells; those that are equal become one."""
        merged, values = numbered(texts)
        return Column(
            self.name, values, self.codes if len(values) == len(texts) else merged[self.codes]
        )

    @property
    def cells(self) -> NDArray[Any]:
        """The cell of each row, shape (K,)."""
        return np.array(self.values, object)[self.codes]

    def kept(self, rows: Any) -> "Column":
        """Some of the rows, and of the cells those that they hold."""
        codes = self.codes[rows]
        first = self._replace(codes=codes).first()
        seen = np.argsort(first)[: np.count_nonzero(first < len(codes))]
        number = np.empty(len(first), np.int64)
        number[seen] = np.arange(len(seen))
        return Column(self.name, tuple(self.values[i] for i in seen), number[codes])

    def first(self) -> NDArray[np.int64]:
        """The first row of each distinct cell; the number of rows for one that none holds."""
        rows = np.full(len(self.values), len(self.codes))
        rows[self.codes[::-1]] = np.arange(len(self.codes))[::-1]  # of many, the last is kept
        return rows

    def holds(self, cell: str) -> NDArray[np.bool_]:
        """Rows that hold a cell, shape (K,)."""
        if cell not in self.values:
            return np.zeros(len(self.codes), bool)
        return self.codes == self.values.index(cell)


def numbered(cells: Sequence[Any]) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Which of the distinct cells each row holds, shape (K,), and these as they first appear."""
    number: defaultdict[Any, int] = defaultdict(count().__next__)
    return np.fromiter(map(number.__getitem__, cells), np.int64, len(cells)), tuple(number)


def from_frame(frame: Any) -> tuple[Column, ...]:
    """Columns of a frame of pandas, Polars or Arrow, or of a mapping; else a `TypeError`."""
    import narwhals as nw

    if isinstance(frame, dict):
        return tuple(Column.of(str(name), cells) for name, cells in frame.items())
    table = nw.from_native(frame, eager_only=True)
    return tuple(map(_of_series, table.iter_columns()))


def _of_series(series: Any) -> Column:
    """A column of a frame; Arrow itself finds the distinct cells."""
    name = str(series.name)
    if not series.implementation.is_pyarrow() or series.dtype.is_nested() or not len(series):
        return Column.of(name, series.to_list())
    encoded = series.to_native().dictionary_encode().unify_dictionaries().combine_chunks()
    cells = encoded.dictionary.to_pylist() + [None] * (encoded.null_count > 0)
    column = Column.of(name, cells)
    codes = encoded.indices.fill_null(len(cells) - 1).to_numpy(zero_copy_only=False)
    return column._replace(codes=column.codes[codes])


def _text(cell: Any) -> str:
    """A cell as its text; lists as JSON, with the text of what JSON does not know."""
    if isinstance(cell, str | bytes):
        return cell if isinstance(cell, str) else cell.decode()
    if isinstance(cell, list | tuple | dict | np.ndarray):
        return json.dumps(cell, ensure_ascii=False, default=_known)
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))  # a column of numbers with gaps has 1 as 1.0
    return "" if missing(cell) else str(cell)


def _known(cell: Any) -> Any:
    return cell.tolist() if isinstance(cell, np.ndarray | np.generic) else str(cell)


def missing(value: Any) -> bool:
    """Whether a cell of a table holds nothing: None, NaN, or what pandas has in their place."""
    itself = value is not None and value == value
    return not (isinstance(itself, bool | np.bool) and itself)  # pandas' NA: neither, but NA


def column_names(table: Any) -> list[Any] | None:
    """Names of a table's columns in their order, or None if it is not a table."""
    if hasattr(table, "collect_schema"):  # of Polars, which warns where a lazy frame is asked
        return list(table.collect_schema().names())
    names = getattr(table, "column_names", None)  # in pyarrow, `columns` are the columns themselves
    names = getattr(table, "columns", None) if names is None else names
    return None if names is None else list(names)


def unmasked(values: Any) -> Any:
    """The values as they are, but with NaN, or None, where NumPy has masked a cell."""
    if not np.ma.is_masked(values):
        return values
    numbers = values.dtype.kind in "biuf"
    return values.astype(float if numbers else object).filled(np.nan if numbers else None)


def numbers_alone(values: Any, name: str) -> Any:
    """The values as `unmasked` has them; dates and durations, which NumPy would count, refused."""
    held = getattr(values, "dtypes", getattr(values, "dtype", None))
    held = [held] if isinstance(held, np.dtype) or not isinstance(held, Iterable) else list(held)
    for kind in held:
        if str(kind).lower().startswith(("date", "time", "duration", "period")):
            fix = "pass numbers, such as days since the first"
            raise ValueError(f"{name} holds times ({kind}); {fix}")
    return unmasked(values)


def plain_array(values: Any) -> NDArray[Any]:
    """An array, of numbers if all cells are numbers or empty; empty ones become NaN."""
    array = np.asarray(unmasked(values))
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
    """Row and column of the first cell that is not a rank among the columns; NaN says nothing.

    Ranks go from 1, the best; labels that share one may have the mean of those that they take up.
    """
    known = (table >= 1) & (table <= table.shape[1]) & (2 * table % 1 == 0)
    wrong = np.argwhere(~np.isnan(table) & ~known)
    return (int(wrong[0, 0]), int(wrong[0, 1])) if len(wrong) else None
