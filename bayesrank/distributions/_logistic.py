r"""Moments of a normal predictor that is seen through logistic noise.

With standard logistic noise, a predictor :math:`x` puts the mass

.. math:: \sigma(x - l)\, \sigma(h - x)\, (1 - e^{l - h})

between the edges :math:`l < h`, one of which may be infinite. Its average over
:math:`x \sim N(m, v)` has no closed form, but its shape is known beforehand: a normal density that
two soft steps of unit scale cut off. The trapezoidal rule in

.. math:: u(x) = \sinh^{-1} \frac{x - l}{a} + \sinh^{-1} \frac{x - h}{a}

puts nodes close to each other near the edges and ever wider apart away from them, whatever the
variance. The integrand is analytic around the real line of :math:`u`, so the rule converges
geometrically [1]_: with 56 nodes it is right to 1e-9, relative to the mass, for variances up to
ten thousand times that of the noise.

References
----------
.. [1] Trefethen, L. N. and Weideman, J. A. C. (2014). The exponentially convergent trapezoidal
   rule. SIAM Review, 56, 385-458.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank.distributions._moments import TiltedMoments

__all__ = ["logistic_interval_moments"]

_NODES = 56
# So many are enough where no variance is larger than the noise's scale squared.
_FEW_NODES = 21
# The scale a of the change of variables; poles of the logistic are pi away from the edges.
_SCALE = 3.6
# Beyond so many nats below the envelope's top nothing counts: 1e-11.
_DEPTH = 26.0
# Evenly spaced nodes over this length are near enough to each other.
_NEAR = 24.0
# Where the tilted variance is within this share of the cavity's, it comes from the slopes.
_NARROW = 0.1
# A variance below so many times the rounding error stands for none.
_POINT = 1e4


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
        right to 1e-9, however small the probability. It is differentiable in all arguments.
    """
    given = (jnp.asarray(x) for x in (lower, upper, mean, variance, scale))
    lower, upper, mean, variance, scale = jnp.broadcast_arrays(*given)
    low, high, mean = _in_units(lower, scale), _in_units(upper, scale), mean / scale
    point = _POINT * jnp.finfo(mean.dtype).eps
    variance = jnp.maximum(variance / scale**2, point)
    case = low, high, mean, variance
    log_z, d1, d2 = lax.cond(
        jnp.all(variance <= 1.0),
        lambda: _averaged(*case, _FEW_NODES),
        lambda: _averaged(*case, _NODES),
    )
    return TiltedMoments(log_z, d1 / scale, d2 / scale**2)


def _in_units(edge: Array, scale: Array) -> Array:
    """An edge in units of the noise; an infinite one has no slope in these."""
    finite = jnp.isfinite(edge)
    return jnp.where(finite, jnp.where(finite, edge, 0.0) / scale, edge)


def _averaged(low: Array, high: Array, mean: Array, variance: Array, count: int) -> TiltedMoments:
    """Average over the predictor in units of the noise, by a rule of so many nodes."""
    offset, weight = lax.stop_gradient(_nodes(low, high, mean, variance, count))
    x = lax.stop_gradient(mean) + offset
    log_mass, slope = _log_mass(low, high, x)
    deviation = offset + (lax.stop_gradient(mean) - mean)
    log_density = log_mass - 0.5 * deviation**2 / variance
    top = lax.stop_gradient(jnp.max(log_density, axis=0))
    mass = weight * jnp.exp(log_density - top)
    total = jnp.sum(mass, axis=0)
    share = mass / total
    log_z = top + jnp.log(total) - 0.5 * jnp.log(2.0 * jnp.pi * variance)
    d1 = jnp.sum(share * slope, axis=0)
    centred = deviation - jnp.sum(share * deviation, axis=0)
    # Either form cancels where the other keeps its digits.
    wide = (jnp.sum(share * centred**2, axis=0) / variance - 1.0) / variance
    narrow = jnp.sum(share * slope * centred, axis=0) / variance
    d2 = jnp.where(jnp.abs(wide) * variance < _NARROW, narrow, wide)
    # The outcome's probability is log-concave; rounding must not make it otherwise.
    return TiltedMoments(log_z, d1, jnp.minimum(d2, 0.0))


