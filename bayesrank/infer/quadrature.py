"""Moments of tilted distributions, for any likelihood of a scalar predictor, by quadrature.

The tilted density ``p(x) = exp(l(x)) N(x; m, v) / Z`` can be a thousand times narrower than its
cavity, or sit forty standard deviations away from its mean. An edge can cut it off within a
ten-thousandth of its width. A rule with fixed nodes misses such shapes, so each element has nodes
of its own. If all elements have one smooth peak the trapezoidal rule serves
(`bayesrank.infer.trapezoid`); else

1. the interval ends where the density has fallen by a fixed number of nats beyond its mode and
   beyond the likelihood's own peak: a likelihood with heavy tails has mass at both;
2. its panels move, a few times, towards equal shares of the variation of the log density and of its
   slope's logarithm (equidistribution; de Boor, 1973, Good approximation by splines with variable
   knots): panels crowd where the density drops or kinks;
3. each panel gets a Gauss-Legendre rule.

The derivatives of ``log Z`` come from identities that hold for every likelihood, with expectations
under ``p``,

    d log Z / dm   = E[l'(x)]           = (E[x] - m) / v,

    d2 log Z / dm2 = Cov[l'(x), x] / v  = (Var[x] - v) / v**2.

The middle forms keep their digits for narrow cavities, where the right ones cancel. The right ones
do not depend on the slope of the likelihood, which a wide cavity sees as a spike.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.trapezoid import trapezoid_moments, value_and_slope, with_jvp_of

LogLikelihood = Callable[[Array], Array]

_PANELS = 36
_NODES = 8
_REFINEMENTS = 5
_SEARCHES = 28
# There is a kink where slopes so many standard deviations of the cavity apart differ by more than
# this over one of them.
_NEARBY = 1e-6
_SMALLEST_KINK = 1e-3


def tilted_moments(
    log_likelihood: LogLikelihood,
    mean: Array,
    variance: Array,
) -> TiltedMoments:
    """Integrate likelihoods (G,) against cavities of `mean` and `variance` (G,); differentiable.

    The nodes are held fixed, which changes neither the integral nor its derivative.
    """
    smooth, is_right = trapezoid_moments(log_likelihood, mean, variance)
    return lax.cond(
        is_right, lambda: smooth, lambda: _robust_moments(log_likelihood, mean, variance)
    )


def _robust_moments(log_likelihood: LogLikelihood, mean: Array, variance: Array) -> TiltedMoments:
    """Moments by panels that crowd where the density drops or kinks."""
    x, log_weight = lax.stop_gradient(_place_nodes(log_likelihood, mean, variance))
    # Nodes are mapped over, so that the likelihood only ever sees arrays of its own shape.
    values, slopes = jax.vmap(lambda points: value_and_slope(log_likelihood, points))(x)
    deviation = x - mean
    log_mass = values - 0.5 * deviation**2 / variance + log_weight
    p = jnp.exp(log_mass - jax.nn.logsumexp(log_mass, axis=0))
    log_z = jax.nn.logsumexp(log_mass, axis=0) - 0.5 * jnp.log(2 * jnp.pi * variance)
    # What it is differentiated by, and else not compiled. Where there is no density, it has no
    # derivative: such nodes are moved to where there is one.
    has_density = lax.stop_gradient(jnp.isfinite(values))
    heaviest = jnp.take_along_axis(x, jnp.argmax(p, axis=0)[None], axis=0)
    values = jax.vmap(log_likelihood)(jnp.where(has_density, x, heaviest))
    log_mass = values - 0.5 * deviation**2 / variance + log_weight
    total = jax.nn.logsumexp(jnp.where(has_density, log_mass, -jnp.inf), axis=0)
    log_z = with_jvp_of(log_z, total - 0.5 * jnp.log(2 * jnp.pi * variance))
    shift = jnp.sum(p * deviation, axis=0)
    centred = deviation - shift
    spread = jnp.sum(p * centred**2, axis=0)
    wide = TiltedMoments(log_z, shift / variance, (spread / variance - 1) / variance)
    slopes = jnp.where(p > 0, slopes, 0.0)
    narrow = TiltedMoments(
        log_z, jnp.sum(p * slopes, axis=0), jnp.sum(p * slopes * centred, axis=0) / variance
    )
    is_narrow = jnp.abs(wide.d2) * variance < 0.1
    return jax.tree.map(lambda a, b: jnp.where(is_narrow, a, b), narrow, wide)


# ---------------------------------------------------------------- placing the nodes


def _place_nodes(
    log_likelihood: LogLikelihood, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Nodes (panels * nodes, G) and the logs of their weights."""

    def log_density(x: Array) -> tuple[Array, Array]:
        value, slope = value_and_slope(log_likelihood, x)
        return value - 0.5 * (x - mean) ** 2 / variance, slope - (x - mean) / variance

    cuts, top, floor, spike = _interval(log_likelihood, log_density, mean, variance)
    edges = _spread_edges(cuts)

    def refine(_: int, edges: Array) -> Array:
        moved = _equidistribute(log_density, edges, top, floor)
        # A spike or a kink stays an edge: between two edges it is out of sight.
        return jnp.where(jnp.isfinite(spike), _snapped(moved, spike), moved)

    edges = lax.fori_loop(0, _REFINEMENTS, refine, edges)
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    column = (None, slice(None)) + (None,) * mean.ndim
    points = jnp.asarray(0.5 * (points + 1), mean.dtype)[column]
    log_weights = jnp.asarray(np.log(0.5 * weights), mean.dtype)[column]
    width = edges[1:] - edges[:-1]
    x = edges[:-1, None] + width[:, None] * points
    log_width = jnp.where(width > 0, jnp.log(jnp.where(width > 0, width, 1.0)), -jnp.inf)
    shape = (_PANELS * _NODES, *mean.shape)
    return x.reshape(shape), (log_width[:, None] + log_weights).reshape(shape)


