"""PrefLib's files of orders (.soc, .soi, .toc, .toi), and those of the SUSHI data (.order).

An order is one event, whose items all perform once: `bayesrank.models.orders`. It says nothing of
the items of a tied group (``{4,7}``), which in these files often means "not ranked" and not "judged
equal". Items that an incomplete order leaves out are in no event. The pairs that orders imply, up
to m(m - 1)/2 for m items, are given as well. They are not independent: a posterior that took them
for separate judgements would be far too certain.

References
----------
N. Mattei and T. Walsh, "PrefLib: a library for preferences", Algorithmic Decision Theory, 2013;
the format is described at https://preflib.github.io/PrefLib-Jekyll/format.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bayesrank.datasets.cells import quoted
from bayesrank.datasets.errors import DataError, tell
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
