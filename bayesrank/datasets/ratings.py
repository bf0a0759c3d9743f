"""Ratings files read into arrays."""

from dataclasses import dataclass

import numpy as np

from bayesrank._names import alike_note
from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError, tell
from bayesrank.datasets.layouts import RATINGS, find
from bayesrank.datasets.table import Source, Table, read_table


@dataclass(frozen=True, eq=False)
class RatingData:
    r"""Who rated what, and how.

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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesrank.datasets import read_ratings
    >>> path = Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("user,item,rating\nAda,tea,2\nBob,tea,1\n")
    >>> read_ratings(path).levels.tolist()
    [2, 1]
    """

    users: tuple[str, ...]
    items: tuple[str, ...]
    rows: np.ndarray
    levels: np.ndarray
    ignored_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.rows, self.levels):
            array.setflags(write=False)


def read_ratings(path: Source, *, num_levels: int | None = None) -> RatingData:
    r"""Read ratings: comma-separated UTF-8 text with the columns ``user``, ``item``, ``rating``.

    Ratings are whole numbers, higher is better, and every level between the lowest and the highest
    must be used. A user rates an item once: a second row is refused, since it is not clear which of
    the two counts. Users with one rating stay; their predictions come mostly from others' ratings.

    Parameters
    ----------
    path
        The file, or a data frame.
    num_levels
        If given, levels are 1 to this number, and others are refused.

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line: file, row, column, problem, fix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ratings.csv"
    ...     _ = path.write_text("user,item,rating\nAda,Tea,2\nBob,Tea,1\nBob,Milk,2\n")
    ...     read_ratings(path).levels
    array([2, 1, 2])
    """
    found = find(read_table(path, name="the ratings"), (RATINGS,))
    table, columns = found.table, found.columns
    user, item, rating = (columns[role] for role in ("user", "item", "rating"))
    for column in (user, item):
        cells.text(table, column)
        cells.refuse_nothing(table, column)
        for note in alike_note(column.values, "If they are, write them alike."):
            tell(note)
    table.refuse_twice(user, item)
    bounds = {} if num_levels is None else {"least": 1, "most": num_levels}
    fix = "number the levels 1, 2, 3, ... (multiply half-steps by two)"
    fix = fix if num_levels is None else "correct it, or change --levels"
    levels = cells.whole(table, rating, fix=fix, **bounds)
    _refuse_gaps(table, set(levels.tolist()), num_levels)
    rows = np.stack([user.codes, item.codes], axis=1)
    ignored = tuple(column.name for column in found.rest)
    return RatingData(user.values, item.values, rows, levels, ignored)


def _refuse_gaps(table: Table, used: set[int], num_levels: int | None) -> None:
    low, high = (min(used), max(used)) if num_levels is None else (1, num_levels)
    if low == high:
        raise DataError(table.path, f"every rating is {low}", "there is nothing to learn from it")
    # Only the first gap is looked for: levels may be anything before it is known that they are few.
    unused = next((level for level in range(low, high) if level not in used), None)
    if unused is None and high not in used:
        unused = high
    if unused is not None:
        fix = "number the levels in use without gaps"
        if num_levels is not None and max(used) - min(used) + 1 == len(used) > 1:
            fix += ", or leave --levels out"
        raise DataError(table.path, f"nobody used level {unused} of {low} to {high}", fix)
