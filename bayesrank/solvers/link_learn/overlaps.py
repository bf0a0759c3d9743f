"""Terms that pairs of texts have in common: all that their similarity depends on."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Overlaps(NamedTuple):
    """One entry for each term that the two texts of a pair share, ordered by the pair.

    Attributes
    ----------
    pair, term
        Numbers of the pair and of the term, shape (E,).
    first, second
        Counts of the term in the two texts, shape (E,).

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from bayesrank.solvers.link_learn import overlaps
    >>> overlaps(sp.csr_array([[1, 2, 0]]), sp.csr_array([[0, 1, 1]])).term.tolist()
    [1]
    """

    pair: NDArray[np.int64]
    term: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def overlaps(first: Any, second: Any) -> Overlaps:
    """Return the terms that rows of two tables of counts share.

    Parameters
    ----------
    first, second
        Sparse counts by rows with sorted columns, both of shape (pairs, terms), one text a row.
    """
    here, there = (_ones(rows) for rows in (first, second))
    one, other = first.multiply(there).tocsr(), second.multiply(here).tocsr()
    pair = np.repeat(np.arange(one.shape[0]), np.diff(one.indptr))
    return Overlaps(pair, one.indices.astype(np.int64), one.data, other.data)


def _ones(rows: Any) -> Any:
    ones = rows.copy()
    ones.data = np.ones_like(ones.data)
    return ones
