r"""What the quadrature of a factor has missed, by a look over a grid.

The rules of `bayesrank.infer.quadrature` place their nodes around the peaks that they come upon; a
peak beside these is lost, and the sums do not tell.  So, once a run has ended, the tilted density
:math:`p(x) = \exp(l(x)) N(x; m, v)` is looked at on a grid over the whole cavity, and its integral
compared with what the rule has found.

Each cell of width h counts as :math:`h \sqrt{p(a)\, p(b)}` with its ends a and b, which is no more
than the cell holds wherever p is log-concave.  So a peak narrower than a cell, which the grid
cannot judge, is counted as less than it is, wherever the grid happens to fall; a missed mass is
real.  A grid sees no peak that lies between two of its points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.quadrature import tilted_moments

__all__ = ["QuadratureMoments", "missed_mass"]

LogLikelihood = Callable[[Array], Array]

# How far the grid reaches, in standard deviations of the cavity; within so many, cells are about
# equally wide.
_REACH, _EVEN = 20.0, 1.3
# So many cells for all factors of a site together; and for one of them at least and at most.
_BUDGET, _FEWEST, _MOST = 2**19, 128, 2048
# So many densities are computed at once.
_CHUNK = 2**12


@dataclass(frozen=True, eq=False)
class QuadratureMoments:
    """Tilted moments of any factors, by quadrature.

    Attributes
    ----------
    log_likelihood
        Of the factors, raised to the power of EP; elementwise, as `tilted_moments` takes it.
    """

    log_likelihood: LogLikelihood

    def __call__(self, mean: Array, variance: Array) -> TiltedMoments:
        """Moments at cavities of the given means and variances, shape (G,)."""
        return tilted_moments(self.log_likelihood, mean, variance)


def missed_mass(log_likelihood: LogLikelihood, mean: Array, variance: Array, log_z: Array) -> Array:
    """Share of each tilted distribution's mass that its integral has not seen.

    Parameters
    ----------
    log_likelihood, mean, variance
        As `tilted_moments` takes them.
    log_z
        Logs of the integrals that were found, shape (G,).

    Returns
    -------
    Array
        Shape (G,), from 0 to 1: what the grid sees beyond that, as a share of all it sees.
    """
    size = max(mean.size, 1)
    cells = int(np.clip(2 ** int(np.log2(_BUDGET / size)), _FEWEST, _MOST))
    chunk = int(np.clip(2 ** int(np.log2(_CHUNK / size + 1)), 1, cells))
    scale = jnp.sqrt(variance)
    numbers = jnp.arange(chunk + 1, dtype=mean.dtype)
    column = (-1, *(1,) * mean.ndim)

    def add(start: Array, total: Array) -> Array:
        u = 2 * (start * chunk + numbers) / cells - 1
        z = (_EVEN * jnp.sinh(np.arcsinh(_REACH / _EVEN) * u)).reshape(column)
        values = jax.vmap(log_likelihood)(mean + z * scale)
        # Far away densities overflow, as where both sides of a ratio are zero: there is none there.
        values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
        level = values - log_z - 0.5 * z**2
        root = jnp.exp(0.5 * level)
        return total + jnp.sum(jnp.diff(z, axis=0) * root[1:] * root[:-1], axis=0)

    ratio = lax.fori_loop(0, cells // chunk, add, jnp.zeros_like(mean)) / np.sqrt(2 * np.pi)
    return jnp.where(ratio > 1, 1 - 1 / ratio, 0.0)
