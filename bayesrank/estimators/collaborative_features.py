"""Features of items: tables by item id, and the base kernels that they give."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.estimators.collaborative_data import Labels, id_list

Array = NDArray[np.float64]


class ItemTable(NamedTuple):
    """Features by item id."""

    items: Labels
    names: tuple[Any, ...] | None  #: of the columns, if they have any
    values: Array  #: a row an item

    def rows(self, items: Iterable[Hashable]) -> Array:
        """Features of these items."""
        wanted = list(items)
        for item in wanted:
            if item not in self.items:
                raise ValueError(f"item {item!r} has no row in item_features; add one")
        return self.values[self.items.numbers(wanted, "item")]


def read_item_table(features: Any) -> ItemTable:
    """Read a DataFrame whose index are item ids, a Series, a mapping from item ids, or an array."""
    names: tuple[Any, ...] | None = None
    if hasattr(features, "to_frame") and hasattr(features, "index"):
        features = features.to_frame()
    if hasattr(features, "index") and hasattr(features, "columns"):
        column, names = features.index, tuple(features.columns)
        values = features.to_numpy()
    elif isinstance(features, Mapping):
        column = features.keys()
        rows = [np.atleast_1d(np.asarray(row)) for row in features.values()]
        if len({row.shape for row in rows}) > 1:
            raise ValueError("item_features has rows of unlike length; give each item as many")
        values = np.asarray(rows)
    elif isinstance(features, np.ndarray) and features.ndim == 2:
        column, values = range(len(features)), features
    else:
        raise ValueError(
            f"item_features is a {type(features).__name__}; pass a DataFrame of pandas whose index "
            "are the ids of the items, a mapping from ids to rows of numbers, or an array with a "
            "row for each of the items 0, 1, ..."
        )
    ids = id_list(column, "the index of item_features")
    items = Labels.of(ids)[0]
    if len(items) < len(ids):
        again = next(x for k, x in enumerate(ids) if x in ids[:k])
        raise ValueError(f"item_features has two rows for item {again!r}; keep one of them")
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"item_features has shape {values.shape}; pass a row for each item, with a number in "
            "each of one or more columns"
        )
    return ItemTable(items, names, _numbers(values, ids, names))


def exchangeable(kernels: Array, count: int) -> tuple[Array, Array]:
    """Base kernels of new items of which nothing is known: with known ones, and their own."""
    if kernels.shape[1] < 2:
        raise ValueError("one item tells nothing of other items; fit to ratings of two or more")
    alike, same = kernels[:, 0, 1, None, None], kernels[:, 0, 0, None, None]
    across = np.broadcast_to(alike, (len(kernels), kernels.shape[1], count))
    return across, np.where(np.eye(count, dtype=bool), same, alike)


def new_rows(
    items: Sequence[Hashable], features: Any, width: int, names: tuple[Any, ...] | None
) -> Array:
    """Features (n, width) of new items: by id from a table, or by position from an array."""
    if isinstance(features, Mapping) or hasattr(features, "to_numpy"):
        table = read_item_table(features)
        values = table.rows(items)
        if names is not None and table.names is not None:
            if set(table.names) != set(names):
                raise ValueError(
                    f"item_features has the columns {list(table.names)}; those of fit were "
                    f"{list(names)}"
                )
            values = values[:, [table.names.index(name) for name in names]]
    else:
        values = np.asarray(features)
        if values.shape == (len(items), width):
            values = _numbers(values, items, names)
    if values.shape != (len(items), width):
        raise ValueError(
            f"item_features has shape {values.shape}; pass ({len(items)}, {width}), a row for each "
            "new item"
        )
    return values


def _numbers(values: NDArray, ids: Sequence[Hashable], names: tuple[Any, ...] | None) -> Array:
    try:
        found = np.asarray(values, float)
        wrong = ~np.isfinite(found)
    except (TypeError, ValueError):
        found, wrong = np.zeros(0), np.vectorize(_no_number, otypes=[bool])(values)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        name = column if names is None else names[column]
        raise ValueError(
            f"item_features has {values[row, column]} for item {ids[row]!r} in column {name!r}; "
            "give a finite number, or leave the column out"
        )
    return found


def _no_number(value: Any) -> bool:
    try:
        return not np.isfinite(float(value))
    except (TypeError, ValueError):
        return True


class BaseKernels:
    """Base kernels by features (m, d): constant, squared exponential, and of each item alone."""

    def __init__(self, features: Array) -> None:
        self.features = features
        scale = features.std(axis=0)
        self._centre, self._scale = features.mean(axis=0), np.where(scale > 0, scale, 1.0)
        self._square = 2.0 * max(int((scale > 0).sum()), 1)

    def among(self, features: Array) -> Array:
        """Kernels of different items, shape (3, k, k)."""
        kernels = self.between(features, features)
        # Nothing of an item is shared that the features do not tell.
        kernels[-1] = np.eye(len(features))
        return kernels

    def between(self, first: Array, second: Array) -> Array:
        """Kernels of items and other items, shape (3, k, l)."""
        a, b = ((x - self._centre) / self._scale for x in (first, second))
        distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2.0 * a @ b.T
        smooth = np.exp(-0.5 * np.maximum(distance, 0.0) / self._square)
        return np.stack([np.ones_like(smooth), smooth, np.zeros_like(smooth)])


def correlation_kernel(ratings: ArrayLike) -> Array:
    """Correlation of items by what other users gave them.

    It is the cosine of two items' columns less users' means; missing entries are at the mean
    (Basilico and Hofmann, 2004).

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
