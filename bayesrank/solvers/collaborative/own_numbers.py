r"""A user's own scale and noise of numbers, where all that users share is given.

Along the eigenvectors of :math:`\Sigma_{jj}`, with eigenvalues :math:`d_k`, a user's numbers less
the anchor, :math:`y_k`, are independent: with :math:`q_k` the prior mean less the anchor,

.. math:: y_k \sim N(c_j q_k, v_k), \qquad v_k = c_j^2 d_k + \sigma_j^2,

see `bayesrank.solvers.collaborative.numbers`. This and the density of :math:`\log c_j` and
:math:`\log \sigma_j` is maximised by Fisher's scoring, each step as long as is best of a few
lengths. EM's steps would take hundreds where the noise is small beside what a user thinks of one
item alone.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.solvers.collaborative.blocks import Block
from bayesrank.solvers.collaborative.posterior import Prior, Told, UserState, told_by
from bayesrank.solvers.collaborative.thresholds import Theta

__all__ = ["own_numbers"]

_STEPS = 30
_LONGEST_STEP = 1.0
_LENGTHS = (0.0, 0.125, 0.25, 0.5, 1.0)


def own_numbers(
    theta: Theta, prior: Prior, users: UserState, block: Block
) -> tuple[UserState, Array]:
    """Maximise in the parameters of every user of a block.

    Returns
    -------
    tuple
        The users with these parameters, and the longest last step.
    """

    def one(items: Array, weights: Array, levels: Array, user: UserState) -> tuple[Array, Array]:
        return _most_probable(theta, told_by(prior, items, weights, levels, user))

    data = tuple(jnp.asarray(x) for x in (block.items, block.weights, block.levels))
    found, last = lax.map(lambda batch: jax.vmap(one)(*batch), (*data, users))
    return users._replace(theta=found), jnp.max(last)


def _most_probable(theta: Theta, told: Told) -> tuple[Array, Array]:
    """One user's parameters, shape (3,), and the length of the last step."""
    anchor, spread = theta.shared[0], theta.spread[1:]
    centre = theta.shared[1:]
    free = spread > 0
    pull = jnp.where(free, 1.0 / jnp.where(free, spread, 1.0) ** 2, 0.0)
    # Empty rows get eigenvalues below zero, and so eigenvectors of their own.
    apart = jnp.max(jnp.diagonal(told.covariance))
    widths, axes = jnp.linalg.eigh(told.covariance - jnp.diag(jnp.where(told.filled, 0.0, apart)))
    there = widths > -0.5 * apart
    widths = jnp.maximum(widths, 0.0)
    said, mean = (jnp.where(told.filled, x - anchor, 0.0) @ axes for x in (told.levels, told.mean))

    def parts(x: Array) -> tuple[Array, Array, Array]:
        scale, noise = jnp.exp(x)
        variance = jnp.where(there, scale**2 * widths + noise**2, 1.0)
        return said - scale * mean, variance, jnp.stack([scale * mean, jnp.zeros_like(mean)])

    def density(x: Array) -> Array:
        error, variance, _ = parts(x)
        told = jnp.sum(jnp.where(there, error**2 / variance + jnp.log(variance), 0.0))
        return -0.5 * (told + jnp.sum(pull * (x - centre) ** 2))

    def improve(_: int, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x = state[0]
        error, variance, by_mean = parts(x)
        by_variance = 2.0 * jnp.exp(2.0 * x)[:, None] * jnp.stack([widths, jnp.ones_like(widths)])
        by_mean, by_variance = (jnp.where(there, y, 0.0) for y in (by_mean, by_variance))
        relative = by_variance / variance
        gradient = by_mean @ (error / variance) + 0.5 * relative @ (error**2 / variance - 1.0)
        information = (by_mean / variance) @ by_mean.T + 0.5 * relative @ relative.T
        step = jnp.where(free, gradient - pull * (x - centre), 0.0)
        inside = jnp.where(free[:, None] & free, information, 0.0)
        step = jnp.linalg.solve(inside + jnp.diag(jnp.where(free, pull, 1.0)), step)
        step *= jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))
        tried = x + jnp.asarray(_LENGTHS)[:, None] * step
        best = tried[jnp.argmax(jax.vmap(density)(tried))]
        return best, jnp.max(jnp.abs(step))

    found, last = lax.fori_loop(0, _STEPS, improve, (centre, jnp.zeros((), centre.dtype)))
    return jnp.concatenate([anchor[None], found]), last
