r"""One user's posterior, given the shared prior and the sites of the user's observations.

User :math:`j` has a function :math:`f_j \sim N(h, \Sigma)` and :math:`m_j` observations, which see
it through the rows of :math:`P_j`. With sites of precisions :math:`T_j` and precision-means
:math:`\nu_j + T_j P_j h`, so that :math:`\nu_j` is measured from the prior mean, and
:math:`\Sigma_{jj} = P_j \Sigma P_j'`,

.. math::
    G_j = (\Sigma_{jj} + T_j^{-1})^{-1}, \quad a_j = \nu_j - G_j \Sigma_{jj} \nu_j, \quad
    \hat f_j = h + \Sigma P_j' a_j, \quad
    \hat\Sigma_j = \Sigma - \Sigma P_j' G_j P_j \Sigma.

Sites may have precision zero: :math:`G_j` is computed as :math:`T_j^{1/2} (I + T_j^{1/2}
\Sigma_{jj} T_j^{1/2})^{-1} T_j^{1/2}`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["Posterior", "Prior", "Told", "UserState", "told_by", "user_posterior"]


class Prior(NamedTuple):
    """What all users share, as the E-step sees it.

    Attributes
    ----------
    mean
        ``h``, shape (m,).
    kernel
        ``Sigma``, shape (m, m).
    """

    mean: Array
    kernel: Array


class UserState(NamedTuple):
    """What a user keeps between iterations; arrays have further leading axes in a block.

    Attributes
    ----------
    tau, nu
        Sites of the observations, shape (s,).
    theta
        Parameters of the likelihood, see `bayesrank.solvers.collaborative.likelihoods`.
    level, scale
        Of individual models: the prior is ``N(h + level, scale * Sigma)``; 0 and 1 in
        collaborative ones.
    """

    tau: Array
    nu: Array
    theta: Array
    level: Array
    scale: Array


class Told(NamedTuple):
    """One user's observations, with the prior of their predictors.

    Attributes
    ----------
    levels
        What was said, shape (s,).
    filled
        Which rows hold an observation, shape (s,).
    mean, covariance
        Prior of the predictors, ``P_j h`` and ``Sigma_jj``, shapes (s,) and (s, s).
    """

    levels: Array
    filled: Array
    mean: Array
    covariance: Array


class Posterior(NamedTuple):
    """A user's posterior at the observations.

    Attributes
    ----------
    shift
        ``a``, shape (s,).
    half
        ``W`` with ``G = W' W``, shape (s, s).
    mean, variance
        Of the predictors, measured from the prior mean, shape (s,).
    log_det
        ``log |I + T Sigma_jj|``.
    explained
        ``tr(G Sigma_jj)``.
    """

    shift: Array
    half: Array
    mean: Array
    variance: Array
    log_det: Array
    explained: Array


def told_by(prior: Prior, items: Array, weights: Array, levels: Array, state: UserState) -> Told:
    """Put one user's observations beside the prior of their predictors."""
    mean, covariance = _prior_at(prior, items, weights)
    mean = mean + state.level * jnp.sum(weights, axis=-1)  # comparisons' weights add up to zero
    return Told(levels, weights[:, 0] != 0, mean, state.scale * covariance)


def _prior_at(prior: Prior, items: Array, weights: Array) -> tuple[Array, Array]:
    """Prior mean and covariance of one user's predictors, shapes (s,) and (s, s).

    Empty rows have weight zero, and so mean and covariance zero.
    """
    width = items.shape[-1]
    mean = jnp.sum(prior.mean[items] * weights, axis=-1)
    covariance = jnp.zeros((items.shape[0], items.shape[0]), prior.kernel.dtype)
    for p in range(width):
        for q in range(width):
            entries = prior.kernel[items[:, None, p], items[None, :, q]]
            covariance += weights[:, None, p] * entries * weights[None, :, q]
    return mean, covariance


def user_posterior(covariance: Array, tau: Array, nu: Array) -> Posterior:
    """Multiply ``N(0, Sigma_jj)`` by one user's sites; precisions are not negative.

    Parameters
    ----------
    covariance
        ``Sigma_jj``, shape (s, s).
    tau, nu
        Site precisions and precision-means, shape (s,).
    """
    root = jnp.sqrt(tau)
    identity = jnp.eye(tau.shape[0], dtype=tau.dtype)
    matrix = identity + root[:, None] * covariance * root
    factor = jnp.linalg.cholesky(matrix, symmetrize_input=False)
    half = jax.scipy.linalg.solve_triangular(factor, identity, lower=True) * root
    across = half @ covariance
    shift = nu - half.T @ (across @ nu)
    mean = covariance @ shift
    variance = jnp.diagonal(covariance) - jnp.sum(across**2, axis=0)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return Posterior(shift, half, mean, variance, log_det, jnp.sum(half * across))
