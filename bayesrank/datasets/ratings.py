"""Ratings files read into arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Table, read_table

__all__ = ["RatingData", "read_ratings"]

_EXPECTED = "user,item,rating"
USER_COLUMNS = ("user", "userid", "user_id", "reader")
ITEM_COLUMNS = ("item", "itemid", "item_id", "movieid", "movie_id")
LEVEL_COLUMNS = ("rating", "level", "stars")
_LARGEST = 10**9  # a year or an id in the place of a level is found by the gaps it leaves


@dataclass(frozen=True, eq=False)
class RatingData:
    """Who rated what, and how.

    Parameters
    ----------
    users, items
        Names, in the order of their first appearance.
    rows
        Shape (K, 2), integer: user and item of each rating.
    levels
        Shape (K,), integer: the levels as in the file.
    ignored_columns
        Columns of the file that were not used.
    """

    users: tuple[str, ...]
    items: tuple[str, ...]
    rows: np.ndarray
    levels: np.ndarray
    ignored_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.rows, self.levels):
            array.setflags(write=False)


def read_ratings(path: str | Path, *, num_levels: int | None = None) -> RatingData:
    r"""Read ratings: comma-separated UTF-8 text with the columns ``user``, ``item``, ``rating``.

    Ratings are whole numbers, higher is better, and every level between the lowest and the highest
    must be used. A user rates an item once: a second row is refused, since nothing tells which of
    the two counts. Users with one rating are kept; the others' ratings tell most of what is
    predicted for them.

    Parameters
    ----------
    path
        The file.
    num_levels
        If given, levels are 1 to this number, and others are refused.

    Returns
    -------
    RatingData
        Arrays over users and items numbered from 0.

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line: file, row, column, problem, cure.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ratings.csv"
    ...     _ = path.write_text("user,item,rating\nAda,Tea,2\nBob,Tea,1\nBob,Milk,2\n")
    ...     read_ratings(path).levels
    array([2, 1, 2])
    """
    table = read_table(Path(path))
    wanted = USER_COLUMNS, ITEM_COLUMNS, LEVEL_COLUMNS
    columns = [table.position(*names, expected=_EXPECTED) for names in wanted]
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    rows = np.empty((len(table.rows), 2), np.int64)
    levels: list[int] = []
    seen: dict[tuple[int, int], int] = {}
    for k, row in enumerate(table.rows):
        user, item, rating = (row.cells[column] for column in columns)
        for name, column in ((user, columns[0]), (item, columns[1])):
            if not name:
                raise DataError(
                    table.path,
                    "the cell is empty",
                    "fill it, or remove the row",
                    row=row.number,
                    column=table.header[column],
                )
        pair = users.setdefault(user, len(users)), items.setdefault(item, len(items))
        if pair in seen:
            raise DataError(
                table.path,
                f"user {user!r} has rated item {item!r} in row {seen[pair]}",
                "keep one of the two",
                row=row.number,
            )
        seen[pair] = row.number
        rows[k] = pair
        levels.append(_level(table, row.number, rating, table.header[columns[2]], num_levels))
    _refuse_gaps(table, levels, num_levels)
    ignored = tuple(name for i, name in enumerate(table.header) if i not in columns)
    return RatingData(tuple(users), tuple(items), rows, np.array(levels, np.int64), ignored)


def _level(table: Table, row: int, cell: str, column: str, num_levels: int | None) -> int:
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value != round(value):
        cure = "round half-steps, or multiply all by two" if math.isfinite(value) else "give one"
        raise DataError(table.path, f"{cell!r} is not a whole number", cure, row=row, column=column)
    if abs(value) > _LARGEST:
        cure = "number the levels 1, 2, 3, ..."
        raise DataError(table.path, f"{cell!r} is no level", cure, row=row, column=column)
    if num_levels is not None and not 1 <= value <= num_levels:
        raise DataError(
            table.path,
            f"the level {value:g} is not one of 1 to {num_levels}",
            "correct it, or change --levels",
            row=row,
            column=column,
        )
    return int(value)


def _refuse_gaps(table: Table, levels: list[int], num_levels: int | None) -> None:
    used = set(levels)
    low, high = (min(used), max(used)) if num_levels is None else (1, num_levels)
    if low == high:
        raise DataError(table.path, f"every rating is {low}", "there is nothing to learn from it")
    # Only the first gap is looked for: levels may be anything before it is known that they are few.
    unused = next((level for level in range(low, high) if level not in used), None)
    if unused is None and high not in used:
        unused = high
    if unused is not None:
        cure = "number the levels in use without gaps"
        raise DataError(
            table.path,
            f"nobody used level {unused} of {low} to {high}",
            cure if num_levels is None else f"{cure}, or leave --levels out",
        )
