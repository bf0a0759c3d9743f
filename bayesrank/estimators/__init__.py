"""For people who do not write programs: ``fit`` and ``predict`` over a program and an engine.

The names in ``__all__`` are loaded on first use: a ranking does not wait for the other estimators.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesrank.estimators.arena import ArenaRanker
    from bayesrank.estimators.collaborative import CollaborativeGP, CollaborativeOrdinalGP
    from bayesrank.estimators.cone_rank import ConeRank
    from bayesrank.estimators.label_ranking import LabelRanker
    from bayesrank.estimators.lambda_rank import LambdaRank
    from bayesrank.estimators.link_learn import LinkLearn
    from bayesrank.estimators.load import load_ranker
    from bayesrank.estimators.orders import OrderRanker
    from bayesrank.estimators.ordinal import OrdinalGP
    from bayesrank.estimators.pairwise import PairwiseRanker
    from bayesrank.estimators.preference import PreferenceGP
    from bayesrank.estimators.rank_rls import RankRLS
    from bayesrank.estimators.scorers import absolute_error_score, log_score

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
    "load_ranker",
    "log_score",
]
_FILES = {
    "ArenaRanker": "arena",
    "CollaborativeGP": "collaborative",
    "CollaborativeOrdinalGP": "collaborative",
    "ConeRank": "cone_rank",
    "LabelRanker": "label_ranking",
    "LambdaRank": "lambda_rank",
    "LinkLearn": "link_learn",
    "OrderRanker": "orders",
    "OrdinalGP": "ordinal",
    "PairwiseRanker": "pairwise",
    "PreferenceGP": "preference",
    "RankRLS": "rank_rls",
    "absolute_error_score": "scorers",
    "load_ranker": "load",
    "log_score": "scorers",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module 'bayesrank.estimators' has no attribute {name!r}")
    value = getattr(import_module(f"bayesrank.estimators.{_FILES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
