"""Likelihoods whose tilted moments are known, NumPyro's own among them."""

from __future__ import annotations

import numpyro.distributions as dist

from bayesrank.distributions import BradleyTerry, OrderedLogit
from bayesrank.infer.reader.predictors import SupportsTiltedMoments

__all__ = ["with_known_moments"]


def with_known_moments(fn: dist.Distribution) -> SupportsTiltedMoments | None:
    """The same distribution as one that knows its tilted moments, or None where there is none.

    NumPyro's Bernoulli and ordered logistic have logistic noise about their predictor.
    """
    if isinstance(fn, SupportsTiltedMoments):
        return fn
    if isinstance(fn, dist.BernoulliLogits):
        return BradleyTerry(fn.logits, validate_args=False)
    if isinstance(fn, dist.OrderedLogistic):
        return OrderedLogit(fn.predictor, fn.cutpoints, validate_args=False)
    return None
