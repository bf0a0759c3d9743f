"""How far an answer can be trusted: engines against each other, and programs against each other."""

from bayesrank.diagnostics.compare import ModelComparison as ModelComparison
from bayesrank.diagnostics.compare import compare as compare
from bayesrank.diagnostics.crosscheck import crosscheck as crosscheck
from bayesrank.diagnostics.crosscheck_result import CrossCheck as CrossCheck
from bayesrank.diagnostics.crosscheck_result import NUTSResult as NUTSResult
from bayesrank.diagnostics.pit import randomized_pit as randomized_pit
from bayesrank.diagnostics.transitivity import Transitivity as Transitivity
from bayesrank.diagnostics.transitivity import transitivity as transitivity

__all__ = [
    "CrossCheck",
    "ModelComparison",
    "NUTSResult",
    "Transitivity",
    "compare",
    "crosscheck",
    "randomized_pit",
    "transitivity",
]
