"""What columns that are not used say of rows: which belong together, and how the sides differ."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import Column

_FEWEST = 5  # groups of rows that say something
_SIDES = ("a", "b"), ("1", "2"), ("winner", "loser"), ("home", "away"), ("left", "right")
_NAMES = re.compile(r"[^a-z0-9]+")


def clusters(rest: Sequence[Column]) -> dict[str, NDArray[np.int64]]:
    """Which rows hold the same cell of columns that have several cells, and repeat them."""
    return {
        column.name: column.codes
        for column in rest
        if _FEWEST <= len(column.values) < len(column.codes) and "" not in column.values
    }


def contrasts(rest: Sequence[Column], turned: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """The first side's number less the second's of columns such as ``length_a`` and ``length_b``.

    Rows where `turned` is true have it the other way round.
    """
    by_key = {tuple(_NAMES.split(column.name.lower())): column for column in rest}
    found = {}
    for key, column in by_key.items():
        for one, other in _SIDES:
            places = [place for place, part in enumerate(key) if part == one]
            if len(key) < 2 or len(places) != 1:
                continue
            [at] = places
            across = by_key.get((*key[:at], other, *key[at + 1 :]))
            ours = _numbers(column)
            theirs = None if across is None else _numbers(across)
            if ours is not None and theirs is not None:
                gap = ours - theirs
                found["_".join(key[:at] + key[at + 1 :])] = np.where(turned, -gap, gap)
    return found


def _numbers(column: Column) -> NDArray[np.float64] | None:
    """The numbers of a column that holds nothing else."""
    try:
        values = np.array([float(value) for value in column.values])
    except ValueError:
        return None
    return values[column.codes] if np.isfinite(values).all() else None
