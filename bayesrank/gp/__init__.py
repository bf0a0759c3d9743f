"""Gaussian-process building blocks on top of tinygp's kernels."""

from bayesrank.gp.conditional import conditional as conditional
from bayesrank.gp.kernels import JITTER as JITTER
from bayesrank.gp.kernels import gram as gram
from bayesrank.gp.kernels import rbf as rbf

__all__ = ["JITTER", "conditional", "gram", "rbf"]
