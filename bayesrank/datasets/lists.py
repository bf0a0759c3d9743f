"""Lists of items with features and grades: svmlight with qid, LETOR, LightGBM, CSV."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Table, read_table, read_text

__all__ = ["ListData", "read_lists"]

_QUERY = ("query", "qid", "topic")
_LABEL = ("label", "relevance", "rel", "grade")
_LARGEST = 2**31


@dataclass(frozen=True, eq=False)
class ListData:
    """Features, grades and queries of items, in the order of the file.

    Parameters
    ----------
    X
        Shape (m, d), sparse.
    y
        Shape (m,): grades, whole numbers from 0 on.
    query
        Name of each item's query.
    """

    X: Any
    y: np.ndarray
    query: tuple[str, ...]

    def widened(self, num_features: int) -> ListData:
        """Return the same items with columns of zeros added."""
        rows, columns = self.X.shape
        more = sparse.csr_array((rows, max(num_features - columns, 0)))
        return ListData(sparse.hstack([self.X, more], format="csr"), self.y, self.query)


def read_lists(path: str | Path) -> ListData:
    r"""Read items with features and grades, grouped by query.

    Lines ``grade qid:7 1:0.5 3:2 # text`` (svmlight, LETOR); or the same without ``qid``, beside
    a file of the same name with ``.query`` added, which has the lengths of the lists in their order
    (LightGBM); or comma-separated text with the columns ``query`` and ``label`` and one numeric
    column a feature (a column ``item`` is left out).

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    ListData

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line: file, row, problem, cure.

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
    first = next(line for line in text.splitlines() if line.strip())
    if ":" not in first and "," in first:
        return _from_table(read_table(path, text))
    return _from_svmlight(path, text)


def _grade(path: Path, row: int, cell: str) -> float:
    value = _number(cell)
    if not math.isfinite(value) or value != round(value) or not 0 <= value < _LARGEST:
        raise DataError(
            path, f"the grade {cell!r} is no whole number from 0 on", "number the grades", row=row
        )
    return value


def _number(cell: str) -> float:
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _from_svmlight(path: Path, text: str) -> ListData:
    grades: list[float] = []
    queries: list[str] = []
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for row, line in enumerate(text.split("\n"), start=1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        grades.append(_grade(path, row, fields[0]))
        features = fields[1:]
        if features and features[0].startswith("qid:"):
            queries.append(features.pop(0)[4:])
        seen = set()
        for field in features:
            index, _, cell = field.partition(":")
            value = _number(cell)
            if not (index.isascii() and index.isdigit()) or not math.isfinite(value):
                cure = "write grade qid:name index:number ..."
                raise DataError(path, f"{field!r} is no feature", cure, row=row)
            if int(index) >= _LARGEST or int(index) in seen:
                problem = f"the feature {index} is there twice, or too large"
                raise DataError(path, problem, "correct it", row=row)
            seen.add(int(index))
            columns.append(int(index))
            values.append(value)
        ends.append(len(values))
    if not columns:
        raise DataError(path, "no item has a feature", "write grade qid:name index:number ...")
    names = _names(path, queries, len(grades))
    start = 0 if 0 in columns else 1
    shape = (len(grades), max(columns) + 1 - start)
    X = sparse.csr_array((np.array(values), np.array(columns) - start, np.array(ends)), shape)
    X.sort_indices()
    return ListData(X, np.array(grades), names)


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
    for row, line in enumerate(read_text(beside).split("\n"), start=1):
        if line.strip():
            if not line.strip().isdigit():
                raise DataError(beside, f"{line.strip()!r} is no length", "give numbers", row=row)
            lengths.append(int(line))
    if sum(lengths) != num_rows:
        raise DataError(
            beside,
            f"its lengths sum to {sum(lengths)}, and {path.name} has {num_rows} lines",
            "give the two files that belong together",
        )
    return tuple(str(q + 1) for q, length in enumerate(lengths) for _ in range(length))


def _from_table(table: Table) -> ListData:
    expected = "query,label,feature1,feature2"
    query = table.position(*_QUERY, expected=expected)
    label = table.position(*_LABEL, expected=expected)
    kept = [
        i
        for i, name in enumerate(table.header)
        if i not in (query, label) and name.lower() not in ("item", "name")
    ]
    if not kept:
        raise DataError(table.path, "there is no column of features", f"see {expected}", row=1)
    X = np.empty((len(table.rows), len(kept)))
    grades = []
    for k, row in enumerate(table.rows):
        grades.append(_grade(table.path, row.number, row.cells[label]))
        if not row.cells[query]:
            raise DataError(table.path, "the query is empty", "name it", row=row.number)
        for place, column in enumerate(kept):
            X[k, place] = _number(row.cells[column])
            if not math.isfinite(X[k, place]):
                raise DataError(
                    table.path,
                    f"{row.cells[column]!r} is not a finite number",
                    "give one",
                    row=row.number,
                    column=table.header[column],
                )
    names = tuple(row.cells[query] for row in table.rows)
    return ListData(sparse.csr_array(X), np.array(grades), names)
