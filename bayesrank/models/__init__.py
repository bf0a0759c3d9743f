"""The models, one file each: plain NumPyro programs that any engine can take.

A program states beliefs and nothing about how to compute with them. `bayesrank.infer` runs it by
expectation propagation, ``numpyro.infer`` by NUTS or SVI.
"""

from bayesrank.models.bayes_point import ordinal_version_space as ordinal_version_space
from bayesrank.models.collaborative import collaborative_ordinal_gp as collaborative_ordinal_gp
from bayesrank.models.collaborative import (
    collaborative_preference_gp as collaborative_preference_gp,
)
from bayesrank.models.collaborative import collaborative_rating_gp as collaborative_rating_gp
from bayesrank.models.comparisons import judged_comparisons as judged_comparisons
from bayesrank.models.comparisons import preference_gp as preference_gp
from bayesrank.models.comparisons import thurstone as thurstone
from bayesrank.models.cone_rank import cone_of_differences as cone_of_differences
from bayesrank.models.dynamic import dynamic_thurstone as dynamic_thurstone
from bayesrank.models.label_ranking import calibrated_label_ranking as calibrated_label_ranking
from bayesrank.models.lambda_rank import weighted_preferences as weighted_preferences
from bayesrank.models.link_learn import link_bm25 as link_bm25
from bayesrank.models.orders import preference_orders as preference_orders
from bayesrank.models.orders import thurstone_orders as thurstone_orders
from bayesrank.models.ordinal import ordinal_gp as ordinal_gp
from bayesrank.models.rank_rls import rank_rls_gp as rank_rls_gp
from bayesrank.models.scores import score_table as score_table

__all__ = [
    "collaborative_ordinal_gp",
    "collaborative_preference_gp",
    "collaborative_rating_gp",
    "cone_of_differences",
    "dynamic_thurstone",
    "calibrated_label_ranking",
    "judged_comparisons",
    "link_bm25",
    "ordinal_gp",
    "ordinal_version_space",
    "preference_gp",
    "preference_orders",
    "rank_rls_gp",
    "score_table",
    "thurstone",
    "thurstone_orders",
    "weighted_preferences",
]
