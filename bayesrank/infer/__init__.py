"""Inference engines for plain NumPyro programs."""

from bayesrank.infer.ep import EP as EP
from bayesrank.infer.ep import ConvergenceWarning as ConvergenceWarning
from bayesrank.infer.result import EPResult as EPResult

__all__ = ["EP", "ConvergenceWarning", "EPResult"]