def _snapped(edges: Array, point: Array) -> Array:
    """Edges (panels + 1, G) of which the nearest is moved to a point (G,)."""
    nearest = jnp.argmin(jnp.abs(edges[1:-1] - point), axis=0) + 1
    number = jnp.arange(edges.shape[0]).reshape(-1, *(1,) * (edges.ndim - 1))
    return jnp.where(number == nearest, point, edges)


def _interval(
    log_likelihood: LogLikelihood,
    log_density: Callable[[Array], tuple[Array, Array]],
    mean: Array,
    variance: Array,
) -> tuple[Array, Array, Array, Array]:
    """Ends and cuts of the mass (4, G), its level (G,), the depth (), spikes or kinks (G,)."""
    scale = jnp.sqrt(variance)
    pull = jnp.stack([1 / variance, jnp.zeros_like(variance)])

    def slopes(x: Array) -> Array:
        """Slopes of the tilted log density at x[0] and of the log likelihood at x[1]."""
        return jax.vmap(lambda y: value_and_slope(log_likelihood, y)[1])(x) - pull * (x - mean)

    # At zero a residual is none: there are spikes too narrow to be come upon, and kinks. The mean
    # goes with it: each evaluation of a likelihood takes time to compile.
    beside = _NEARBY * scale * jnp.arange(-1, 2).reshape(-1, *(1,) * mean.ndim)
    (*_, there, _), (at_mean, *beside_slopes) = jax.vmap(log_density)(
        jnp.concatenate([mean[None], beside])
    )
    direction = jnp.sign(jnp.stack([at_mean, at_mean]))
    turns = _uphill_zero(slopes, direction, jnp.stack([mean, mean]), jnp.stack([scale, scale]))
    depth = 4.0 - jnp.log(jnp.finfo(mean.dtype).eps)
    levels = jax.vmap(log_density)(turns)[0]
    kinked = jnp.abs(beside_slopes[2] - beside_slopes[0]) * scale > _SMALLEST_KINK
    passed = there > jnp.max(levels, axis=0) + 1.0
    turns = turns.at[1].set(jnp.where(passed, 0.0, turns[1]))
    levels = levels.at[1].set(jnp.where(passed, there, levels[1]))
    spike = jnp.where(levels[1] > levels[0] + 1.0, turns[1], jnp.inf)
    top = jnp.max(levels, axis=0)
    # A peak that is not reached (a monotone likelihood) or holds no mass adds no cut.
    turns = turns.at[1].set(jnp.where(levels[1] > top - depth, turns[1], turns[0]))
    turns = jnp.sort(turns, axis=0)
    reach = jnp.sqrt(2 * depth) * scale
    beyond = jnp.stack([jnp.minimum(turns[0], mean) - reach, jnp.maximum(turns[1], mean) + reach])
    ends = _falling_edge(lambda x: jax.vmap(log_density)(x)[0] > top - depth, turns, beyond)
    # Rules of Gauss are poor across a kink, such as a Laplace density's.
    kinked &= jnp.isinf(spike) & (ends[0] < 0) & (ends[1] > 0)
    spike = jnp.where(kinked, 0.0, spike)
    return jnp.stack([ends[0], turns[0], turns[1], ends[1]]), top, depth, spike


