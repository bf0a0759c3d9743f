"""PrefLib's files of orders (.soc, .soi, .toc, .toi), and those of the SUSHI data (.order).

An order is one event, whose items all perform once: `bayesrank.models.orders`. Two rules follow
from what the format can say:

- of items of one tied group (``{4,7}``) nothing is said, because in these files a group often means
  "not ranked" and not "judged equal";
- items that an incomplete order leaves out are in no event.

The pairs that orders imply are given as well: an order of m items has up to m(m - 1)/2. They are
not independent, and a posterior that took them for separate judgements would be far too certain.

References
----------
N. Mattei and T. Walsh, "PrefLib: a library for preferences", Algorithmic Decision Theory, 2013;
the format is described at https://preflib.github.io/PrefLib-Jekyll/format.
"""

import re
from pathlib import Path
from typing import NamedTuple

from bayesrank.datasets.cells import quoted
from bayesrank.datasets.errors import DataError, tell
from bayesrank.datasets.table import read_text

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


def read_orders(path: str | Path) -> tuple[tuple[str, ...], list[Order]]:
    """Names of the alternatives, and the orders, of a PrefLib file."""
    path = Path(path)
    if path.suffix.lower() == ".order":
        return _read_numbered(path)
    names: dict[int, str] = {}
    unnamed: set[int] = set()
    promised: dict[str, tuple[int, int]] = {}
    orders: list[Order] = []
    for row, line in enumerate(read_text(path).split("\n"), start=1):
        if line.startswith("#"):
            _read_name(path, row, line, names)
            _read_count(path, row, line, promised)
        elif line.strip():
            orders.append(_read_order(path, row, line, names, promised, unnamed))
    if not orders:
        raise DataError(path, "there is a header but no order below it", "add the data")
    _refuse_incomplete(path, names, orders)
    if unnamed:
        tell(f"{path.name} names {len(unnamed):,} alternatives by their numbers alone.")
        del promised["alternatives"]
    held = {
        "alternatives": len(names),
        "voters": sum(order.voters for order in orders),
        "unique orders": len(orders),
    }
    for what, (count, row) in promised.items():
        if count not in (0, held[what]):  # PrefLib's own tools write 0 where they did not count
            raise DataError(
                path,
                f"the header promises {count:,} {what}, and the file holds {held[what]:,}",
                "see whether it is whole, or correct the header",
                row=row,
            )
    return tuple(names.values()), orders


def _read_numbered(path: Path) -> tuple[tuple[str, ...], list[Order]]:
    """Orders of the SUSHI data: in each line a set, how many items, and their numbers."""
    orders = []
    for row, line in enumerate(read_text(path).split("\n"), start=1):
        fields = line.split()
        if row == 1 or not fields:  # how many items and sets there are
            continue
        count, *items = (_whole_number(path, row, field) for field in fields[1:] or ("?",))
        if count != len(items) or len(set(items)) < count or not items:
            problem = f"{quoted(line.strip())} is no order of {count} items"
            raise DataError(path, problem, "write 0 3 5 0 9 for items 5, 0 and 9", row=row)
        orders.append(Order(row, 1, tuple((str(item),) for item in items)))
    if not orders:
        raise DataError(path, "there is no order below the first line", "add the data")
    return tuple(dict.fromkeys(n for o in orders for (n,) in o.groups)), orders


def _refuse_incomplete(path: Path, names: dict[int, str], orders: list[Order]) -> None:
    """Refuse orders that leave out alternatives in a file whose ending says that none does."""
    for order in orders if path.suffix.lower() in (".soc", ".toc") else ():
        left = len(names) - sum(map(len, order.groups))
        if left:
            problem = f"the order leaves out {left:,} of {len(names):,} alternatives"
            cure = f"let the file's name end in {path.suffix[:-1]}i, for incomplete orders"
            raise DataError(path, problem, cure, row=order.row)


def _read_name(path: Path, row: int, line: str, names: dict[int, str]) -> None:
    match = _NAME.match(line)
    if match is None:
        return
    number, name = _whole_number(path, row, match[1]), match[2].strip()
    if not name:
        problem = f"the name of alternative {number} is empty"
        raise DataError(path, problem, "name it in the header", row=row)
    if number in names or name in names.values():
        raise DataError(
            path, f"alternative {number} ({name!r}) is named twice", "remove one", row=row
        )
    names[number] = name


def _read_count(path: Path, row: int, line: str, promised: dict[str, tuple[int, int]]) -> None:
    match = _COUNT.match(line)
    if match is not None:
        promised[match[1].lower()] = _whole_number(path, row, match[2].strip()), row


def _whole_number(path: Path, row: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        raise DataError(path, f"{quoted(text)} is no count or number", "correct it", row=row)
    return int(text)


def _read_order(
    path: Path,
    row: int,
    line: str,
    names: dict[int, str],
    promised: dict[str, tuple[int, int]],
    unnamed: set[int],
) -> Order:
    """An order; alternatives that the header counts and does not name go by their numbers."""
    most = promised.get("alternatives", (0, 0))[0]
    if not names and not most:
        raise DataError(
            path,
            "no line '# ALTERNATIVE NAME 1: ...' stands above the orders",
            "download the file again: PrefLib's old format, without it, is not read",
            row=row,
        )
    match = _ORDER.fullmatch("".join(line.split()))
    if match is None:
        raise DataError(
            path, f"{line.strip()[:40]!r} is not an order", "write it as 2: 3,1,{4,5}", row=row
        )
    groups = [
        [_whole_number(path, row, number) for number in (tied or single).split(",")]
        for tied, single in _GROUP.findall(match[2])
    ]
    seen: set[int] = set()
    for number in (number for group in groups for number in group):
        if number not in names and 0 < number <= most and str(number) not in names.values():
            names[number] = str(number)
            unnamed.add(number)
        if number not in names:
            raise DataError(
                path, f"alternative {number} has no name", "name it in the header", row=row
            )
        if number in seen:
            raise DataError(
                path, f"alternative {number} is in the order twice", "correct the order", row=row
            )
        seen.add(number)
    return Order(
        row,
        _whole_number(path, row, match[1]),
        tuple(tuple(names[n] for n in group) for group in groups),
    )
