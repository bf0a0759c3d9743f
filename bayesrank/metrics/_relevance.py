"""Metrics of relevance: an item is relevant, or it is not.

Expected values under random tie-breaking are closed forms [1]_. A tie group has first place ``a``
(from 0), size ``t``, ``r`` relevant items, and ``b`` relevant ones above it.

References
----------
.. [1] F. McSherry and M. Najork, "Computing information retrieval performance measures efficiently
       in the presence of tied scores", ECIR 2008.
.. [2] C. J. C. Burges, "Ranking as learning structured outputs", NIPS 2005 workshop on Learning
       to Rank.
"""

from functools import partial
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from bayesrank._validate import check_count
from bayesrank.metrics._result import PerQuery
from bayesrank.metrics.lists import Lists, ratio
from bayesrank.metrics.per_query import per_query
from bayesrank.metrics.problem import Array, Options

_relevance = partial(per_query, kind="grade")


def check_k(k: int | None) -> float:
    """Return the number of ranks that count: `k`, or infinity."""
    return np.inf if k is None else check_count(k, "k")


def average_precision(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    min_relevant: float = 1.0,
    **options: Unpack[Options],
) -> PerQuery:
    """Mean over the relevant items of the precision at their ranks.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`; labels not below zero.
    k
        Ranks that count, all without it. The divisor stays the number of all relevant items, as in
        trec_eval's ``map_cut``.

    Returns
    -------
    PerQuery
        From 0 to 1 (best), and its mean is MAP; undefined where nothing is relevant.

    Examples
    --------
    >>> average_precision([3.0, 2.0, 1.0], [1, 0, 1]).mean
    0.8333333333333333
    """
    limit = check_k(k)

    def kernel(lists: Lists) -> Array:
        rank = lists.place + 1
        tied_relevant = lists.within(lists.label)
        inside = (lists.place - lists.group_place) / np.maximum(lists.group_size - 1, 1)
        found = lists.before(lists.label) + 1 + inside * (tied_relevant - 1)
        gain = tied_relevant / lists.group_size * found / rank
        total = lists.total(gain * (rank <= limit) * lists.held)
        return ratio(total, lists.total(lists.label))

    return _relevance(kernel, scores, labels, min_relevant=min_relevant, **options)


def reciprocal_rank(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    min_relevant: float = 1.0,
    **options: Unpack[Options],
) -> PerQuery:
    """One over the rank of the first relevant item [2]_.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`; labels not below zero.
    k
        Ranks that count, all without it; 0 where the first relevant item comes later.

    Returns
    -------
    PerQuery
        From 0 to 1 (best), and its mean is MRR; undefined where nothing is relevant.
    """
    limit = check_k(k)

    def kernel(lists: Lists) -> Array:
        rank = lists.place + 1
        counts = _first_relevant(lists) * (rank <= limit) * lists.held
        relevant = lists.total(lists.label)
        return np.where(relevant > 0, lists.total(counts / rank), np.nan)

    return _relevance(kernel, scores, labels, min_relevant=min_relevant, **options)


def winner_takes_all(
    scores: ArrayLike, labels: ArrayLike, *, min_relevant: float = 1.0, **options: Unpack[Options]
) -> PerQuery:
    """Cost of the first place: 0 if its item is relevant, else 1 [2]_.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`; labels not below zero.

    Returns
    -------
    PerQuery
        From 0 (best) to 1; 1 where nothing is relevant.
    """

    def kernel(lists: Lists) -> Array:
        return 1.0 - lists.total(_share(lists) * (lists.place == 0))

    return _relevance(kernel, scores, labels, min_relevant=min_relevant, **options)


def coverage_error(
    scores: ArrayLike, labels: ArrayLike, *, min_relevant: float = 1.0, **options: Unpack[Options]
) -> PerQuery:
    """Number of places to look at until all relevant items are found.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`; labels not below zero.

    Returns
    -------
    PerQuery
        Number of relevant items at best; undefined where nothing is relevant. Items that are not
        retrieved stand last.

    Examples
    --------
    >>> coverage_error([3.0, 2.0, 1.0], [1, 1, 0]).mean
    2.0
    """

    def kernel(lists: Lists) -> Array:
        tied, relevant = lists.within(lists.label), lists.total(lists.label)
        last = (tied > 0) & (lists.before(lists.label) + tied == relevant[lists.list_id])
        # The last of r places drawn from t is r (t + 1) / (r + 1) on average.
        depth = lists.group_place + tied * (lists.group_size + 1) / (tied + 1)
        found = lists.total(np.where(last, depth / lists.group_size, 0.0))
        return np.where(relevant > 0, found, np.nan)

    return _relevance(kernel, scores, labels, min_relevant=min_relevant, **options)


def precision_at(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int,
    min_relevant: float = 1.0,
    **options: Unpack[Options],
) -> PerQuery:
    """Fraction of the first `k` places that relevant items hold.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`; labels not below zero.
    k
        Number of places, and the divisor even if the list is shorter, as in trec_eval.

    Returns
    -------
    PerQuery
        From 0 to 1 (best); 0 where nothing is relevant.
    """
    limit = check_k(k)

    def kernel(lists: Lists) -> Array:
        return lists.total(_share(lists) * (lists.place < limit)) / limit

    return _relevance(kernel, scores, labels, min_relevant=min_relevant, **options)


def break_even_point(
    scores: ArrayLike, labels: ArrayLike, *, min_relevant: float = 1.0, **options: Unpack[Options]
) -> PerQuery:
    """Precision where it equals recall: at as many places as there are relevant items.

    Also known as R-precision.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`; labels not below zero.

    Returns
    -------
    PerQuery
        From 0 to 1 (best); undefined where nothing is relevant.
    """

    def kernel(lists: Lists) -> Array:
        relevant = lists.total(lists.label)
        counted = lists.place < relevant[lists.list_id]
        return ratio(lists.total(_share(lists) * counted), relevant)

    return _relevance(kernel, scores, labels, min_relevant=min_relevant, **options)


def _share(lists: Lists) -> Array:
    """Chance that the item at a place is relevant."""
    return lists.within(lists.label) / lists.group_size * lists.held


def _first_relevant(lists: Lists) -> Array:
    """Chance that the first relevant item of the list stands at a place.

    In the first tie group that has any, ``C(t - j, r - 1) / C(t, r)`` for its ``j``-th place.
    """
    relevant, size = lists.within(lists.label), lists.group_size
    position = lists.place - lists.group_place + 1
    possible = (lists.before(lists.label) == 0) & (relevant > 0) & (position <= size - relevant + 1)
    r, t, j = (np.where(possible, x, 1.0) for x in (relevant, size, position))

    def log_choose(n: Array, m: Array) -> Array:
        return gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0)

    return np.where(possible, np.exp(log_choose(t - j, r - 1.0) - log_choose(t, r)), 0.0)
