"""Pairwise metrics: how many pairs of items are in the wrong order.

References
----------
.. [1] S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005
       workshop on Learning to Rank.
.. [2] T. Pahikkala et al., "Transductive ranking via pairwise regularized least-squares".
.. [3] C. J. C. Burges, "Ranking as learning structured outputs", NIPS 2005 workshop on Learning
       to Rank.
"""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_not_negative
from bayesrank.metrics._result import PerQuery
from bayesrank.metrics.lists import Lists, ratio
from bayesrank.metrics.pairs import count_pairs, item_losses
from bayesrank.metrics.per_query import per_query
from bayesrank.metrics.problem import Array, Options


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
