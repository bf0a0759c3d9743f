"""Lists of items with features and grades: svmlight with qid, LETOR, LightGBM, CSV."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import LISTS, find
from bayesrank.datasets.svmlight import LARGEST, BadLine, index_values, level
from bayesrank.datasets.table import Table, read_table
from bayesrank.datasets.text import FIELD, LINE, read_text

_LARGEST = 2**31
_SVMLIGHT = "grade qid:name index:number ..."
_LONGEST = 10  # digits of a feature's number, or of a list's length


@dataclass(frozen=True, eq=False)
class ListData:
    r"""Features, grades and queries of items, in the order of the file.

    Parameters
    ----------
    X
        Shape (m, d), sparse.
    y
        Shape (m,): grades, whole numbers from 0 on.
    query
        Name of each item's query.
    items
        Name of each item; by default its number in the file, from 1.
    names
        Names of the features, in the order of the columns; None where they are numbers.
    first
        Number of the first column's feature: 0 where the file counts from there, else 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesrank.datasets import read_lists
    >>> path = Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("query,label,price\nq1,2,2.5\nq1,0,1.0\n")
    >>> read_lists(path).y.tolist()
    [2.0, 0.0]
    """

    X: Any
    y: np.ndarray
    query: tuple[str, ...]
    items: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    first: int = 1

    def __post_init__(self) -> None:
        if not self.items:
            numbers = tuple(str(row + 1) for row in range(len(self.y)))
            object.__setattr__(self, "items", numbers)

    def rows(self, chosen: np.ndarray) -> ListData:
        """Return some of the items, by their rows."""
        query, items = (tuple(part[row] for row in chosen) for part in (self.query, self.items))
        return replace(self, X=self.X[chosen], y=self.y[chosen], query=query, items=items)

    def _spread(self, first: int, end: int) -> ListData:
        """Return the same items with columns of zeros for the features from first to end."""
        from scipy import sparse

        rows, columns = self.X.shape
        before = sparse.csr_array((rows, self.first - first))
        after = sparse.csr_array((rows, end - self.first - columns))
        X = sparse.hstack([before, self.X, after], format="csr")
        return replace(self, X=X, first=first)


def align(path: str | Path, data: ListData, like: ListData) -> tuple[ListData, ListData]:
    """Give two files the same features in the same columns.

    Features with names are matched by them. Those with numbers are matched by these, also where one
    of the files has no feature 0 and the other does.

    Parameters
    ----------
    path
        File of `data`, for the message.
    data, like
        Items; the order of names is that of `like`.

    Raises
    ------
    DataError
        If one has names and the other numbers, or the names differ.

    Examples
    --------
    >>> from scipy import sparse
    >>> like = ListData(sparse.csr_array([[1.0, 2.0]]), np.array([1.0]), ("a",), first=0)
    >>> data = ListData(sparse.csr_array([[5.0]]), np.array([1.0]), ("a",), first=1)
    >>> align("test.svm", data, like)[0].X.toarray()
    array([[0., 5.]])
    """
    if data.names is None and like.names is None:
        first = min(data.first, like.first)
        end = max(one.first + one.X.shape[1] for one in (data, like))
        return data._spread(first, end), like._spread(first, end)
    fix = "give both files the same columns"
    if data.names is None or like.names is None:
        problem = "one of the two files names its features, and the other numbers them"
        raise DataError(path, problem, fix)
    odd = set(data.names) ^ set(like.names)
    if odd:
        problem = f"the feature {cells.quoted(min(odd))} is in one of the two files only"
        raise DataError(path, problem, fix)
    places = [data.names.index(name) for name in like.names]
    return replace(data, X=data.X[:, places], names=like.names), like


def read_lists(path: str | Path) -> ListData:
    r"""Read items with features and grades, grouped by query.

    A file has lines ``grade qid:7 1:0.5 3:2 # text`` (svmlight, LETOR). Without ``qid``, a file of
    the same name with ``.query`` added has the lengths of the lists (LightGBM). Comma-separated
    text has the columns ``query`` and ``label``, maybe ``item`` or ``name``, and one numeric column
    a feature.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    ListData
        Features, grades and queries of the items, in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line: file, row, problem, fix.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.svm"
    ...     _ = path.write_text("2 qid:a 1:0.5 2:1\n0 qid:a 2:3 # item 7\n")
    ...     read_lists(path).X.toarray()
    array([[0.5, 1. ],
           [0. , 3. ]])
    """
    path = Path(path)
    text = read_text(path)
    first = next(line for line in LINE.split(text) if line.strip())
    if first.lstrip()[0] == "{" or (":" not in first and any(mark in first for mark in ",;\t|")):
        return _from_table(read_table(path, text))
    return _from_svmlight(path, text)


def _from_svmlight(path: Path, text: str) -> ListData:
    grades: list[int] = []
    queries: list[str] = []
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for row, line in enumerate(LINE.split(text), start=1):
        fields = FIELD.findall(line.partition("#")[0])
        if not fields:
            continue
        try:
            grades.append(level(fields[0], least=0, most=_LARGEST, what="grade"))
            found = index_values(fields[1:], 0, _LARGEST)
        except BadLine as error:
            raise DataError(path, str(error), f"write {_SVMLIGHT}", row=row) from None
        if fields[1:2] and fields[1].startswith("qid:"):
            queries.append(fields[1][4:])
            if not queries[-1]:
                raise DataError(path, "the query is empty", "name it behind qid:", row=row)
        columns += found
        values += found.values()
        ends.append(len(values))
    if not columns:
        raise DataError(path, "no item has a feature", f"write {_SVMLIGHT}")
    names = _names(path, queries, len(grades))
    from scipy import sparse  # commands that read other files do not wait for it

    start = 0 if 0 in columns else 1
    shape = (len(grades), max(columns) + 1 - start)
    X = sparse.csr_array((np.array(values), np.array(columns) - start, np.array(ends)), shape)
    X.sort_indices()
    return ListData(X, np.array(grades, float), names, first=start)


def _names(path: Path, queries: list[str], num_rows: int) -> tuple[str, ...]:
    """Names of the queries: those in the file, or numbers by the lengths beside it."""
    if len(queries) == num_rows:
        return tuple(queries)
    beside = path.with_name(path.name + ".query")
    if queries or not beside.exists():
        raise DataError(
            path,
            f"{num_rows - len(queries)} of its {num_rows} lines have no qid",
            f"give each one, or the lengths of the lists in {beside.name}",
        )
    lengths = []
    for row, line in enumerate(LINE.split(read_text(beside)), start=1):
        cell = line.strip()
        if cell:
            if not (cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST):
                raise DataError(
                    beside, f"{cells.quoted(cell)} is not a length", "give numbers", row=row
                )
            lengths.append(int(cell))
    if sum(lengths) != num_rows:
        raise DataError(
            beside,
            f"its lengths sum to {sum(lengths)}, and {path.name} has {num_rows} lines",
            "give the two files that belong together",
        )
    return tuple(str(q + 1) for q, length in enumerate(lengths) for _ in range(length))


def _from_table(table: Table) -> ListData:
    found = find(table, (LISTS,))
    if not found.rest:
        problem, fix = "there is no column of features", f"see {LISTS.example}"
        raise DataError(table.path, problem, fix, row=1)
    query, label = found.columns["query"], found.columns["label"]
    queries = tuple(cells.text(table, query, "the query is empty", "name it"))
    grades = cells.whole(table, label, least=0, most=_LARGEST, fix="number the grades from 0 on")
    X = np.stack([cells.number(table, each, largest=LARGEST) for each in found.rest], axis=1)
    items: tuple[str, ...] = ()
    if "item" in found.columns:
        item = found.columns["item"]
        items = tuple(cells.text(table, item, "an item has no name", "name it"))
        table.refuse_twice(query, item)
    from scipy import sparse

    names = tuple(column.name for column in found.rest)
    return ListData(sparse.csr_array(X), grades.astype(float), queries, items, names)
