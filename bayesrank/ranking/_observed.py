"""What was observed: comparisons won, lost and tied, and which items they link."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components as _components

from bayesrank._validate import check_column, check_pairs, check_row_weights
from bayesrank.ranking._ranks import Array


class ItemRecords(NamedTuple):
    """How the comparisons of each item went; weighted ones count as their weights do.

    Attributes
    ----------
    wins, losses, ties
        Shape ``(n,)`` each: whole numbers, or float64 where comparisons have weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.ranking import count_records
    >>> count_records(np.array([[0, 1], [0, 2]]), 3).wins
    array([2, 0, 0])
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

    Raises
    ------
    ValueError
        If the shapes do not fit, an item is not among ``0 .. num_items - 1``, or a weight is
        negative or not finite.

    Examples
    --------
    >>> count_records([(0, 1), (0, 1), (2, 1)], 3, tied=[False, False, True])
    ItemRecords(wins=array([2, 0, 0]), losses=array([0, 2, 0]), ties=array([0, 1, 1]))
    """
    pairs = check_pairs(comparisons, num_items, "comparisons")
    size, wanted = len(pairs), "True or False for each comparison"
    even = np.zeros(size) if tied is None else check_column(tied, "tied", size, "biu", wanted)
    even = even.astype(bool)
    counts = None if weights is None else check_row_weights(weights, "weights", size)

    def count(side: int, rows: Array) -> Array:
        weight = None if counts is None else counts[rows]
        return np.bincount(pairs[rows, side], weight, minlength=num_items)

    return ItemRecords(count(0, ~even), count(1, ~even), count(0, even) + count(1, even))


def connected_components(comparisons: ArrayLike, num_items: int) -> NDArray[np.int64]:
    """Which items are linked by comparisons, directly or through others.

    No comparison says which of two items in different components is better: their order comes from
    the prior alone.

    Parameters
    ----------
    comparisons
        Numbers of the two items of each comparison, in either order, shape ``(K, 2)``.
    num_items
        Number of items.

    Returns
    -------
    ndarray of shape (num_items,)
        The component of each item: 0 for the largest, 1 for the next, and so on; of equal ones the
        one that holds the item of the lowest number comes first. An item in no comparison is a
        component of its own.

    Raises
    ------
    ValueError
        If ``comparisons`` are not pairs of item numbers.

    Examples
    --------
    >>> connected_components([(3, 4), (1, 3), (0, 2)], 6)
    array([1, 0, 1, 0, 0, 2])
    """
    pairs = check_pairs(comparisons, num_items, "comparisons")
    ones = np.ones(len(pairs), bool)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(num_items, num_items))
    count, label = _components(graph, directed=False)
    first = np.unique(label, return_index=True)[1]
    order = np.lexsort((first, -np.bincount(label, minlength=count)))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    return place[label]
