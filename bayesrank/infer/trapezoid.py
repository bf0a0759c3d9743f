r"""Moments of tilted distributions that have one smooth peak, by the trapezoidal rule.

The tilted density ``exp(l(x)) N(x; m, v)`` of a log-concave likelihood rises to one mode and falls
off faster than its cavity on both sides. The signs of the slope find the mode, false position the
ends of the mass. Between them the trapezoidal rule converges geometrically wherever the density is
analytic (Trefethen and Weideman, 2014). It needs two dozen nodes where the density is about
Gaussian. The step is halved until the sums settle.

The sums themselves show how far they are from the integrals. If a halved step changes them by
:math:`e_1` after :math:`e_0` the time before, the next change is no more than
:math:`e_1^2 / e_0`. This is so whether the rule converges geometrically or by a power of the step,
as it does at a kink. A few places are checked for mass elsewhere: a concave log likelihood is
nowhere above its tangent at the mode.

References
----------
Trefethen, L. N. and Weideman, J. A. C. (2014). The exponentially convergent trapezoidal rule. SIAM
Review, 56, 385-458.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.distributions import TiltedMoments

LogLikelihood = Callable[[Array], Array]

# Intervals of the first rule, and how often their number is doubled at least and at most.
_INTERVALS, _LEAST_DOUBLINGS, _MOST_DOUBLINGS = 7, 2, 5
_LARGEST_ERROR, _NOISE = 2e-9, 1e-6
# Beyond so many nats below the top nothing counts.
_DEPTH = 25.0
# Points are about evenly spaced within so many standard deviations of the peak.
_STRETCH = 3.0
# Ends are near enough where the root of the drop is no more than this multiple of what it should.
_LOOSE = 1.1
_SEARCHES, _END_SEARCHES = 40, 14
# A mode is near enough where the slope, times the cavity's standard deviation, is below this.
_FLAT = 0.1
# Where the likelihood is compared with its tangent, in standard deviations of the cavity.
_LOOKS = (-5.0, -3.0, -1.5, 1.5, 3.0, 5.0)


def trapezoid_moments(
    log_likelihood: LogLikelihood, mean: Array, variance: Array
) -> tuple[TiltedMoments, Array]:
    """Moments (G,) over cavities where products have one smooth peak, and if they are right."""
    given = mean, variance
    mean, variance = lax.stop_gradient(given)

    def log_density(x: Array) -> Array:
        value = lax.stop_gradient(log_likelihood(x)) - 0.5 * (x - mean) ** 2 / variance
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    mode = _find_mode(log_likelihood, mean, variance)
    top, promising = _look_around(log_density, mode, mean, variance)
    left, right, enclosed = _ends(log_density, mode.place, top, variance)
    promising &= enclosed
    rule = _rule(mode, left, right)
    sums = _summed(log_density, rule, top, jnp.all(promising))
    settled = (sums.error < _tolerance(mean)) & (sums.highest < 0.5)
    mass, first, second = sums.moments
    shift = first / mass
    tilted_variance = rule.scale**2 * (second / mass - shift**2)
    # The variance keeps no digits of what it differs from the cavity's by, where that is small.
    narrowing = tilted_variance / variance - 1.0
    largest = jnp.maximum(jnp.abs(mode.curvature) * variance, jnp.abs(narrowing))
    is_narrow = largest < jnp.finfo(mean.dtype).eps ** 0.5
    d1 = (mode.place - mean + rule.scale * shift) / variance
    d2 = jnp.where(is_narrow, mode.curvature, narrowing / variance)
    log_z = top + jnp.log(mass) - 0.5 * jnp.log(2 * jnp.pi * variance)
    computed = _log_integral(log_likelihood, rule, *given)
    return TiltedMoments(with_jvp_of(log_z, computed), d1, d2), jnp.all(promising & settled)


@jax.custom_jvp
def with_jvp_of(value: Array, computed: Array) -> Array:
    """A value that is known, with the derivative of its computation; this is not carried out."""
    del computed
    return value


@with_jvp_of.defjvp
def _known_jvp(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    return primals[0], tangents[1]


def value_and_slope(log_likelihood: LogLikelihood, x: Array) -> tuple[Array, Array]:
    """Log likelihood and derivative (G,); overflow (``inf - inf``) reads as zero density."""
    value, slope = jax.jvp(log_likelihood, (x,), (jnp.ones_like(x),))
    finite = jnp.isfinite(value)
    slope = jnp.where(finite & jnp.isfinite(slope), slope, 0.0)
    return jnp.where(finite, value, -jnp.inf), slope


def _tolerance(x: Array) -> float:
    return max(_LARGEST_ERROR, 100.0 * float(jnp.finfo(x.dtype).eps))


def _log_integral(
    log_likelihood: LogLikelihood, rule: _Rule, mean: Array, variance: Array
) -> Array:
    """Log Z by a fine rule."""
    count = _INTERVALS * 2**_MOST_DOUBLINGS
    share = jnp.arange(1, count, dtype=mean.dtype).reshape(-1, *(1,) * mean.ndim) / count
    offset, weight = rule.at(share)
    x = rule.place + offset
    # Where there is no density, it has no derivative: such points are moved to where there is one.
    has_density = jnp.isfinite(lax.stop_gradient(jax.vmap(log_likelihood)(x)))
    values = jax.vmap(log_likelihood)(jnp.where(has_density, x, rule.place))
    values = jnp.where(has_density, values - 0.5 * (x - mean) ** 2 / variance, -jnp.inf)
    total = jax.nn.logsumexp(values, axis=0, b=weight / count)
    return total - 0.5 * jnp.log(2 * jnp.pi * variance)


# ---------------------------------------------------------------- where the mass is


class _Peak(NamedTuple):
    """About where tilted densities are highest."""

    place: Array  # where log densities are about highest, (G,)
    slope: Array  # there, (G,)
    curvature: Array  # mean second derivative within a cavity's sd
    width: Array  # about the peak's sd


class _PeakSearch(NamedTuple):
    """Search for a change of the slope's sign between `low` and `high`; `probe` is next."""

    probe: Array
    low: Array
    high: Array
    low_slope: Array
    high_slope: Array
    stride: Array
    best: _Peak
    step: Array


