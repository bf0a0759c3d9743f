r"""Mass, mean and variance of a normal on half-lines and intervals, exact far into the tails.

Every probit likelihood meets expectation propagation through the same triple. With normal noise, an
outcome says that a normal variable fell between two edges. The triple is :math:`\log Z`, with
:math:`Z` the mass between the edges, and its first two derivatives in the mean :math:`m` of the
predictor's cavity :math:`N(m, v)`. In standard units the derivatives are the mean :math:`g` and
the variance less one, :math:`h`, of the standard normal restricted to the interval.

Beyond an edge :math:`x \ge 0`, write the restricted variable as :math:`x + Y`. Its Mills ratio
:math:`M`, the mean excess :math:`E[Y]` and :math:`E[Y^2]` all come from one continued fraction,

.. math::
    1 / M(x) = x + E[Y], \quad E[Y] = \frac{1}{x + r(x)}, \quad E[Y^2] = E[Y]\, r(x), \quad
    r(x) = \cfrac{2}{x + \cfrac{3}{x + \dots}},

in which nothing cancels, however far out the edge is.

References
----------
.. [1] Abramowitz, M. and Stegun, I. (1964). Handbook of Mathematical Functions, 26.2.
.. [2] Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes for Machine Learning,
       section 3.9.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import erfc
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

SQRT_HALF = math.sqrt(0.5)
DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)

# Beyond FRACTION_START the fraction is right to rounding after FRACTION_DEPTH terms; before it,
# erfc is, and taking the edge off 1 / M costs at most a factor of FRACTION_START ** 2.
FRACTION_START = 4.0
FRACTION_DEPTH = 24

# An interval is narrow if its width, and its width times its centre, are below NARROW. There six
# Gauss-Legendre nodes, here the positive half of them, integrate the density to rounding.
NARROW = 0.5
NODES, WEIGHTS = (half[3:].tolist() for half in np.polynomial.legendre.leggauss(6))


class TiltedMoments(NamedTuple):
    """What a likelihood contributes to EP at cavities of mean m and variance v.

    Attributes
    ----------
    log_z
        ``log Z(m, v)``, the log of the likelihood averaged over the cavity.
    d1, d2
        Its first and second derivative in the cavity's mean, of the same shape.

    Examples
    --------
    >>> from bayesrank.distributions import Thurstone
    >>> moments = Thurstone(0.0).tilted_moments(0.0, 1.0, 1)
    >>> type(moments).__name__
    'TiltedMoments'
    """

    log_z: Array
    d1: Array
    d2: Array


class _Tail(NamedTuple):
    """The standard normal beyond an edge ``x >= 0``; the excess is what it has over the edge."""

    density: Array
    mass: Array
    mills: Array
    excess: Array
    excess_squared: Array


def _tail(x: Array) -> _Tail:
    """Describe the standard normal beyond ``x >= 0``."""
    far = x > FRACTION_START
    density = DENSITY_AT_0 * jnp.exp(-0.5 * x**2)
    mass = 0.5 * erfc(SQRT_HALF * x)
    near_excess = density / jnp.where(far, 1.0, mass) - x
    far_x = jnp.where(far, x, FRACTION_START)
    far_rest = _fraction(far_x, 2)
    far_excess = 1.0 / (far_x + far_rest)
    excess = jnp.where(far, far_excess, near_excess)
    excess_squared = jnp.where(far, far_excess * far_rest, 1.0 - x * near_excess)
    return _Tail(density, mass, 1.0 / (x + excess), excess, excess_squared)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _fraction(x: Array, n: int) -> Array:
    """Tail ``t_n = n / (x + t_{n+1})`` of the continued fraction of the mean excess ``t_1``.

    With ``u = 1 / x**2`` they are ratios of neighbours in ``a_n = a_{n+1} + n u a_{n+2}``; that at
    depth ``N`` is the root of ``c = 1 + (N + 3/4) u / c``.
    """
    u = 1.0 / x**2
    a, a_next = 0.5 + 0.5 * jnp.sqrt(1.0 + (4 * FRACTION_DEPTH + 3) * u), jnp.ones_like(x)
    for k in range(FRACTION_DEPTH, n, -1):
        a, a_next = a + k * u * a_next, a
    return n * a_next / (x * a)


@_fraction.defjvp
def _fraction_jvp(n: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """Differentiate a tail: ``t_n' = t_n (t_n - t_{n+1})``."""
    tail = _fraction(*primals, n)
    return tail, tail * (tail - _fraction(*primals, n + 1)) * tangents[0]


