r"""Factors that see the latents in two directions, such as a Gaussian of unknown mean and scale.

A site :math:`\exp(\nu^\top s - s^\top T s / 2)` of two margins with
:math:`T = \begin{pmatrix} a & c \\ c & b \end{pmatrix}` is three scalar sites, of the rows
:math:`a_1, a_2, a_1 + a_2` and precisions :math:`a - c, b - c, c`. So any prior multiplies by
it, and the variances of the three margins give the covariance of the first two.

Moments are integrals over the plane by the trapezoidal rule, whose points grow apart outwards. They
stand about the cavity first, and then, a few times, about the mean and covariance that were found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.quadrature_check import Faults, moment_faults
from bayesrank.infer.trapezoid import with_jvp_of

# Of predictors (2, G) to logs (G,).
PairLikelihood = Callable[[Array], Array]

# Nodes along each axis, how far they reach in sds, and within how many they are about even.
_NODES, _FARTHEST, _NEAR = 24, 7.0, 2.0
_PLACEMENTS = 7  # how often nodes are placed at the moments that they found
# Share of the last covariance that is added to the one found: nodes do not collapse to a point.
_KEPT = 0.01
# The same of the grid that looks for faults, in cells and sds of the cavity.
_CELLS, _REACH, _EVEN = 96, 10.0, 1.3


class Symmetric(NamedTuple):
    """Symmetric matrices ``(a, c; c, b)``, shapes (G,)."""

    a: Array
    b: Array
    c: Array

    @property
    def det(self) -> Array:
        """Determinants."""
        return self.a * self.b - self.c**2

    @property
    def positive(self) -> Array:
        """Whether they are positive definite, beyond rounding."""
        least = jnp.finfo(self.a.dtype).eps ** 0.75
        return (self.a > 0) & (self.b > 0) & (self.det > least * self.a * self.b)

    def inverse(self) -> Symmetric:
        """Inverses."""
        return Symmetric(self.b / self.det, self.a / self.det, -self.c / self.det)

    def root(self) -> Symmetric:
        """Lower triangles ``(a, 0; c, b)`` whose squares they are."""
        first = jnp.sqrt(self.a)
        return Symmetric(first, jnp.sqrt(self.b - self.c**2 / self.a), self.c / first)

    def times(self, x: Array) -> Array:
        """Products with vectors (2, G)."""
        return jnp.stack([self.a * x[0] + self.c * x[1], self.c * x[0] + self.b * x[1]])

    def plus(self, other: Symmetric, share: Any = 1.0) -> Symmetric:
        """The sum with a share of others."""
        return Symmetric(*(x + share * y for x, y in zip(self, other, strict=True)))

    def where(self, condition: Array, other: Symmetric) -> Symmetric:
        """These where a condition holds, else others."""
        return Symmetric(*(jnp.where(condition, x, y) for x, y in zip(self, other, strict=True)))


class PairMoments(NamedTuple):
    """Integrals of factors over Gaussians, and moments of the products."""

    log_z: Array  # (G,)
    mean: Array  # (2, G)
    covariance: Symmetric


class PairTilted(NamedTuple):
    """Cavities of the last sweep, and what was integrated over them."""

    mean: Array  # (2, G)
    variance: Symmetric
    moments: PairMoments


class PairBlock(NamedTuple):
    """Factors of two margins each; a `bayesrank.infer.sites.Factors`."""

    rows: Rows  # ``a_1``, then ``a_2``, then ``a_1 + a_2``, (3 G, n)
    offset: Array  # (2, G), added to the first two
    log_likelihood: PairLikelihood  # of factors to the power of EP

    gaussian = False

    def at_rest(self) -> Array:
        """Natural parameters of sites at one, (3 G,)."""
        return jnp.zeros(3 * self.offset.shape[1], self.offset.dtype)

    def unseen(self) -> PairTilted:
        """What stands for integrals before the first sweep."""
        none = jnp.zeros_like(self.offset)
        matrix = Symmetric(none[0], none[0], none[0])
        return PairTilted(none, matrix, PairMoments(none[0], none, matrix))

    def matched(
        self, tau: Array, nu: Array, margin: tuple[Array, Array], power: float
    ) -> tuple[Array, Array, Array, PairTilted]:
        """New sites, which factors keep their old ones, and what was integrated."""
        mean, cavity, proper = self._cavity(tau, nu, margin, power)
        found = pair_moments(self.log_likelihood, self.offset + mean, cavity)
        before, after = cavity.inverse(), found.covariance.inverse()
        matrix = after.plus(before, -1.0)
        shift = after.times(found.mean - self.offset) - before.times(mean)
        usable = proper & found.covariance.positive & jnp.isfinite(found.log_z)
        usable &= jnp.all(jnp.isfinite(shift), 0) & jnp.isfinite(matrix.a + matrix.b + matrix.c)
        to_tau = jnp.stack([matrix.a - matrix.c, matrix.b - matrix.c, matrix.c]) / power
        to_nu = jnp.stack([*shift, jnp.zeros_like(shift[0])]) / power
        new_tau, new_nu = (
            jnp.where(usable, new, old.reshape(3, -1)).reshape(-1)
            for new, old in ((to_tau, tau), (to_nu, nu))
        )
        return new_tau, new_nu, ~usable, PairTilted(mean, cavity, found)

    def _cavity(
        self, tau: Array, nu: Array, margin: tuple[Array, Array], power: float
    ) -> tuple[Array, Symmetric, Array]:
        mean, (first, second, both) = margin[0].reshape(3, -1)[:2], margin[1].reshape(3, -1)
        # A factor of one direction learns nothing of a second one, which may be any.
        absent = second <= 0
        second = jnp.where(absent, 1.0, second)
        across = jnp.where(absent, 0.0, 0.5 * (both - first - second))
        whole = Symmetric(first, second, across)
        own, shift = _site(tau, nu)
        precision = whole.inverse().plus(own, -power)
        proper = whole.positive & precision.positive
        cavity = precision.inverse().where(proper, whole)
        moved = cavity.times(whole.inverse().times(mean) - power * shift)
        return jnp.where(proper, moved, mean), cavity, proper

    def terms(
        self,
        tau: Array,
        nu: Array,
        margin: tuple[Array, Array],
        tilted: PairTilted,
        power: float,
        differentiable: bool,
    ) -> Array:
        """What factors have over their sites, as the evidence counts them, ()."""
        del margin
        mean, variance, log_z = tilted.mean, tilted.variance, tilted.moments.log_z
        if differentiable:
            where = tilted.moments.mean, tilted.moments.covariance
            at = self.offset + mean
            log_z = with_jvp_of(log_z, _summed(self.log_likelihood, at, variance, *where).log_z)
        site, shift = _site(tau, nu)
        total = variance.inverse().plus(site, power)
        pull = power * (shift - site.times(mean))
        own = power * jnp.sum(mean * (shift - 0.5 * site.times(mean)), 0)
        own += 0.5 * jnp.sum(pull * total.inverse().times(pull), 0)
        own -= 0.5 * jnp.log(total.det * variance.det)
        return jnp.sum((log_z - own) / power)

    def faults(self, tilted: PairTilted) -> Faults:
        """Largest faults of the quadrature, about the cavities of the last sweep."""
        where = self.offset + tilted.mean, tilted.variance
        each = pair_faults(self.log_likelihood, *where, tilted.moments)
        return Faults(*(jnp.max(x, initial=0.0) for x in each))


def _site(tau: Array, nu: Array) -> tuple[Symmetric, Array]:
    """Precision matrices and precision-means (2, G) of pairs, of three sites each."""
    first, second, both = tau.reshape(3, -1)
    return Symmetric(first + both, second + both, both), nu.reshape(3, -1)[:2]


def pair_moments(log_likelihood: PairLikelihood, mean: Array, variance: Symmetric) -> PairMoments:
    """Integrate factors over Gaussians of `mean` (2, G) and `variance`; without derivatives."""
    mean, variance = lax.stop_gradient((mean, variance))

    def place(_: int, now: tuple[Array, Symmetric, PairMoments]) -> Any:
        at, width = now[:2]
        found = _summed(log_likelihood, mean, variance, at, width)
        spread = found.covariance.plus(width, _KEPT)
        good = spread.positive & jnp.all(jnp.isfinite(found.mean), 0)
        return jnp.where(good, found.mean, at), spread.where(good, width), found

    start = mean, variance, PairMoments(mean[0], mean, variance)
    return lax.stop_gradient(lax.fori_loop(0, _PLACEMENTS, place, start)[2])


def _summed(
    log_likelihood: PairLikelihood, mean: Array, variance: Symmetric, at: Array, width: Symmetric
) -> PairMoments:
    """Moments by nodes that stand as those of a Gaussian at `at` of covariance `width` do."""
    points, steps = _sinh_spaced(_NODES - 1, _FARTHEST, _NEAR)
    z = jnp.asarray(np.stack(np.meshgrid(points, points), -1).reshape(-1, 2), mean.dtype)
    log_weights = jnp.asarray(np.log(np.outer(steps, steps)).ravel(), mean.dtype)
    precision, root = variance.inverse(), width.root()

    def node(place: Array) -> tuple[Array, Array]:
        x = at + _along(root, place)
        return x, _log_density(log_likelihood, x, mean, precision)

    x, logs = jax.vmap(node)(z)
    logs += log_weights[:, None]
    total = jax.nn.logsumexp(logs, axis=0)
    p = jnp.exp(logs - total)
    log_z = total + 0.5 * jnp.log(width.det / variance.det) - np.log(2 * np.pi)
    centre = jnp.einsum("qg,qdg->dg", p, x)
    off = x - centre
    spread = jnp.einsum("qg,qdg,qeg->deg", p, off, off)
    return PairMoments(log_z, centre, Symmetric(spread[0, 0], spread[1, 1], spread[0, 1]))


def _sinh_spaced(cells: int, reach: float, near: float) -> tuple[np.ndarray, np.ndarray]:
    """Points from -`reach` to `reach`, about even within `near`, and the length of each's cell."""
    rate = np.arcsinh(reach / near)
    u = rate * np.linspace(-1.0, 1.0, cells + 1)
    return near * np.sinh(u), near * np.cosh(u) * (2 * rate / cells)


