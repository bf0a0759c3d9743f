"""Metrics of relevance, of grades (NDCG), and of predicted ratings.

Expected values of metrics of relevance under random tie-breaking are closed forms [1]_.
A tie group has first place ``a`` (from 0), size ``t``, ``r`` relevant items, and ``b`` relevant
ones above it.

References
----------
.. [1] F. McSherry and M. Najork, "Computing information retrieval performance measures efficiently
       in the presence of tied scores", ECIR 2008.
.. [2] C. J. C. Burges, "Ranking as learning structured outputs", NIPS 2005 workshop on Learning to
       Rank.
.. [3] E. F. Harrington, "Online ranking/collaborative filtering using the perceptron algorithm",
       ICML 2003.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from bayesrank._validate import check_choice, check_count
from bayesrank.metrics.lists import Array, Lists, order_of, ratio
from bayesrank.metrics.per_query import Options, PerQuery, per_query

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


LARGEST_EXPONENT = 1000  # of two, for which sums of gains stay in the range of double precision


def ndcg(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    gain: Literal["exponential", "linear"] = "exponential",
    **options: Unpack[Options],
) -> PerQuery:
    """Discounted cumulative gain over that of the best possible order [2]_.

    ``sum gain(label) / log2(1 + rank)`` over the first `k` ranks. Equal scores share the discounts
    of their ranks evenly, which is the expected value under random tie-breaking [1]_; constant
    scores gain nothing from the order in which the data are stored.

    Parameters
    ----------
    scores, labels, query, where, **options
        As in `bayesrank.metrics`; labels not below zero.
    k
        Ranks that count; all without it.
    gain
        ``2**label - 1``, or the label itself (as in trec_eval and scikit-learn).

    Returns
    -------
    PerQuery
        From 0 to 1 (best); undefined where no item has a gain.

    Raises
    ------
    ValueError
        If `k` is not a whole number from 1 on, `gain` is unknown, or a label is too large for the
        exponential gain.

    Examples
    --------
    >>> round(ndcg([0.1, 0.2, 0.3], [2, 1, 0]).mean, 4)
    0.5869
    >>> round(ndcg([0.1, 0.2, 0.3], [2, 1, 0], gain="linear").mean, 4)
    0.6199
    """
    limit = check_k(k)
    check_choice(gain, "gain", "exponential", "linear")

    def kernel(lists: Lists) -> Array:
        if gain == "exponential" and lists.label.max() > LARGEST_EXPONENT:
            top = lists.label.max()
            raise ValueError(f"labels go up to {top:g}: 2**label overflows; use gain='linear'")
        return _ndcg(lists, limit, gain == "exponential")

    return per_query(kernel, scores, labels, kind="grade", **options)


def _ndcg(lists: Lists, limit: float, exponential: bool) -> Array:
    gain = 2.0**lists.label - 1.0 if exponential else lists.label
    rank = np.arange(1, len(lists.label) + 1)
    discount = np.where(rank <= limit, 1.0 / np.log2(1.0 + rank), 0.0)[lists.place]
    share = lists.within(discount) / lists.group_size
    code = lists.num_codes - 1 - lists.label_code
    best = order_of((lists.list_id, lists.num_lists), (code, lists.num_codes))
    ideal = lists.total(gain[best] * discount)
    return ratio(lists.total(gain * share * lists.held), ideal)


def mean_absolute_error(
    predicted: ArrayLike, labels: ArrayLike, **options: Unpack[Options]
) -> PerQuery:
    """Mean distance between predicted and true ratings; `rank_loss` is its name in [3]_.

    Parameters
    ----------
    predicted
        Ratings, or posterior means of ratings, in the place of scores; finite.
    labels, query, where, **options
        As in `bayesrank.metrics`; labels not below zero. Ties mean nothing here.

    Returns
    -------
    PerQuery
        In steps of the rating scale, 0 is right.

    Examples
    --------
    >>> mean_absolute_error([1, 2, 5], [1, 3, 3]).mean
    1.0
    """
    return _mean(lambda lists: abs(lists.score - lists.label), predicted, labels, options)


rank_loss = mean_absolute_error


def zero_one_error(predicted: ArrayLike, labels: ArrayLike, **options: Unpack[Options]) -> PerQuery:
    """Fraction of predicted ratings that are not the true one; for sets of labels, Hamming loss.

    Parameters
    ----------
    predicted, labels, query, where, **options
        As for `mean_absolute_error`.

    Returns
    -------
    PerQuery
        From 0 (right) to 1.
    """
    return _mean(lambda lists: lists.score != lists.label, predicted, labels, options)


def subset_error(predicted: ArrayLike, labels: ArrayLike, **options: Unpack[Options]) -> PerQuery:
    """Whether any rating of a query is not the true one: for sets of labels, the subset 0/1 loss.

    Parameters
    ----------
    predicted
        Ratings, or 1 for members of a set and 0 for others, in the place of scores; finite.
    labels, query, where, **options
        As in `bayesrank.metrics`; labels not below zero. Ties mean nothing here.

    Returns
    -------
    PerQuery
        0 (all right) or 1.

    Examples
    --------
    >>> subset_error([1, 0, 1, 1], [1, 0, 1, 0], query=[0, 0, 1, 1]).values
    array([0., 1.])
    """

    def kernel(lists: Lists) -> Array:
        return (lists.total(lists.score != lists.label) > 0) * 1.0

    return per_query(kernel, predicted, labels, kind="rating", **options)


def _mean(
    loss: Callable[[Lists], Array], predicted: ArrayLike, labels: ArrayLike, options: Options
) -> PerQuery:
    def kernel(lists: Lists) -> Array:
        return ratio(lists.total(loss(lists)), lists.size)

    return per_query(kernel, predicted, labels, kind="rating", **options)
