r"""What the quadrature of a factor has missed, as seen on a grid.

The rules of `bayesrank.infer.quadrature` place their nodes around the peaks that they find. Another
peak is lost, and the sums do not show it. Once a run has ended, a grid over the whole cavity
therefore integrates the tilted density :math:`p(x) = \exp(l(x)) N(x; m, v)` anew. Its mass, mean
and variance are compared with the rule's.

A cell of width h from a to b counts as :math:`h \sqrt{p(a)\, p(b)}`, which is no more than its mass
wherever p is log-concave. So a peak narrower than a cell counts as less than it is, wherever the
grid happens to fall: a missed mass is real. The grid sees no peak between two of its points. If it
finds less than the rule, the rest may be anywhere, and moments may differ as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.quadrature import tilted_moments

LogLikelihood = Callable[[Array], Array]

# How far the grid reaches, in standard deviations of the cavity; within so many, cells are about
# equally wide.
_REACH, _EVEN = 20.0, 1.3
# So many cells for all factors of a site together; and for one of them at least and at most.
_BUDGET, _FEWEST, _MOST = 2**19, 128, 2048
# So many densities are computed at once.
_CHUNK = 2**12
# By how much moments may differ: means in tilted standard deviations, and these by their share. The
# grid judges them where it finds nearly all the mass; the rest is no further off than so many.
_MOST_SHIFT, _MOST_SPREAD = 0.03, 0.03
_LEAST_FOUND, _FURTHEST = 0.98, 5.0


@dataclass(frozen=True, eq=False)
class QuadratureMoments:
    """Tilted moments of any factors, by quadrature."""

    # Of the factors, raised to the power of EP; elementwise, as `tilted_moments` takes it.
    log_likelihood: LogLikelihood

    def __call__(self, mean: Array, variance: Array) -> TiltedMoments:
        """Moments at cavities of the given means and variances, shape (G,)."""
        return tilted_moments(self.log_likelihood, mean, variance)


class Faults(NamedTuple):
    """What is wrong with the moments of tilted distributions."""

    missed: Array  # mass that the grid sees beyond the integral, as a share
    error: Array  # of mean or sd, in sds; 0 where below .03


def faults_of(
    log_likelihood: LogLikelihood, mean: Array, variance: Array, found: TiltedMoments
) -> Faults:
    """Compare moments (G,) found of tilted distributions with those on a grid; shape (G,)."""
    size = max(mean.size, 1)
    cells = int(np.clip(2 ** int(np.log2(_BUDGET / size)), _FEWEST, _MOST))
    chunk = int(np.clip(2 ** int(np.log2(_CHUNK / size + 1)), 1, cells))
    scale = jnp.sqrt(variance)
    centre, tilted = found.d1 * scale, 1 + found.d2 * variance
    numbers = jnp.arange(chunk + 1, dtype=mean.dtype)
    column = (-1, *(1,) * mean.ndim)

    def add(start: Array, total: Array) -> Array:
        u = 2 * (start * chunk + numbers) / cells - 1
        z = (_EVEN * jnp.sinh(np.arcsinh(_REACH / _EVEN) * u)).reshape(column)
        values = jax.vmap(log_likelihood)(mean + z * scale)
        # Far away densities overflow, as where both sides of a ratio are zero: there is none there.
        values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
        root = jnp.exp(0.5 * (values - found.log_z - 0.5 * z**2))
        mass = jnp.diff(z, axis=0) * root[1:] * root[:-1]
        away = 0.5 * (z[1:] + z[:-1]) - centre
        return total + jnp.stack([jnp.sum(mass * away**k, axis=0) for k in range(3)])

    total = lax.fori_loop(0, cells // chunk, add, jnp.zeros((3, *mean.shape), mean.dtype))
    ratio, first, second = total / np.sqrt(2 * np.pi)
    return moment_faults(ratio, first, second, tilted)


def moment_faults(ratio: Array, first: Array, second: Array, tilted: Array) -> Faults:
    """Faults, from moments of order 0 to 2 on a grid about the means, and variances, to compare.

    Mass is in units of the integral that it is compared with.
    """
    missed = jnp.where(ratio > 1, 1 - 1 / ratio, 0.0)
    off = first / jnp.where(ratio > 0, ratio, 1.0)
    seen = second / jnp.where(ratio > 0, ratio, 1.0) - off**2
    judged = (ratio > _LEAST_FOUND) & (seen > 0)
    seen = jnp.where(judged, seen, 1.0)
    shift, spread = jnp.abs(off) / jnp.sqrt(seen), tilted / seen
    unseen = jnp.maximum(1 - ratio, 0.0)
    wrong = (shift > _MOST_SHIFT + _FURTHEST * unseen) | (
        jnp.abs(spread - 1) > 2 * _MOST_SPREAD + _FURTHEST**2 * unseen
    )
    error = jnp.maximum(shift, jnp.abs(jnp.sqrt(jnp.maximum(spread, 0.0)) - 1))
    return Faults(missed, jnp.where(judged & wrong, error, 0.0))
