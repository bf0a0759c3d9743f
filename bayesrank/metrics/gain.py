"""Normalised discounted cumulative gain.

References
----------
.. [1] C. J. C. Burges, "Ranking as learning structured outputs", NIPS 2005 workshop on Learning
       to Rank.
.. [2] F. McSherry and M. Najork, "Computing information retrieval performance measures efficiently
       in the presence of tied scores", ECIR 2008.
"""

from typing import Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_choice
from bayesrank.metrics._relevance import check_k
from bayesrank.metrics._result import PerQuery
from bayesrank.metrics.lists import Lists, order_of, ratio
from bayesrank.metrics.per_query import per_query
from bayesrank.metrics.problem import Array, Options

LARGEST_EXPONENT = 1000  # of two, for which sums of gains stay in the range of double precision


def ndcg(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    k: int | None = None,
    gain: Literal["exponential", "linear"] = "exponential",
    **options: Unpack[Options],
) -> PerQuery:
    """Discounted cumulative gain over that of the best possible order [1]_.

    ``sum gain(label) / log2(1 + rank)`` over the first `k` ranks. Equal scores share the discounts
    of their ranks evenly, which is the expected value under random tie-breaking [2]_; constant
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
