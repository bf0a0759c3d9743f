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
    from bayesrank._version import __version__
    from bayesrank.estimators import (
        CollaborativeGP,
        CollaborativeOrdinalGP,
        ConeRank,
        LabelRanker,
        LambdaRank,
        LinkLearn,
        OrdinalGP,
        PreferenceGP,
        Ranker,
        RankRLS,
    )
    from bayesrank.inferencedata import to_arviz

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
    "__version__",
    "to_arviz",
]
_ELSEWHERE = {"__version__": "bayesrank._version", "to_arviz": "bayesrank.inferencedata"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bayesrank' has no attribute {name!r}")
    value = getattr(import_module(_ELSEWHERE.get(name, "bayesrank.estimators")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
