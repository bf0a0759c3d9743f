"""The items file: one row an item, its name first, then numbers."""

import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Row, Table, read_table

EXPECTED = "item,price,weight"
LARGEST = 1e100  # the squares of larger numbers would soon leave double precision's range


class Items(NamedTuple):
    """The items of one file."""

    path: Path
    names: tuple[str, ...]
    features: np.ndarray | None  #: shape (n, d), or None if the file has names only
    feature_names: tuple[str, ...]

    def unknown(
        self, name: str, path: Path, row: int | None = None, column: str | None = None
    ) -> DataError:
        """Error for an item that another file names and this one does not."""
        close = difflib.get_close_matches(name, self.names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"add it to {self.path}"
        return DataError(path, f"unknown item {name!r}", hint, row=row, column=column)


def read_items(path: str | Path, *, few: bool = False) -> Items:
    """Read an items file.

    The first column, ``item`` or ``name``, holds the names, each once; every other column is a
    numeric feature. Numbers are taken as they are: nothing is scaled here. With `few`, one item
    will do, and features may be the same for every item: nothing is learned from these.

    Raises
    ------
    DataError
        If a name is missing or repeated, a feature is missing, not a finite number, too large, or
        the same for every item, or there are fewer than two items.
    """
    table = read_table(path)
    if table.header[0].lower() not in ("item", "name"):
        raise DataError(
            table.path,
            f"the first column is called {table.header[0]!r}, not 'item' or 'name'",
            f"the first line must name the columns, as in {EXPECTED}",
            row=1,
        )
    names = _names(table, 1 if few else 2)
    feature_names = table.header[1:]
    if not feature_names:
        return Items(table.path, names, None, ())
    columns = range(1, len(table.header))
    features = np.array([[_number(table, row, column) for column in columns] for row in table.rows])
    if not few:
        _refuse_constant(table, features)
    return Items(table.path, names, features, feature_names)


def _names(table: Table, fewest: int) -> tuple[str, ...]:
    rows: dict[str, int] = {}
    for row in table.rows:
        name = row.cells[0]
        if not name:
            raise DataError(
                table.path,
                "the item has no name",
                "name it",
                row=row.number,
                column=table.header[0],
            )
        if name in rows:
            raise DataError(
                table.path,
                f"item {name!r} is already in row {rows[name]}",
                "keep one of the two",
                row=row.number,
                column=table.header[0],
            )
        rows[name] = row.number
    if len(rows) < fewest:
        raise DataError(table.path, "there is only one item", "add the others")
    return tuple(rows)


def _number(table: Table, row: Row, column: int) -> float:
    cell = row.cells[column]
    place = {"row": row.number, "column": table.header[column]}
    if cell.lower() in ("", "na", "nan", "null", "none"):
        raise DataError(
            table.path,
            "the number is missing" if not cell else f"{cell!r} stands for a missing number",
            "fill it in, or remove the item or the column",
            **place,
        )
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            table.path, f"{cell!r} is not a finite number", "give one such as 1.5", **place
        )
    if abs(value) > LARGEST:
        cure = "give the feature in a larger unit"
        raise DataError(table.path, f"{cell!r} is larger than {LARGEST:g}", cure, **place)
    return value


def _refuse_constant(table: Table, features: np.ndarray) -> None:
    names: Sequence[str] = table.header[1:]
    for column in np.flatnonzero(features.max(axis=0) == features.min(axis=0)):
        raise DataError(
            table.path,
            f"every item has the same value, {features[0, column]:g}",
            "remove the column: it cannot tell items apart",
            column=names[column],
        )
