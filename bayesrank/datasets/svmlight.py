"""Cells of a line with a level and features; of svmlight, `index:value` between blanks."""

import math
from collections.abc import Iterable

from bayesrank.datasets.cells import finite
from bayesrank.datasets.errors import quoted

# Larger numbers are taken for mistakes: their squares would soon leave double precision's range.
LARGEST = 1e30
_LONGEST = 15  # digits of an index


class BadLine(ValueError):
    """A line cannot be learned from; the message says what is wrong with it."""


def level(text: str, *, least: int = 1, most: float = math.inf, what: str = "level") -> int:
    """A level or grade."""
    value = _number(text, f"the {what}")
    if value != math.floor(value) or not least <= value <= most:
        end = "on" if most == math.inf else f"to {most:,}"
        raise BadLine(f"the {what} is {value:g}, not a whole number from {least} {end}")
    return int(value)


def feature(text: str, index: int) -> float:
    """The value of a feature."""
    value = _number(text, f"feature {index}")
    if abs(value) > LARGEST:
        raise BadLine(f"feature {index} is {text}, larger than {LARGEST:g}")
    return value


def index_values(cells: Iterable[str], least: int = 1, below: int = 10**15) -> dict[int, float]:
    """Values of features by their indices; a query's number is passed over."""
    found: dict[int, float] = {}
    for cell in cells:
        if cell.startswith("qid:"):
            continue
        digits, colon, value = cell.partition(":")
        whole = colon and digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST
        if not whole or not least <= int(digits) < below:
            raise BadLine(f"{quoted(cell)} is not an index from {least} on, a colon and a value")
        if int(digits) in found:
            raise BadLine(f"feature {int(digits)} is given twice")
        found[int(digits)] = feature(value, int(digits))
    return found


def _number(text: str, what: str) -> float:
    number = finite(text)
    if math.isnan(number):
        raise BadLine(f"{what} is {quoted(text)}, not a finite number")
    return number
