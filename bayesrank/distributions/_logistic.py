r"""Moments of a normal predictor that is seen through logistic noise.

With standard logistic noise, a predictor :math:`x` puts the mass

.. math:: \sigma(x - l)\, \sigma(h - x)\, (1 - e^{l - h})

between the edges :math:`l < h`, one of which may be infinite. Its average over
:math:`x \sim N(m, v)` has no closed form. The integrand is a normal density that two soft steps of
unit scale cut off. The trapezoidal rule in

.. math:: u(x) = \sinh^{-1} \frac{x - l}{a} + \sinh^{-1} \frac{x - h}{a}

puts nodes close together near the edges and ever wider apart away from them. The integrand is
analytic around the real line of :math:`u`, so the rule converges geometrically [1]_. With 56 nodes
it is right to 1e-9, relative to the mass, for variances up to ten thousand times that of the noise.

A normal density no wider than the steps sees them as nearly exponential. A few Gauss-Hermite nodes
are enough for it. With masses relative to that at the mean, each takes one exponential.

References
----------
.. [1] Trefethen, L. N. and Weideman, J. A. C. (2014). The exponentially convergent trapezoidal
   rule. SIAM Review, 56, 385-458.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank.distributions._moments import TiltedMoments

Edges = tuple[Array, ...]  # the lower one, or both

_NODES = 56
# Numbers of Gauss-Hermite nodes, and the largest variances that they are right to 1e-9 for.
_NARROW_RULES = ((7, 0.06), (27, 1.0))
_FEW = 10
# Predictors rise towards the lower edge's step and fall towards the upper one's.
_SIGNS = (1.0, -1.0)
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

    The result has ``log_z`` and its first two derivatives in ``mean``. ``log_z`` is right to 1e-9,
    however small the probability, and differentiable in all arguments. These broadcast.

    Parameters
    ----------
    lower, upper : ArrayLike
        Edges with ``lower < upper``, of which one may be infinite, on the scale of the predictor.
    mean, variance : ArrayLike
        Of the normal predictor. A variance of zero gives the logistic distribution itself.
    scale : ArrayLike, default 1.0
        Scale of the noise, positive: its standard deviation is ``pi / sqrt(3)`` times this.
    """
    # Where it is known that there is one edge, nothing is computed for a second one.
    has_upper = not (isinstance(upper, float) and np.isposinf(upper))
    given = (jnp.asarray(x) for x in (lower, upper, mean, variance, scale))
    lower, upper, mean, variance, scale = jnp.broadcast_arrays(*given)
    low, high, mean = _in_units(lower, scale), _in_units(upper, scale), mean / scale
    point = _POINT * jnp.finfo(mean.dtype).eps
    variance = jnp.maximum(variance / scale**2, point)
    case = (low, high) if has_upper else (low,), mean, variance
    rules = [partial(_by_hermite, *case, count) for count, _ in _NARROW_RULES]
    limits = jnp.array([limit for _, limit in _NARROW_RULES], mean.dtype)
    number = jnp.sum(jnp.max(variance, initial=0.0) > limits)
    log_z, d1, d2 = lax.switch(number, [*rules, partial(_by_trapezoids, *case)])
    # The outcome's probability is log-concave; rounding must not make it otherwise.
    return TiltedMoments(log_z, d1 / scale, jnp.minimum(d2, 0.0) / scale**2)


def _in_units(edge: Array, scale: Array) -> Array:
    """An edge in units of the noise; an infinite one has no slope in these."""
    finite = jnp.isfinite(edge)
    return jnp.where(finite, jnp.where(finite, edge, 0.0) / scale, edge)


def _log_mass(edges: Edges, x: Array) -> Array:
    """Log of the mass between the edges at predictors."""
    total = jnp.zeros_like(x)
    for sign, edge in zip(_SIGNS, edges, strict=False):
        known = jnp.isfinite(edge)
        beyond = sign * (x - jnp.where(known, edge, 0.0))
        log_step = jnp.minimum(beyond, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(beyond)))
        total = total + jnp.where(known, log_step, 0.0)
    return total + _log_overlap(edges)