def _find_mode(log_likelihood: LogLikelihood, mean: Array, variance: Array) -> _Peak:
    """Look a standard deviation to both sides, stride until the slope changes sign, close in."""
    width = jnp.sqrt(variance)

    def unfinished(now: _PeakSearch) -> Array:
        steep = jnp.abs(now.best.slope) * width > _FLAT
        return (now.step < 2) | (jnp.any(steep) & (now.step < _SEARCHES))

    def search(now: _PeakSearch) -> _PeakSearch:
        own = lax.stop_gradient(value_and_slope(log_likelihood, now.probe)[1])
        slope = own - (now.probe - mean) / variance
        sign = jnp.where(now.step == 0, -1.0, jnp.where(now.step == 1, 1.0, 0.0))
        better = jnp.abs(slope) < jnp.abs(now.best.slope)
        new = _closed_in(now, slope, mean + width)
        best = _Peak(
            jnp.where(better, now.probe, now.best.place),
            jnp.where(better, slope, now.best.slope),
            now.best.curvature + sign * 0.5 * own / width,
            lax.rsqrt((new.low_slope - new.high_slope) / (new.high - new.low)),
        )
        return new._replace(best=best)

    infinite, zero = jnp.full_like(mean, jnp.inf), jnp.zeros_like(mean)
    first = _Peak(mean, infinite, zero, width)
    begin = mean - width, -infinite, infinite, zero, zero, width, first
    return lax.while_loop(unfinished, search, _PeakSearch(*begin, jnp.zeros((), jnp.int32))).best


def _closed_in(now: _PeakSearch, slope: Array, second: Array) -> _PeakSearch:
    """The search after a slope was seen; the second place to look at is given."""
    rising = slope > 0
    low, high = jnp.where(rising, now.probe, now.low), jnp.where(rising, now.high, now.probe)
    low_slope = jnp.where(rising, slope, now.low_slope)
    high_slope = jnp.where(rising, now.high_slope, slope)
    open_low, open_high = jnp.isinf(low), jnp.isinf(high)
    share = jnp.where(now.step % 3 == 2, 0.5, low_slope / (low_slope - high_slope))
    probe = low + (high - low) * share
    probe = jnp.where(open_low, high - now.stride, probe)
    probe = jnp.where(open_high, low + now.stride, probe)
    probe = jnp.where(now.step == 0, second, probe)
    stride = jnp.where((open_low | open_high) & (now.step > 0), 2 * now.stride, now.stride)
    return _PeakSearch(probe, low, high, low_slope, high_slope, stride, now.best, now.step + 1)


