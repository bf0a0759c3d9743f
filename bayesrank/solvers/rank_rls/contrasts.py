"""Within-query contrasts: what comparing the items of one list, and of no two, can see."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesrank._validate import check_choice
from bayesrank.datasets import QueryLists

Array = NDArray[np.float64]


class Folds(NamedTuple):
    """What is held out together: numbers of lists, and their rows, of each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.rank_rls import Folds
    >>> Folds(lists=[np.array([0])], rows=[np.array([0, 1, 2])]).rows[0].size
    3
    """

    lists: list[NDArray[np.intp]]
    rows: list[NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The operator ``S = diag(sqrt(delta)) C`` on rows that stand list after list.

    Parameters
    ----------
    starts, sizes
        Shape (q,): where each list starts, and how many rows it has.
    delta
        Shape (q,): weight of each list; 0 for a list of one row, which compares nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.datasets import group_queries
    >>> from bayesrank.solvers.rank_rls import contrasts_of
    >>> lists = group_queries(["q1", "q1", "q1", "q2", "q2"], 5)
    >>> contrasts_of(lists).delta.tolist()
    [1.0, 2.0]
    """

    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]
    delta: Array

    @property
    def num_rows(self) -> int:
        """Number of rows m."""
        return int(self.sizes.sum())

    @property
    def num_contrasts(self) -> int:
        """Number of contrasts that are observed: one less than its rows for each list."""
        return int((self.sizes - 1).sum())

    @property
    def log_jacobian(self) -> float:
        """Log of what weighting multiplies the volume of the contrasts by."""
        kept = self.sizes > 1
        return float(((self.sizes[kept] - 1) * np.log(self.delta[kept])).sum() / 2)

    def means(self, values: Array) -> Array:
        """Mean of each list over its rows, shape (q, ...)."""
        sizes = self.sizes.reshape(-1, *[1] * (values.ndim - 1))
        return self.sums(values, np.ones(self.num_rows)) / sizes

    def sums(self, values: Array, weights: Array) -> Array:
        """Weighted sum of each list over its rows, shape (q, ...), by a sparse product."""
        ends = np.append(self.starts, self.num_rows)
        product = sparse.csr_array(
            (weights, np.arange(self.num_rows), ends), shape=(len(self.sizes), self.num_rows)
        )
        return product @ values

    def spread(self, of_lists: Any) -> Any:
        """Give every row what its list has, shape (m, ...)."""
        return np.repeat(of_lists, self.sizes, axis=0)

    def whiten(self, values: Array) -> Array:
        """Apply S, which is symmetric, to the rows of `values`, shape (m, ...)."""
        centred = values - self.spread(self.means(values))
        root = self.spread(np.sqrt(self.delta))
        return centred * root.reshape(-1, *[1] * (values.ndim - 1))

    def whiten_kernel(self, K: Array) -> Array:
        """Overwrite a Gram matrix with ``S K S``; return the lists' mean rows times S, (q, m)."""
        root = self.spread(np.sqrt(self.delta))
        means = self.means(K)
        for row, rows in zip(means, self.slices, strict=True):
            row -= self.spread(self.means(row))  # less its mean over both lists
            K[rows] -= row + self.spread(self.means(K[rows].T)).T
            K[rows] *= root * root[rows.start]
            row *= root
        return means

    @property
    def slices(self) -> list[slice]:
        """Rows of each list."""
        bounds = zip(self.starts.tolist(), self.sizes.tolist(), strict=True)
        return [slice(start, start + size) for start, size in bounds]

    def folds(self, names: Any = None) -> Folds:
        """Lists of one name together, shape (q,); without names each list alone."""
        codes = np.arange(len(self.sizes)) if names is None else np.unique_inverse(names)[1]
        spread = self.spread(codes)
        lists, rows = (
            np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part))[:-1])
            for part in (codes, spread)
        )
        return Folds(lists, rows)


def weights_of(sizes: NDArray[np.intp], weights: str) -> Array:
    """Weight delta of lists of these sizes."""
    n = np.maximum(sizes, 2).astype(np.float64)
    table = {"query": 2.0 / (n - 1.0), "center": np.ones_like(n), "pairs": n}
    return np.where(sizes > 1, table[check_choice(weights, "weights", *table)], 0.0)


def contrasts_of(lists: QueryLists, weights: str = "query") -> Contrasts:
    """Contrasts of grouped rows.

    Parameters
    ----------
    lists
        The rows of each query.
    weights
        Weight of a list of n rows: "query" is the paper's ``2 / (n - 1)``, with which each list
        counts alike; "center" is 1, with which each row does; "pairs" is n, each pair.

    Raises
    ------
    ValueError
        If `weights` is unknown, or no list has two rows.
    """
    if (lists.sizes < 2).all():
        raise ValueError("query gives every list one row only; there is nothing to compare")
    return Contrasts(lists.starts, lists.sizes, weights_of(lists.sizes, weights))