def _log_mass(low: Array, high: Array, x: Array) -> tuple[Array, Array]:
    """Log of the mass between the edges at predictors, and its derivative in these."""
    above, below = jnp.isfinite(low), jnp.isfinite(high)
    # With one edge at infinity, the other one's step stands for both.
    sign = jnp.where(above, 1.0, -1.0)
    value, slope = _log_step(sign * (x - jnp.where(above, low, high)))
    slope = sign * slope
    both = above & below

    def with_upper() -> tuple[Array, Array]:
        upper, rise = _log_step(jnp.where(both, high, 0.0) - x)
        width = jnp.where(both, high, 1.0) - jnp.where(both, low, 0.0)
        upper = upper + jnp.log(-jnp.expm1(-width))
        return value + jnp.where(both, upper, 0.0), slope - jnp.where(both, rise, 0.0)

    return lax.cond(jnp.any(both), with_upper, lambda: (value, slope))


def _log_step(x: Array) -> tuple[Array, Array]:
    """Log of the logistic function and its derivative, by one exponential."""
    small = jnp.exp(-jnp.abs(x))
    value = jnp.minimum(x, 0.0) - jnp.log1p(small)
    return value, jnp.where(x < 0, 1.0, small) / (1.0 + small)


def _nodes(
    low: Array, high: Array, mean: Array, variance: Array, count: int
) -> tuple[Array, Array]:
    """Nodes (count, ...), measured from the mean, and their weights."""
    left, right, drop = _ends(low, high, mean, variance)
    # A step where the density has dropped needs less care.
    unit = _SCALE * _DEPTH / jnp.maximum(_DEPTH - drop, 1.0)
    # An infinite edge stands where the other one is.
    first = jnp.where(jnp.isfinite(low), low, high)
    last = jnp.where(jnp.isfinite(high), high, low)
    centre, half = 0.5 * (first + last), 0.5 * (last - first) / unit
    start, stop = (_to_rule(mean + end, first, last, unit) for end in (left, right))
    steps = jnp.asarray(np.linspace(0.0, 1.0, count), mean.dtype).reshape(-1, *(1,) * mean.ndim)
    # Exponentials of evenly spaced numbers are powers of one of them.
    e = jnp.exp(0.5 * start) * _powers(jnp.exp(0.5 * (stop - start) / (count - 1)), count)
    sinh, cosh = 0.5 * (e - 1.0 / e), 0.5 * (e + 1.0 / e)
    x = centre + unit * sinh * jnp.sqrt(1.0 + (half / cosh) ** 2)
    density = lax.rsqrt(unit**2 + (x - first) ** 2) + lax.rsqrt(unit**2 + (x - last) ** 2)
    weight = (stop - start) / (count - 1) / density
    # Nodes that are near enough to each other anyway need no change of variables, and none that
    # takes differences far from the edges.
    near = right - left < _NEAR
    even = left + (right - left) * steps, (right - left) / (count - 1)
    return jnp.where(near, even[0], x - mean), jnp.where(near, even[1], weight)


def _powers(base: Array, count: int) -> Array:
    """Powers 0 to count - 1 along a new leading axis."""
    powers = jnp.stack([jnp.ones_like(base), base])
    while powers.shape[0] < count:
        powers = jnp.concatenate([powers, powers * powers[-1] * base])
    return powers[:count]


def _to_rule(x: Array, first: Array, last: Array, unit: Array) -> Array:
    return jnp.arcsinh((x - first) / unit) + jnp.arcsinh((x - last) / unit)


def _ends(low: Array, high: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Ends of the mass, measured from the mean, and how far the density has dropped at the edge.

    The envelope ``min(x - l, 0, h - x)`` of the log mass makes the log density the least of three
    parabolas; where that is above a level is where three intervals meet.
    """
    low, high = low - mean, high - mean
    # The edges pull the mode towards them, by no more than the variance; one of them at most.
    top = jnp.clip(low, 0.0, variance) + jnp.clip(high, -variance, 0.0)
    level = jnp.minimum(jnp.minimum(top - low, high - top), 0.0)
    level = level - 0.5 * top**2 / variance
    drop = level + 0.5 * jnp.minimum(low**2, high**2) / variance
    level = level - _DEPTH
    left, right = jnp.full_like(mean, -jnp.inf), jnp.full_like(mean, jnp.inf)
    for tilt, at_mean in ((1.0, -low), (0.0, jnp.zeros_like(mean)), (-1.0, high)):
        peak = at_mean + 0.5 * tilt**2 * variance - level
        known = jnp.isfinite(peak)
        reach = jnp.sqrt(2.0 * variance * jnp.where(known, peak, 1.0))
        left = jnp.where(known, jnp.maximum(left, tilt * variance - reach), left)
        right = jnp.where(known, jnp.minimum(right, tilt * variance + reach), right)
    return left, right, drop
