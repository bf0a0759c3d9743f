"""Levels: the noise that programs may choose, and thresholds from their gaps."""

from bayesrank.distributions.ordinal import OrderedLogit, OrderedProbit, centred_thresholds

__all__ = ["LIKELIHOODS", "centred_thresholds"]

LIKELIHOODS = {"probit": OrderedProbit, "logit": OrderedLogit}
