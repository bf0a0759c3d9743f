r"""Moments of a normal predictor that is seen through logistic noise.

Logistic noise is normal noise of random variance :math:`q`, where :math:`\sqrt q / 2` has
Kolmogorov's distribution [1]_. An outcome's probability at a normal predictor is therefore an
average over :math:`q` of the mass that a normal variable has between two edges, and a trapezoidal
rule in :math:`\log q` has it nearly to rounding, if the nodes are where the average has its mass.
With :math:`d` the distance from the mean to the nearer edge and :math:`v` the predictor's variance,
in units of the noise, the integrand falls as

.. math:: \exp\left(-\frac{q}{2} - \frac{d^2}{2 (q + v)}\right),

so that the ends of the rule are the roots of a quadratic equation in :math:`q + v`.

References
----------
.. [1] Andrews, D. F. and Mallows, C. L. (1974). Scale mixtures of normal distributions. Journal of
   the Royal Statistical Society B, 36, 99-102.
"""

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike

from bayesrank.distributions import _moments
from bayesrank.distributions._outcomes import TiltedMoments

__all__ = ["logistic_interval_moments"]

_NODES = 40
# How far below its maximum the integrand is at the ends, in nats, and the smallest node: below it
# the noise's variance is with probability 1e-15.
_DEPTH = 34.0
_SMALLEST = 0.14
_TERMS = 3


def logistic_interval_moments(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    scale: ArrayLike = 1.0,
) -> TiltedMoments:
    """Integrate the probability that predictor plus logistic noise is between two edges.

    Parameters
    ----------
    lower, upper : ArrayLike
        Edges with ``lower < upper``, of which one may be infinite, on the scale of the predictor.
    mean, variance : ArrayLike
        Of the normal predictor. A variance of zero gives the logistic distribution itself.
    scale : ArrayLike, default 1.0
        Scale of the noise, positive: its standard deviation is ``pi / sqrt(3)`` times this.

    Returns
    -------
    TiltedMoments
        ``log_z`` and its first two derivatives in ``mean``; all arguments broadcast. ``log_z`` is
        right to 1e-9, however small the probability, where the outcome's edges are within a dozen
        standard deviations of ``mean``, or the variance is no more than a hundred times that of
        the noise; beyond both, to 1e-4. It is differentiable in all arguments.
    """
    lower, upper, mean, variance, scale = (
        jnp.asarray(x) for x in (lower, upper, mean, variance, scale)
    )
    squares = _nodes(lower, upper, mean, variance, scale)
    log_weights = _log_weights(squares)
    each = _moments.interval(lower, upper, mean, variance + scale**2 * squares)
    log_z = logsumexp(log_weights + each.log_mass, axis=0)
    share = jnp.exp(log_weights + each.log_mass - log_z)
    d1 = jnp.sum(share * each.first, axis=0)
    d2 = jnp.sum(share * (each.second + (each.first - d1) ** 2), axis=0)
    # The outcome's probability is log-concave; rounding must not make it otherwise.
    return TiltedMoments(log_z, d1, jnp.minimum(d2, 0.0))


def _nodes(lower: Array, upper: Array, mean: Array, variance: Array, scale: Array) -> Array:
    """Variances of the noise in units of ``scale**2``, along a new leading axis; held fixed."""
    beyond = jnp.maximum(lower - mean, mean - upper)
    d = jnp.maximum(beyond, 0.0) / scale
    v = variance / scale**2
    # The largest value of the exponent, and the two points so much below it.
    start = jnp.maximum(v, d)
    least = 0.5 * (start + d**2 / jnp.where(start > 0, start, 1.0))
    half = least + _DEPTH
    high = half + jnp.sqrt((half - d) * (half + d))
    low = jnp.maximum(d**2 / high - v, _SMALLEST)
    steps = jnp.linspace(0.0, 1.0, _NODES, dtype=d.dtype).reshape(-1, *(1,) * d.ndim)
    return lax.stop_gradient(low * ((high - v) / low) ** steps)


def _log_weights(squares: Array) -> Array:
    """Log of the trapezoidal rule's weights times the density of ``log q``."""
    root = 0.5 * jnp.sqrt(squares)
    step = jnp.log(squares[1] / squares[0])
    # d log(root) is half of d log(q).
    return _log_kolmogorov(root) + jnp.log(root) + jnp.log(0.5 * step)


def _log_kolmogorov(x: Array) -> Array:
    """Log density of Kolmogorov's distribution, by the series that converges faster."""
    near = x < 1.0
    a, b = jnp.where(near, x, 1.0), jnp.where(near, 1.0, x)
    small, large = jnp.zeros_like(x), jnp.zeros_like(x)
    for k in range(_TERMS, 0, -1):
        odd = (2 * k - 1) ** 2
        rate = jnp.pi**2 / (8.0 * a**2)
        small += (2.0 * odd * rate - 1.0) * jnp.exp(-(odd - 1) * rate)
        large -= (-1) ** k * k**2 * jnp.exp(-2.0 * (k**2 - 1) * b**2)
    below = 0.5 * jnp.log(2.0 * jnp.pi) - 2.0 * jnp.log(a) - jnp.pi**2 / (8.0 * a**2)
    above = jnp.log(8.0 * b) - 2.0 * b**2
    return jnp.where(near, below + jnp.log(small), above + jnp.log(large))
