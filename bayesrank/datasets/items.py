"""The items file: one row an item, its name first, then numbers."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesrank._names import meant
from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import ITEMS
from bayesrank.datasets.table import Source, read_table


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
        hint = meant(name, self.names, f"add it to {self.path}")
        return DataError(path, f"unknown item {name!r}", hint, row=row, column=column)


def read_items(path: Source, *, few: bool = False) -> Items:
    """Read an items file: names in its first column, numeric features in the others, unscaled.

    With `few`, one item will do, and features may be the same for every item.
    """
    table = read_table(path)
    column, *rest = table.columns
    names = ITEMS.roles["item"].usual
    if column.name.lower() not in names:
        problem = f"the first column is called {column.name!r}, not {' or '.join(map(repr, names))}"
        fix = f"the first line must name the columns, as in {ITEMS.example}"
        raise DataError(table.path, problem, fix, row=1)
    cells.text(table, column, "the item has no name", "name it")
    table.refuse_twice(column)
    if len(column.values) < (1 if few else 2):
        raise table.error("there is only one item", "add the others")
    if not rest:
        return Items(table.path, column.values, None, ())
    fix = "write a number, or leave out the column (of kinds, make columns of 0 and 1)"
    features = np.stack([cells.number(table, each, fix) for each in rest], axis=1)
    for each, values in zip(rest, features.T, strict=True):
        if not few and np.ptp(values) == 0:
            problem = f"every item has the same value, {values[0]:g}"
            raise table.error(problem, "remove the column: it cannot tell items apart", each)
    return Items(table.path, column.values, features, tuple(each.name for each in rest))
