r"""One user's posterior, given the shared prior and the sites of the user's observations.

User :math:`j` has a function :math:`f_j \sim N(h, \Sigma)`, seen through the rows of :math:`P_j`.
Sites have precisions :math:`T_j` and precision-means :math:`\nu_j + T_j P_j h`: :math:`\nu_j` is
measured from the prior mean. With :math:`\Sigma_{jj} = P_j \Sigma P_j'`,

.. math::
    G_j = (\Sigma_{jj} + T_j^{-1})^{-1}, \quad a_j = \nu_j - G_j \Sigma_{jj} \nu_j, \quad
    \hat f_j = h + \Sigma P_j' a_j, \quad
    \hat\Sigma_j = \Sigma - \Sigma P_j' G_j P_j \Sigma.

A precision may be zero, since
:math:`G_j = T_j^{1/2} (I + T_j^{1/2} \Sigma_{jj} T_j^{1/2})^{-1} T_j^{1/2}`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from bayesrank.infer.spi import cavity, log_sites, match
from bayesrank.solvers.collaborative.types import (
    SharedPrior,
    UserData,
    UserFit,
    UserPosterior,
    UserState,
)


def user_data(
    prior: SharedPrior, items: Array, weights: Array, levels: Array, state: UserState
) -> UserData:
    """Put one user's observations beside the prior of their predictors; empty rows have zeros."""
    width = items.shape[-1]
    mean = jnp.sum((prior.mean[items] + state.level) * weights, axis=-1)
    covariance = jnp.zeros((items.shape[0], items.shape[0]), prior.kernel.dtype)
    for p in range(width):
        for q in range(width):
            entries = prior.kernel[items[:, None, p], items[None, :, q]]
            covariance += weights[:, None, p] * entries * weights[None, :, q]
    return UserData(levels, weights[:, 0] != 0, mean, state.scale * covariance)


def user_posterior(covariance: Array, tau: Array, nu: Array) -> UserPosterior:
    """Multiply ``N(0, Sigma_jj)``, shape (s, s), by one user's sites; no precision is negative."""
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
    return UserPosterior(shift, half, mean, variance, log_det, jnp.sum(half * across))


def condition(data: UserData, precision: Array) -> UserFit:
    """Condition on one user's numbers, the predictors plus normal noise of these precisions."""
    error = jnp.where(data.filled, data.levels - data.mean, 0.0)
    posterior = user_posterior(data.covariance, precision, precision * error)
    # Without the precision-means, which are large where noise is small.
    shift = posterior.half.T @ (posterior.half @ error)
    precisions = jnp.log(jnp.where(data.filled, precision / (2.0 * jnp.pi), 1.0))
    log_evidence = 0.5 * (jnp.sum(precisions) - posterior.log_det - error @ shift)
    posterior = posterior._replace(shift=shift, mean=data.covariance @ shift)
    return UserFit(posterior, log_evidence, jnp.zeros_like(log_evidence))


def sweep(
    tilt: Callable[..., tuple[Any, Any]], data: UserData, state: UserState
) -> tuple[UserState, UserFit, Any]:
    """Make a parallel sweep of EP: the state, the fit before it, and what else `tilt` gives."""
    # Precision-means are of the predictors; here they are measured from the prior mean.
    tau, before = state.tau, state.nu - state.tau * data.mean
    posterior = user_posterior(data.covariance, tau, before)
    mean, variance, _ = cavity(tau, before, posterior.mean, posterior.variance)
    moments, wanted = jax.vmap(tilt)(data.levels, data.mean + mean, variance)
    new_tau, new_nu, _ = match(moments, mean, variance)
    # The tilted mean against the posterior's, which EP makes equal.
    moved = jnp.abs(mean + moments.d1 * variance - posterior.mean) / jnp.sqrt(variance)
    sites = moments.log_z - log_sites(tau, before, mean, variance)
    delta = jnp.max(jnp.where(data.filled, moved, 0.0))
    log_evidence = jnp.sum(jnp.where(data.filled, sites, 0.0))
    log_evidence += 0.5 * (before @ posterior.mean - posterior.log_det)
    step_tau, step_nu = (
        jnp.where(data.filled, new - old, 0.0)
        for new, old in ((new_tau, tau), (new_nu + new_tau * data.mean, state.nu))
    )
    after = state._replace(tau=tau + step_tau, nu=state.nu + step_nu)
    return after, UserFit(posterior, log_evidence, delta), wanted
