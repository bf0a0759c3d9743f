"""For people who do not write programs: ``fit`` and ``predict`` over a program and an engine.

The names in ``__all__`` are loaded on first use: a ranking does not wait for the other estimators.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesrank.estimators.collaborative import CollaborativeGP, CollaborativeOrdinalGP
    from bayesrank.estimators.cone_rank import ConeRank
    from bayesrank.estimators.label_ranking import LabelRanker
    from bayesrank.estimators.lambda_rank import LambdaRank
    from bayesrank.estimators.link_learn import LinkLearn
    from bayesrank.estimators.ordinal import OrdinalGP, log_score
    from bayesrank.estimators.preference import PreferenceGP
    from bayesrank.estimators.rank_rls import RankRLS
    from bayesrank.estimators.ranker import Ranker

__all__ = [
    "CollaborativeGP",
    "CollaborativeOrdinalGP",
    "ConeRank",
    "LabelRanker",
    "LambdaRank",
    "LinkLearn",
    "OrdinalGP",
    "PreferenceGP",
    "RankRLS",
    "Ranker",
    "log_score",
]
_FILES = {
    "CollaborativeGP": "collaborative",
    "CollaborativeOrdinalGP": "collaborative",
    "ConeRank": "cone_rank",
    "LabelRanker": "label_ranking",
    "LambdaRank": "lambda_rank",
    "LinkLearn": "link_learn",
    "OrdinalGP": "ordinal",
    "PreferenceGP": "preference",
    "RankRLS": "rank_rls",
    "Ranker": "ranker",
    "log_score": "ordinal",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module 'bayesrank.estimators' has no attribute {name!r}")
    value = getattr(import_module(f"bayesrank.estimators.{_FILES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
