"""Rankings and relevant sets of labels by name, read into the numbers of the program."""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import column_names, missing, no_rank, plain_array
from bayesrank.estimators.item_tables import id_list

__all__ = ["LabelTargets", "read_targets"]

_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)


class LabelTargets(NamedTuple):
    """Targets of n examples as numbers, for `label_ranking.conditions`."""

    labels: list[Hashable]  # names of the c labels
    rankings: list[Any] | None  # orders of each example, if any
    relevant: NDArray[np.int64] | None  # 1, 0 or -1, shape (n, c), if any


def read_targets(
    X: Any, rankings: Any, relevant: Any, labels: Sequence[Hashable] | None
) -> LabelTargets:
    """Read targets of the examples whose features are `X`."""
    if rankings is None and relevant is None:
        raise ValueError("rankings and relevant are missing; pass one of them, or both")
    for argument, table in (("rankings", rankings), ("relevant", relevant)):
        _refuse_twice(argument, column_names(table) or [])
        _refuse_other_order(argument, table, X)
    columns = _columns(rankings, relevant) if labels is None else []
    orders = None if rankings is None else _orders(rankings)
    sets = None if relevant is None else _sets(relevant, labels)
    for name, rows in (("rankings", orders), ("relevant", sets)):
        if rows is not None and len(rows) != len(X):
            raise ValueError(
                f"{name} has {len(rows)} entries, but X has {len(X)} rows; pass one for each, None "
                "where nothing is said"
            )
    ranked = [name for order in orders or [] for part in order or [] for name in part]
    chosen = [name for pair in sets or [] for part in pair or [] for name in part or []]
    if labels is None and not columns:
        _refuse_numbers("rankings", ranked)
        _refuse_numbers("relevant", chosen)
    named = ranked + chosen
    known = _labels(labels, named, columns)
    number = {name: place for place, name in enumerate(known)}
    unknown = next((name for name in named if name not in number), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is not among the labels; add it, or leave it out")
    numbered = None if orders is None else [_numbers(order, number) for order in orders]
    return LabelTargets(known, numbered, None if sets is None else _table(sets, number))


def _columns(rankings: Any, relevant: Any) -> list[Hashable]:
    """Labels that columns stand for: those of tables, or the numbers of an array's."""
    ranked, flagged = column_names(rankings), column_names(relevant)
    if flagged is None and _is_flags(relevant):
        if ranked is not None:
            raise ValueError(
                "relevant is an array whose columns have no names, and rankings a table whose "
                "columns have; pass relevant as a DataFrame, or labels=[...] in its order"
            )
        flagged = list(range(relevant.shape[1]))
    return list(dict.fromkeys([*(ranked or []), *(flagged or [])]))


def _refuse_twice(argument: str, columns: list[Hashable]) -> None:
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{argument} has two columns {twice!r}; give each label one column")


def _refuse_numbers(argument: str, named: list[Hashable]) -> None:
    """Refuse numbers as labels: they may be ranks, or zeros and ones."""
    number = next((name for name in named if isinstance(name, Real | np.bool)), None)
    if number is not None:
        others = {
            "rankings": "for ranks pass a DataFrame with a column for each label",
            "relevant": "for 1 and 0 pass an array or a DataFrame",
        }
        raise ValueError(
            f"{argument} has the number {number} where a label is expected; if labels are numbers, "
            f"name them all in labels=[...]; {others[argument]}"
        )


def _refuse_other_order(argument: str, table: Any, X: Any) -> None:
    """Rows go by their places: pandas' names of rows must not say otherwise."""
    here, there = (cast(Any, getattr(each, "index", None)) for each in (table, X))
    if not (hasattr(here, "equals") and hasattr(there, "equals")) or here.equals(there):
        return
    if len(here) == len(there) and set(here) == set(there):
        raise ValueError(
            f"{argument} has the rows of X in another order, by their index; put them in one order "
            f"by {argument}.loc[X.index]"
        )


def _labels(
    labels: Sequence[Hashable] | None, named: list[Hashable], columns: list[Hashable]
) -> list[Hashable]:
    """Those given, else a table's columns, else all that are named, sorted."""
    if labels is not None:
        known = id_list(labels, "labels")
    elif columns:
        known = columns
    else:
        known = sorted(set(named), key=lambda name: (isinstance(name, str), name))
    if len(set(known)) < len(known) or len(known) < 2:
        raise ValueError(f"labels are {known}; there must be two or more, each named once")
    return known


def _orders(rankings: Any) -> list[Any]:
    names = column_names(rankings)
    if names is None:
        kind = getattr(getattr(rankings, "dtype", None), "kind", "O")
        if kind in "biufc" and np.ndim(rankings) == 2:
            raise ValueError(
                "rankings is an array of numbers, which may be ranks or labels; pass ranks as a "
                "DataFrame with a column for each label, and orders as lists of labels"
            )
        return [_order(order) for order in rankings]
    table = plain_array(rankings)
    if table.dtype.kind not in "iuf":
        raise ValueError("rankings is a table with cells that are not ranks; give numbers, 1 best")
    table = table.astype(float)
    wrong = no_rank(table)
    if wrong is not None:
        raise ValueError(
            f"rankings has the rank {table[wrong]:g} for {names[wrong[1]]!r} in row {wrong[0]}; "
            f"ranks go from 1, the best, to {len(names)}, the number of columns"
        )
    return [_by_ranks(names, row) for row in table]


def _by_ranks(names: list[Hashable], row: NDArray[np.float64]) -> list[Any]:
    """Groups of labels of equal rank, best first; a label without a rank is left out."""
    ranks = np.unique(row[~np.isnan(row)])
    return [[names[place] for place in np.flatnonzero(row == rank)] for rank in ranks]


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and missing(value))


