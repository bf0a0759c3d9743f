r"""The E-step: every user's posterior given the shared prior, and the sums that the M-step needs.

User :math:`j` has a function :math:`f_j \sim N(h, \Sigma)` and :math:`m_j` observations, which see
it through the rows of :math:`P_j`. With sites of precisions :math:`T_j` and precision-means
:math:`\nu_j + T_j P_j h`, so that :math:`\nu_j` is measured from the prior mean, and
:math:`\Sigma_{jj} = P_j \Sigma P_j'`,

.. math::
    G_j = (\Sigma_{jj} + T_j^{-1})^{-1}, \quad a_j = \nu_j - G_j \Sigma_{jj} \nu_j, \quad
    \hat f_j = h + \Sigma P_j' a_j, \quad
    \hat\Sigma_j = \Sigma - \Sigma P_j' G_j P_j \Sigma,

so that the sums over users that the M-step needs, of :math:`\hat f_j` and
:math:`\hat\Sigma_j + (\hat f_j - h)(\hat f_j - h)'`, follow from :math:`\sum_j P_j' a_j` and
:math:`\sum_j P_j' (G_j - a_j a_j') P_j`: nothing of size m x m is built for a user.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer._em_blocks import Block
from bayesrank.infer._em_curvature import AtCavity, theta_curvature
from bayesrank.infer._em_likelihood import Likelihood

__all__ = [
    "Posterior",
    "Prior",
    "Sums",
    "UserState",
    "UserSums",
    "block_sums",
    "told_by",
    "user_posterior",
]


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
        Parameters of the likelihood, see `bayesrank.infer._em_likelihood`.
    level, scale
        Of individual models: the prior is ``N(level, scale * Sigma)``; 0 and 1 in collaborative
        ones.
    """

    tau: Array
    nu: Array
    theta: Array
    level: Array
    scale: Array


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
    quadratic
        ``nu' mean``.
    explained
        ``tr(G Sigma_jj)``.
    """

    shift: Array
    half: Array
    mean: Array
    variance: Array
    log_det: Array
    quadratic: Array
    explained: Array


class Sums(NamedTuple):
    """What the E-step hands to the M-step.

    Attributes
    ----------
    shift
        ``sum_j P_j' a_j``, shape (m,).
    spread
        ``sum_j P_j' (a_j a_j' - G_j) P_j``, shape (m, m).
    log_evidence
        Of all users.
    delta
        Largest change of a predictor's mean by this sweep, in posterior standard deviations.
    """

    shift: Array
    spread: Array
    log_evidence: Array
    delta: Array


class UserSums(NamedTuple):
    """What the M-step needs of each user for the user's own parameters.

    Attributes
    ----------
    score, information
        Gradient of the log evidence in ``theta`` and the sum of outer products of its terms.
    curvature
        Minus the Hessian of the log evidence in ``theta``.
    trace
        ``a' Sigma_jj a - tr(G Sigma_jj)`` with the user's own scale.
    level_score, level_information
        ``1' a`` and ``1' G 1``.
    observed
        Number of observations.
    residual, cross, square
        Of numbers, as observations ``z`` of the function: expectations of the sums of
        ``(z - f)^2``, ``(z - a)(f - a)`` and ``(f - a)^2``, with ``a`` the anchor.
    """

    score: Array
    information: Array
    curvature: Array
    trace: Array
    level_score: Array
    level_information: Array
    observed: Array
    residual: Array
    cross: Array
    square: Array


def prior_at(prior: Prior, items: Array, weights: Array) -> tuple[Array, Array]:
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
    return Posterior(shift, half, mean, variance, log_det, nu @ mean, jnp.sum(half * across))


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


class _Told(NamedTuple):
    """One user's observations, with the prior of their predictors."""

    levels: Array
    filled: Array
    mean: Array
    covariance: Array


class _Swept(NamedTuple):
    """What a sweep found before it changed the sites."""

    posterior: Posterior
    score: Array
    curvature: Array
    log_evidence: Array
    delta: Array


def _exactly(told: _Told, posterior: Posterior, tau: Array) -> tuple[Posterior, Array]:
    """Posterior and log evidence of numbers, without the large ``nu`` of small noise."""
    error = jnp.where(told.filled, told.levels - told.mean, 0.0)
    shift = posterior.half.T @ (posterior.half @ error)
    precisions = jnp.log(jnp.where(told.filled, tau / (2.0 * jnp.pi), 1.0))
    log_evidence = 0.5 * (jnp.sum(precisions) - posterior.log_det - error @ shift)
    return posterior._replace(shift=shift, mean=told.covariance @ shift), log_evidence


def _sweep(
    likelihood: Likelihood, told: _Told, state: UserState, damping: float
) -> tuple[UserState, _Swept]:
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
    return new, _Swept(posterior, score, curvature, log_evidence, delta)


