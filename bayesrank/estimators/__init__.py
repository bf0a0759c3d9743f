"""For people who do not write programs: ``fit`` and ``predict`` over a program and an engine."""

from bayesrank.estimators.arena import ArenaRanker as ArenaRanker
from bayesrank.estimators.collaborative import CollaborativeGP as CollaborativeGP
from bayesrank.estimators.collaborative import CollaborativeOrdinalGP as CollaborativeOrdinalGP
from bayesrank.estimators.collaborative_features import correlation_kernel as correlation_kernel
from bayesrank.estimators.cone_rank import ConeRank as ConeRank
from bayesrank.estimators.label_ranking import LabelRanker as LabelRanker
from bayesrank.estimators.lambda_rank import LambdaRank as LambdaRank
from bayesrank.estimators.link_learn import LinkLearn as LinkLearn
from bayesrank.estimators.load import load_ranker as load_ranker
from bayesrank.estimators.orders import OrderRanker as OrderRanker
from bayesrank.estimators.ordinal import OrdinalGP as OrdinalGP
from bayesrank.estimators.pairwise import PairwiseRanker as PairwiseRanker
from bayesrank.estimators.preference import PreferenceGP as PreferenceGP
from bayesrank.estimators.rank_rls import RankRLS as RankRLS
from bayesrank.estimators.scorers import absolute_error_score as absolute_error_score
from bayesrank.estimators.scorers import log_score as log_score

__all__ = [
    "ArenaRanker",
    "CollaborativeGP",
    "CollaborativeOrdinalGP",
    "ConeRank",
    "LabelRanker",
    "LambdaRank",
    "LinkLearn",
    "OrderRanker",
    "OrdinalGP",
    "PairwiseRanker",
    "PreferenceGP",
    "RankRLS",
    "absolute_error_score",
    "correlation_kernel",
    "load_ranker",
    "log_score",
]
