"""The models, one file each: plain NumPyro programs that any engine can take.

A program states beliefs and nothing about how to compute with them. `bayesrank.infer` runs it by
expectation propagation, ``numpyro.infer`` by NUTS or SVI.

==================== ==============================================================================
file                 programs
==================== ==============================================================================
``bayes_point``      ``ordinal_version_space``: linear scores and thresholds from levels
``collaborative``    ``collaborative_rating_gp``, ``collaborative_ordinal_gp``,
                     ``collaborative_preference_gp``: users' functions, of shared mean and kernel
``comparisons``      ``thurstone``, ``preference_gp``, ``judged_comparisons``: skills from
                     comparisons of two items, with a term for each column of a log
``cone_rank``        ``cone_of_differences``: differences of features as mixtures of a few atoms
``dynamic``          ``dynamic_thurstone``: skills that move in time from dated comparisons
``label_ranking``    ``calibrated_label_ranking``: utilities of labels from rankings and sets
``lambda_rank``      ``weighted_preferences``: linear scores from pairs that count by weights
``link_learn``       ``link_bm25``: corrections of BM25's term weight from links of documents
``ordinal``          ``ordinal_gp``: levels or numbers of items from their features
``orders``           ``thurstone_orders``, ``preference_orders``: skills from orders and choices
``rank_rls``         ``rank_rls_gp``: scores from grades that compare within a query only
==================== ==============================================================================
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
    "thurstone",
    "thurstone_orders",
    "weighted_preferences",
]
