"""What a ranker is given: comparisons or orders, and what is known of the items, as one log."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import column_names, unmasked
from bayesrank.datasets import ComparisonData, OrderEvents, ScoreTable
from bayesrank.datasets.counted import is_counted
from bayesrank.estimators.columns import in_order, read_columns, recognised
from bayesrank.estimators.item_tables import id_list, read_item_table
from bayesrank.solvers.comparisons.terms import read_weights

Array = NDArray[np.float64]

_EACH = ":category"


def read_log(source: Any, given: Mapping[str, Any], items: Any, features: Any) -> ComparisonData:
    """Comparisons or orders of `source`, with the features of the items.

    `given` has arguments of `fit`; `items` and `features` are options of the ranker.
    """
    named, rest = covariate_names(given["covariates"])
    if named and not isinstance(source, str) and is_counted(source):
        source, given, named = recognised(source, given, named), {**given, "covariates": rest}, ()
    if named:
        return with_covariates(
            read_log(source, {**given, "covariates": rest}, items, features), named
        )
    if isinstance(source, ScoreTable):
        source = ComparisonData.of_scores(source)
    if not isinstance(source, ComparisonData):
        names, table = _items(items, features)
        _refuse_one(names)
        rows = _rows(source)
        if rows is not None and _are_orders(rows):
            data = _ordered(rows, given, names, features is not None)
        else:
            where = "items" if table is None else "item_features"
            whole = source if rows is None else rows
            data = read_columns(whole, names, given, f"add it to {where}")
        if data.scores is not None:
            return data  # the ranker refuses items and features
        if data.orders is None or names is None or list(data.names) == names:
            _refuse_one(data.names)
            return replace(data, features=table)
        source = data  # a table of orders, which names its items
    data = read_columns(source, None, given)
    if features is not None:
        raise ValueError("comparisons has its features; leave item_features out")
    if items is not None and list(items) != list(data.names):
        raise ValueError("comparisons names its items, and items names others; leave items out")
    _refuse_one(data.names)
    return data


def covariate_names(covariates: Any) -> tuple[Sequence[str], Any]:
    """Covariates that are names of what a table says of both sides, and all others."""
    listed = isinstance(covariates, list | tuple) and len(covariates) > 0
    if listed and all(isinstance(name, str) for name in covariates):
        return covariates, None
    return (), covariates


def with_covariates(data: ComparisonData, names: Sequence[str]) -> ComparisonData:
    """Use what a table says of both sides, as ``length_a`` and ``length_b``, by its name."""
    found = [name.removesuffix(_EACH) for name in names]
    unknown = next((name for name in found if name not in data.contrasts), None)
    if unknown is not None:
        known = ", ".join(data.contrasts) or "nothing"
        raise ValueError(
            f"covariates names {unknown!r}; the comparisons have numbers of both sides of: {known}"
        )
    gaps = np.stack([data.contrasts[name] for name in found], axis=1)
    rest = {name: gap for name, gap in data.contrasts.items() if name not in found}
    return replace(data, covariates=gaps, covariate_names=tuple(names), contrasts=rest)


def in_units(data: ComparisonData) -> tuple[dict[str, float], ComparisonData]:
    """The unit of each covariate, the root mean square of its differences, and data in these."""
    if data.covariates is None:
        return {}, data
    units = np.sqrt(np.average(data.covariates**2, axis=0, weights=data.weights))
    if not units.all():
        name = data.covariate_names[int(np.argmin(units))]
        raise ValueError(f"covariate {name!r} is the same for both sides in all rows; leave it out")
    found, which = in_categories(replace(data, covariates=data.covariates / units))
    return dict(zip(found.covariate_names, units[which].tolist(), strict=True)), found


def in_categories(data: ComparisonData) -> tuple[ComparisonData, list[int]]:
    """Covariates such as ``length:category`` in each category apart, and which each column was.

    The effect of ``length in code`` is that of length in the category ``code``.
    """
    names, columns, which = [], [], []
    seen = [name.removesuffix(_EACH) for name in data.covariate_names]
    for number, name in enumerate(data.covariate_names):
        gaps: Any = None if data.covariates is None else data.covariates[:, number]
        base = seen[number]
        if seen.count(base) > 1:
            raise ValueError(f"covariates names {base!r} twice; keep one of them")
        if name == base:
            apart = {name: gaps}
        elif data.categories is None or len(data.category_names) == 0:
            raise ValueError(
                f"covariates has {name!r}, and comparisons have no categories; pass category, or "
                f"{base!r} for one effect"
            )
        else:
            apart = {
                f"{base} in {category}": np.where(data.categories == place, gaps, 0.0)
                for place, category in enumerate(data.category_names)
            }
        names += apart
        columns += apart.values()
        which += [number] * len(apart)
    if not names or names == list(data.covariate_names):
        return data, which
    more = np.stack(columns, axis=1)
    return replace(data, covariates=more, covariate_names=tuple(names)), which


def _items(items: Any, features: Any) -> tuple[list[Hashable] | None, Array | None]:
    """Names of all items and their features, where `items` or `features` say them."""
    named = None if items is None else id_list(items, "items")
    if named is not None and len(set(named)) < len(named):
        again = next(name for name in named if named.count(name) > 1)
        raise ValueError(f"items names {again!r} twice; keep one of them")
    if features is None:
        return named, None
    table = read_item_table(features)
    names = list(table.items)
    if named is None:
        return names, table.values
    if len(named) != len(names):
        raise ValueError(f"items names {len(named)}, but item_features has {len(names)} rows")
    if names != list(range(len(names))):
        return named, table.rows(named)
    return named, table.values


def _refuse_one(names: Sequence[Hashable] | None) -> None:
    """Refuse one item alone."""
    if names is not None and len(names) < 2:
        raise ValueError(f"there is one item, {names[0]!r}; compare two or more")


def _rows(source: Any) -> list[Any] | None:
    """Rows of a list or of what can be gone through once; None of tables, arrays and texts."""
    text = isinstance(source, str | bytes)
    table = hasattr(source, "shape") or column_names(source) is not None
    if table or (not text and is_counted(source)):
        return None
    if text or isinstance(source, Mapping) or not np.iterable(source):
        raise ValueError(
            f"comparisons is a {type(source).__name__}; pass a table, pairs (winner, loser), or "
            "orders, each a list of names, best first"
        )
    return [
        row if isinstance(row, str | bytes) or not np.iterable(row) else [*unmasked(row)]
        for row in source
    ]


def _are_orders(rows: list[Any]) -> bool:
    """Whether rows of names are orders: one of them has another length than two, or a group."""
    lists = [row for row in rows if isinstance(row, list)]
    if any(len(row) != 2 for row in lists):
        return True
    if any(isinstance(cell, list | set | frozenset | np.ndarray) for row in lists for cell in row):
        return True
    for number, row in enumerate(rows):
        if isinstance(row, list) and len({isinstance(cell, tuple) for cell in row}) > 1:
            raise ValueError(
                f"comparisons has {tuple(row)!r} in row {number}, a choice or a pair; write a "
                "group of items as a list"
            )
    return False


def _ordered(
    rows: list[Any], given: Mapping[str, Any], known: list[Hashable] | None, with_features: bool
) -> ComparisonData:
    """Orders by the numbers of their items."""
    for name, value in given.items():
        if value is not None and name != "sample_weight":
            raise ValueError(
                f"{name} goes with comparisons of two, and there are orders; leave it out"
            )
    said = [_groups(number, row) for number, row in enumerate(rows)]
    named = dict.fromkeys(name for order in said for group in order for name in group)
    names = in_order(list(named)) if known is None else known
    number = {name: place for place, name in enumerate(names)}
    unknown = next((name for name in named if name not in number), None)
    if unknown is not None:
        where = "item_features" if with_features else "items"
        raise ValueError(
            f"orders name {unknown!r}, which is not among the items; add it to {where}"
        )
    weights = given["sample_weight"]
    counts = np.ones(len(said), int) if weights is None else _counts(weights, len(said))
    groups = tuple(tuple(tuple(number[n] for n in group) for group in order) for order in said)
    whole: Any = tuple(names)
    none = np.zeros((0, 2), np.int64)
    return ComparisonData(whole, none, none[:, 0] > 0, orders=OrderEvents(groups, counts))


def _groups(row: int, order: Any) -> list[list[Hashable]]:
    """Names of each group of an order; refuse anything but names."""
    if not isinstance(order, list):
        raise ValueError(f"orders have {order!r} in row {row}; pass a list of names, best first")
    where = f"the order in row {row}"
    groups = [id_list(_group(group), where) for group in unmasked(order)]
    names = [name for group in groups for name in group]
    if not names:
        raise ValueError(f"{where} has no names; pass a list of names, best first")
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where} names {twice!r} twice; keep one of them")
    if len({isinstance(name, str) for name in names}) > 1:
        raise ValueError(
            f"{where} mixes texts and numbers, {names!r}; how often it counts belongs in "
            "sample_weight"
        )
    return groups


def _group(group: Any) -> list[Any]:
    """Names of a group, of which a name by itself is one."""
    many = isinstance(group, list | tuple | set | frozenset | np.ndarray)
    return list(group) if many else [group]


def _counts(weights: Any, count: int) -> NDArray[np.int64]:
    """How many people gave each order, shape (N,)."""
    counts = read_weights(weights, count)
    odd = (counts < 1) | (counts % 1 != 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(
            f"sample_weight is {counts[row]:g} in row {row}; pass how many people gave the order, "
            "a whole number from 1 on"
        )
    return counts.astype(np.int64)
