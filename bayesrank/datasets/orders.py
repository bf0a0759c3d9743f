"""Orders written in one cell each: ``a > b = c``, a list ``a|b|c``, or a JSON list.

``>`` stands between groups, best first, and ``=`` or ``~`` between the items of one group. In a
column without these, bars, semicolons or commas stand between items, best first. In a JSON list, a
list within the list is a group. Items of a group, and those that an order leaves out, are not
compared, as in PrefLib's files. A top-k list is an order of k items before one group of the rest.

PrefLib's files of orders (.soc, .soi, .toc, .toi) and those of the SUSHI data (.order) are read as
well. An order is one event, whose items all perform once: `bayesrank.models.orders`. It says
nothing of the items of a tied group (``{4,7}``), which in these files often means "not ranked" and
not "judged equal". The pairs that orders imply are not independent: a posterior that took them for
separate judgements would be far too certain.

References
----------
N. Mattei and T. Walsh, "PrefLib: a library for preferences", Algorithmic Decision Theory, 2013;
the format is described at https://preflib.github.io/PrefLib-Jekyll/format.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesrank._memory import check_memory
from bayesrank._names import first_spellings
from bayesrank.datasets.cells import quoted
from bayesrank.datasets.data import ComparisonData, OrderEvents
from bayesrank.datasets.doubts import NO_TEAMS, first_team
from bayesrank.datasets.errors import DataError, tell
from bayesrank.datasets.items import Items
from bayesrank.datasets.table import Column, Table
from bayesrank.datasets.text import read_text

SUFFIXES = (".soc", ".soi", ".toc", ".toi", ".order")

_NAME = re.compile(r"#\s*ALTERNATIVE NAME ([0-9]+)\s*:(.*)", re.IGNORECASE)
_COUNT = re.compile(r"#\s*NUMBER (ALTERNATIVES|VOTERS|UNIQUE ORDERS)\s*:(.*)", re.IGNORECASE)
_GROUPS = r"(?:[0-9]+|\{[0-9]+(?:,[0-9]+)*\})"
_ORDER = re.compile(rf"([0-9]+):({_GROUPS}(?:,{_GROUPS})*)")
_GROUP = re.compile(r"\{([0-9,]+)\}|([0-9]+)")
_LONGEST = 15  # digits of a number

NamedOrder = tuple[tuple[str, ...], ...]  # names, best group first


class Order(NamedTuple):
    """One distinct order of a file."""

    row: int
    voters: int  #: number of voters who gave it
    groups: NamedOrder


class _Line(NamedTuple):
    """A line of a file, and where it stands."""

    path: Path
    row: int
    text: str

    def error(self, problem: str, fix: str) -> DataError:
        return DataError(self.path, problem, fix, row=self.row)

    def number(self, text: str) -> int:
        """A whole number of the line."""
        if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
            raise self.error(f"{quoted(text)} is not a count or number", "correct it")
        return int(text)


def read_orders(path: Path) -> tuple[tuple[str, ...], list[Order]]:
    """Names of the alternatives, and the orders, of a PrefLib file."""
    if path.suffix.lower() == ".order":
        orders = [_numbered(line) for line in _lines(path) if line.row > 1]
        names = tuple(dict.fromkeys(name for order in orders for (name,) in order.groups))
    else:
        names, orders = _read_preflib(path)
    if not orders:
        raise DataError(path, "there is a header but no order below it", "add the data")
    return names, orders


def _lines(path: Path) -> Iterator[_Line]:
    """Lines that are not blank."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    return (_Line(path, row, text.strip()) for row, text in lines if text.strip())


def _numbered(line: _Line) -> Order:
    """An order of the SUSHI data: a set, how many items, and their numbers."""
    count, *items = (line.number(field) for field in line.text.split()[1:] or ("?",))
    if count != len(items) or not items:
        problem = f"{quoted(line.text)} is not an order of {count} items"
        raise line.error(problem, "write 0 3 5 0 9 for items 5, 0 and 9")
    return Order(line.row, 1, tuple((str(item),) for item in items))


