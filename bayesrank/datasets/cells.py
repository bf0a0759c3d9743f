"""What a cell says: one parser a kind of cell. Each looks once at a distinct cell of a column."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets.table import Column, Table

__all__ = ["finite", "number", "quoted", "refuse_empty", "text", "time", "truth", "whole"]

TRUTH = {
    **dict.fromkeys(("", "0", "0.0", "false", "no"), False),  # pandas writes 0.0 beside gaps
    **dict.fromkeys(("1", "1.0", "true", "yes"), True),
}
LARGEST = 1e100  # the squares of larger numbers would soon leave double precision's range
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
_DAY = re.compile(r"(?:1[5-9]|20)\d{6}")  # the day 20240531


def finite(cell: str) -> float:
    """The finite number that a cell holds, or NaN: `1_0`, which Python takes for 10, is none."""
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def quoted(cell: str) -> str:
    """A cell as a message has it, by its beginning."""
    return repr(cell if len(cell) <= 40 else f"{cell[:40]}...")


def text(
    table: Table, column: Column, empty: str = "the cell is empty", cure: str = "fill it"
) -> NDArray[Any]:
    """Texts, none of them empty, shape (K,)."""
    refuse_empty(table, column, empty, cure)
    return np.array(column.values, object)[column.codes]


def refuse_empty(table: Table, column: Column, empty: str, cure: str) -> None:
    """Refuse a cell that holds nothing."""
    if "" in column.values:
        raise table.error(empty, f"{cure}, or remove the row", column, column.holds(""))


def number(
    table: Table, column: Column, *, largest: float = LARGEST, gaps: bool = False
) -> NDArray[np.float64]:
    """Finite numbers, shape (K,); with `gaps`, NaN where a cell is empty."""
    found = np.array([finite(cell) for cell in column.values])
    for k in np.flatnonzero(~(np.abs(found) <= largest)):
        cell, value = column.values[k], found[k]
        if gaps and not cell:
            continue
        cure = "give it in a larger unit"
        if math.isnan(value):
            problem = f"{quoted(cell)} is not a finite number" if cell else "the number is missing"
            cure = f"write a number, or {'leave it empty' if gaps else 'remove the row'}"
        else:
            problem = f"{quoted(cell)} is larger than {largest:g}"
        raise table.error(problem, cure, column, column.holds(cell))
    return found[column.codes]


def whole(
    table: Table,
    column: Column,
    *,
    least: int = -(10**9),
    most: int = 10**9,
    cure: str = "number the levels",
) -> NDArray[np.int64]:
    """Whole numbers in a range, shape (K,)."""
    found = np.array([finite(cell) for cell in column.values])
    for cell, value in zip(column.values, found, strict=True):
        if value != round(value) if math.isfinite(value) else True:
            problem = f"{quoted(cell)} is not a whole number" if cell else "the number is missing"
            raise table.error(problem, cure, column, column.holds(cell))
        if not least <= value <= most:
            problem = f"{value:g} is not one of {least:,} to {most:,}"
            raise table.error(problem, cure, column, column.holds(cell))
    return found.astype(np.int64)[column.codes]


def truth(table: Table, column: Column) -> NDArray[np.bool_]:
    """Whether each row says yes, shape (K,)."""
    for cell in column.values:
        if cell.lower() not in TRUTH:
            cure = "write 1 for a tie" if column.name.lower() != "neutral" else "write 1 for yes"
            raise table.error(f"{cell!r} is neither 0 nor 1", cure, column, column.holds(cell))
    return np.array([TRUTH[cell.lower()] for cell in column.values])[column.codes]


def time(table: Table, column: Column) -> NDArray[np.float64] | NDArray[np.datetime64]:
    """Dates, or numbers, shape (K,); eight digits that are a day in every row are days."""
    cells = column.values
    if all(_DAY.fullmatch(cell) for cell in cells):
        cells = tuple(f"{cell[:4]}-{cell[4:6]}-{cell[6:]}" for cell in cells)
        if any(_date(cell) is None for cell in cells):
            cells = column.values
    are_numbers = math.isfinite(finite(cells[0]))
    kind = "number" if are_numbers else "date such as 2024-05-31"
    values = []
    for cell, said in zip(cells, column.values, strict=True):
        value = finite(cell) if are_numbers else _date(cell)
        if value is None or value != value:
            cure = "write a number or a date in every row, and the same in all"
            raise table.error(f"{said!r} is no {kind}", cure, column, column.holds(said))
        values.append(value)
    return np.array(values)[column.codes]


def _date(cell: str) -> np.datetime64 | None:
    if not _DATE.fullmatch(cell):
        return None
    try:
        return np.datetime64(cell.replace(" ", "T"), "us")
    except ValueError:  # the 31st of June
        return None
