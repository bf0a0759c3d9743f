"""Examples in blocks of few sizes, each compiled once: a few need not pay for a thousand."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SMALL, MIDDLE, LARGE = 16, 128, 1024


def blocks_of(sizes: Sequence[int], *arrays: Any) -> Iterator[tuple[list[Any], int]]:
    """Cut arrays (n, ...) into blocks filled up with zeros; with how many examples each holds.

    A block has the first of the sizes that it fills by more than half, or else the last.
    """
    start = 0
    while (left := len(arrays[0]) - start) > 0:
        size = next((size for size in sizes if 2 * left > size), sizes[-1])
        count = min(left, size)
        parts = [array[start : start + count] for array in arrays]
        room = [(0, size - count)]
        yield [np.pad(part, room + [(0, 0)] * (part.ndim - 1)) for part in parts], count
        start += count
