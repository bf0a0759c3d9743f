"""Inference engines for plain NumPyro programs."""

from bayesrank.infer._crosscheck_result import CrossCheck as CrossCheck
from bayesrank.infer._crosscheck_result import NUTSResult as NUTSResult
from bayesrank.infer._em_result import EMResult as EMResult
from bayesrank.infer._em_state import EMState as EMState
from bayesrank.infer._nested_result import NestedEPResult as NestedEPResult
from bayesrank.infer.compare import ModelComparison as ModelComparison
from bayesrank.infer.compare import compare as compare
from bayesrank.infer.crosscheck import crosscheck as crosscheck
from bayesrank.infer.em import EM as EM
from bayesrank.infer.ep import EP as EP
from bayesrank.infer.ep import ConvergenceWarning as ConvergenceWarning
from bayesrank.infer.evidence import EvidenceMaximum as EvidenceMaximum
from bayesrank.infer.evidence import maximize_evidence as maximize_evidence
from bayesrank.infer.nested import NestedEP as NestedEP
from bayesrank.infer.reparam import WhitenReparam as WhitenReparam
from bayesrank.infer.reparam import whiten as whiten
from bayesrank.infer.result import EPResult as EPResult

__all__ = [
    "EM",
    "EP",
    "ConvergenceWarning",
    "CrossCheck",
    "EMResult",
    "EMState",
    "EPResult",
    "EvidenceMaximum",
    "ModelComparison",
    "NUTSResult",
    "NestedEP",
    "NestedEPResult",
    "WhitenReparam",
    "compare",
    "crosscheck",
    "maximize_evidence",
    "whiten",
]