class _Piece(NamedTuple):
    """Moments in standard units; the mass is ``exp(-anchor**2 / 2) * scale * (1 - loss)``."""

    anchor: ArrayLike
    scale: ArrayLike
    loss: ArrayLike
    first: Array
    second: Array

    @property
    def log_mass(self) -> Array:
        return jnp.log(self.scale) + jnp.log1p(-jnp.asarray(self.loss)) - 0.5 * self.anchor**2


def _choose(condition: Array, if_true: _Piece, if_false: _Piece) -> _Piece:
    return jax.tree.map(partial(jnp.where, condition), if_true, if_false)


def half_line(edge: ArrayLike) -> TiltedMoments:
    """Moments of the standard normal above `edge`, any shape, by its mean, in standard units."""
    edge = jnp.asarray(edge)
    tail = _tail(jnp.abs(edge))
    loss = jnp.where(edge < 0, tail.mass, 0.0)
    above = tail.density / (1.0 - loss)
    inside = _Piece(0.0, 1.0, loss, above, above * (edge - above))
    beyond = edge + tail.excess
    outside = _Piece(edge, DENSITY_AT_0 * tail.mills, 0.0, beyond, -beyond * tail.excess)
    piece = _choose(edge < 0, inside, outside)
    return TiltedMoments(piece.log_mass, piece.first, piece.second)


def interval(
    lower: ArrayLike, upper: ArrayLike, mean: ArrayLike, variance: ArrayLike
) -> TiltedMoments:
    """Restrict a normal variable to ``lower < x < upper``; one end may be infinite."""
    sd = jnp.sqrt(variance)
    sign, x = _standardise(jnp.asarray(lower), jnp.asarray(upper), jnp.asarray(mean), sd)
    piece = _choose(x.narrow, _narrow(x), _wide(x))
    return TiltedMoments(piece.log_mass, sign * piece.first / sd, piece.second / variance)


class _Interval(NamedTuple):
    """An interval in standard units, mirrored so that its centre is not below the mean."""

    near: Array
    """The end nearer to the mean."""
    centre: Array
    width: Array
    one_sided: Array
    """Whether the far end is infinite; then ``centre`` and ``width`` are stand-ins."""
    narrow: Array


def _standardise(lower: Array, upper: Array, mean: Array, sd: Array) -> tuple[Array, _Interval]:
    """Express an interval in standard units, with the sign by which it was mirrored."""
    open_below, open_above = jnp.isneginf(lower), jnp.isposinf(upper)
    one_sided = open_below | open_above
    low = jnp.where(open_below, upper, lower)
    high = jnp.where(open_above, lower, upper)
    offset = (0.5 * (low + high) - mean) / sd
    sign = jnp.where(jnp.where(one_sided, open_below, offset < 0), -1.0, 1.0)
    centre = sign * offset
    width = jnp.where(one_sided, 1.0, (high - low) / sd)
    near = jnp.where(one_sided, centre, centre - 0.5 * width)
    narrow = ~one_sided & (width < NARROW) & (width * centre < NARROW)
    return sign, _Interval(near, centre, width, one_sided, narrow)


