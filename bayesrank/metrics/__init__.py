"""Scores to metrics: how good a ranking is.

Every metric is called as ``metric(scores, labels, *, query=None, where=None, ...)`` and returns a
`PerQuery`: one value a query in ``.values``, their average in ``.mean``.

scores
    Shape ``(n,)``, higher is better; or with leading axes, ``(draws, n)``, for the **posterior of
    a metric**: ``.values`` is then ``(draws, queries)``, ``.mean`` is ``(draws,)`` and
    ``.interval(0.9)`` is a credible interval. Labels may carry the draws as well (posterior
    predictive labels).
labels
    Shape ``(n,)``. Grades ``0, 1, 2, ...`` (an item is relevant from ``min_relevant`` on, by
    default 1), or ratings ``1 .. r``.
query
    Shape ``(n,)``, any names: the list that an item belongs to. All items are one list without it.
where
    Boolean mask, shape ``(n,)`` or as `scores`: items that are False are left out altogether.
ties
    What equal scores are worth. ``"expected"`` (the default): the metric's exact expected value
    when ties are broken at random. ``"trec"``: as trec_eval does, scores rounded to single
    precision and ties in descending order of `item`, which must be given. ``"input"``: the item
    that comes first in the arrays is ranked first.
undefined
    What a query counts in which a metric is not defined. ``"skip"`` (the default): its value is
    NaN, and the mean leaves it out. A number: its value; 0.0 is trec_eval's choice. ``"raise"``:
    an error that names the query.

Sets and rankings of labels
    A query is an example, and its items are the labels. Each idea has one name here:

    - Hamming loss: `zero_one_error` of predicted sets, 1 for members and 0 for others
    - subset 0/1 loss: `subset_error` of predicted sets
    - rank loss: `pairwise_error` of utilities against membership
    - one-error: `winner_takes_all`
    - coverage: `coverage_error`, the number of places; some authors subtract one
    - average precision: `average_precision`
    - Kendall, footrule: `kendall_distance` and `spearman_footrule` of two bucket orders

Rules for awkward input
    - NaN score: refused, by place; mask it with `where`, or give ``-inf``
    - score ``-inf``: *not retrieved*; the item holds no place and gains nothing, but counts among
      the relevant ones, and pairwise metrics rank it last
    - NaN or infinite label: refused
    - label below zero: refused by metrics of grades and ratings; taken by metrics that see the
      order of labels alone (`pairwise_error`, `disagreement_error`, `kendall_tau`,
      `kendall_distance`, `spearman_footrule`)
    - query without items (all masked out): undefined
    - all labels equal: `pairwise_error`, `k_partite_error`, `auc`, `kendall_tau` undefined;
      `disagreement_error` and the distances are defined from two items on
    - no relevant item: `ndcg`, `average_precision`, `reciprocal_rank`, `break_even_point`,
      `coverage_error` undefined; `precision_at` is 0, and `winner_takes_all` is 1

Cost and arithmetic
    ``O(n log n)`` time and ``O(n)`` memory, pairwise metrics included (`k_partite_error` with
    ``alpha > 0``: ``O(n log n + n k)`` for ``k`` levels); draws go in blocks. Arrays,
    NumPy's or JAX's, are computed in float64 by NumPy.
"""

from bayesrank.metrics._pairwise import (
    auc,
    disagreement_error,
    k_partite_error,
    kendall_distance,
    kendall_tau,
    pairwise_error,
    spearman_footrule,
)
from bayesrank.metrics._relevance import (
    average_precision,
    break_even_point,
    coverage_error,
    mean_absolute_error,
    ndcg,
    precision_at,
    rank_loss,
    reciprocal_rank,
    subset_error,
    winner_takes_all,
    zero_one_error,
)
from bayesrank.metrics.per_query import PerQuery

__all__ = [
    "PerQuery",
    "auc",
    "average_precision",
    "break_even_point",
    "coverage_error",
    "disagreement_error",
    "k_partite_error",
    "kendall_distance",
    "kendall_tau",
    "mean_absolute_error",
    "ndcg",
    "pairwise_error",
    "precision_at",
    "rank_loss",
    "reciprocal_rank",
    "spearman_footrule",
    "subset_error",
    "winner_takes_all",
    "zero_one_error",
]
