"""Rankings and relevant sets of labels by name, read into the numbers of the program."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import column_names, missing, plain_array
from bayesrank.estimators.collaborative_data import id_list

__all__ = ["LabelTargets", "read_targets"]

_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)


class LabelTargets(NamedTuple):
    """What is said of examples, in numbers; see `bayesrank.models.label_ranking.conditions`.

    Attributes
    ----------
    labels
        Names of the labels.
    rankings
        Orders of each example, if any.
    relevant
        1, 0 or -1 of each label in each example, shape (n, c), if any.
    """

    labels: list[Hashable]
    rankings: list[Any] | None
    relevant: NDArray[np.int64] | None


def read_targets(
    rankings: Any, relevant: Any, labels: Sequence[Hashable] | None, count: int
) -> LabelTargets:
    """Read targets of so many examples.

    Raises
    ------
    ValueError
        If there are not so many, a label is not known or said twice, or one is both relevant and
        irrelevant.
    """
    if rankings is None and relevant is None:
        raise ValueError("rankings and relevant are missing; pass one of them, or both")
    orders = None if rankings is None else _orders(rankings)
    sets = None if relevant is None else _sets(relevant, labels)
    for name, rows in (("rankings", orders), ("relevant", sets)):
        if rows is not None and len(rows) != count:
            raise ValueError(
                f"{name} has {len(rows)} entries, but X has {count} rows; pass one for each, None "
                "where nothing is said"
            )
    named = [name for order in orders or [] for name in _named(order)]
    named += [name for pair in sets or [] if pair is not None for part in pair for name in part]
    known = _labels(labels, named, [table for table in (rankings, relevant) if table is not None])
    number = {name: place for place, name in enumerate(known)}
    unknown = next((name for name in named if name not in number), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is not among the labels; add it, or leave it out")
    found = None if sets is None else _table(sets, number)
    return LabelTargets(
        known, None if orders is None else [_numbers(o, number) for o in orders], found
    )


def _labels(
    labels: Sequence[Hashable] | None, named: list[Hashable], tables: list[Any]
) -> list[Hashable]:
    """Those given, else a table's columns, else all that are named, sorted."""
    columns = [names for names in map(column_names, tables) if names is not None]
    if labels is not None:
        known = id_list(labels, "labels")
    elif columns:
        known = list(dict.fromkeys(name for names in columns for name in names))
    else:
        known = sorted(set(named), key=lambda name: (isinstance(name, str), name))
    if len(set(known)) < len(known) or len(known) < 2:
        raise ValueError(f"labels are {known}; there must be two or more, each named once")
    return known


def _orders(rankings: Any) -> list[Any]:
    names = column_names(rankings)
    if names is None:
        return [None if _nothing(order) else order for order in rankings]
    table = plain_array(rankings)
    if table.dtype.kind not in "biuf":
        raise ValueError("rankings is a table with cells that are no ranks; give numbers, 1 best")
    return [_by_ranks(names, row.astype(float)) for row in table]


def _by_ranks(names: list[Hashable], row: NDArray[np.float64]) -> list[Any]:
    """Groups of labels of equal rank, best first; a label without a rank is left out."""
    ranks = np.unique(row[~np.isnan(row)])
    return [[names[place] for place in np.flatnonzero(row == rank)] for rank in ranks]


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and missing(value))


def _named(order: Any) -> list[Hashable]:
    """Labels of an order or of a set of pairs."""
    if order is None:
        return []
    if isinstance(order, str) or not isinstance(order, Iterable):
        raise ValueError(f"rankings has {order!r} as an entry; pass a list of labels, best first")
    if isinstance(order, Set):
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in order):
            raise ValueError(
                f"rankings has the set {order!r}, which is not one of pairs (better, worse); pass "
                "a list for an order"
            )
        return [name for pair in order for name in pair]
    return [name for group in order for name in _group(group)]


def _group(group: Any) -> list[Hashable]:
    return [_plain(x) for x in group] if isinstance(group, _COLLECTIONS) else [_plain(group)]


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _numbers(order: Any, number: dict[Hashable, int]) -> Any:
    if order is None:
        return None
    if isinstance(order, Set):
        return {(number[better], number[worse]) for better, worse in order}
    return [[number[name] for name in _group(group)] for group in order]


def _sets(relevant: Any, labels: Sequence[Hashable] | None) -> list[Any]:
    """Relevant and irrelevant labels of each example; those that are None are all the others."""
    names = column_names(relevant)
    array = plain_array(relevant) if names is not None or isinstance(relevant, np.ndarray) else None
    if array is not None and array.ndim == 2 and array.dtype.kind in "biuf":
        if names is None:
            names = list(range(array.shape[1]) if labels is None else labels)
        if len(names) != array.shape[1]:
            raise ValueError(f"relevant has {array.shape[1]} columns for {len(names)} labels")
        return [_by_flags(names, row.astype(float)) for row in array]
    if names is not None:
        raise ValueError("relevant is a table with cells other than 0, 1 or nothing; mend them")
    return [_pair(entry) for entry in relevant]


def _by_flags(names: Sequence[Any], row: NDArray[np.float64]) -> tuple[list, list]:
    strange = ~np.isnan(row) & (row != 0) & (row != 1)
    if strange.any():
        raise ValueError(
            f"relevant is {row[strange][0]:g} for {names[int(np.argmax(strange))]!r}; pass 1 for "
            "relevant, 0 for irrelevant, NaN for unknown"
        )
    chosen = [names[int(place)] for place in np.flatnonzero(row == 1)]
    return chosen, [names[int(place)] for place in np.flatnonzero(row == 0)]


def _pair(entry: Any) -> Any:
    if _nothing(entry):
        return None
    if isinstance(entry, str) or not isinstance(entry, Iterable):
        raise ValueError(f"relevant has {entry!r} as an entry; pass a list of labels")
    both = isinstance(entry, tuple) and len(entry) == 2
    if both and all(isinstance(part, list | set | frozenset) for part in entry):
        chosen, rest = ([_plain(name) for name in part] for part in entry)
        shared = [name for name in chosen if name in rest]
        if shared:
            raise ValueError(f"relevant says of {shared[0]!r} that it is, and that it is not")
        return chosen, rest
    chosen = [_plain(name) for name in entry]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"relevant names a label twice in {chosen}; name it once")
    return chosen, _Others()


class _Others(tuple):
    """Stands for all labels that are not named."""

    __slots__ = ()


def _table(sets: list[Any], number: dict[Hashable, int]) -> NDArray[np.int64]:
    table = np.full((len(sets), len(number)), -1)
    for row, pair in zip(table, sets, strict=True):
        if pair is None:
            continue
        chosen, rest = pair
        if isinstance(rest, _Others):
            row[:] = 0
        row[[number[name] for name in rest]] = 0
        row[[number[name] for name in chosen]] = 1
    return table