def _read_preflib(path: Path) -> tuple[tuple[str, ...], list[Order]]:
    names: dict[int, str] = {}
    promised: dict[str, tuple[int, _Line]] = {}
    orders: list[Order] = []
    unnamed: set[int] = set()
    for line in _lines(path):
        if not line.text.startswith("#"):
            most = promised["alternatives"][0] if "alternatives" in promised else 0
            orders.append(_read_order(line, names, most, unnamed))
            continue
        _read_name(line, names)
        match = _COUNT.match(line.text)
        if match is not None:
            promised[match[1].lower()] = line.number(match[2].strip()), line
    _refuse_incomplete(path, names, orders)
    if unnamed:
        tell(f"{path.name} names {len(unnamed):,} alternatives by their numbers alone.")
        del promised["alternatives"]
    voters = sum(order.voters for order in orders)
    held = {"alternatives": len(names), "voters": voters, "unique orders": len(orders)}
    for what, (count, line) in promised.items() if orders else ():
        if count not in (0, held[what]):  # PrefLib's own tools write 0 where they did not count
            problem = f"the header promises {count:,} {what}, and the file holds {held[what]:,}"
            raise line.error(problem, "see whether it is whole, or correct the header")
    return tuple(names.values()), orders


def _refuse_incomplete(path: Path, names: dict[int, str], orders: list[Order]) -> None:
    """Refuse orders that leave out alternatives in a file whose ending says that none does."""
    for order in orders if path.suffix.lower() in (".soc", ".toc") else ():
        left = len(names) - sum(map(len, order.groups))
        if left:
            problem = f"the order leaves out {left:,} of {len(names):,} alternatives"
            fix = f"let the file's name end in {path.suffix[:-1]}i, for incomplete orders"
            raise DataError(path, problem, fix, row=order.row)


def _read_name(line: _Line, names: dict[int, str]) -> None:
    match = _NAME.match(line.text)
    if match is None:
        return
    number, name = line.number(match[1]), match[2].strip()
    if not name:
        raise line.error(f"the name of alternative {number} is empty", "name it in the header")
    if number in names or name in names.values():
        raise line.error(f"alternative {number} ({name!r}) is named twice", "remove one")
    names[number] = name


def _read_order(line: _Line, names: dict[int, str], most: int, unnamed: set[int]) -> Order:
    """An order; of the first `most` alternatives, those without a name go by their numbers."""
    if not names and not most:
        fix = "download the file again: PrefLib's old format, without it, is not read"
        raise line.error("no line '# ALTERNATIVE NAME 1: ...' stands above the orders", fix)
    match = _ORDER.fullmatch("".join(line.text.split()))
    if match is None:
        raise line.error(f"{line.text[:40]!r} is not an order", "write it as 2: 3,1,{4,5}")
    groups = [
        [line.number(number) for number in (tied or single).split(",")]
        for tied, single in _GROUP.findall(match[2])
    ]
    for number in (number for group in groups for number in group):
        if number not in names and 0 < number <= most and str(number) not in names.values():
            names[number] = str(number)
            unnamed.add(number)
        if number not in names:
            raise line.error(f"alternative {number} has no name", "name it in the header")
    named = tuple(tuple(names[number] for number in group) for group in groups)
    return Order(line.row, line.number(match[1]), named)


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
            raise table.error(f"{quoted(name)} is not an item of an order", fix, column, where)
        parts = [part.strip() for part in re.split("[,;]", name)]
        if len(parts) > 1 and names.keys() >= set(parts):
            where = np.array([name in cell for cell in column.values])[column.codes]
            fix = "write a = b where two are not compared, and a > b where one is better"
            raise table.error(f"{name!r} may be one item or {len(parts)}", fix, column, where)
    team = first_team(names)
    if team is not None:
        where = np.array([team in cell for cell in column.values])[column.codes]
        raise table.error(f"{quoted(team)} is more than one item", NO_TEAMS, column, where)
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
