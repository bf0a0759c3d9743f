r"""The E-step: a sweep over every user's sites, and the sums that the M-step needs.

The sums over users of :math:`\hat f_j` and of
:math:`\hat\Sigma_j + (\hat f_j - h)(\hat f_j - h)'`, see
`bayesrank.solvers.collaborative.posterior`, follow from :math:`\sum_j P_j' a_j` and :math:`\sum_j
P_j' (a_j a_j' - G_j) P_j`: nothing of size m x m is built for a user.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.solvers.collaborative.blocks import Block
from bayesrank.solvers.collaborative.curvature import theta_curvature
from bayesrank.solvers.collaborative.likelihoods import Likelihood
from bayesrank.solvers.collaborative.posterior import Posterior, Prior, Told, UserState, told_by
from bayesrank.solvers.collaborative.sweep import Swept, exact, sweep

__all__ = ["Sums", "UserSums", "block_sums"]


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
        Largest change of a predictor's mean by this sweep, in standard deviations of its cavity.
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
        Gradient of the log evidence in ``theta``, and the sum of outer products of its terms; zero
        of numbers.
    curvature
        Minus the Hessian of the log evidence in ``theta``; zero where it is not wanted.
    trace
        ``a' Sigma_jj a - tr(G Sigma_jj)`` with the user's own scale.
    level_score, level_information
        ``1' a`` and ``1' G 1``.
    observed
        Number of observations.
    residual, cross, square
        Of numbers, as observations ``z`` of the function: expectations of the sums of
        ``(z - f)^2``, ``(z - a)(f - a)`` and ``(f - a)^2``, with ``a`` the anchor; else zero.
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


def _no_sums(num_items: int, *, shared: bool) -> Sums:
    """Sums over no users."""
    zero = jnp.zeros(())
    shape = (num_items, num_items) if shared else (0, 0)
    return Sums(jnp.zeros(num_items), jnp.zeros(shape), zero, zero)


def block_sums(
    likelihood: Likelihood | None,
    prior: Prior,
    block: Block,
    state: UserState,
    *,
    damping: float,
    shared: bool,
    curved: bool,
) -> tuple[UserState, UserSums, Sums]:
    """Work through the batches of a block, one after the other.

    Parameters
    ----------
    likelihood
        What the users' observations are; None for numbers.
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
    curved
        Whether `UserSums.curvature` is wanted.
    """

    def user(items: Array, weights: Array, levels: Array, state: UserState) -> _Done:
        told = told_by(prior, items, weights, levels, state)
        if likelihood is None:
            return _by_conditioning(told, state)
        return _by_sweeping(likelihood, told, state, damping, curved=curved)

    def batch(sums: Sums, data: tuple) -> tuple[Sums, tuple[UserState, UserSums]]:
        items, weights, levels, before = data
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

    sums = _no_sums(prior.mean.shape[0], shared=shared)
    data = jnp.asarray(block.items), jnp.asarray(block.weights), jnp.asarray(block.levels), state
    sums, (after, own) = lax.scan(batch, sums, data)
    return after, own, sums


_Done = tuple[UserState, Swept, UserSums]


def _by_conditioning(told: Told, state: UserState) -> _Done:
    """One user's numbers, see `bayesrank.solvers.collaborative.numbers`."""
    anchor, log_scale, log_noise = state.theta
    told = told._replace(levels=anchor + (told.levels - anchor) * jnp.exp(-log_scale))
    precision = jnp.where(told.filled, jnp.exp(2.0 * (log_scale - log_noise)), 0.0)
    state = state._replace(tau=precision, nu=precision * told.levels)
    swept = exact(told, precision)
    swept = swept._replace(
        log_evidence=swept.log_evidence - log_scale * jnp.sum(told.filled)  # of z, now of y
    )
    said = told.levels - anchor
    height, variance = told.mean + swept.posterior.mean - anchor, swept.posterior.variance
    sums = _user_sums(told, swept.posterior, state)._replace(
        residual=jnp.sum(jnp.where(told.filled, (said - height) ** 2 + variance, 0.0)),
        cross=jnp.sum(jnp.where(told.filled, said * height, 0.0)),
        square=jnp.sum(jnp.where(told.filled, height**2 + variance, 0.0)),
    )
    return state, swept, sums


def _by_sweeping(
    likelihood: Likelihood, told: Told, state: UserState, damping: float, *, curved: bool
) -> _Done:
    """One user's levels or comparisons."""
    after, swept, at = sweep(likelihood, told, state, damping)
    sums = _user_sums(told, swept.posterior, state)._replace(
        score=at.score.sum(axis=0), information=at.score.T @ at.score
    )
    if curved:
        curvature = theta_curvature(likelihood, state.theta, at, swept.posterior.half)
        sums = sums._replace(curvature=curvature)
    return after, swept, sums


def _user_sums(told: Told, posterior: Posterior, state: UserState) -> UserSums:
    """Sum up what does not depend on the likelihood; the rest is zero."""
    zero, ones = jnp.zeros(()), posterior.half @ told.filled.astype(posterior.half.dtype)
    size = state.theta.shape[0]
    return UserSums(
        score=jnp.zeros(size),
        information=jnp.zeros((size, size)),
        curvature=jnp.zeros((size, size)),
        trace=posterior.shift @ posterior.mean - posterior.explained,
        level_score=jnp.sum(posterior.shift),
        level_information=ones @ ones,
        observed=jnp.sum(told.filled),
        residual=zero,
        cross=zero,
        square=zero,
    )


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
