"""Rankings with honest uncertainty, from comparisons and ratings.

Data becomes the arguments of a NumPyro program; an engine reads the program as a factor graph and
returns a posterior; rankings, diagnostics and plots are functions of that posterior. See
``bayesrank.models`` for the programs and ``bayesrank.infer`` for the engines.

The names in ``__all__`` are loaded on first use, so that importing the package is quick, and it
changes no global state.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesrank._version import __version__ as __version__
    from bayesrank.estimators import ArenaRanker as ArenaRanker
    from bayesrank.estimators import CollaborativeGP as CollaborativeGP
    from bayesrank.estimators import CollaborativeOrdinalGP as CollaborativeOrdinalGP
    from bayesrank.estimators import ConeRank as ConeRank
    from bayesrank.estimators import LabelRanker as LabelRanker
    from bayesrank.estimators import LambdaRank as LambdaRank
    from bayesrank.estimators import LinkLearn as LinkLearn
    from bayesrank.estimators import OrderRanker as OrderRanker
    from bayesrank.estimators import OrdinalGP as OrdinalGP
    from bayesrank.estimators import PairwiseRanker as PairwiseRanker
    from bayesrank.estimators import PreferenceGP as PreferenceGP
    from bayesrank.estimators import RankRLS as RankRLS
    from bayesrank.inferencedata import to_arviz as to_arviz

_EXPORTS = {
    "__version__": "bayesrank._version",
    "ArenaRanker": "bayesrank.estimators",
    "CollaborativeGP": "bayesrank.estimators",
    "CollaborativeOrdinalGP": "bayesrank.estimators",
    "ConeRank": "bayesrank.estimators",
    "LabelRanker": "bayesrank.estimators",
    "LambdaRank": "bayesrank.estimators",
    "LinkLearn": "bayesrank.estimators",
    "OrderRanker": "bayesrank.estimators",
    "OrdinalGP": "bayesrank.estimators",
    "PairwiseRanker": "bayesrank.estimators",
    "PreferenceGP": "bayesrank.estimators",
    "RankRLS": "bayesrank.estimators",
    "to_arviz": "bayesrank.inferencedata",
}

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
    "__version__",
    "to_arviz",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'bayesrank' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
