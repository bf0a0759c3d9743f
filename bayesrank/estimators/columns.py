"""Comparisons of named items as `ComparisonData`, from tables of any library, arrays and lists."""

import re
import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesrank._names import alike_note
from bayesrank._stack import outside
from bayesrank._tables import column_names, missing, plain_array, unmasked
from bayesrank.datasets import ColumnNames, ComparisonData, ReadingNote, read_comparisons
from bayesrank.datasets.cells import NOTHING, TIED
from bayesrank.datasets.counted import distinct_rows, is_counted
from bayesrank.estimators.checks import comparison_numbers
from bayesrank.estimators.item_tables import id_list
from bayesrank.ranking import connected_components
from bayesrank.solvers.comparisons.terms import TERMS, read_weights

Array = NDArray[np.float64]

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ][\d:.]+)?")
_MICROSECONDS = 86_400e6  # of a day
_FIX = "pass numbers, or dates (datetime64, datetime, or text such as 2024-05-31)"


class TimeRange(NamedTuple):
    """What the time of a fit is measured by."""

    first: float  # time of the first comparison; of dates, in days since 1970
    last: float  # time of the last comparison
    dates: bool  # whether times are dates

    @property
    def unit(self) -> float:
        """Length of the program's unit of time: the period of the comparisons."""
        return self.last - self.first or 1.0

    @property
    def end(self) -> float:
        """Time of the last comparison as the program has it."""
        return float(self.scaled(np.array(self.last)))

    def scaled(self, times: Array) -> Array:
        """Times as the program has them: 0 is that of the first comparison, 1 that of the last."""
        return (times - self.first) / self.unit

    def since(self, time: Any) -> Array:
        """Times as the program has them; none before the first comparison."""
        times, dates = read_times(np.atleast_1d(plain_array(time)), "time")
        if dates != self.dates:
            given, wanted = (("numbers", "dates"), ("dates", "numbers"))[dates]
            raise ValueError(f"time holds {given}, and in fit it held {wanted}; pass {wanted}")
        if (times < self.first).any():
            row = int(np.argmax(times < self.first))
            raise ValueError(
                f"time is {self.text(times[row])} in row {row}, before the first comparison in fit "
                f"at {self.text(self.first)}; ask for that time or a later one"
            )
        return self.scaled(times)

    def text(self, time: float) -> str:
        """A time as a person reads it."""
        if not self.dates:
            return f"{time:g}"
        day = np.datetime64(round(time * _MICROSECONDS), "us")
        return str(day if time % 1.0 else day.astype("datetime64[D]"))


def read_times(values: Any, name: str) -> tuple[Array, bool]:
    """Times (K,) as numbers, dates as days since 1970, and whether they are dates."""
    array = plain_array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; pass one time for each comparison")
    dates = array.dtype.kind in "MOUT"
    usable: Any
    if array.dtype.kind in "iuf":
        times = array.astype(np.float64)
        usable = np.isfinite(times)
    elif array.dtype.kind == "M":
        times = array.astype("datetime64[us]").astype(np.int64) / _MICROSECONDS
        usable = ~np.isnat(array)
    elif dates:
        return _read_cells(array, name), True
    else:
        raise ValueError(f"{name} has dtype {array.dtype}; {_FIX}")
    if not usable.all():
        row = int(np.argmin(usable))
        raise ValueError(f"{name} is {array[row]} in row {row}; give every comparison its time")
    return times, dates


def _read_cells(cells: NDArray[Any], name: str) -> Array:
    """Days since 1970 of dates that are objects or text."""
    for row, cell in enumerate(cells):
        if missing(cell):
            raise ValueError(f"{name} is {cell} in row {row}; give every comparison its time")
        if getattr(cell, "tzinfo", None) is not None:
            raise ValueError(f"{name} has a time zone in row {row}; convert to UTC without one")
        if isinstance(cell, str) and not _DATE.fullmatch(cell.strip()):
            raise ValueError(f"{name} is {str(cell)!r} in row {row}; {_FIX}")
    try:
        plain = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        days = np.array(plain, "datetime64[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} holds what is not a date ({error}); {_FIX}") from None
    return days.astype(np.int64) / _MICROSECONDS


_ARGUMENTS = {term.name: term.argument for term in TERMS} | {"time": "time"}
"""The argument of `fit` that says what a column of this name does."""