def _log_density(
    log_likelihood: PairLikelihood, x: Array, mean: Array, precision: Symmetric
) -> Array:
    """Log of factors times Gaussians, which lack their constant, at x (2, G)."""
    apart = x - mean
    value = log_likelihood(x) - 0.5 * jnp.sum(apart * precision.times(apart), 0)
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


def _along(root: Symmetric, z: Array) -> Array:
    """Points at white coordinates z, whose first axis is that of the two margins."""
    return jnp.stack([root.a * z[0], root.c * z[0] + root.b * z[1]])


def pair_faults(
    log_likelihood: PairLikelihood, mean: Array, variance: Symmetric, found: PairMoments
) -> Faults:
    """Compare moments with those on a grid over the cavity, (G,); see `quadrature_check`.

    A cell counts as its area times the geometric mean of the densities at its corners.
    """
    dtype, root, precision = mean.dtype, variance.root(), variance.inverse()
    nodes = jnp.asarray(_sinh_spaced(_CELLS, _REACH, _EVEN)[0], dtype)
    middles, widths = 0.5 * (nodes[1:] + nodes[:-1]), jnp.diff(nodes)
    wide = Symmetric(*(each[:, None] for each in root))
    level = found.log_z + 0.5 * jnp.log(variance.det) + np.log(2 * np.pi)

    def line(first: Array) -> Array:
        def at(second: Array) -> Array:
            x = mean + _along(root, jnp.stack([first, second]))
            return _log_density(log_likelihood, x, mean, precision)

        return jax.vmap(at)(nodes) - level

    def add(number: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        total, before = now  # before the first line there is nothing
        after = line(nodes[number])
        corners = before[1:] + before[:-1] + after[1:] + after[:-1]
        area = widths[number - 1] * widths * jnp.sqrt(variance.det)[:, None]
        mass = jnp.exp(0.25 * corners).T * area  # (G, cells)
        z = jnp.stack([jnp.broadcast_to(middles[number - 1], middles.shape), middles])[:, None]
        x = (mean - found.mean)[..., None] + _along(wide, z)
        first = jnp.sum(mass * x, -1)
        second = jnp.sum(mass * x**2, -1)
        return total + jnp.stack([jnp.stack([jnp.sum(mass, -1)] * 2), first, second]), after

    none = jnp.zeros((3, *mean.shape), dtype), jnp.full((_CELLS + 1, mean.shape[1]), -jnp.inf)
    total, _ = lax.fori_loop(0, _CELLS + 1, add, none)
    tilted = jnp.stack([found.covariance.a, found.covariance.b])
    each = moment_faults(total[0], total[1], total[2], tilted)
    return Faults(*(jnp.max(x, axis=0) for x in each))
