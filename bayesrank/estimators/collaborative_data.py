"""Ids of any kind to numbers, tables to columns, levels to numbers from 0."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import column_names, plain_array
from bayesrank._validate import refuse_rows
from bayesrank.datasets.layouts import RATINGS
from bayesrank.estimators.item_tables import id_list


def check_triples(
    users: Any, items: Any, levels: Any
) -> tuple[list[Hashable], list[Hashable], NDArray]:
    """Return users, items and ratings as columns of one length."""
    names = column_names(users)
    if names is not None:
        if items is not None or levels is not None:
            raise ValueError("users is a table; leave items and levels out, or pass its columns")
        users, items, levels = _columns(users, names)
    elif items is None or levels is None:
        raise ValueError(
            f"{'items' if items is None else 'levels'} is missing; pass users, items and levels, "
            "or a DataFrame with these columns"
        )
    who, what, ratings = id_list(users, "users"), id_list(items, "items"), plain_array(levels)
    if not who or not len(who) == len(what) == (len(ratings) if ratings.ndim == 1 else -1):
        raise ValueError(
            f"there are {len(who)} users, {len(what)} items and levels of shape {ratings.shape}; "
            "pass one of each a row"
        )
    first: dict[tuple[Hashable, Hashable], int] = {}
    for row, pair in enumerate(zip(who, what, strict=True)):
        if pair in first:
            raise ValueError(
                f"user {pair[0]!r} rates item {pair[1]!r} in row {first[pair]} and again in row "
                f"{row}; keep one of the two"
            )
        first[pair] = row
    return who, what, ratings


def _columns(table: Any, columns: list[Any]) -> tuple[Any, Any, Any]:
    names = [str(name).strip().lower() for name in columns]
    found = []
    user, item, level = (role.usual for role in RATINGS.roles.values())
    for wanted in (user, item, ("level", *level)):
        known = [name for name in wanted if name in names]
        if not known:
            raise ValueError(
                f"the table has no column {wanted[0]!r}; it has {list(map(str, columns))}"
            )
        if names.count(known[0]) > 1:
            raise ValueError(f"the table has two columns {known[0]!r}; rename one of them")
        found.append(table[columns[names.index(known[0])]])
    return found[0], found[1], found[2]


def level_numbers(levels: NDArray) -> tuple[NDArray, NDArray[np.int64]]:
    """Return the levels, lowest first, and the number of each rating's."""
    if levels.dtype.kind not in "iuf":
        raise ValueError(f"levels has dtype {levels.dtype}; pass whole numbers")
    refuse_rows(levels, lambda v: ~np.isfinite(v), "levels", "remove the row")
    fix = "pass whole numbers, or round them"
    refuse_rows(levels, lambda v: v != np.round(v), "levels", fix)
    low, high = int(levels.min()), int(levels.max())
    if low == high:
        raise ValueError("levels are all the same; there is nothing to learn")
    used = np.unique(levels.astype(float))
    gaps = np.flatnonzero(np.diff(used, prepend=low - 1.0, append=high + 1.0) > 1.0)
    if len(gaps):
        unused = int(used[gaps[0] - 1]) + 1 if gaps[0] else low
        raise ValueError(
            f"nobody used level {unused} of {low} to {high}; number the levels in use without gaps"
        )
    return used.astype(np.int64), (levels - low).astype(np.int64)