def read_columns(
    comparisons: Any,
    items: int | Sequence[Hashable] | None,
    given: Mapping[str, Any],
    fix: str | None = None,
) -> ComparisonData:
    """Read comparisons of `items` (names, how many, or None), each counted once or more.

    Unknown names are refused with the `fix`, or numbered on if that is None; `given` has arguments.
    """
    if isinstance(comparisons, ComparisonData):
        if any(value is not None for value in given.values()):
            raise ValueError("comparisons has its columns; give no others beside it")
        return _among(comparisons, items, fix)
    counted = not isinstance(comparisons, str) and is_counted(comparisons)
    if counted and any(value is not None for value in given.values()):
        raise ValueError("comparisons is a lazy frame; add columns to it, and give none beside it")
    if not isinstance(items, int) and _is_other_layout(comparisons, given):
        return _among(recognised(comparisons, given), items, fix)
    comparisons = distinct_rows(comparisons) if counted else comparisons
    columns = _columns(comparisons, given)
    said = {name: columns.get(name, given.get(argument)) for name, argument in _ARGUMENTS.items()}
    pairs, names = _numbered(comparisons, columns, items, fix)
    kept = np.ones(len(pairs), bool)
    if said["weight"] is not None:
        kept = read_weights(said["weight"], len(pairs)) > 0.0
    if not kept.any():
        raise ValueError("sample_weight is zero in all rows; pass a positive number for some")
    fields: dict[str, Any] = {"tied": np.zeros(kept.sum(), bool)}
    for term in TERMS:
        if said[term.name] is not None:
            fields |= term.read(said[term.name], kept)
    if said["time"] is not None:
        fields["times"] = _times(said["time"], len(pairs))[kept]
    whole: Any = tuple(names)
    texts = [name for name in names if isinstance(name, str)]
    if items is None and columns:
        _refuse_no_names(texts)
    for note in alike_note(texts, "If they are, write them alike."):
        warnings.warn(note, ReadingNote, stacklevel=outside())
    return ComparisonData(whole, pairs[kept], **fields)


def _refuse_no_names(texts: Sequence[str]) -> None:
    """Refuse cells of a table that stand for a missing name or a tie, as in a file."""
    for name in texts:
        if name.strip().lower() in NOTHING:
            raise ValueError(f"comparisons has {name!r}, which stands for a missing name; name it")
        if name.strip().lower() in TIED:
            fix = "name both items, and mark ties by 1 in a column tie"
            raise ValueError(f"comparisons has {name!r}, which may be a tie; {fix}")


def _is_other_layout(table: Any, given: Mapping[str, Any]) -> bool:
    """Whether a table has named columns, and others than those of winner and loser alone."""
    names = column_names(table)
    others_given = any(value is not None for value in given.values())
    if names is None or _is_bare_pair(names) or others_given:
        return False
    plain = [str(name).strip().lower() for name in names]
    known = {"winner", "loser", *(k for k, v in _ARGUMENTS.items() if v in given)}
    return not {"winner", "loser"} <= set(plain) or not known.issuperset(plain)


def _is_bare_pair(names: Sequence[Any]) -> bool:
    """Whether a table has two columns that nobody has named: numbers, or Polars' own names."""
    return len(names) == 2 and not any(
        isinstance(name, str) and not name.startswith("column_") for name in names
    )


def recognised(
    table: Any, given: Collection[str], covariates: Sequence[str] = ()
) -> ComparisonData:
    """Comparisons of a table in any layout of a file, and a line that says how it is read."""
    data = read_comparisons(table, columns=ColumnNames(covariates=tuple(covariates)))
    if _are_whole_numbers(table, data.names):
        names: Any = tuple(map(int, data.names))
        data = replace(data, names=names)
    sentences = [f"comparisons is read as {data.layout}.", *data.notes, *data.unused_column_hints]
    if data.unused_column_hints:
        sentences.append(
            "Options are arguments of ColumnNames: read_comparisons(table, columns=...)."
        )
    others = [term for term in TERMS if term.in_logs and term.argument not in given]
    unused = [term.column for term in others if getattr(data, term.column) is not None]
    if unused:
        said = ", ".join(unused).replace("position", f"position ({data.position_label})")
        sentences.append(f"Not used here: {said}; use Ranker to learn their effects.")
        data = replace(data, **dict.fromkeys(unused))
    if data.ignored_columns:
        sentences.append(f"Columns not used: {', '.join(data.ignored_columns)}.")
    warnings.warn(" ".join(sentences), ReadingNote, stacklevel=outside())
    return data


