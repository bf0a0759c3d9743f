"""Ordered pairs of a list's items as differences of their features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank.datasets import QueryLists

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Differences of items that one grade sets above another.

    Attributes
    ----------
    z
        Shape (J, N): features of the better item minus those of the other, normalised.
    phi, lists
        Shape (J,): difference of grade, and number of the list, of each pair; lists stand together.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.datasets import group_queries
    >>> from bayesrank.solvers.cone_rank import ordered_pairs
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> lists = group_queries(["q1", "q1", "q1"], 3)
    >>> ordered_pairs(X, np.array([2, 1, 0]), lists, rho=1.0, alpha=1.0).z.shape
    (3, 2)
    """

    z: Array
    phi: Array
    lists: NDArray[np.intp]

    @property
    def weight(self) -> Array:
        """Weight of each pair in the empirical risk, ``phi / (P n_q)``, shape (J,)."""
        _, place, count = np.unique(self.lists, return_inverse=True, return_counts=True)
        return self.phi / (len(count) * count[place])

    def of_lists(self, kept: Any) -> Pairs:
        """Return the pairs of some lists."""
        rows = np.isin(self.lists, kept)
        return Pairs(self.z[rows], self.phi[rows], self.lists[rows])


def normalised(differences: Array, rho: float, alpha: float) -> Array:
    """Equation (5): ``rho z / (alpha + |z|)``, which is shorter than rho.

    Parameters
    ----------
    differences
        Of features, shape (J, N).
    rho, alpha
        Limit of the length, and the length that becomes half of it; both positive.
    """
    norm = np.linalg.norm(differences, axis=1, keepdims=True)
    return rho * differences / (alpha + norm)


def ordered_pairs(X: Any, y: Array, lists: QueryLists, rho: float, alpha: float) -> Pairs:
    """All pairs of rows of one list with different grades.

    Parameters
    ----------
    X, y
        Features (m, N) and grades (m,), list after list.
    lists
        The lists, by `bayesrank.datasets.group_queries`.
    rho, alpha
        As for `normalised`.

    Returns
    -------
    Pairs
        Differences of the better item's features and the other's.

    Raises
    ------
    ValueError
        If there is none.
    """
    found, numbers = [], []
    for q, (start, size) in enumerate(zip(lists.starts, lists.sizes, strict=True)):
        mine = y[start : start + size]
        pairs = np.argwhere(mine[:, None] > mine) + start
        found.append(pairs)
        numbers.append(np.full(len(pairs), q))
    rows = np.concatenate(found)
    if not len(rows):
        raise ValueError("y is the same within every list; give lists with two different grades")
    difference = X[rows[:, 0]] - X[rows[:, 1]]
    dense = difference.toarray() if sparse.issparse(difference) else difference
    phi = y[rows[:, 0]] - y[rows[:, 1]]
    return Pairs(normalised(dense, rho, alpha), phi, np.concatenate(numbers))
