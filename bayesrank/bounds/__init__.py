"""Guarantees: from the metric on a sample to the metric on what is to come.

Two papers' bounds, in log space where they overflow, and the intervals that stand beside them:

* k-partite ranking [1]_: `skew_vector`, `level_constants` and `skew_factor`, Theorem 1
  (`finite_class_bound`), Theorem 2 (`uniform_bound`) with Theorem 3 (`linear_shatter`), and their
  inversions `finite_class_examples`, `uniform_examples`;
* ranking with unlabelled queries [2]_: `ranking_distance`, `mcdiarmid_term` and
  `cross_validation_bound`;
* intervals of the expected error: `normal_error`, `bootstrap_error`, `posterior_error`, side by
  side in `error_intervals`, and `bootstrap_queries` for any metric of `bayesrank.metrics`.

References
----------
.. [1] S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005
       workshop on Learning to Rank.
.. [2] N. Usunier, V. Truong, M. R. Amini and P. Gallinari, "Ranking with unlabeled data: a first
       study", NIPS 2005 workshop on Learning to Rank.
"""

from bayesrank.bounds._cross_validation import (
    CrossValidationBound,
    Queries,
    cross_validation_bound,
    mcdiarmid_term,
    ranking_distance,
)
from bayesrank.bounds._intervals import (
    ErrorInterval,
    bootstrap_error,
    bootstrap_queries,
    error_intervals,
    normal_error,
    posterior_error,
)
from bayesrank.bounds._k_partite import (
    finite_class_bound,
    finite_class_examples,
    linear_shatter,
    uniform_bound,
    uniform_examples,
)
from bayesrank.bounds._skew import level_constants, pair_share, skew_factor, skew_vector

__all__ = [
    "CrossValidationBound",
    "ErrorInterval",
    "Queries",
    "bootstrap_error",
    "bootstrap_queries",
    "cross_validation_bound",
    "error_intervals",
    "finite_class_bound",
    "finite_class_examples",
    "level_constants",
    "linear_shatter",
    "mcdiarmid_term",
    "normal_error",
    "pair_share",
    "posterior_error",
    "ranking_distance",
    "skew_factor",
    "skew_vector",
    "uniform_bound",
    "uniform_examples",
]
