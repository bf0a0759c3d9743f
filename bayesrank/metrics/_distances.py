"""Distances between two rankings with ties, whole or cut off after the first places.

Scores and labels each give a ranking; both may hold ties, and the two are treated alike. Here a
tie is a statement, that neither item comes first, so a ranking has distance zero from itself.

References
----------
.. [1] R. Fagin, R. Kumar and D. Sivakumar, "Comparing top k lists", SIAM Journal on Discrete
       Mathematics, 2003.
.. [2] R. Fagin, R. Kumar, M. Mahdian, D. Sivakumar and E. Vee, "Comparing partial rankings", SIAM
       Journal on Discrete Mathematics, 2006.
"""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_share
from bayesrank.metrics._relevance import check_k
from bayesrank.metrics._result import PerQuery
from bayesrank.metrics.lists import Lists, arrange, ratio
from bayesrank.metrics.pairs import count_pairs
from bayesrank.metrics.per_query import per_query
from bayesrank.metrics.problem import Array, Options


def kendall_distance(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    penalty: float = 0.5,
    normalize: bool = True,
    **options: Unpack[Options],
) -> PerQuery:
    """Kendall's distance of two rankings with ties [2]_ or of two top lists [1]_.

    A pair in opposite orders costs 1, a pair tied in one ranking alone `penalty`, a pair tied in
    both nothing. With `k` the pairs are those of items in either top list, ``K^(penalty)`` of [1]_.
    Items outside a top list are tied last in it; those tied for its last place are all in it.

    Parameters
    ----------
    scores, labels, query, where, **options
        As in `bayesrank.metrics`; any finite labels. `ties` other than ``"expected"`` resolves
        the ties of the scores first.
    k
        Length of the top lists; whole rankings without it.
    penalty
        Cost of a one-sided tie, from 0 to 1. From one half on it is a (near) metric.
    normalize
        Divide by the largest value that lists of these lengths allow.

    Returns
    -------
    PerQuery
        From 0 (the same) to 1, or in pairs; undefined for fewer than two items.

    Raises
    ------
    ValueError
        If `k` or `penalty` is out of range.
    """
    limit = check_k(k)
    penalty = check_share(penalty, "penalty", zero=True, one=True, usual="0.5")

    def kernel(lists: Lists) -> Array:
        cut = lists if k is None else _cut(lists, limit)
        pairs = count_pairs(cut)
        one_sided = pairs.tied_score + pairs.tied_label - 2 * pairs.tied_both
        distance = pairs.discordant + penalty * one_sided
        if k is None:
            return _scale(lists, distance, pairs.total, normalize)
        a, b = (cut.total(place < limit) for place in (cut.score_key, -cut.label))
        largest = a * b + penalty * (a * (a - 1) + b * (b - 1)) / 2
        everything = lists.size * (lists.size - 1) / 2
        return _scale(lists, distance, np.minimum(largest, everything), normalize)

    return per_query(kernel, scores, labels, **options)


def spearman_footrule(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    normalize: bool = True,
    **options: Unpack[Options],
) -> PerQuery:
    """Spearman's footrule of two rankings with ties [2]_ or of two top lists [1]_.

    The sum over items of the distance between the places that the two rankings give it. Tied items
    stand at their expected place under random tie-breaking. With `k`, every place after the first
    `k` counts as place ``k + 1``, the footrule ``F^(k + 1)`` of [1]_.

    Parameters
    ----------
    scores, labels, query, where, k, normalize, **options
        As for `kendall_distance`.

    Returns
    -------
    PerQuery
        From 0 (the same) to 1, or in places; undefined for fewer than two items.

    Examples
    --------
    >>> spearman_footrule([3, 2, 1], [1, 2, 3], normalize=False).mean
    4.0
    """
    limit = check_k(k)

    def kernel(lists: Lists) -> Array:
        other = _by_label(lists, _expected_place(lists, limit))
        distance = lists.total(abs(_expected_place(other, limit) - other.label), other.list_id)
        largest = np.floor(lists.size**2 / 2)
        if k is not None:
            largest = np.minimum(largest, k * (k + 1.0))
        return _scale(lists, distance, largest, normalize)

    return per_query(kernel, scores, labels, **options)


def _by_label(lists: Lists, carried: Array) -> Lists:
    """Rank the items by label from high to low; `carried` goes along as their label."""
    key = lists.num_codes - 1 - lists.label_code
    return arrange(lists.list_id, key, lists.num_codes, carried, lists.score, lists.num_lists, None)


def _cut(lists: Lists, limit: float) -> Lists:
    """Put each item at the first place of its group, or last if that is not below `limit`."""
    last = int(min(limit, len(lists.label)))
    other = _by_label(lists, lists.group_place)
    by_score, by_label = (np.minimum(place, last) for place in (other.label, other.group_place))
    kept = np.where((by_score < last) | (by_label < last), other.list_id, lists.num_lists - 1)
    return arrange(kept, by_score, last + 1, -by_label, other.score, lists.num_lists, None)


def _expected_place(lists: Lists, limit: float) -> Array:
    places = np.minimum(lists.place * 1.0, limit)
    return lists.within(places) / lists.group_size


def _scale(lists: Lists, distance: Array, largest: Array, normalize: bool) -> Array:
    defined = lists.size > 1
    divisor = largest if normalize else 1.0
    return ratio(distance, np.where(defined, divisor, 0.0))
