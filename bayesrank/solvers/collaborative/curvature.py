r"""How the log evidence of one user curves in the likelihood's parameters, at EP's fixed point.

EP's gradient is the sum of the observations' at their cavities. A change of the parameters also
moves the cavities: the posterior means are :math:`h + \Sigma_{jj} a` with :math:`a_k` the
derivative of :math:`\log Z_k` in the cavity's mean, so that the cavities' means follow the
parameters through :math:`a`; their variances are taken to stay. With :math:`H_k` the second
derivatives of :math:`\log Z_k` in the parameters, :math:`C` the rows of those in the cavity's mean
and the parameters, and :math:`R` the diagonal matrix of :math:`-1 / \partial_m^2 \log Z_k`, minus
the Hessian is

.. math:: -\sum_k H_k - C' R C + C' R G R C.

It is exact for gaps between thresholds but for what the variances do, which is little, and some
tenth too large for the noise. Outer products of gradients, which serve for Newton's steps, are some
twentieth too large for gaps, too: gradients of different observations of one user are correlated.
For a step that matters little; for how much users differ, which is what gradients have in common
beyond that, it matters.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from bayesrank.infer.quadrature import Moments
from bayesrank.solvers.collaborative.likelihoods import Likelihood

__all__ = ["AtCavity", "theta_curvature"]

# Of log Z in the cavity's mean: keeps the quotient of two vanishing curvatures finite.
_LEAST = 1e-10


class AtCavity(NamedTuple):
    """A user's observations at their cavities.

    Attributes
    ----------
    levels, mean, variance
        Observations and cavities, shape (s,).
    moments
        Of the tilted distributions.
    score
        Gradients of log Z in the parameters, shape (s, p); zero in empty rows.
    filled
        Which rows hold an observation, shape (s,).
    """

    levels: Array
    mean: Array
    variance: Array
    moments: Moments
    score: Array
    filled: Array


def theta_curvature(likelihood: Likelihood, theta: Array, at: AtCavity, half: Array) -> Array:
    """Minus the Hessian of a user's log evidence in the parameters, shape (p, p).

    Parameters
    ----------
    likelihood
        What the observations are.
    theta
        The user's parameters, shape (p,).
    at
        Observations at their cavities.
    half
        ``W`` with ``G = W' W``, shape (s, s).
    """

    def derivatives(*args: Array) -> tuple[Array, Array, Array]:
        return jax.jacfwd(likelihood.score, (0, 2, 4))(theta, *args)

    log_z, d1, d2 = at.moments
    by_theta, by_mean, by_log_z = jax.vmap(derivatives)(at.levels, at.mean, at.variance, log_z)
    # The score is a function of log Z, which moves with the parameters and the mean.
    second = by_theta + by_log_z[:, :, None] * at.score[:, None, :]
    across = by_mean + by_log_z * d1[:, None]
    second = jnp.where(at.filled[:, None, None], second, 0.0)
    across = jnp.where(at.filled[:, None], across, 0.0)
    moved = across / jnp.maximum(-d2, _LEAST)[:, None]
    through = half @ moved
    curvature = through.T @ through - second.sum(axis=0) - across.T @ moved
    return 0.5 * (curvature + curvature.T)
