"""Which items comparisons link: between groups without a link nothing is known."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components as _components

from bayesrank._validate import check_pairs

__all__ = ["connected_components"]


def connected_components(comparisons: ArrayLike, num_items: int) -> NDArray[np.int64]:
    """Which items are linked by comparisons, directly or through others.

    Of two items in different components no comparison says which is better: their order comes from
    the prior alone, and a rank that both are given is not evidence.

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
