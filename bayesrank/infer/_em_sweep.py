"""One user's sweep of EP: what is found at the sites as they are, and the sites that follow."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from bayesrank.infer._em_curvature import AtCavity, theta_curvature
from bayesrank.infer._em_likelihood import Likelihood
from bayesrank.infer._em_posterior import Posterior, Told, UserState, user_posterior

__all__ = ["Swept", "sweep"]


class Swept(NamedTuple):
    """What a sweep found before it changed the sites.

    Attributes
    ----------
    posterior
        The user's posterior.
    score
        Gradients of the observations' ``log Z`` in ``theta``, shape (s, p); zero in empty rows.
    curvature
        Minus the Hessian of the log evidence in ``theta``, shape (p, p).
    log_evidence
        EP's approximation, exact for numbers.
    delta
        Largest change of a predictor's mean by the sweep, in standard deviations.
    """

    posterior: Posterior
    score: Array
    curvature: Array
    log_evidence: Array
    delta: Array


def sweep(
    likelihood: Likelihood, told: Told, state: UserState, damping: float
) -> tuple[UserState, Swept]:
    """Make one parallel sweep of EP."""
    # Precision-means are of the predictors; here they are measured from the prior mean.
    before = state.nu - state.tau * told.mean
    posterior = user_posterior(told.covariance, state.tau, before)
    mean, variance = _cavity(posterior, state.tau, before)
    at = told.levels, told.mean + mean, variance
    moments = jax.vmap(likelihood.moments, in_axes=(None, 0, 0, 0))(state.theta, *at)
    score = jax.vmap(likelihood.score, in_axes=(None, 0, 0, 0, 0))(state.theta, *at, moments[0])
    score = jnp.where(told.filled[:, None], score, 0.0)
    at_cavity = AtCavity(*at, moments, score, told.filled)
    curvature = theta_curvature(likelihood, state.theta, at_cavity, posterior.half)
    tau, nu = _site(moments, mean, variance)
    # The tilted mean against the posterior's, which EP makes equal.
    tilted = (mean + nu * variance) / (1.0 + tau * variance)
    moved = jnp.abs(tilted - posterior.mean) / jnp.sqrt(jnp.where(told.filled, variance, 1.0))
    if likelihood.gaussian:
        posterior, log_evidence = _exactly(told, posterior, state.tau)
    else:
        sites = moments[0] - _log_site(mean, variance, state.tau, before)
        sites = jnp.sum(jnp.where(told.filled, sites, 0.0))
        log_evidence = sites - 0.5 * posterior.log_det + 0.5 * posterior.quadratic
    delta = jnp.max(jnp.where(told.filled, moved, 0.0))
    tau, nu = (jnp.where(told.filled, x, 0.0) for x in (tau, nu + tau * told.mean))
    new = state._replace(
        tau=state.tau + damping * (tau - state.tau), nu=state.nu + damping * (nu - state.nu)
    )
    return new, Swept(posterior, score, curvature, log_evidence, delta)


def _exactly(told: Told, posterior: Posterior, tau: Array) -> tuple[Posterior, Array]:
    """Posterior and log evidence of numbers, without the large ``nu`` of small noise."""
    error = jnp.where(told.filled, told.levels - told.mean, 0.0)
    shift = posterior.half.T @ (posterior.half @ error)
    precisions = jnp.log(jnp.where(told.filled, tau / (2.0 * jnp.pi), 1.0))
    log_evidence = 0.5 * (jnp.sum(precisions) - posterior.log_det - error @ shift)
    return posterior._replace(shift=shift, mean=told.covariance @ shift), log_evidence


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