def _look_around(
    log_density: LogLikelihood, mode: _Peak, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Log density at the mode; whether it is nowhere above the tangent's, shape (G,)."""
    width = jnp.sqrt(variance)
    looks = [mode.place, jnp.zeros_like(mean), *(mean + count * width for count in _LOOKS)]
    away = jnp.stack(looks) - mode.place
    levels = jax.vmap(log_density)(jnp.stack(looks))
    bound = levels[0] + mode.slope * away - 0.25 * away**2 / variance
    slack = 1e-6 * (1.0 + jnp.abs(levels[0]))
    flat = jnp.abs(mode.slope) * width <= _FLAT
    return levels[0], flat & jnp.isfinite(levels[0]) & jnp.all(levels <= bound + slack, axis=0)


def _ends(
    log_density: LogLikelihood, place: Array, top: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Points on each side where the density has fallen by `_DEPTH` or more; whether it has."""
    sign = jnp.array([-1.0, 1.0], place.dtype).reshape(-1, *(1,) * place.ndim)
    wanted = float(np.sqrt(2.0 * _DEPTH))

    class _EndSearch(NamedTuple):
        probe: Array
        inside: Array
        outside: Array
        inside_root: Array
        outside_root: Array
        step: Array

    def unfinished(now: _EndSearch) -> Array:
        loose = now.outside_root > _LOOSE * wanted
        return jnp.any(loose) & (now.step < _END_SEARCHES)

    def search(now: _EndSearch) -> _EndSearch:
        levels = jax.vmap(log_density)(place + sign * now.probe)
        root = jnp.sqrt(2.0 * jnp.maximum(top - levels, 0.0))
        beyond = (root >= wanted) | (now.step == 0)
        inside = jnp.where(beyond, now.inside, now.probe)
        outside = jnp.where(beyond, now.probe, now.outside)
        inside_root = jnp.where(beyond, now.inside_root, root)
        outside_root = jnp.where(beyond, root, now.outside_root)
        share = (1.03 * wanted - inside_root) / (outside_root - inside_root)
        halve = (outside_root > 3.0 * wanted) | (now.step % 3 == 2)
        probe = inside + (outside - inside) * jnp.where(halve, 0.5, jnp.clip(share, 0.0, 1.0))
        return _EndSearch(probe, inside, outside, inside_root, outside_root, now.step + 1)

    furthest = 1.05 * wanted * jnp.broadcast_to(jnp.sqrt(variance), (2, *place.shape))
    zero = jnp.zeros_like(furthest)
    begin = furthest, zero, furthest, zero, jnp.full_like(zero, jnp.inf)
    end = lax.while_loop(unfinished, search, _EndSearch(*begin, jnp.zeros((), jnp.int32)))
    left, right = place + sign * end.outside
    return left, right, jnp.all(end.outside_root >= 0.95 * wanted, axis=0)


# ---------------------------------------------------------------- the rule


class _Rule(NamedTuple):
    """Points ``place + scale sinh(u)``, evenly spread in u: close near the mode, wider in tails."""

    place: Array  # shape (G,)
    scale: Array
    start: Array  # ends of the interval in u
    stop: Array

    def at(self, share: Array) -> tuple[Array, Array]:
        """Distance from `place` at a share of the interval, and the length per share there."""
        e = jnp.exp(self.start + (self.stop - self.start) * share)
        return (
            0.5 * self.scale * (e - 1.0 / e),
            0.5 * self.scale * (e + 1.0 / e) * (self.stop - self.start),
        )


def _rule(mode: _Peak, left: Array, right: Array) -> _Rule:
    below, above = mode.place - left, right - mode.place
    wanted = float(np.sqrt(2.0 * _DEPTH))
    scale = _STRETCH * jnp.minimum(mode.width, jnp.minimum(below, above) / wanted)
    return _Rule(mode.place, scale, -jnp.arcsinh(below / scale), jnp.arcsinh(above / scale))


class _RuleSums(NamedTuple):
    """Sums of the trapezoidal rule."""

    moments: Array  # means of density, point and square, shape (3, G)
    highest: Array  # log density met, from the top, (G,)
    change: Array  # the last one of the moments, in units of the first, (G,)
    error: Array  # still to come, (G,)
    level: Array  # how often the step was halved, and once more


def _summed(log_density: LogLikelihood, rule: _Rule, top: Array, promising: Array) -> _RuleSums:
    """Halve the step until the sums settle; points are taken one by one, for all elements."""

    def unfinished(now: _RuleSums) -> Array:
        open_ = jnp.any(now.error > _tolerance(top)) & (now.level <= _MOST_DOUBLINGS)
        return promising & ((now.level <= _LEAST_DOUBLINGS) | open_)

    def refine(now: _RuleSums) -> _RuleSums:
        first = now.level == 0
        gaps = _INTERVALS * 2 ** jnp.maximum(now.level - 1, 0)
        offset = jnp.where(first, 1.0, 0.5)

        def add(number: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            away, weight = rule.at((number + offset) / gaps)
            level = log_density(rule.place + away) - top
            z, mass = away / rule.scale, weight * jnp.exp(level)
            return sums[0] + mass * jnp.stack([jnp.ones_like(z), z, z * z]), jnp.maximum(
                sums[1], level
            )

        begin = jnp.zeros_like(now.moments), now.highest
        total, highest = lax.fori_loop(0, jnp.where(first, gaps - 1, gaps), add, begin)
        total = total / gaps
        moments = jnp.where(first, total, 0.5 * (now.moments + total))
        change = jnp.max(jnp.abs(moments - now.moments), axis=0) / moments[0]
        before = jnp.maximum(change, now.change)
        # A likelihood that is itself computed with rounding errors settles no further.
        error = jnp.where(before < _NOISE, 0.0, change**2 / before)
        return _RuleSums(moments, highest, change, error, now.level + 1)

    zero, one = jnp.zeros_like(top), jnp.ones_like(top)
    none = jnp.zeros((3, *top.shape), top.dtype)
    begin = _RuleSums(none, zero, one, one, jnp.zeros((), jnp.int32))
    return lax.while_loop(unfinished, refine, begin)
