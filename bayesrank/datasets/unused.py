"""What columns that are not used say of rows: which belong together, and how the sides differ."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import Column
from bayesrank.datasets.table import Table

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
    found = {}
    for name, sides in _both_sides(rest).items():
        ours, theirs = map(_numbers, sides)
        if ours is not None and theirs is not None:
            found[name] = np.where(turned, theirs - ours, ours - theirs)
    return found


def _both_sides(rest: Sequence[Column]) -> dict[str, tuple[Column, Column]]:
    """Columns of one thing of the first and of the second side, by its name."""
    by_key = {tuple(_NAMES.split(column.name.lower())): column for column in rest}
    found = {}
    for key, column in by_key.items():
        for one, other in _SIDES:
            places = [place for place, part in enumerate(key) if part == one]
            if len(key) > 1 and len(places) == 1:
                [at] = places
                across = by_key.get((*key[:at], other, *key[at + 1 :]))
                if across is not None:
                    found["_".join(key[:at] + key[at + 1 :])] = column, across
    return found


def covariates(
    table: Table, rest: Sequence[Column], turned: NDArray[np.bool_], names: Sequence[str]
) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
    """How much more the first side has of what is named, (K, D), and the columns that say it."""
    gaps, used = [], []
    for name in names:
        columns = covariate_columns(rest, name)
        numbers = [values for values in map(_numbers, columns) if values is not None]
        if not numbers or len(numbers) < len(columns):
            known = ", ".join(contrasts(rest, turned)) or "none"
            base = name.removesuffix(":category")
            problem = f"no columns of numbers say how much more of {base!r} one side has"
            raise table.error(
                problem, f"name one of both sides ({known}), or a column of differences"
            )
        gap = numbers[0] if len(numbers) == 1 else numbers[0] - numbers[1]
        gaps.append(np.where(turned, -gap, gap))
        used += [column.name for column in columns]
    return np.stack(gaps, axis=1) if names else None, tuple(used)


def covariate_columns(rest: Sequence[Column], name: str) -> tuple[Column, ...]:
    """The column of differences that has this name, or those of both sides, or none.

    ``name:category`` is by its name an effect in each category.
    """
    name = name.removesuffix(":category")
    alone = tuple(c for c in rest if c.name == name and _numbers(c) is not None)
    return alone or _both_sides(rest).get(name, ())


def _numbers(column: Column) -> NDArray[np.float64] | None:
    """The numbers of a column that holds nothing else."""
    try:
        values = np.array([float(value) for value in column.values])
    except ValueError:
        return None
    return values[column.codes] if np.isfinite(values).all() else None
