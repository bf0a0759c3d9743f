"""`NamedSkillEstimator`: skills of items that go by names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayesrank._states import read_state
from bayesrank.estimators.collaborative_data import id_list
from bayesrank.estimators.collaborative_features import read_item_table
from bayesrank.estimators.comparisons import numbers_of
from bayesrank.estimators.skills import SkillEstimator
from bayesrank.estimators.storage import restored, write_ranker

__all__ = ["NamedSkillEstimator"]

Array = NDArray[np.float64]


class NamedSkillEstimator(SkillEstimator):
    """Skills of named items; derived classes say what is observed of them."""

    item_features: Any
    items: Sequence[Hashable] | None
    names_: list[Hashable]

    def predict_proba(self, pairs: Any) -> Array:
        """Probability that the first item of each pair is preferred to the second."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the fitted ranker to a file, whole or not at all.

        A `random_state` that is a generator is not written: it is None where `load` reads it. The
        draws of the posterior have a key of their own, and stay the same.

        Parameters
        ----------
        path : str or Path
            The file. Names have to be text or numbers.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If a name or an option cannot be written.
        OSError
            If the file cannot be written.
        """
        write_ranker(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ranker that `save` wrote.

        Raises
        ------
        ValueError
            If the file is none, or damaged; the message names it.
        FileNotFoundError
            If there is no file.
        """
        return read_state(path, f"a {cls.__name__}", {cls.__name__: cls._restored})

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        return restored(cls, state)

    def _names(self) -> list[Hashable]:
        return self.names_

    def _known(self) -> dict[Hashable, int]:
        """Numbers of the items by their names."""
        return {name: number for number, name in enumerate(self.names_)}

    def _numbers(self, items: Sequence[Hashable] | None, cure: str | None) -> NDArray[np.int64]:
        """Numbers of named items, or of all; `cure` as for `numbers_of`."""
        ids = self.names_ if items is None else id_list(items, "items")
        return numbers_of((ids, ids), self._known(), cure)[:, 0]

    def _read_items(
        self, seen: Callable[[], list[Hashable]]
    ) -> tuple[list[Hashable], Array | None]:
        """Names of all items, and their features if there are any.

        Parameters
        ----------
        seen
            Gives the names in the data, where neither `items` nor `item_features` has names.

        Raises
        ------
        ValueError
            If names or features do not fit, or there are fewer than two items.
        """
        named = None if self.items is None else id_list(self.items, "items")
        if named is not None and len(set(named)) < len(named):
            again = next(name for name in named if named.count(name) > 1)
            raise ValueError(f"items names {again!r} twice; keep one of them")
        names, features = self._with_features(named, seen)
        if len(names) < 2:
            raise ValueError(f"there is one item, {names[0]!r}; compare two or more")
        return names, features

    def _with_features(
        self, named: list[Hashable] | None, seen: Callable[[], list[Hashable]]
    ) -> tuple[list[Hashable], Array | None]:
        if self.item_features is None:
            return named or _in_order(seen()), None
        table = read_item_table(self.item_features)
        names = list(table.items)
        if named is None:
            return names, table.values
        if len(named) != len(names):
            raise ValueError(f"items names {len(named)}, but item_features has {len(names)} rows")
        if names != list(range(len(names))):
            return named, table.rows(named)
        return named, table.values


def _in_order(seen: list[Any]) -> list[Hashable]:
    """All names, sorted if they can be."""
    names = list(dict.fromkeys(seen))
    try:
        return sorted(names)
    except TypeError:
        return names
