r"""The likelihoods that EP is for, each met through moments of one cavity at a time.

========== ================================== ===========================================
name       observation of a predictor x       parameters of a user
========== ================================== ===========================================
probit     a level, x plus normal noise       log gaps between thresholds, log noise
           between two thresholds
logit      the same with logistic noise       the same
pairwise   the first item wins, by the        none
           logistic of x = f(a) - f(b)
========== ================================== ===========================================

Thresholds are made of their ``r - 2`` gaps, and their mean is zero: the level of ``f`` carries the
rest. Numbers need no EP, see `bayesrank.solvers.collaborative.numbers`.

References
----------
.. [1] Andrews, D. F. and Mallows, C. L. (1974). Scale mixtures of normal distributions. Journal of
   the Royal Statistical Society B, 36, 99-102.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from scipy.stats import kstwobign

from bayesrank.distributions.ordinal import OrderedProbit, centred_thresholds
from bayesrank.infer.quadrature import Moments

__all__ = ["LIKELIHOODS", "Likelihood", "thresholds"]

# Standard logistic noise is normal noise whose standard deviation is twice a number of Kolmogorov's
# law [1]_. By the trapezoidal rule in its logarithm probabilities are right to 1e-9, relative to
# themselves 10 away from zero, and to 1e-5 if 20 away, whatever the cavity.
_HALVES = np.geomspace(0.25, 6.0, 24)
_LOG_SCALES = np.log(2.0 * _HALVES)
_LOG_WEIGHTS = kstwobign.logpdf(_HALVES) + np.log(_HALVES * np.diff(np.log(_HALVES[:2])))


class Likelihood(NamedTuple):
    """One way of saying something about an item.

    Attributes
    ----------
    moments
        ``moments(theta, level, mean, variance) -> Moments`` of one observation.
    score
        ``score(theta, level, mean, variance, log_z)``, the gradient of ``log_z`` in ``theta``.
    """

    moments: Callable[[Array, Array, Array, Array], Moments]
    score: Callable[[Array, Array, Array, Array, Array], Array]


def thresholds(log_gaps: Array) -> Array:
    """Thresholds from the logs of their gaps, mean zero; shape (..., r - 2) to (..., r - 1)."""
    return centred_thresholds(jnp.exp(log_gaps))


def _probit(theta: Array, level: Array, mean: Array, variance: Array) -> Moments:
    law = OrderedProbit(0.0, thresholds(theta[:-1]), jnp.exp(theta[-1]), validate_args=False)
    return Moments(*law.tilted_moments(level, mean, variance))


def _probit_score(theta: Array, level: Array, mean: Array, variance: Array, log_z: Array) -> Array:
    """Gradient by the density at the ends of the level's interval, shape (p,)."""
    noise = jnp.exp(2.0 * theta[-1])
    sd = jnp.sqrt(noise + variance)
    edges = thresholds(theta[:-1])
    number = jnp.arange(edges.shape[0])
    sign = jnp.where(number == level, 1.0, 0.0) - jnp.where(number == level - 1, 1.0, 0.0)
    ends = (edges - mean) / sd
    # Elsewhere the density may be any number of times the mass of the level.
    density = sign * jnp.exp(jnp.where(sign != 0, norm.logpdf(ends) - log_z, -jnp.inf))
    by_gap = (density / sd) @ jax.jacfwd(thresholds)(theta[:-1])
    return jnp.append(by_gap, -noise / sd**2 * (density @ ends))


def _by_scales(theta: Array) -> Array:
    """Parameters with normal noise of each of the scales, shape (p,) to (24, p)."""
    return jnp.tile(theta, (len(_LOG_SCALES), 1)).at[:, -1].add(_LOG_SCALES)


def _logit(theta: Array, level: Array, mean: Array, variance: Array) -> Moments:
    each = jax.vmap(lambda t: _probit(t, level, mean, variance))(_by_scales(theta))
    log_z = logsumexp(_LOG_WEIGHTS + each.log_z)
    share = jnp.exp(_LOG_WEIGHTS + each.log_z - log_z)
    d1 = share @ each.d1
    d2 = share @ (each.d2 + (each.d1 - d1) ** 2)
    # The likelihood is log-concave: what is above zero is the rule's error far out.
    return Moments(log_z, d1, jnp.minimum(d2, 0.0))


def _logit_score(theta: Array, level: Array, mean: Array, variance: Array, log_z: Array) -> Array:
    each = jax.vmap(lambda t: _probit_score(t, level, mean, variance, log_z))
    return jnp.exp(_LOG_WEIGHTS) @ each(_by_scales(theta))


def _pairwise(theta: Array, level: Array, mean: Array, variance: Array) -> Moments:
    """The better of two levels, above a threshold at zero."""
    return _logit(jnp.zeros(1, mean.dtype), jnp.ones(()), mean, variance)


def _pairwise_score(
    theta: Array, level: Array, mean: Array, variance: Array, log_z: Array
) -> Array:
    return theta  # has no entries


LIKELIHOODS = {
    "probit": Likelihood(_probit, _probit_score),
    "logit": Likelihood(_logit, _logit_score),
    "pairwise": Likelihood(_pairwise, _pairwise_score),
}
