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
rest. Numbers need no EP, see `bayesrank.infer._em_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import log_sigmoid
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from bayesrank.distributions.ordinal import OrderedLogit, OrderedProbit, centred_thresholds
from bayesrank.infer.quadrature import Moments

__all__ = ["LIKELIHOODS", "Likelihood", "thresholds"]

# For logistic noise of scale one and cavities of standard deviation up to 5, the Gauss-Hermite rule
# of so many nodes is right to 1e-7; the cavities of ratings are narrower than that.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())


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


def _by_quadrature(log_density: Callable[..., Array]) -> Likelihood:
    """Likelihood of any ``log_density(theta, level, x)``, by a Gauss-Hermite rule."""

    def moments(theta: Array, level: Array, mean: Array, variance: Array) -> Moments:
        x = mean + jnp.sqrt(variance) * _NODES

        def at(x: Array) -> Array:
            return log_density(theta, level, x)

        value = jax.vmap(at)(x)
        first = jax.vmap(jax.grad(at))(x)
        second = jax.vmap(jax.grad(jax.grad(at)))(x)
        log_z = logsumexp(_LOG_WEIGHTS + value)
        share = jnp.exp(_LOG_WEIGHTS + value - log_z)
        d1 = share @ first
        return Moments(log_z, d1, share @ (second + (first - d1) ** 2))

    def score(theta: Array, level: Array, mean: Array, variance: Array, log_z: Array) -> Array:
        x = mean + jnp.sqrt(variance) * _NODES
        value = jax.vmap(lambda x: log_density(theta, level, x))(x)
        slope = jax.vmap(lambda x: jax.grad(log_density)(theta, level, x))(x)
        return jnp.exp(_LOG_WEIGHTS + value - log_z) @ slope

    return Likelihood(moments, score)


def _logit_density(theta: Array, level: Array, x: Array) -> Array:
    law = OrderedLogit(x, thresholds(theta[:-1]), jnp.exp(theta[-1]), validate_args=False)
    return jnp.asarray(law.log_prob(level))


def _pairwise_density(theta: Array, level: Array, x: Array) -> Array:
    return log_sigmoid(x)


LIKELIHOODS = {
    "probit": Likelihood(_probit, _probit_score),
    "logit": _by_quadrature(_logit_density),
    "pairwise": _by_quadrature(_pairwise_density),
}
