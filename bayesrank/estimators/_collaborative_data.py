"""Ids of any kind to numbers, tables to arrays, features to base kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Labels",
    "base_kernels",
    "check_triples",
    "correlation_kernel",
    "item_table",
    "level_numbers",
]

Array = NDArray[np.float64]
KernelMap = Callable[[Array, Array], Array]


class Labels:
    """Ids in the order of their numbers.

    Parameters
    ----------
    ids
        Different ids.
    """

    def __init__(self, ids: Iterable[Hashable]) -> None:
        self.ids = list(ids)
        self._number = {label: number for number, label in enumerate(self.ids)}

    @classmethod
    def of(cls, column: Iterable[Any]) -> tuple[Labels, NDArray[np.int64]]:
        """Number ids in the order of their first appearance."""
        values = [x.item() if isinstance(x, np.generic) else x for x in column]
        labels = cls(dict.fromkeys(values))
        return labels, np.array([labels._number[x] for x in values], np.int64)

    def numbers(self, column: Iterable[Any], what: str) -> NDArray[np.int64]:
        """Look ids up.

        Raises
        ------
        ValueError
            If one is not known.
        """
        values = [x.item() if isinstance(x, np.generic) else x for x in column]
        for value in values:
            if value not in self._number:
                cure = "with_users" if what == "user" else "with_items"
                raise ValueError(f"{what} {value!r} is not known; add it by {cure}")
        return np.array([self._number[x] for x in values], np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.ids)

    def __getitem__(self, number: int) -> Hashable:
        return self.ids[number]

    def __contains__(self, label: Hashable) -> bool:
        return label in self._number


def check_triples(users: Any, items: Any, levels: Any) -> tuple[Any, Any, NDArray]:
    """Return users, items and ratings as columns of one length.

    Raises
    ------
    ValueError
        If they do not fit each other, or a user rates an item twice.
    """
    if items is None and hasattr(users, "columns"):
        users, items, levels = _columns(users)
    who, what = list(np.asarray(users, object)), list(np.asarray(items, object))
    said = np.asarray(levels)
    if not who or not len(who) == len(what) == (len(said) if said.ndim == 1 else -1):
        raise ValueError(
            f"there are {len(who)} users, {len(what)} items and ratings of shape {said.shape}; "
            "pass one of each a row"
        )
    first: dict[tuple[Any, Any], int] = {}
    for row, pair in enumerate(zip(who, what, strict=True)):
        if pair in first:
            raise ValueError(
                f"user {pair[0]!r} rates item {pair[1]!r} in row {first[pair]} and again in row "
                f"{row}; keep one of the two"
            )
        first[pair] = row
    return who, what, said


def _columns(table: Any) -> tuple[Any, Any, Any]:
    names = {str(name).lower(): name for name in table.columns}
    found = []
    for wanted in (("user",), ("item",), ("level", "rating")):
        known = [names[name] for name in wanted if name in names]
        if not known:
            raise ValueError(f"the table has no column {wanted[0]!r}; it has {list(table.columns)}")
        found.append(np.asarray(table[known[0]]))
    return found[0], found[1], found[2]


def level_numbers(levels: NDArray, num_levels: int | None) -> tuple[NDArray, NDArray[np.int64]]:
    """Return the levels, lowest first, and the number of each rating's.

    Raises
    ------
    ValueError
        If they are not whole numbers, one is out of range, or one in between is not used.
    """
    array = np.asarray(levels)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"levels has dtype {array.dtype}; pass whole numbers")
    wrong = ~np.isfinite(array) | (array != np.round(array))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"levels is {array[row]} in row {row}; pass whole numbers, or round them")
    array = array.astype(np.int64)
    low, high = (array.min(), array.max()) if num_levels is None else (1, num_levels)
    outside = (array < low) | (array > high)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(f"levels is {array[row]} in row {row}; they go from {low} to {high}")
    known = np.arange(low, high + 1)
    if len(known) < 2:
        raise ValueError("levels are all the same; there is nothing to learn")
    unused = np.setdiff1d(known, array)
    if len(unused):
        raise ValueError(
            f"nobody used level {unused[0]} of {low} to {high}; number the levels in use without "
            "gaps"
        )
    return known, array - low


def item_table(
    features: Any, items: Labels, what: NDArray[np.int64]
) -> tuple[Labels, NDArray[np.int64], Array]:
    """Return items with those that only have features, and all features, standardised rows apart.

    Raises
    ------
    ValueError
        If a rated item has no features, or a feature is no finite number.
    """
    if hasattr(features, "index") and hasattr(features, "to_numpy"):
        ids, values = list(features.index), np.asarray(features.to_numpy(), float)
    else:
        ids, values = list(features), np.asarray([features[k] for k in features], float)
    rows = Labels(x.item() if isinstance(x, np.generic) else x for x in ids)
    for item in items:
        if item not in rows:
            raise ValueError(f"item {item!r} has no row in item_features; add one")
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError("item_features must be a table of finite numbers, a row for each item")
    labels = Labels([*items, *(x for x in rows if x not in items)])
    return labels, what, values[rows.numbers(labels, "item")]


def base_kernels(features: Array | None) -> tuple[KernelMap | None, Array | None]:
    """Base kernels of items with features: a constant, one of these, and one of each item alone.

    The kernel of the features is squared exponential, with a lengthscale at which items at the
    root mean square distance are correlated by ``exp(-1/2)``.
    """
    if features is None:
        return None, None
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    square = 2.0 * max(int((features.std(axis=0) > 0).sum()), 1)

    def kernels(first: Array, second: Array) -> Array:
        a, b = (first - centre) / scale, (second - centre) / scale
        distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2.0 * a @ b.T
        smooth = np.exp(-0.5 * np.maximum(distance, 0.0) / square)
        return np.stack([np.ones_like(smooth), smooth, np.zeros_like(smooth)])

    table = kernels(features, features)
    table[-1] = np.eye(len(features))
    return kernels, table


def correlation_kernel(ratings: ArrayLike) -> Array:
    """Correlation of items by what other users gave them.

    Users' means are taken off, missing entries are at the mean, and the cosine of two items'
    columns is taken (Basilico and Hofmann, 2004).

    Parameters
    ----------
    ratings : array-like of shape (users, items)
        NaN where there is none.

    Returns
    -------
    ndarray of shape (items, items)
    """
    table = np.asarray(ratings, float)
    centred = np.nan_to_num(table - np.nanmean(table, axis=1, keepdims=True))
    length = np.sqrt((centred**2).sum(axis=0))
    centred = centred / np.where(length > 0, length, 1.0)
    return centred.T @ centred