def _are_whole_numbers(table: Any, names: Sequence[str]) -> bool:
    """Whether the columns that hold names alone, by the first rows, are of whole numbers."""
    import narwhals as nw

    frame, known = nw.from_native(table).head(1000), {*names}
    frame = frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame
    columns = [(c, {str(cell).strip() for cell in c.drop_nulls()}) for c in frame.iter_columns()]
    whole = [column.dtype.is_integer() for column, texts in columns if set() < texts <= known]
    return all(whole) and any(whole) and all(n.removeprefix("-").isdecimal() for n in names)


def _among(
    data: ComparisonData, items: int | Sequence[Hashable] | None, fix: str | None
) -> ComparisonData:
    """Comparisons by the numbers of known items; others are numbered on, or refused."""
    if isinstance(items, int):
        if items == data.num_items:
            return data
        raise ValueError(
            f"comparisons names {data.num_items} items, and there are {items}; give each a row of X"
        )
    if items is None or data.orders is not None or data.scores is not None:
        return data
    numbers = numbers_of([list(data.names)], items, fix)[:, 0]
    known = {*items}
    others = [name for name in data.names if name not in known]
    return replace(data, names=(*items, *others), comparisons=numbers[data.comparisons])


def _numbered(
    comparisons: Any,
    columns: Mapping[str, Any],
    items: int | Sequence[Hashable] | None,
    fix: str | None,
) -> tuple[NDArray[np.int64], Sequence[Hashable]]:
    """Numbers of winner and loser, shape (K, 2), and the items' names."""
    if isinstance(items, int):
        two = [plain_array(columns[name]) for name in ("winner", "loser")] if columns else None
        numbers = comparison_numbers(comparisons if two is None else np.column_stack(two), items)
        return numbers, range(items)
    named = read_pairs(comparisons, "comparisons", columns)
    codes, seen = _factorized(named, "comparisons")
    if not seen:
        raise ValueError("comparisons has no rows; pass one (winner, loser) or more")
    names = in_order(seen) if items is None else list(items)
    numbers, others = _looked_up(codes, seen, names, fix)
    itself = numbers[:, 0] == numbers[:, 1]
    if itself.any():
        row = int(np.argmax(itself))
        name = seen[codes[row, 0]]
        raise ValueError(f"comparisons compares item {name!r} with itself in row {row}; remove it")
    return numbers, [*names, *others]


