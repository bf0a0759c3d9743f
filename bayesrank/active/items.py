"""The items that a loop asks about: names of any kind, features, and a fingerprint of both."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._names import meant
from bayesrank._validate import check_table


class NamedItems(NamedTuple):
    """Items by name and by number."""

    names: tuple[Hashable, ...]  # name of each of the n items
    numbers: dict[Hashable, int]  # number of each name
    features: NDArray[np.float64] | None  # shape (n, d), or None

    def find(self, name: Hashable) -> int:
        """Return the number of an item."""
        try:
            return self.numbers[name]
        except (KeyError, TypeError):
            pass
        hint = meant(name, self.names, "use the names given to the loop")
        raise ValueError(f"there is no item {name!r} among the {len(self.names)} items; {hint}")

    def pair(self, first: Hashable, second: Hashable) -> tuple[int, int]:
        """Return the numbers of two items."""
        one, other = self.find(first), self.find(second)
        if one == other:
            raise ValueError(f"item {first!r} is compared with itself; name two items")
        return one, other

    def with_more(self, items: Sequence[Hashable], features: ArrayLike | None = None) -> NamedItems:
        """These items and more, see `as_items`."""
        names = [*as_names(items)]
        if (features is None) != (self.features is None):
            missing = "need features, too" if features is None else "have none; leave them out"
            raise ValueError(f"features: the items that are there {missing}")
        if features is None or self.features is None:
            return as_items([*self.names, *names], None)
        more = _table(features, len(names))
        if more.shape[1] != self.features.shape[1]:
            raise ValueError(
                f"features has {more.shape[1]} columns; pass {self.features.shape[1]}, as the "
                "items that are there have"
            )
        return as_items([*self.names, *names], np.concatenate([self.features, more]))

    def header(self, count: int | None = None) -> dict[str, Any]:
        """What binds a journal to the first items: their number, digests of names and features."""
        names = json.dumps([_canonical(name) for name in self.names[:count]])
        features = None if self.features is None else _digest(_bytes(self.features[:count]))
        return {
            "items": len(self.names[:count]),
            "names": _digest(names.encode()),
            "features": features,
        }

    def addition(self, known: int) -> dict[str, Any]:
        """A record for a journal that has so many of the items."""
        labels = [str(name) for name in self.names[known:]]
        return {"event": "items", **self.header(), "labels": labels}


def as_items(items: int | Sequence[Hashable], features: ArrayLike | None) -> NamedItems:
    """Check names, or the number of items, and their features (n, d), or None."""
    names = as_names(range(items) if isinstance(items, (int, np.integer)) else items)
    if len(names) < 2:
        raise ValueError(f"items holds {len(names)} names; pass two or more, or their number")
    index: dict[Hashable, int] = {}
    for number, name in enumerate(names):
        # Not even equal to itself: not a number, which nobody could name again.
        if not isinstance(name, Hashable) or " at 0x" in repr(name) or name != name:
            raise ValueError(
                f"items names {name!r}, which is not the same when a journal is opened again; use "
                "texts, numbers, or tuples of them"
            )
        if name in index:
            raise ValueError(f"items names {name!r} twice; give each item a name of its own")
        index[name] = number
    return NamedItems(names, index, _features(features, len(names)))


def as_names(items: Any) -> tuple[Hashable, ...]:
    """Return names as a tuple."""
    if isinstance(items, (str, bytes, set, frozenset)) or not isinstance(items, Iterable):
        raise ValueError(
            f"items is {reprlib.repr(items)}; pass names in an order that is the same tomorrow, "
            "such as a list"
        )
    return tuple(n.item() if isinstance(n, np.generic) else n for n in items)


def _features(features: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    if features is None:
        return None
    array = _table(features, n)
    if (array == array[0]).all():
        raise ValueError(
            "features is the same for every item, so nothing distinguishes them; pass others, "
            "or None for skills without features"
        )
    return array


def _table(features: ArrayLike, n: int) -> NDArray[np.float64]:
    try:
        array = np.array(features, np.float64)
    except (TypeError, ValueError):
        raise ValueError("features holds what is not a number; pass numbers, (n, d)") from None
    check_table(array, "features")
    if len(array) != n:
        raise ValueError(f"features has shape {array.shape}; pass ({n}, d), one row for each item")
    return array


def _canonical(name: Hashable) -> str:
    return name if isinstance(name, str) else f"{type(name).__qualname__} {name!r}"


def _bytes(array: NDArray[np.float64]) -> bytes:
    return repr(array.shape).encode() + array.astype("<f8").tobytes()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