def told_by(prior: Prior, items: Array, weights: Array, levels: Array, state: UserState) -> _Told:
    """Put one user's observations beside the prior of their predictors."""
    mean, covariance = prior_at(prior, items, weights)
    mean = mean + state.level * jnp.sum(weights, axis=-1)  # comparisons' weights add up to zero
    return _Told(levels, weights[:, 0] != 0, mean, state.scale * covariance)


def _user(
    likelihood: Likelihood,
    prior: Prior,
    damping: float,
    items: Array,
    weights: Array,
    levels: Array,
    state: UserState,
) -> tuple[UserState, _Swept, UserSums]:
    """Sweep over one user's sites and sum up; to be mapped over users.

    What is found belongs to the sites before the sweep, whose change serves the next call.
    """
    told = told_by(prior, items, weights, levels, state)
    if not likelihood.gaussian:
        new, swept = _sweep(likelihood, told, state, damping)
        return new, swept, _user_sums(told, swept, jnp.zeros(()))
    anchor, log_scale, log_noise = state.theta
    told = told._replace(levels=anchor + (levels - anchor) * jnp.exp(-log_scale))
    precision = jnp.where(told.filled, jnp.exp(2.0 * (log_scale - log_noise)), 0.0)
    state = state._replace(tau=precision, nu=precision * told.levels)
    new, swept = _sweep(likelihood, told, state, 0.0)
    log_evidence = swept.log_evidence - log_scale * jnp.sum(told.filled)
    return new, swept._replace(log_evidence=log_evidence), _user_sums(told, swept, anchor)


def _user_sums(told: _Told, swept: _Swept, anchor: Array) -> UserSums:
    posterior = swept.posterior
    said, height = told.levels - anchor, told.mean + posterior.mean - anchor
    ones = posterior.half @ told.filled.astype(posterior.half.dtype)
    return UserSums(
        swept.score.sum(axis=0),
        swept.score.T @ swept.score,
        swept.curvature,
        posterior.shift @ posterior.mean - posterior.explained,
        jnp.sum(posterior.shift),
        ones @ ones,
        jnp.sum(told.filled),
        jnp.sum(jnp.where(told.filled, (said - height) ** 2 + posterior.variance, 0.0)),
        jnp.sum(jnp.where(told.filled, said * height, 0.0)),
        jnp.sum(jnp.where(told.filled, height**2 + posterior.variance, 0.0)),
    )


def no_sums(num_items: int, *, shared: bool) -> Sums:
    """Sums over no users."""
    zero = jnp.zeros(())
    shape = (num_items, num_items) if shared else (0, 0)
    return Sums(jnp.zeros(num_items), jnp.zeros(shape), zero, zero)


def block_sums(
    likelihood: Likelihood,
    prior: Prior,
    block: Block,
    state: UserState,
    *,
    damping: float,
    shared: bool,
) -> tuple[UserState, UserSums, Sums]:
    """Work through the batches of a block, one after the other.

    Parameters
    ----------
    likelihood
        What the users' observations are.
    prior
        What the users share.
    block
        Their observations.
    state
        Their states, with the leading axes (c, b) of the block.
    damping
        Share of the sweep's change that is taken.
    shared
        Whether `Sums.shift` and `Sums.spread` are wanted.
    """

    def batch(sums: Sums, data: tuple) -> tuple[Sums, tuple[UserState, UserSums]]:
        items, weights, levels, before = data

        def user(*args: Any) -> tuple:
            return _user(likelihood, prior, damping, *args)

        after, swept, own = jax.vmap(user)(items, weights, levels, before)
        shift, spread = sums.shift, sums.spread
        if shared:
            shift, spread = _scatter(shift, spread, items, weights, swept.posterior)
        sums = Sums(
            shift,
            spread,
            sums.log_evidence + jnp.sum(swept.log_evidence),
            jnp.maximum(sums.delta, jnp.max(swept.delta)),
        )
        return sums, (after, own)

    sums = no_sums(prior.mean.shape[0], shared=shared)
    data = jnp.asarray(block.items), jnp.asarray(block.weights), jnp.asarray(block.levels), state
    sums, (after, own) = lax.scan(batch, sums, data)
    return after, own, sums


def _scatter(
    shift: Array, spread: Array, items: Array, weights: Array, posterior: Posterior
) -> tuple[Array, Array]:
    """Add a batch of users to the sums over items."""
    a = posterior.shift
    local = a[:, :, None] * a[:, None, :] - jnp.einsum(
        "bks,bkt->bst", posterior.half, posterior.half
    )
    width = items.shape[-1]
    for p in range(width):
        shift = shift.at[items[..., p]].add(weights[..., p] * a)
        for q in range(width):
            entries = weights[:, :, None, p] * local * weights[:, None, :, q]
            spread = spread.at[items[:, :, None, p], items[:, None, :, q]].add(entries)
    return shift, spread
