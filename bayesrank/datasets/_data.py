"""Comparisons of named items, as plain arrays."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class OrderEvents(NamedTuple):
    """Orders of items, each of which was given some number of times.

    Attributes
    ----------
    groups
        Of each order the numbers of the items, group by group, the best group first. Nothing is
        said of items in one group.
    counts
        How often each was given, shape (N,).
    """

    groups: tuple[tuple[tuple[int, ...], ...], ...]
    counts: np.ndarray


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Who was preferred to whom, and what is known of the items.

    Every row of `comparisons` is one piece of evidence: a pair that occurs twice counts twice.
    Where there are `orders`, they are the evidence, and `comparisons` the pairs that they imply:
    these are not independent, and taken for evidence of their own they make intervals far too
    narrow.

    Parameters
    ----------
    names
        Name of each of the n items; item ``i`` of every array is ``names[i]``.
    comparisons
        Shape (K, 2), integer: winner and loser of each comparison.
    tied
        Shape (K,), bool: True where the two were judged equal and the order means nothing.
    features
        Shape (n, d), in the units of the file, or None if nothing is known of the items.
    feature_names
        Name of each of the d features.
    times
        Shape (K,), when each comparison was: float64 or datetime64; None if not asked for.
    ignored_columns
        Columns of the comparisons file that were not used.
    orders
        Orders that the comparisons come from, if any.
    """

    names: tuple[str, ...]
    comparisons: np.ndarray
    tied: np.ndarray
    features: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    orders: OrderEvents | None = None
    times: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in (self.comparisons, self.tied, self.features, self.times):
            if array is not None:
                array.setflags(write=False)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.names)

    @property
    def num_comparisons(self) -> int:
        """Number of comparisons, ties included."""
        return len(self.comparisons)
