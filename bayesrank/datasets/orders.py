"""Orders written in one cell each: ``a > b = c``, a list ``a|b|c``, or a JSON list.

``>`` stands between groups, best first, and ``=`` or ``~`` between the items of one group. In a
column without these, bars, semicolons or commas stand between items, best first. In a JSON list, a
list within the list is a group. Items of a group, and those that an order leaves out, are not
compared, as in PrefLib's files. A top-k list is an order of k items before one group of the rest.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesrank._memory import check_memory
from bayesrank._names import first_spellings
from bayesrank.datasets import cells
from bayesrank.datasets.data import ComparisonData, OrderEvents
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.items import Items
from bayesrank.datasets.preflib import NamedOrder, Order
from bayesrank.datasets.table import Column, Table

_SAME = re.compile(r"[=~]")


def read_order_cells(table: Table, column: Column) -> tuple[list[NamedOrder], tuple[str, ...]]:
    """Names of the items of each distinct order, group by group, best first, and what to say."""
    orders = []
    between = _between(column.values)
    for cell in column.values:
        groups = _groups(cell, between)
        if groups is None or not all(name for group in groups for name in group):
            problem, fix = f"{cell[:60]!r} is not an order", "write it as a > b = c, best first"
            raise table.error(problem, fix, column, column.holds(cell))
        orders.append(groups)
    names = dict.fromkeys(name for groups in orders for group in groups for name in group)
    for name in names:
        if {"<", "→", "≻", "\n"} & {*name} or "&gt" in name or name.endswith("-"):
            where = np.array([name in cell for cell in column.values])[column.codes]
            fix = "write it as a > b > c, the best first"
            raise table.error(
                f"{cells.quoted(name)} is not an item of an order", fix, column, where
            )
        parts = [part.strip() for part in re.split("[,;]", name)]
        if len(parts) > 1 and names.keys() >= set(parts):
            where = np.array([name in cell for cell in column.values])[column.codes]
            fix = "write a = b where two are not compared, and a > b where one is better"
            raise table.error(f"{name!r} may be one item or {len(parts)}", fix, column, where)
    note = f"Items between {between!r} in {column.name!r} are orders, the best first."
    return orders, (note,) * (between != ">")


def _between(cells: tuple[str, ...]) -> str:
    """What stands between the items of all orders."""
    if any(">" in cell or cell.startswith("[") for cell in cells):
        return ">"
    return next((each for each in "|;," if any(each in cell for cell in cells)), ">")


def _groups(cell: str, between: str) -> NamedOrder | None:
    if between != ">":
        return tuple((name.strip(),) for name in cell.rstrip(f"{between} ").split(between))
    if not cell.startswith("["):
        if "|" in cell and ">" in cell:  # do bars say that two are alike, or not compared?
            return None
        return tuple(
            tuple(name.strip() for name in _SAME.split(group)) for group in cell.split(">")
        )
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    if not value:
        return None
    return tuple(tuple(map(_text, g)) if isinstance(g, list) else (_text(g),) for g in value)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value)


def implied(
    path: Path, names: Sequence[str], orders: list[Order], known: Items | None, fold: bool = False
) -> ComparisonData:
    """Comparisons that orders imply; with `fold`, names that are alike are the first of them."""
    spelled, index = _places(path, names if known is None else known.names, orders, known, fold)
    count = sum(_num_pairs(order.groups) for order in orders)
    check_memory(  # two copies are made of them
        32 * count,
        f"{path}: its orders make {count:,} comparisons, which",
        "give fewer orders",
    )
    numbered = [
        tuple(tuple(index[spelled[name]] for name in group) for group in order.groups)
        for order in orders
    ]
    blocks = [np.array([*_pairs(groups)], np.int64).reshape(-1, 2) for groups in numbered]
    weights = np.repeat([float(order.voters) for order in orders], [*map(len, blocks)])
    comparisons = np.concatenate(blocks)[weights > 0]
    if not len(comparisons):
        raise DataError(path, "no order puts one item above another", "write them as a > b > c")
    said = [
        (order.voters, groups)
        for order, groups in zip(orders, numbered, strict=True)
        if len(groups) > 1 and order.voters
    ]
    voters, groups = zip(*said, strict=True)
    return ComparisonData(
        tuple(index),
        comparisons,
        np.zeros(len(comparisons), bool),
        None if known is None else known.features,
        () if known is None else known.feature_names,
        weights=weights[weights > 0] if (weights != 1).any() else None,
        orders=OrderEvents(groups, np.array(voters, np.int64)),
    )


def _places(
    path: Path, names: Sequence[str], orders: list[Order], known: Items | None, fold: bool
) -> tuple[Any, dict[str, int]]:
    """How each name is spelled, and the numbers of the items, each once in an order."""
    said = [(order.row, [n for group in order.groups for n in group]) for order in orders]
    spelled = {name: name for name in (*names, *(n for _, own in said for n in own))}
    spelled = first_spellings(spelled) if fold else spelled
    index = {name: i for i, name in enumerate(dict.fromkeys(spelled[name] for name in names))}
    for row, own in said:
        one = [spelled[name] for name in own]
        twice = next((name for name in one if one.count(name) > 1), None)
        if twice is not None:
            problem = f"item {twice!r} is in the order twice"
            raise DataError(path, problem, "correct the order", row=row)
        unknown = next((name for name in one if name not in index), None)
        if unknown is not None and known is not None:
            raise known.unknown(unknown, path, row)
    return spelled, index


def _num_pairs(order: NamedOrder) -> int:
    sizes = [len(group) for group in order]
    return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2


def _pairs(order: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int, int]]:
    """(winner, loser) of every pair of items in different groups."""
    for place, group in enumerate(order):
        for worse in order[place + 1 :]:
            yield from ((winner, loser) for winner in group for loser in worse)
