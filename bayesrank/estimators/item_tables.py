"""Ids of any kind, and tables of items' features by id."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import missing, numbers_alone, unmasked

Array = NDArray[np.float64]


def id_list(column: Any, name: str) -> list[Hashable]:
    """Ids as Python has them."""
    if isinstance(column, str | bytes) or not np.iterable(column):
        raise ValueError(f"{name} is {column!r}; pass a list of ids, one a row")
    plain = getattr(column, "to_pylist", None)  # pyarrow's scalars equal nothing but each other
    cells = unmasked(column) if plain is None else plain()
    values = [x.item() if isinstance(x, np.generic) else x for x in cells]
    for row, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"{name} has a {type(value).__name__} in row {row}; an id is one number, one text "
                "or a tuple of such"
            ) from None
        if missing(value):
            raise ValueError(f"{name} has no id in row {row}; remove the row")
    return values


def _ids(column: Any, name: str) -> list[Hashable]:
    """Ids of a list; anything else is one id."""
    one = isinstance(column, str | bytes) or not np.iterable(column)
    return id_list([column] if one else column, name)


class Labels:
    """Different ids in the order of their numbers."""

    def __init__(self, ids: Iterable[Hashable]) -> None:
        self.ids = list(ids)
        self._number = {label: number for number, label in enumerate(self.ids)}

    @classmethod
    def of(cls, ids: list[Hashable]) -> tuple[Labels, NDArray[np.int64]]:
        """Number ids in the order of their first appearance."""
        labels = cls(dict.fromkeys(ids))
        return labels, np.array([labels._number[x] for x in ids], np.int64)

    def numbers(self, column: Any, what: str) -> NDArray[np.int64]:
        """Look ids up; anything but a list is one id."""
        values = _ids(column, f"{what}s")
        for value in values:
            if value not in self._number:
                fix = "with_users" if what == "user" else "with_items"
                raise ValueError(f"{what} {value!r} is not known; add it by {fix}")
        return np.array([self._number[x] for x in values], np.int64)

    def unknown(self, column: Any) -> list[Hashable]:
        """Ids that are not known, each once; anything but a list is one id."""
        return list(dict.fromkeys(x for x in _ids(column, "ids") if x not in self._number))

    def __repr__(self) -> str:
        return f"Labels({reprlib.repr(self.ids)})"

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.ids)

    def __getitem__(self, number: int) -> Hashable:
        return self.ids[number]

    def __contains__(self, label: Hashable) -> bool:
        return label in self._number


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
    numbers_alone(values, "item_features")
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
