"""What a file says of a comparison besides its items and outcome: judge, category, weight, time."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets.columns import Column, ColumnTable
from bayesrank.datasets.layouts import ColumnNames, numbers

__all__ = ["Covariates", "overlooked", "read_covariates", "read_times"]

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
_USUAL = {"judge": ("judge",), "group": ("group", "category"), "weight": ("weight", "count")}
_ALIKE = {
    "judge": (
        *("annotator", "rater", "assessor", "reviewer", "evaluator", "voter", "user", "user_id"),
        *("judge_id", "judge_name", "judge_model", "annotator_id", "judges"),
    ),
    "group": ("categories", "groups", "topic", "task", "domain", "language", "surface"),
    "weight": ("weights", "counts", "votes", "frequency", "num_votes"),
    "time": ("time", "date", "datetime", "timestamp", "tstamp", "tourney_date"),
    "tie": ("tie", "ties", "tied", "draw", "draws", "is_tie"),
    "outcome": ("preference", "outcome", "result"),
    "order": ("order", "ranking"),
}
_WHAT = {
    "judge": "judges",
    "group": "categories",
    "weight": "weights",
    "time": "times",
    "tie": "ties",
    "outcome": "outcomes",
    "order": "orders",
}


class Covariates(NamedTuple):
    """Covariates of the comparisons; None where the file has none.

    Attributes
    ----------
    judge, group
        Columns of names.
    weight
        How often each row counts, shape (K,).
    times
        When each was, shape (K,).
    used
        Positions of the columns that were read.
    """

    judge: Column | None
    group: Column | None
    weight: NDArray[np.float64] | None
    times: NDArray[np.float64] | NDArray[np.datetime64] | None
    used: frozenset[int]


def read_covariates(
    table: ColumnTable,
    names: ColumnNames,
    taken: frozenset[int],
    roles: Sequence[str] = ("judge", "group", "weight", "time"),
) -> Covariates:
    """Read the columns that were named, or that have a usual name and are not yet `taken`.

    Parameters
    ----------
    table
        The file.
    names
        What was named.
    taken
        Positions of the columns that say who won.
    roles
        What may be read.

    Raises
    ------
    DataError
        If a column that was named is not there, or holds what cannot be understood.
    """
    at: dict[str, int] = {}
    for role in sorted(roles, key=lambda role: getattr(names, role) is None):  # the named first
        name, usual = getattr(names, role), _USUAL.get(role, ())
        position = table.position(*(usual if name is None else (name,)))
        if position is None and name is not None:
            header = ", ".join(map(repr, table.header))
            problem = f"there is no column {name!r} among {header}"
            raise table.error(problem, f"name one of these with --{role}")
        if position is not None and not (name is None and position in taken.union(at.values())):
            at[role] = position
    columns = {role: table.columns[position] for role, position in at.items()}
    for role in ("judge", "group"):
        if role in columns:
            _refuse_nameless(table, columns[role], role)
    weight = None
    if "weight" in columns:
        weight = numbers(table, columns["weight"])
        if (weight < 0).any():
            cure = "write how often the row counts, from 0 on"
            raise table.error("the weight is negative", cure, columns["weight"], weight < 0)
        if not weight.any():
            cure = "give some row a weight above 0"
            raise table.error("all weights are 0", cure, columns["weight"])
    times = read_times(table, columns["time"]) if "time" in columns else None
    return Covariates(
        columns.get("judge"), columns.get("group"), weight, times, frozenset(at.values())
    )


def _refuse_nameless(table: ColumnTable, column: Column, role: str) -> None:
    if "" in column.values:
        where = column.codes == column.values.index("")
        if where.any():
            cure = f"name it, or leave the column out with --ignore {column.name}"
            raise table.error(f"the {role} has no name", cure, column, where)


def read_times(table: ColumnTable, column: Column) -> NDArray[np.float64] | NDArray[np.datetime64]:
    """Numbers, if the first row holds one, or else dates; shape (K,).

    Raises
    ------
    DataError
        If a cell is neither, or not the same as in the first row.
    """
    first = column.values[column.codes[0]]
    are_numbers = _number(first) is not None
    read, kind = (_number, "number") if are_numbers else (_date, "date such as 2024-05-31")
    values = []
    for number, cell in enumerate(column.values):
        value = read(cell)
        where = column.codes == number
        if value is None and where.any():
            cure = "write a number or a date in every row, and the same in all"
            raise table.error(f"{cell!r} is no {kind}", cure, column, where)
        values.append(value)
    return np.array(values)[column.codes]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _date(cell: str) -> np.datetime64 | None:
    if not _DATE.fullmatch(cell):
        return None
    try:
        return np.datetime64(cell.replace(" ", "T"), "us")
    except ValueError:  # the 31st of June
        return None


def overlooked(
    table: ColumnTable, used: frozenset[int], names: ColumnNames
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that were not used, and a sentence on each that looks as if it should have been.

    Returns
    -------
    tuple of tuple of str
        Names of the columns, and the sentences.
    """
    ignored = {name.lower() for name in names.ignore}
    left = [name for i, name in enumerate(table.header) if i not in used]
    sentences = []
    for name in left:
        if name.lower() in ignored:
            continue
        for role, alike in _ALIKE.items():
            if name.lower() in (*alike, *_USUAL.get(role, ())):
                sentences.append(
                    f"Column {name!r} looks like {_WHAT[role]} and is not used: add --{role} "
                    f"{name}, or --ignore {name}."
                )
                break
    return tuple(left), tuple(sentences)