def _uphill_zero(slope: LogLikelihood, direction: Array, start: Array, scale: Array) -> Array:
    """The first zero of a slope uphill, by doubling strides and bisection; or where that ends."""

    def search(_: int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        near, far, stride, bracketed = state
        probe = jnp.where(bracketed, 0.5 * (near + far), far)
        uphill = direction * slope(probe) > 0
        striding = uphill & ~bracketed
        near = jnp.where(uphill, probe, near)
        far = jnp.where(striding, probe + direction * stride, jnp.where(uphill, far, probe))
        return near, far, jnp.where(striding, 2 * stride, stride), bracketed | ~uphill

    first = (start, start + direction * scale, scale, jnp.zeros(start.shape, bool))
    near, far, *_ = lax.fori_loop(0, _SEARCHES, search, first)
    return 0.5 * (near + far)


def _falling_edge(above: Callable[[Array], Array], inside: Array, outside: Array) -> Array:
    """Point between one inside and one outside at which a density falls to a level (bisection)."""

    def bisect(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        inside, outside = bracket
        middle = 0.5 * (inside + outside)
        high = above(middle)
        return jnp.where(high, middle, inside), jnp.where(high, outside, middle)

    return lax.fori_loop(0, _SEARCHES, bisect, (inside, outside))[1]


def _spread_edges(cuts: Array) -> Array:
    """Panel edges (panels + 1, G), the same number between each two cuts."""
    pieces = cuts.shape[0] - 1
    steps = jnp.arange(_PANELS // pieces, dtype=cuts.dtype) / (_PANELS // pieces)
    steps = steps.reshape(1, -1, *(1,) * (cuts.ndim - 1))
    inner = cuts[:-1, None] + (cuts[1:] - cuts[:-1])[:, None] * steps
    return jnp.concatenate([inner.reshape(-1, *cuts.shape[1:]), cuts[-1:]])


def _equidistribute(
    log_density: Callable[[Array], tuple[Array, Array]], edges: Array, top: Array, depth: Array
) -> Array:
    """Panel edges with equal shares of variation, which counts less where the density is low."""
    value, slope = jax.vmap(log_density)(edges)
    level = jnp.maximum(value - top, -depth)
    length = edges[-1] - edges[0]
    steepness = jnp.log1p(jnp.abs(jnp.where(jnp.isfinite(slope), slope, 0.0)) * length)
    importance = jnp.exp(jnp.maximum(level[1:], level[:-1]) / (2 * _NODES))
    variation = jnp.abs(jnp.diff(level, axis=0)) + jnp.abs(jnp.diff(steepness, axis=0))
    share = importance * variation
    share = share + 0.02 * jnp.sum(share, axis=0) / _PANELS + jnp.finfo(edges.dtype).tiny
    cumulative = jnp.concatenate([jnp.zeros_like(share[:1]), jnp.cumsum(share, axis=0)])
    targets = cumulative[-1] * jnp.linspace(0, 1, _PANELS + 1, dtype=edges.dtype).reshape(
        -1, *(1,) * (edges.ndim - 1)
    )
    flat = (_PANELS + 1, -1)
    moved = jax.vmap(jnp.interp, in_axes=1, out_axes=1)(
        targets.reshape(flat), cumulative.reshape(flat), edges.reshape(flat)
    )
    return moved.reshape(edges.shape)
