"""Inference engines for plain NumPyro programs."""

from bayesrank.infer.ep import EP as EP
from bayesrank.infer.posterior import Approximation as Approximation
from bayesrank.infer.result import AccuracyWarning as AccuracyWarning
from bayesrank.infer.result import EPResult as EPResult
from bayesrank.infer.running import ConvergenceWarning as ConvergenceWarning
from bayesrank.infer.whitening.reparam import WhitenReparam as WhitenReparam
from bayesrank.infer.whitening.reparam import whiten as whiten

__all__ = [
    "EP",
    "AccuracyWarning",
    "Approximation",
    "ConvergenceWarning",
    "EPResult",
    "WhitenReparam",
    "whiten",
]
