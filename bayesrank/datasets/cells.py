"""What a cell says: one parser a kind of cell. Each looks once at a distinct cell of a column."""

import math
import re
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets.errors import quoted
from bayesrank.datasets.table import Column, Table

TRUTH = {
    **dict.fromkeys(("", "0", "0.0", "false", "no", "n"), False),  # pandas writes 0.0 beside gaps
    **dict.fromkeys(("1", "1.0", "true", "yes", "y"), True),
}
NOTHING = {
    *("", "-", "--", "–", "—", "?", ".", "*", "na", "n/a", "nan", "null", "none", "\\n"),
    *("n.a.", "n.a", "<na>", "nat", "#n/a", "#ref!", "#name?", "#value!", "#div/0!"),
}
TIED = {"draw", "tie", "tied"}  # where the name of a winner may stand
# Numbers with a decimal comma, and with a decimal point; the other stands between thousands.
_COMMA = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?", re.ASCII)
_POINT = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?", re.ASCII)
LARGEST = 1e100  # the squares of larger numbers would soon leave double precision's range
_CLOCK = r"([T ]\d{1,2}:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?"
_YEAR = re.compile(r"(\d{4})([-./])(\d{1,2})(?:\2(\d{1,2}))?" + _CLOCK, re.ASCII)
_PARTS = re.compile(r"(\d{1,2})([-./])(\d{1,2})\2(\d{4})" + _CLOCK, re.ASCII)
_NAMED = re.compile(
    r"(?:(\d{1,2})[ -])?([A-Za-z]{3,9})\.?[ -](?:(\d{1,2}),? )?(\d{4})" + _CLOCK, re.ASCII
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DIGITS = re.compile(r"(?:1[5-9]|20)(?:\d{4}|\d{6}(?:T?\d{4}(?:\d\d)?)?)", re.ASCII)
_WEEK = re.compile(r"(?:19|20)\d\d(?:0[1-9]|[1-4]\d|5[0-3])", re.ASCII)
_WRITTEN = ("%Y%m", "%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S")  # 202405, 20240531, ...


def finite(cell: str) -> float:
    """The finite number that a cell holds, or NaN: `1_0`, which Python takes for 10, is none."""
    try:
        value = math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def text(
    table: Table, column: Column, empty: str = "the cell is empty", fix: str = "fill it"
) -> NDArray[Any]:
    """Texts, none of them empty, shape (K,)."""
    if "" in column.values:
        raise table.error(empty, f"{fix}, or remove the row", column, column.holds(""))
    return column.cells


def refuse_nothing(table: Table, column: Column, known: Collection[str] = ()) -> None:
    """Refuse an empty name, or one by which programs call what is missing, unless it is known."""
    for cell in column.values:
        if cell.lower() in NOTHING and cell not in known:
            problem = f"{cell!r} stands for a missing name" if cell else "the item has no name"
            fix = "write its name, or remove the row"
            raise table.error(problem, fix, column, column.holds(cell))


def nothing(column: Column) -> NDArray[np.bool_]:
    """Rows whose cell is empty, or holds what stands for that, shape (K,)."""
    return np.array([cell.lower() in NOTHING for cell in column.values])[column.codes]


def number(
    table: Table, column: Column, fix: str = "write a number, or remove the row"
) -> NDArray[np.float64]:
    """Finite numbers, shape (K,)."""
    found = numbers(table, column)
    for k in np.flatnonzero(~(np.abs(found) <= LARGEST)):
        cell, value = column.values[k], found[k]
        problem = f"{quoted(cell)} is not a finite number" if cell else "the number is missing"
        if not math.isnan(value):
            problem, fix = f"{quoted(cell)} is larger than {LARGEST:g}", "use a larger unit"
        raise table.error(problem, fix, column, column.holds(cell))
    return found[column.codes]


def numbers(table: Table, column: Column) -> NDArray[np.float64]:
    """Numbers of the distinct cells, NaN where there is none, shape (len(column.values),).

    Commas are decimal, or stand between thousands, where all cells allow that reading alone.
    Points are doubted beside semicolons only, as spreadsheets write them where commas are decimal.
    """
    said = [cell for cell in column.values if cell.lower() not in NOTHING]
    marks = ",." if table.separator == ";" else ","
    plain = list(column.values)
    marked = any(mark in cell for mark in marks for cell in said)
    comma, point = (marked and all(map(each.fullmatch, said)) for each in (_COMMA, _POINT))
    if comma and point:
        cell = next(cell for cell in said if {*marks} & {*cell})
        readings = f"{finite(cell.replace(',', '.')):g} or {re.sub('[,.]', '', cell)}"
        problem, fix = f"{cell!r} may be {readings}", "write all rows in one of these ways"
        raise table.error(problem, fix, column, column.holds(cell))
    if comma or point:
        thousands, mark = ".," if comma else ",."
        plain = [cell.replace(thousands, "").replace(mark, ".") for cell in plain]
    return np.array([finite(cell) for cell in plain])


def whole(
    table: Table,
    column: Column,
    *,
    least: int = -(10**9),
    most: int = 10**9,
    fix: str = "number the levels",
) -> NDArray[np.int64]:
    """Whole numbers in a range, shape (K,)."""
    found = numbers(table, column)
    for cell, value in zip(column.values, found, strict=True):
        if value != round(value) if math.isfinite(value) else True:
            problem = f"{quoted(cell)} is not a whole number" if cell else "the number is missing"
            raise table.error(problem, fix, column, column.holds(cell))
        if not least <= value <= most:
            problem = f"{value:g} is not one of {least:,} to {most:,}"
            raise table.error(problem, fix, column, column.holds(cell))
    return found.astype(np.int64)[column.codes]


def truth(table: Table, column: Column) -> NDArray[np.bool_]:
    """Whether each row says yes, shape (K,)."""
    fix = "write 1 for a tie" if column.name.lower() != "neutral" else "write 1 for yes"
    table.refuse(column, lambda cell: cell.lower() not in TRUTH, "is neither 0 nor 1", fix)
    return np.array([TRUTH[cell.lower()] for cell in column.values])[column.codes]


def time(
    table: Table, column: Column, date_format: str | None = None
) -> NDArray[np.float64] | NDArray[np.datetime64]:
    """Dates or numbers, shape (K,); digits are dates if every row's can be a day or a month."""
    said = [cell for cell in column.values if cell]
    digits = date_format is None and bool(said)
    digits = digits and bool(np.isfinite(numbers(table, column)[column.values.index(said[0])]))
    days = [_date(cell, date_format, True) for cell in column.values]
    if digits:
        _refuse_unclear_digits(table, column, said)
    if digits and not (all(map(_DIGITS.fullmatch, said)) and all(days)):
        return number(table, column)
    if date_format is None:
        _refuse_seasons(table, column)
    first = date_format is not None or _day_first(table, column)
    found = [_date(cell, date_format, first) for cell in column.values]
    fix = "write a number or a date in every row, and the same in all"
    for cell, date in zip(column.values, found, strict=True):
        if date is None:
            problem = f"{quoted(cell)} is not a date such as 2024-05-31"
            hint = f"{fix}, or say how dates are written, as in --date-format %d/%m/%Y"
            if not cell:
                problem, hint = "the time is missing", "write it, or remove the row"
            elif date_format is not None:
                problem = f"{quoted(cell)} is not a date written as {date_format!r}"
                hint = "correct it, or --date-format, as in %d/%m/%Y"
            raise table.error(problem, hint, column, column.holds(cell))
    zones = [date.tzinfo is not None for date in found if date is not None]
    if any(zones) and not all(zones):
        where = column.holds(column.values[zones.index(not zones[0])])
        raise table.error("some times have a zone and some have none", fix, column, where)
    plain = [d if d is None or d.tzinfo is None else d.astimezone(UTC) for d in found]
    moments = [None if d is None else d.replace(tzinfo=None) for d in plain]
    return np.array(moments, "datetime64[us]")[column.codes]


def _date(cell: str, date_format: str | None, day_first: bool) -> datetime | None:
    """The moment that a cell says; of a month, its first day."""
    try:
        if date_format is not None:
            return datetime.strptime(cell, date_format)
        for pattern, order in ((_YEAR, "ymd"), (_PARTS, "dmy" if day_first else "mdy")):
            match = pattern.fullmatch(cell)
            if match is not None:
                part = dict(zip(order, (match[1], match[3], match[4]), strict=True))
                return _moment(part["y"], int(part["m"]), part["d"], match[5])
        if _DIGITS.fullmatch(cell) is not None:
            digits = cell.replace("T", "")
            return datetime.strptime(digits, _WRITTEN[(len(digits) - 6) // 2 - (len(digits) > 8)])
        match = _NAMED.fullmatch(cell)
        if match is None or match[2][:3].lower() not in _MONTHS:
            return None
        month = _MONTHS.index(match[2][:3].lower()) + 1
        return _moment(match[4], month, match[1] or match[3], match[5])
    except (ValueError, OverflowError):  # the 31st of June
        return None


def _moment(year: str, month: int, day: str | None, clock: str | None) -> datetime:
    hour, _, rest = (clock or "0:00").strip().replace("UTC", "Z").replace(" ", "").partition(":")
    return datetime.fromisoformat(
        f"{year}-{month:02d}-{int(day or 1):02d}T{int(hour.lstrip('T')):02d}:{rest}"
    )


def _refuse_unclear_digits(table: Table, column: Column, said: list[str]) -> None:
    """Refuse digits that are dates in half of the cells, weeks of years, or dates of two kinds."""
    dates = {cell for cell in said if _DIGITS.fullmatch(cell) and _date(cell, None, True)}
    odd = next((cell for cell in said if cell not in dates), said[0])
    fix = "write dates such as 2024-05-31"
    if len(dates) == len(said) and all(len(c) == 6 and _is_short_day(c) for c in said):
        problem = f"{odd!r} may be a month or a day"
        fix += ", or say how they are written: --date-format %Y%m or --date-format %y%m%d"
    elif len(dates) < len(said) and all(map(_WEEK.fullmatch, said)):
        problem = f"{odd!r} may be a week of a year"
    elif len(said) / 2 <= len(dates) < len(said):
        problem = f"{odd!r} is not a date, as others of its column are"
    else:
        return
    raise table.error(problem, fix, column, column.holds(odd))


def _is_short_day(cell: str) -> bool:
    """Whether six digits are a day such as 240531."""
    with suppress(ValueError):
        return bool(datetime.strptime(cell, "%y%m%d"))
    return False


def _refuse_seasons(table: Table, column: Column) -> None:
    """Refuse 2009/10 and 2010/11, which may be seasons or months."""
    months = [match for match in map(_YEAR.fullmatch, column.values) if match and not match[4]]
    ends = [(int(match[1]) + 1) % 100 == int(match[3]) for match in months]
    if len(ends) > 1 and all(ends):
        problem = f"{months[0][0]!r} may be a season or a month"
        fix = "write the year of a season, or a day such as 2009-10-01"
        raise table.error(problem, fix, column, column.holds(months[0][0]))


def _day_first(table: Table, column: Column) -> bool:
    """Whether 16/08/2024 is the order of day and month that a whole column allows."""
    found = [match for match in map(_PARTS.fullmatch, column.values) if match]
    day, month = (any(int(match[group]) > 12 for match in found) for group in (1, 3))
    if day != month or not found or (not day and all(match[2] == "." for match in found)):
        return not month
    problem = "its dates may have the day first or the month"
    fix = "say which, as in --date-format %d/%m/%Y or --date-format %m/%d/%Y"
    raise table.error(problem, fix, column, column.holds(found[0][0]))
