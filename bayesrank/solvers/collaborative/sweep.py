"""One user's E-step: exact for numbers, and for all else a sweep of EP.

What is found belongs to the sites as they are; those that follow serve the next sweep.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from bayesrank.solvers.collaborative.curvature import AtCavity
from bayesrank.solvers.collaborative.likelihoods import Likelihood
from bayesrank.solvers.collaborative.posterior import Posterior, Told, UserState, user_posterior

__all__ = ["Swept", "exact", "sweep"]


class Swept(NamedTuple):
    """What was found.

    Attributes
    ----------
    posterior
        The user's posterior.
    log_evidence
        Of the user, EP's approximation unless the observations are numbers.
    delta
        Largest change of a predictor's mean that follows, in standard deviations of its cavity.
    """

    posterior: Posterior
    log_evidence: Array
    delta: Array


def sweep(
    likelihood: Likelihood, told: Told, state: UserState, damping: float
) -> tuple[UserState, Swept, AtCavity]:
    """Make one parallel sweep of EP.

    Returns
    -------
    tuple
        The user's state with the sites that follow, what was found, and the observations at their
        cavities.
    """
    # Precision-means are of the predictors; here they are measured from the prior mean.
    before = state.nu - state.tau * told.mean
    posterior = user_posterior(told.covariance, state.tau, before)
    mean, variance = _cavity(posterior, state.tau, before)
    at = told.levels, told.mean + mean, variance
    moments = jax.vmap(likelihood.moments, in_axes=(None, 0, 0, 0))(state.theta, *at)
    score = jax.vmap(likelihood.score, in_axes=(None, 0, 0, 0, 0))(state.theta, *at, moments.log_z)
    score = jnp.where(told.filled[:, None], score, 0.0)
    tau, nu = _site(moments, mean, variance)
    # The tilted mean against the posterior's, which EP makes equal.
    tilted = (mean + nu * variance) / (1.0 + tau * variance)
    moved = jnp.abs(tilted - posterior.mean) / jnp.sqrt(jnp.where(told.filled, variance, 1.0))
    delta = jnp.max(jnp.where(told.filled, moved, 0.0))
    sites = moments.log_z - _log_site(mean, variance, state.tau, before)
    sites = jnp.sum(jnp.where(told.filled, sites, 0.0))
    log_evidence = sites - 0.5 * posterior.log_det + 0.5 * before @ posterior.mean
    tau, nu = (jnp.where(told.filled, x, 0.0) for x in (tau, nu + tau * told.mean))
    new = state._replace(
        tau=state.tau + damping * (tau - state.tau), nu=state.nu + damping * (nu - state.nu)
    )
    swept = Swept(posterior, log_evidence, delta)
    return new, swept, AtCavity(*at, moments, score, told.filled)


def exact(told: Told, precision: Array) -> Swept:
    """Condition on one user's numbers, the predictors plus normal noise.

    Parameters
    ----------
    told
        The numbers.
    precision
        Of the noise, shape (s,); zero in empty rows.
    """
    error = jnp.where(told.filled, told.levels - told.mean, 0.0)
    posterior = user_posterior(told.covariance, precision, precision * error)
    # Without the precision-means, which are large where noise is small.
    shift = posterior.half.T @ (posterior.half @ error)
    precisions = jnp.log(jnp.where(told.filled, precision / (2.0 * jnp.pi), 1.0))
    log_evidence = 0.5 * (jnp.sum(precisions) - posterior.log_det - error @ shift)
    posterior = posterior._replace(shift=shift, mean=told.covariance @ shift)
    return Swept(posterior, log_evidence, jnp.zeros_like(log_evidence))


def _cavity(posterior: Posterior, tau: Array, nu: Array) -> tuple[Array, Array]:
    kept = 1.0 - tau * posterior.variance
    return (posterior.mean - posterior.variance * nu) / kept, posterior.variance / kept


def _site(moments: tuple[Array, Array, Array], mean: Array, variance: Array) -> tuple[Array, Array]:
    """Site that gives a cavity the tilted distribution's mean and variance."""
    _, d1, d2 = moments
    rest = 1.0 + d2 * variance
    return -d2 / rest, (d1 - mean * d2) / rest


def _log_site(mean: Array, variance: Array, tau: Array, nu: Array) -> Array:
    """Log of the integral of a cavity times a site."""
    total = 1.0 + tau * variance
    return -0.5 * jnp.log(total) + (2.0 * mean * nu + nu**2 * variance - tau * mean**2) / (
        2.0 * total
    )