def _order(order: Any) -> Any:
    """An order as groups of labels, best first, a set of pairs as it is; None says nothing."""
    if _nothing(order):
        return None
    if isinstance(order, str | Mapping) or not isinstance(order, Iterable):
        raise ValueError(f"rankings has {order!r} as an entry; pass a list of labels, best first")
    if not isinstance(order, Set):
        return [_group(group) for group in order]
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in order):
        raise ValueError(
            f"rankings has the set {order!r}, which is not one of pairs (better, worse); pass a "
            "list for an order"
        )
    return order


def _group(group: Any) -> list[Hashable]:
    return [_plain(x) for x in group] if isinstance(group, _COLLECTIONS) else [_plain(group)]


def _plain(name: Any) -> Any:
    value = name.item() if isinstance(name, np.generic) else name
    if missing(value) or not isinstance(value, Hashable):
        raise ValueError(f"{value!r} is not a label; name labels by texts or numbers")
    return value


def _numbers(order: Any, number: dict[Hashable, int]) -> Any:
    if order is None:
        return None
    parts = [tuple(number[name] for name in part) for part in order]
    return set(parts) if isinstance(order, Set) else parts


def _sets(relevant: Any, labels: Sequence[Hashable] | None) -> list[Any]:
    """Relevant and irrelevant labels of each example; irrelevant ones of None are all others."""
    names = column_names(relevant)
    array = plain_array(relevant) if names is not None or _is_flags(relevant) else None
    if array is not None and array.dtype.kind in "biuf":
        if names is None:
            names = list(range(array.shape[1]) if labels is None else labels)
        if len(names) != array.shape[1]:
            raise ValueError(f"relevant has {array.shape[1]} columns for {len(names)} labels")
        return [_by_flags(names, row.astype(float)) for row in array]
    if names is not None:
        raise ValueError("relevant is a table with cells other than 0, 1 or nothing; fix them")
    return [_pair(entry) for entry in relevant]


def _is_flags(relevant: Any) -> bool:
    """Whether it is an array of numbers with a column for each label."""
    return (
        isinstance(relevant, np.ndarray)
        and relevant.ndim == 2
        and plain_array(relevant).dtype.kind in "biuf"
    )


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
    if isinstance(entry, str | Mapping) or not isinstance(entry, Iterable):
        raise ValueError(f"relevant has {entry!r} as an entry; pass a list of labels")
    both = isinstance(entry, tuple) and len(entry) == 2
    if both and all(isinstance(part, list | set | frozenset) for part in entry):
        chosen, rest = ([_plain(name) for name in part] for part in entry)
        shared = [name for name in chosen if name in rest]
        if shared:
            raise ValueError(f"relevant has {shared[0]!r} on both sides; keep one")
        return chosen, rest
    chosen = [_plain(name) for name in entry]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"relevant names a label twice in {chosen}; name it once")
    return chosen, None


def _table(sets: list[Any], number: dict[Hashable, int]) -> NDArray[np.int64]:
    table = np.full((len(sets), len(number)), -1)
    for row, pair in zip(table, sets, strict=True):
        if pair is None:
            continue
        chosen, rest = pair
        row[slice(None) if rest is None else [number[name] for name in rest]] = 0
        row[[number[name] for name in chosen]] = 1
    return table


def named_array(labels: list[Any]) -> NDArray[Any]:
    """Names as an array, of objects unless all are of one type."""
    kinds = {type(name) for name in labels}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(labels)
    array = np.empty(len(labels), object)
    array[:] = labels
    return array
