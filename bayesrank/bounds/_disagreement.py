"""Distance of two ranking functions that needs no labels.

Take a query with ``K`` candidates, ``p`` of them relevant and ``q`` not. Its loss is the share of
the ``p q`` pairs in the wrong order, ``Delta = (sum of the relevant items' ranks - its least value)
/ (p q)``. So two functions' losses differ by the sum over the relevant items of their differences
of rank, over ``p q``. Whatever the labels are, that is at most

    d(f, f') = max_{p + q = K} (sum of the p largest rank differences) / (p q),

and some labelling attains it. Tied items get their mean rank, just as ties cost one half. ``d`` is
symmetric, obeys the triangle inequality and lies between 0 and 1.

References
----------
.. [1] N. Usunier, V. Truong, M. R. Amini and P. Gallinari, "Ranking with unlabeled data: a first
       study", NIPS 2005 workshop on Learning to Rank.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_count
from bayesrank.bounds._skew import Array, check_delta
from bayesrank.metrics import PerQuery
from bayesrank.metrics.per_query import number_queries


def ranking_distance(
    scores: ArrayLike, other: ArrayLike, *, query: ArrayLike | None = None
) -> PerQuery:
    """Largest amount by which the pairwise error of one ranking can exceed another's [1]_ (1).

    Parameters
    ----------
    scores, other
        Scores that two functions give to the same candidates, shape ``(n,)``, higher is better.
    query
        The query of each candidate, shape ``(n,)``; one query without it.

    Returns
    -------
    PerQuery
        ``d(f, f')`` of each query, in ``O(K log K)``; 0 for one candidate, which has no pairs. Its
        ``.mean`` estimates ``D(f, f')`` if the queries are a random sample.

    Raises
    ------
    ValueError
        If the shapes differ, a score is NaN, a candidate has no query, or there are no candidates.

    Examples
    --------
    >>> ranking_distance([3, 2, 1], [3, 1, 2]).mean  # labels 0, 0, 1 attain it
    0.5
    """
    first, second = _scores("scores", scores), _scores("other", other)
    if first.shape != second.shape:
        raise ValueError(
            f"other has shape {second.shape}, and scores {first.shape}; they must agree"
        )
    code, names = number_queries(query, len(first))
    return PerQuery(_distances(code, _ranks(code, first) - _ranks(code, second)), names)


def mcdiarmid_term(num_queries: int, delta: float) -> float:
    """One-sided bound on the deviation of a mean of independent values in ``[0, 1]``.

    The expectation is at most the mean plus ``sqrt(log(1 / delta) / (2 num_queries))``, with
    probability at least ``1 - delta``.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    num_queries = check_count(num_queries, "num_queries")
    return math.sqrt(math.log(1.0 / check_delta(delta)) / (2.0 * num_queries))


def _scores(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must have shape (n,) with n >= 1, got {array.shape}")
    if np.isnan(array).any():
        place = int(np.flatnonzero(np.isnan(array))[0])
        raise ValueError(f"{name}[{place}] is NaN: a score must be a number; leave the item out")
    return array


def _ranks(code: NDArray[np.intp], scores: Array) -> Array:
    """Rank candidates in order of `code`, then best first; the tied ones get their mean rank."""
    order = np.lexsort((-scores, code))
    lists, ranked = code[order], scores[order]
    new = np.ones(len(order), bool)
    new[1:] = (lists[1:] != lists[:-1]) | (ranked[1:] != ranked[:-1])
    first = np.flatnonzero(new)
    size = np.diff(first, append=len(order))
    ranks = np.empty(len(order))
    ranks[order] = np.repeat(first + (size - 1) / 2.0, size)
    return ranks


def _distances(code: NDArray[np.intp], difference: Array) -> Array:
    """Distance in each query, from differences of rank, which sum to zero inside a query."""
    size = np.bincount(code)
    start = np.cumsum(size) - size
    order = np.lexsort((-difference, code))
    most = np.cumsum(difference[order])
    p = np.arange(1, len(order) + 1) - start[code[order]]
    q = size[code[order]] - p
    return np.maximum.reduceat(np.where(q > 0, most / np.maximum(p * q, 1), 0.0), start)