def read_pairs(pairs: Any, name: str, columns: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
    """The two columns of pairs of names, in a table or rows; refuse what are no pairs."""
    columns = _columns(pairs, _ARGUMENTS.values()) if columns is None else columns
    if columns:
        return columns["winner"], columns["loser"]
    if hasattr(pairs, "shape") or column_names(pairs) is not None:
        array = plain_array(pairs)
        array = np.zeros((0, 2), int) if array.shape == (0,) else array
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(f"{name} has shape {array.shape}; pass two columns (winner, loser)")
        return array[:, 0], array[:, 1]
    rows = [[row] if isinstance(row, str) or not np.iterable(row) else [*row] for row in pairs]
    wrong = [number for number, row in enumerate(rows) if len(row) != 2]
    if wrong:
        raise ValueError(f"{name} has no pair in row {wrong[0]}; pass (winner, loser)")
    return [row[0] for row in rows], [row[1] for row in rows]


def numbers_of(
    columns: Sequence[Any], known: Sequence[Hashable], fix: str | None, name: str = "items"
) -> NDArray[np.int64]:
    """Numbers of names (P, columns); unknown ones are refused with the fix, or numbered on."""
    return _looked_up(*_factorized(columns, name), known, fix)[0]


def said_of(pairs: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of pairs to come: by arguments, or by columns of a table; not by both."""
    columns = _columns(pairs, _ARGUMENTS.values())
    for name, value in given.items():
        if name in columns and value is not None:
            raise ValueError(
                f"pairs has a column {name!r} and {name} is given; leave one of them out"
            )
    return {name: columns.get(name, value) for name, value in given.items()}


def refuse_columns(data: ComparisonData) -> None:
    """Refuse what a ranker that takes pairs alone does not take."""
    for name in (*(term.column for term in TERMS if term.in_logs), "orders", "times", "scores"):
        if getattr(data, name) is not None:
            raise ValueError(f"comparisons has {name}, which this model does not take; use Ranker")


def linked_items(
    num_items: int, items: NDArray[Any], better: NDArray[Any], worse: NDArray[Any]
) -> NDArray[np.int64]:
    """Component of each item, as `bayesrank.models.orders.Events` link them."""
    upper, lower = (np.take_along_axis(items, np.maximum(side, 0), 1) for side in (better, worse))
    return connected_components(np.stack([upper, lower], -1)[better >= 0], num_items)


def in_order(names: list[Any]) -> list[Hashable]:
    """All names, sorted if they can be."""
    try:
        return sorted(names)
    except TypeError:
        return names


def _factorized(columns: Sequence[Any], name: str) -> tuple[NDArray[np.int64], list[Hashable]]:
    """Numbers of the ids in some columns, a column each, and the ids as they come up."""
    try:
        cells = [_cells(column) for column in columns]
        if len({column.dtype.kind for column in cells}) > 1:  # 1 and "1" are two names
            cells = [column.astype(object) for column in cells]
        codes, ids = pd.factorize(np.concatenate(cells))
        whole = bool((codes >= 0).all())
    except (TypeError, ValueError):
        whole, codes, ids = False, np.zeros(0, np.int64), np.zeros(0)
    if not whole:  # a cell that is no id, which is named; or a kind of id that NumPy does not join
        named = [id_list(column, name) for column in columns]
        seen = {cell: None for column in named for cell in column}
        number = {cell: place for place, cell in enumerate(seen)}
        codes = np.array([number[cell] for column in named for cell in column], np.int64)
        ids = list(seen)
    values: list[Any] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    values = [each.item() if isinstance(each, np.generic) else each for each in values]
    numbers: Any = codes.astype(np.int64).reshape(len(columns), -1).T
    return numbers, values


def _cells(column: Any) -> NDArray[Any]:
    """A column as an array that has each cell as Python has it."""
    if isinstance(column, str | bytes) or not np.iterable(column):
        raise TypeError("a column is many cells")
    plain = getattr(column, "to_pylist", None)
    cells: Any = unmasked(column) if plain is None else plain()
    if hasattr(cells, "dtype") and np.asarray(cells).dtype.kind in "iufbU":
        return np.asarray(cells)
    found = np.empty(len(cells), object)
    found[:] = pd.Series(list(cells), dtype=object).to_numpy()
    return found


def _looked_up(
    codes: NDArray[np.int64], seen: list[Hashable], known: Sequence[Hashable], fix: str | None
) -> tuple[NDArray[np.int64], list[Hashable]]:
    """Numbers by names that are known, and the other names, which are numbered on."""
    number = {name: place for place, name in enumerate(known)}
    others = [name for name in seen if name not in number]
    if others and fix is not None:
        at = np.flatnonzero(np.isin(codes.T.ravel(), [seen.index(name) for name in others]))[0]
        name, row = seen[codes.T.ravel()[at]], at % len(codes)
        raise ValueError(f"item {name!r} in row {row} is not known; {fix}")
    number |= {name: len(known) + place for place, name in enumerate(others)}
    return np.array([number[name] for name in seen], np.int64)[codes], others


def _columns(table: Any, arguments: Any) -> dict[str, Any]:
    """Columns of a table by what they mean; none if it has no winner and loser."""
    names = column_names(table)
    if names is None:
        return {}
    plain = [str(name).strip().lower() for name in names]
    if not {"winner", "loser"} <= set(plain):
        if _is_bare_pair(names) or (len(plain) == 2 and not isinstance(arguments, Mapping)):
            return {}
        raise ValueError(
            f"comparisons has the columns {plain}; name those of the items winner and loser"
        )
    allowed = ("winner", "loser", *(k for k, v in _ARGUMENTS.items() if v in arguments))
    wrong = [name for name in plain if name not in allowed or plain.count(name) > 1]
    if wrong:
        raise ValueError(
            f"comparisons has a column {wrong[0]!r} that is not understood, or twice; there may be "
            f"one each of {allowed}"
        )
    for name, argument in _ARGUMENTS.items():
        if name in plain and isinstance(arguments, Mapping) and arguments[argument] is not None:
            raise ValueError(
                f"comparisons has a column {name!r} and {argument} is given; leave one of them out"
            )
    return {name: table[names[plain.index(name)]] for name in plain}


def _times(time: Any, count: int) -> NDArray[Any]:
    values = plain_array(time)
    if values.shape != (count,):
        raise ValueError(
            f"time has shape {values.shape}; pass ({count},), a time for each row of comparisons"
        )
    return np.array(values)
