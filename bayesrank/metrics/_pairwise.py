"""Metrics of pairs in the wrong order, and distances between two rankings.

For a distance, scores and labels each give a ranking; both may hold ties, and the two are treated
alike. Here a tie is a statement, that neither item comes first, so a ranking has distance zero
from itself.

References
----------
.. [1] S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005 workshop
       on Learning to Rank.
.. [2] T. Pahikkala et al., "Transductive ranking via pairwise regularized least-squares".
.. [3] C. J. C. Burges, "Ranking as learning structured outputs", NIPS 2005 workshop on Learning to
       Rank.
.. [4] R. Fagin, R. Kumar and D. Sivakumar, "Comparing top k lists", SIAM Journal on Discrete
       Mathematics, 2003.
.. [5] R. Fagin, R. Kumar, M. Mahdian, D. Sivakumar and E. Vee, "Comparing partial rankings", SIAM
       Journal on Discrete Mathematics, 2006.
"""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_not_negative, check_share
from bayesrank.metrics._relevance import check_k
from bayesrank.metrics.lists import Array, Lists, arrange, count_pairs, item_losses, ratio
from bayesrank.metrics.per_query import Options, PerQuery, per_query


def pairwise_error(scores: ArrayLike, labels: ArrayLike, **options: Unpack[Options]) -> PerQuery:
    """Fraction of the pairs of unlike labels that the scores put in the wrong order [3]_.

    A pair of equal scores counts one half, its expected value under random tie-breaking. Only the
    order of the labels matters, so any finite labels will do.

    Parameters
    ----------
    scores, labels, query, where, **options
        As in `bayesrank.metrics`.

    Returns
    -------
    PerQuery
        From 0 (right) to 1 (reversed); undefined where all labels are equal.

    Examples
    --------
    >>> pairwise_error([0.9, 0.5, 0.5], [1, 2, 0]).mean
    0.5
    """
    return per_query(_pairwise_error, scores, labels, **options)


def auc(
    scores: ArrayLike, labels: ArrayLike, *, min_relevant: float = 1.0, **options: Unpack[Options]
) -> PerQuery:
    """Area under the ROC curve: the chance that a relevant item outscores one that is not.

    Parameters
    ----------
    scores, labels, query, where, min_relevant, **options
        As in `bayesrank.metrics`.

    Returns
    -------
    PerQuery
        From 0 to 1 (right); one less `pairwise_error` of two classes, undefined for one.
    """
    return per_query(
        lambda lists: 1.0 - _pairwise_error(lists),
        scores,
        labels,
        kind="grade",
        min_relevant=min_relevant,
        **options,
    )


def k_partite_error(
    scores: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.0,
    *,
    strict: bool = False,
    **options: Unpack[Options],
) -> PerQuery:
    """Empirical k-partite ranking error of ordered ratings [1]_ (Definition 1).

    The sum of ``(m - l)**alpha`` over pairs of ratings ``l < m`` in the wrong order, ties one half,
    over the *number* of pairs of unlike ratings. With ``alpha > 0`` it can exceed 1. For two
    neighbouring levels it is the bipartite error.

    Parameters
    ----------
    scores, labels, query, where, **options
        As in `bayesrank.metrics`. Labels are whole numbers, and their differences count: a level
        that does not occur still lies between its neighbours.
    alpha
        0 counts all mistakes alike, 1 by the distance of the ratings.
    strict
        Whether a tie of unlike ratings counts whole, as in the loss of the paper's footnote, and
        not one half.

    Returns
    -------
    PerQuery
        0 is right; undefined where all ratings are equal.

    Raises
    ------
    ValueError
        If `alpha` is below zero.
    """
    alpha = check_not_negative(alpha, "alpha")

    def kernel(lists: Lists) -> Array:
        if alpha == 0 and not strict:
            return _pairwise_error(lists)
        levels = lists.levels or ()
        pairs = sum(lists.total(lists.label == level) ** 2 for level in levels)
        loss = lists.total(item_losses(lists, levels, alpha, 1.0 if strict else 0.5)) / 2
        return ratio(loss, (lists.size**2 - pairs) / 2)

    return per_query(kernel, scores, labels, kind="level", **options)


def disagreement_error(
    scores: ArrayLike, labels: ArrayLike, **options: Unpack[Options]
) -> PerQuery:
    """Disagreement error of the signs of differences [2]_ (1).

    The mean over all pairs of ``|sign(y - y') - sign(f - f')| / 2``: 1 for a pair in the wrong
    order, one half for one tied in scores or labels alone. Unlike `pairwise_error` it charges
    scores for telling apart what the labels do not.

    Parameters
    ----------
    scores, labels, query, where, **options
        As in `bayesrank.metrics`; any finite labels.

    Returns
    -------
    PerQuery
        From 0 to 1; undefined for fewer than two items.
    """

    def kernel(lists: Lists) -> Array:
        pairs = count_pairs(lists)
        one_sided = pairs.tied_score + pairs.tied_label - 2 * pairs.tied_both
        return ratio(pairs.discordant + one_sided / 2, pairs.total)

    return per_query(kernel, scores, labels, **options)


def kendall_tau(scores: ArrayLike, labels: ArrayLike, **options: Unpack[Options]) -> PerQuery:
    """Kendall's rank correlation in its form for ties, tau-b.

    ``(concordant - discordant) / sqrt((pairs untied in scores) (pairs untied in labels))``.

    Parameters
    ----------
    scores, labels, query, where, **options
        As in `bayesrank.metrics`; any finite labels.

    Returns
    -------
    PerQuery
        From -1 to 1; undefined where all scores or all labels are equal.
    """

    def kernel(lists: Lists) -> Array:
        pairs = count_pairs(lists)
        untied_score = pairs.total - pairs.tied_score
        untied_label = pairs.total - pairs.tied_label
        difference = untied_score - pairs.tied_label + pairs.tied_both - 2 * pairs.discordant
        return ratio(difference, np.sqrt(untied_score) * np.sqrt(untied_label))

    return per_query(kernel, scores, labels, **options)


def _pairwise_error(lists: Lists) -> Array:
    pairs = count_pairs(lists)
    wrong = pairs.discordant + (pairs.tied_score - pairs.tied_both) / 2
    return ratio(wrong, pairs.total - pairs.tied_label)


def kendall_distance(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    penalty: float = 0.5,
    normalize: bool = True,
    **options: Unpack[Options],
) -> PerQuery:
    """Kendall's distance of two rankings with ties [5]_ or of two top lists [4]_.

    A pair in opposite orders costs 1, a pair tied in one ranking alone `penalty`, a pair tied in
    both nothing. With `k` the pairs are those of items in either top list, ``K^(penalty)`` of [4]_.
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
    """Spearman's footrule of two rankings with ties [5]_ or of two top lists [4]_.

    The sum over items of the distance between the places that the two rankings give it. Tied items
    stand at their expected place under random tie-breaking. With `k`, every place after the first
    `k` counts as place ``k + 1``, the footrule ``F^(k + 1)`` of [4]_.

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
