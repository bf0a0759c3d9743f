"""Comparisons by the items' names: tables, arrays and lists of pairs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._tables import column_names, plain_array
from bayesrank.estimators.checks import check_comparisons, check_ties
from bayesrank.estimators.collaborative_data import id_list

__all__ = ["Comparisons", "numbers_of", "read_comparisons", "read_pairs", "refuse_time", "time_of"]

_COLUMNS = ("winner", "loser", "tie", "weight", "time")


class Comparisons(NamedTuple):
    """Who was preferred to whom.

    Attributes
    ----------
    pairs
        Numbers of winner and loser, shape (K, 2).
    tied
        True where the two were judged equal, shape (K,).
    weights
        How often each comparison counts, positive, shape (K,); None if each counts once.
    time
        When each was, as it was given, shape (K,); None if nothing is said of that.
    """

    pairs: NDArray[np.int64]
    tied: NDArray[np.bool_]
    weights: NDArray[np.float64] | None
    time: NDArray[Any] | None = None

    def rows(self, rows: NDArray[np.intp]) -> Comparisons:
        """Some of the comparisons."""
        some: list[Any] = [column if column is None else column[rows] for column in self]
        return Comparisons(*some)


def read_comparisons(
    comparisons: Any,
    known: int | Mapping[Hashable, int],
    ties: ArrayLike | None,
    sample_weight: ArrayLike | None,
    cure: str | None = None,
    time: Any = None,
) -> Comparisons:
    """Read comparisons; those that count zero times are left out.

    Parameters
    ----------
    comparisons
        A table with the columns ``winner`` and ``loser``, and perhaps ``tie``, ``weight`` and
        ``time``; or K pairs (winner, loser).
    known
        How many items there are, which go by their numbers then; or their numbers by name.
    ties, sample_weight
        What the columns ``tie`` and ``weight`` say, where there are none.
    cure
        See `numbers_of`.
    time
        What the column ``time`` says, where there is none.

    Raises
    ------
    ValueError
        If these are no comparisons of two different items, or a column has no meaning.
    """
    columns = _columns(comparisons)
    for name, given, argument in (
        ("tie", ties, "ties"),
        ("weight", sample_weight, "sample_weight"),
        ("time", time, "time"),
    ):
        if name in columns and given is not None:
            raise ValueError(
                f"comparisons has a column {name!r} and {argument} is given; leave one of them out"
            )
    if isinstance(known, int):
        two = [plain_array(columns[name]) for name in ("winner", "loser")] if columns else None
        pairs = check_comparisons(comparisons if two is None else np.column_stack(two), known)
    else:
        names = read_pairs(comparisons, "comparisons")
        pairs = numbers_of(names, known, cure)
        _refuse_itself(pairs, names[0])
    tied = check_ties(columns.get("tie", ties), len(pairs))
    weights = _weights(columns.get("weight", sample_weight), len(pairs))
    data = Comparisons(pairs, tied, weights, _times(columns.get("time", time), len(pairs)))
    if weights is None:
        return data
    kept = weights > 0.0
    if not kept.any():
        raise ValueError("sample_weight is zero in all rows; pass a positive number for some")
    return data.rows(np.flatnonzero(kept))


def time_of(pairs: Any, time: Any) -> Any:
    """Times of pairs: as given, or the column of a table, or None.

    Raises
    ------
    ValueError
        If there are both.
    """
    columns = _columns(pairs)
    if "time" in columns and time is not None:
        raise ValueError("pairs has a column 'time' and time is given; leave one of them out")
    return columns.get("time", time)


def refuse_time(data: Comparisons) -> None:
    """Refuse comparisons with times where skills stand still.

    Raises
    ------
    ValueError
        If they have times.
    """
    if data.time is not None:
        raise ValueError(
            "comparisons has times, but skills stand still here; leave the column time out, or let "
            "them move: PairwiseRanker(time='walk')"
        )


def _refuse_itself(pairs: NDArray[np.int64], names: list[Hashable]) -> None:
    if not len(pairs):
        raise ValueError("comparisons has no rows; pass one (winner, loser) or more")
    with_itself = pairs[:, 0] == pairs[:, 1]
    if with_itself.any():
        row = int(np.argmax(with_itself))
        raise ValueError(
            f"comparisons compares item {names[row]!r} with itself in row {row}; remove the row"
        )


def read_pairs(pairs: Any, name: str) -> tuple[list[Hashable], list[Hashable]]:
    """Return the names in the two columns of pairs.

    Raises
    ------
    ValueError
        If they are no pairs, or a name is missing.
    """
    columns = _columns(pairs)
    if columns:
        two = columns["winner"], columns["loser"]
    elif hasattr(pairs, "shape") or column_names(pairs) is not None:
        array = plain_array(pairs)
        array = np.zeros((0, 2), int) if array.shape == (0,) else array
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(f"{name} has shape {array.shape}; pass two columns (winner, loser)")
        two = array[:, 0], array[:, 1]
    else:
        rows = [list(row) if np.iterable(row) else [row] for row in pairs]
        wrong = [number for number, row in enumerate(rows) if len(row) != 2]
        if wrong:
            raise ValueError(f"{name} has no pair in row {wrong[0]}; pass (winner, loser)")
        two = [row[0] for row in rows], [row[1] for row in rows]
    first, second = (id_list(column, name) for column in two)
    return first, second


def numbers_of(
    names: tuple[list[Hashable], list[Hashable]], known: Mapping[Hashable, int], cure: str | None
) -> NDArray[np.int64]:
    """Numbers of the items of pairs by their names, shape (P, 2).

    Parameters
    ----------
    names
        Those of the first items, and of the second ones.
    known
        Numbers of those that are known.
    cure
        What to do about a name that is not known; if None, such names are numbered on.

    Raises
    ------
    ValueError
        If a name is not known and there is a cure.
    """
    unknown: dict[Hashable, int] = {}
    for column in names:
        for row, name in enumerate(column):
            if name not in known:
                if cure is not None:
                    raise ValueError(f"item {name!r} in row {row} is not known; {cure}")
                unknown.setdefault(name, len(known) + len(unknown))
    numbers = {**known, **unknown}
    first, second = ([numbers[name] for name in column] for column in names)
    return np.array([first, second], np.int64).T


def _columns(table: Any) -> dict[str, Any]:
    """Columns of a table by what they mean; none if it has no winner and loser."""
    names = column_names(table)
    if names is None:
        return {}
    plain = [str(name).strip().lower() for name in names]
    if not {"winner", "loser"} <= set(plain):
        if len(plain) == 2:
            return {}
        raise ValueError(
            f"comparisons has the columns {plain}; name those of the items winner and loser"
        )
    wrong = [name for name in plain if name not in _COLUMNS or plain.count(name) > 1]
    if wrong:
        raise ValueError(
            f"comparisons has a column {wrong[0]!r} that is not understood, or twice; there may be "
            f"one each of {_COLUMNS}"
        )
    return {name: table[names[plain.index(name)]] for name in plain}


def _times(time: Any, count: int) -> NDArray[Any] | None:
    if time is None:
        return None
    values = plain_array(time)
    if values.shape != (count,):
        raise ValueError(
            f"time has shape {values.shape}; pass ({count},), a time for each row of comparisons"
        )
    return values


def _weights(weights: Any, count: int) -> NDArray[np.float64] | None:
    if weights is None:
        return None
    values = plain_array(weights)
    if values.shape != (count,) or values.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight has shape {values.shape} and dtype {values.dtype}; pass ({count},), a "
            "number for each row of comparisons"
        )
    usable = (values >= 0) & (values < np.inf)
    if not usable.all():
        row = int(np.argmin(usable))
        raise ValueError(
            f"sample_weight is {values[row]} in row {row}; pass finite numbers from zero on"
        )
    return values.astype(np.float64)