def _wide(x: _Interval) -> _Piece:
    """Moments from the two tails beyond the ends; stand-ins where the interval is narrow."""
    is_inside, bounded = x.near < 0, ~(x.one_sided | x.narrow)
    far_end = jnp.where(bounded, x.near + x.width, 1.0)
    fall = -jnp.expm1(-jnp.where(bounded, x.width * x.centre, 0.0))
    near, far = _tail(jnp.abs(x.near)), _tail(far_end)

    # The mean is inside: what is left of one after both tails.
    loss = near.mass + jnp.where(bounded, far.mass, 0.0)
    loss = jnp.where(is_inside & ~x.narrow, loss, 0.0)
    far_slope = jnp.where(bounded, far_end * far.density, 0.0)
    first = near.density * jnp.where(bounded, fall, 1.0) / (1.0 - loss)
    slope = (near.density * x.near - far_slope) / (1.0 - loss)
    inside = _Piece(0.0, 1.0, loss, first, slope - first**2)

    # The mean is outside: one tail less the part of it that is beyond the far end.
    loss = jnp.where(bounded & ~is_inside, (1.0 - fall) * far.mills / near.mills, 0.0)
    far_squared = x.width**2 + 2.0 * x.width * far.excess + far.excess_squared
    excess = (near.excess - loss * (x.width + far.excess)) / (1.0 - loss)
    excess_squared = (near.excess_squared - loss * far_squared) / (1.0 - loss)
    second = excess_squared - excess**2 - 1.0
    outside = _Piece(x.near, DENSITY_AT_0 * near.mills, loss, x.near + excess, second)

    return _choose(is_inside, inside, outside)


def _narrow(x: _Interval) -> _Piece:
    """Moments about the centre, where the density is nearly flat; stand-ins elsewhere."""
    width = jnp.where(x.narrow, x.width, NARROW)
    centre = jnp.where(x.narrow, x.centre, 0.0)
    tilt, bend = 0.5 * width * centre, 0.125 * width**2
    mass, first, second = jnp.zeros_like(tilt), jnp.zeros_like(tilt), jnp.zeros_like(tilt)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        kept = weight * jnp.exp(-bend * node**2)
        cosh, sinh = _cosh_sinh(node * tilt)
        mass = mass + kept * cosh
        first = first - kept * node * sinh
        second = second + kept * node**2 * cosh
    mean = first / mass
    variance = second / mass - mean**2
    return _Piece(
        anchor=centre,
        scale=DENSITY_AT_0 * width * mass,
        loss=0.0,
        first=centre + 0.5 * width * mean,
        second=0.25 * width**2 * variance - 1.0,
    )


def _cosh_sinh(x: Array) -> tuple[Array, Array]:
    """Hyperbolic cosine and sine by their series, right to rounding for ``|x| < NARROW / 2``."""
    square, cosh, sinh = x**2, jnp.ones_like(x), jnp.ones_like(x)
    for k in range(10, 0, -2):
        cosh = 1.0 + square / (k * (k - 1)) * cosh
        sinh = 1.0 + square / (k * (k + 1)) * sinh
    return cosh, x * sinh


class Outcomes(Distribution):
    """Base of distributions over ``0, ..., num_outcomes - 1``; `predictor` names its argument."""

    predictor: ClassVar[str]
    has_enumerate_support = True

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes."""
        raise NotImplementedError

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate an outcome's probability over a normal predictor, of mean and variance."""
        raise NotImplementedError

    @property
    def support(self) -> constraints.Constraint:
        """Outcomes from 0 to ``num_outcomes - 1``."""
        return constraints.integer_interval(0, self.num_outcomes - 1)

    def enumerate_support(self, expand: bool = True) -> Array:
        """List the outcomes along a new leading axis, of batch shape if ``expand``."""
        shape = (-1,) + (1,) * len(self.batch_shape)
        values = jnp.arange(self.num_outcomes).reshape(shape)
        if expand:
            values = jnp.broadcast_to(values, (self.num_outcomes, *self.batch_shape))
        return values

    @property
    def probs(self) -> Array:
        """Probabilities of the outcomes along a new trailing axis."""
        log_probs = jnp.asarray(self.log_prob(self.enumerate_support()))
        return jnp.moveaxis(jnp.exp(log_probs), 0, -1)

    @property
    def mean(self) -> Array:
        """Expected outcome number."""
        return self.probs @ jnp.arange(self.num_outcomes)

    @property
    def variance(self) -> Array:
        """Variance of the outcome number."""
        outcomes = jnp.arange(self.num_outcomes)
        return jnp.sum(self.probs * (outcomes - self.mean[..., None]) ** 2, axis=-1)

    def _errors(
        self, draw: Callable[..., Array], key: Array | None, sample_shape: tuple[int, ...]
    ) -> Array:
        """Draw one standard error for each outcome to be sampled."""
        if key is None:
            raise ValueError("key is None; give a key of jax.random to sample with")
        return draw(key, self.shape(sample_shape), jnp.result_type(float))
