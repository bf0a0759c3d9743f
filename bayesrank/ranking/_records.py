"""What was observed of each item: comparisons won, lost and tied."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_pairs
from bayesrank.ranking._validate import Array


class ItemRecords(NamedTuple):
    """How the comparisons of each item went; weighted ones count as their weights do.

    Attributes
    ----------
    wins, losses, ties
        Shape ``(n,)`` each: whole numbers, or float64 where comparisons have weights.
    """

    wins: Array
    losses: Array
    ties: Array

    @property
    def comparisons(self) -> Array:
        """Number of comparisons of each item, shape ``(n,)``."""
        return self.wins + self.losses + self.ties


def count_records(
    comparisons: ArrayLike,
    num_items: int,
    *,
    tied: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> ItemRecords:
    """Count the comparisons that each item won, lost and tied.

    Parameters
    ----------
    comparisons
        Numbers of winner and loser of each comparison, shape ``(K, 2)``.
    num_items
        Number of items.
    tied
        True where the two were judged equal, shape ``(K,)``; by default nowhere.
    weights
        How often each comparison counts, shape ``(K,)``; by default once.

    Returns
    -------
    ItemRecords

    Raises
    ------
    ValueError
        If the shapes do not fit, or an item is not among ``0 .. num_items - 1``.

    Examples
    --------
    >>> count_records([(0, 1), (0, 1), (2, 1)], 3, tied=[False, False, True])
    ItemRecords(wins=array([2, 0, 0]), losses=array([0, 2, 0]), ties=array([0, 1, 1]))
    """
    pairs = check_pairs(comparisons, num_items, "comparisons")
    even = np.zeros(len(pairs), bool) if tied is None else np.asarray(tied, bool)
    counts = None if weights is None else np.asarray(weights, np.float64)
    for name, given in (("tied", even), ("weights", counts)):
        if given is not None and given.shape != (len(pairs),):
            raise ValueError(f"{name} has shape {given.shape}; there are {len(pairs)} comparisons")

    def count(side: int, rows: Array) -> Array:
        weight = None if counts is None else counts[rows]
        return np.bincount(pairs[rows, side], weight, minlength=num_items)

    return ItemRecords(count(0, ~even), count(1, ~even), count(0, even) + count(1, even))