def _log_overlap(edges: Edges) -> Array | float:
    """What the log mass between two edges has beside the logs of both steps."""
    if len(edges) == 1:
        return 0.0
    low, high = edges
    both = jnp.isfinite(low) & jnp.isfinite(high)
    width = jnp.where(both, high, 1.0) - jnp.where(both, low, 0.0)
    return jnp.where(both, jnp.log(-jnp.expm1(-width)), 0.0)


# ---------------------------------------------------------------- narrow cavities


def _by_hermite(edges: Edges, mean: Array, variance: Array, count: int) -> TiltedMoments:
    """Average over a predictor that varies no more than the noise; steps relative to the mean's."""
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    points, weights = (jnp.asarray(x, mean.dtype) for x in (points, weights / weights.sum()))
    width = jnp.sqrt(variance)
    steps = []
    for sign, edge in zip(_SIGNS, edges, strict=False):
        known = jnp.isfinite(edge)
        beyond = sign * (mean - jnp.where(known, edge, 0.0))
        steps.append((sign, known, beyond < 0, jnp.exp(-jnp.abs(beyond))))

    def add(number: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        fall = jnp.exp(-width * points[number])
        mass, slope, bend = weights[number], jnp.zeros_like(mean), jnp.zeros_like(mean)
        for sign, known, outside, small in steps:
            e = fall if sign > 0 else 1.0 / fall
            inverse = 1.0 / jnp.where(outside, small + e, 1.0 + small * e)
            # The step itself outside, what it lacks inside: what is small keeps its digits.
            rest = jnp.where(known, jnp.where(outside, small, small * e) * inverse, 0.0)
            mass = mass * jnp.where(known, (1.0 + small) * inverse, 1.0)
            slope = slope + sign * jnp.where(outside, -rest, rest)
            bend = bend + rest * (1.0 - rest)
        return sums[0] + mass, sums[1] + mass * slope, sums[2] + mass * (slope**2 - bend)

    none = (jnp.zeros_like(mean),) * 3
    total, first, second = lax.fori_loop(0, count, add, none, unroll=count < _FEW)
    shift = first / total
    d1 = shift + sum(sign * (known & outside) for sign, known, outside, _ in steps)
    return TiltedMoments(_log_mass(edges, mean) + jnp.log(total), d1, second / total - shift**2)


# ---------------------------------------------------------------- any cavity


def _by_trapezoids(edges: Edges, mean: Array, variance: Array) -> TiltedMoments:
    """Average over any predictor, by the trapezoidal rule between the ends of the mass."""
    low, high = edges if len(edges) == 2 else (*edges, jnp.full_like(mean, jnp.inf))
    centre = lax.stop_gradient(mean)
    left, right, top, level, drop = _ends(*lax.stop_gradient((low, high, mean, variance)))
    # A step where the density has dropped needs less care.
    unit = _SCALE * _DEPTH / jnp.maximum(_DEPTH - drop, 1.0)
    # An infinite edge stands where the other one is.
    first, last = (
        lax.stop_gradient(jnp.where(jnp.isfinite(a), a, b)) for a, b in ((low, high), (high, low))
    )
    middle, half = 0.5 * (first + last) - centre, 0.5 * (last - first) / unit
    start, stop = (_to_rule(centre + end, first, last, unit) for end in (left, right))
    gap, stride = (stop - start) / (_NODES - 1), (right - left) / (_NODES - 1)
    growth = jnp.exp(0.5 * gap)
    # Nodes that are near enough to each other anyway need no change of variables, and none that
    # takes differences far from the edges.
    near = right - left < _NEAR

    def node(number: Array, e: Array) -> tuple[Array, Array]:
        offset, weight = _far_node(e, half, unit, gap, one_edge=len(edges) == 1)
        even = left + stride * number
        return jnp.where(near, even, middle + offset), jnp.where(near, stride, weight)

    def add(number: Array, now: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
        e, sums = now
        offset, mass = lax.stop_gradient(node(number, e))
        deviation = offset + (centre - mean)
        mass, slope = _weighed(edges, centre + offset, mass, -0.5 * deviation**2 / variance - level)
        moved = deviation - top
        parts = mass, mass * moved, mass * moved**2, mass * slope, mass * slope * moved
        return e * growth, tuple(x + part for x, part in zip(sums, parts, strict=True))

    begin = jnp.exp(0.5 * start), (jnp.zeros_like(mean),) * 5
    total, *sums = lax.fori_loop(0, _NODES, add, begin)[1]
    shift, square, d1, cross = (x / total for x in sums)
    # Either form cancels where the other keeps its digits.
    wide = ((square - shift**2) / variance - 1.0) / variance
    narrow = (cross - d1 * shift) / variance
    d2 = jnp.where(jnp.abs(wide) * variance < _NARROW, narrow, wide)
    log_z = level + jnp.log(total) - 0.5 * jnp.log(2.0 * jnp.pi * variance)
    return TiltedMoments(log_z + _log_overlap(edges), d1, d2)


def _far_node(
    e: Array, half: Array, unit: Array, gap: Array, *, one_edge: bool
) -> tuple[Array, Array]:
    """Distance from the middle of the edges, and weight, of a node at the exponential `e`."""
    sinh, cosh = 0.5 * (e - 1.0 / e), 0.5 * (e + 1.0 / e)
    if one_edge:
        return unit * sinh, 0.5 * gap * unit * cosh
    away = unit * sinh * jnp.sqrt(1.0 + (half / cosh) ** 2)
    to_edge = unit * half
    density = lax.rsqrt(unit**2 + (away + to_edge) ** 2)
    return away, gap / (density + lax.rsqrt(unit**2 + (away - to_edge) ** 2))


def _weighed(edges: Edges, x: Array, mass: Array, log_density: Array) -> tuple[Array, Array]:
    """Mass at a predictor `x`, and the slope of its log."""
    slope = jnp.zeros_like(x)
    for sign, edge in zip(_SIGNS, edges, strict=False):
        known = jnp.isfinite(edge)
        beyond = sign * (x - jnp.where(known, edge, 0.0))
        small = jnp.exp(-jnp.abs(beyond))
        step = 1.0 / (1.0 + small)
        log_density = log_density + jnp.where(known, jnp.minimum(beyond, 0.0), 0.0)
        mass = mass * jnp.where(known, step, 1.0)
        slope = slope + jnp.where(known, sign * step * jnp.where(beyond < 0, 1.0, small), 0.0)
    return mass * jnp.exp(log_density), slope


def _to_rule(x: Array, first: Array, last: Array, unit: Array) -> Array:
    return jnp.arcsinh((x - first) / unit) + jnp.arcsinh((x - last) / unit)


def _ends(low: Array, high: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
    """Ends and top of the mass from the mean, the level there, and its drop at the edge."""
    low, high = low - mean, high - mean
    # The edges pull the mode towards them, by no more than the variance; one of them at most.
    top = jnp.clip(low, 0.0, variance) + jnp.clip(high, -variance, 0.0)
    level = jnp.minimum(jnp.minimum(top - low, high - top), 0.0)
    level = level - 0.5 * top**2 / variance
    drop = level + 0.5 * jnp.minimum(low**2, high**2) / variance
    bottom = level - _DEPTH
    left, right = jnp.full_like(mean, -jnp.inf), jnp.full_like(mean, jnp.inf)
    for tilt, at_mean in ((1.0, -low), (0.0, jnp.zeros_like(mean)), (-1.0, high)):
        peak = at_mean + 0.5 * tilt**2 * variance - bottom
        known = jnp.isfinite(peak)
        reach = jnp.sqrt(2.0 * variance * jnp.where(known, peak, 1.0))
        left = jnp.where(known, jnp.maximum(left, tilt * variance - reach), left)
        right = jnp.where(known, jnp.minimum(right, tilt * variance + reach), right)
    return left, right, top, level, drop
