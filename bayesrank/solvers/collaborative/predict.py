"""What users may say of items: from the shared prior and each user's sites."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from bayesrank.infer.compiled import jit
from bayesrank.solvers.collaborative.blocks import Block, Observations, make_blocks
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS
from bayesrank.solvers.collaborative.posterior import Prior, UserState, told_by, user_posterior
from bayesrank.solvers.collaborative.state import EMState, unpack

__all__ = ["draws_of", "functions_of", "level_probabilities"]

_NUMBERS_IN_PIECE = 10_000_000
_BLOCKS = 3


Functions = tuple[NDArray[np.float64], NDArray[np.float64]]


def functions_of(
    users: NDArray[np.int64], state: EMState, observations: Observations
) -> Iterator[tuple[slice, Functions]]:
    """Posterior mean and variance of users' functions at all items, of as many as fit into memory.

    Parameters
    ----------
    users
        Different users, shape (u,).
    state, observations
        What EM estimated, and from what.

    Yields
    ------
    tuple
        Rows of `users`, and two arrays of shape (rows, m).
    """
    size = max(1, _NUMBERS_IN_PIECE // len(state.mean))
    for start in range(0, len(users), size):
        rows = slice(start, start + size)
        yield rows, _functions_of(users[rows], state, observations)


def _functions_of(
    users: NDArray[np.int64], state: EMState, observations: Observations
) -> Functions:
    level, scale = state.user_level[users], state.user_scale[users]
    mean = state.mean + level[:, None]
    variance = scale[:, None] * np.diagonal(state.kernel)
    place = np.full(observations.num_users, -1)
    place[users] = np.arange(len(users))
    kept = np.flatnonzero(place[observations.users] >= 0)
    if not len(kept):
        return mean, variance
    some = observations._replace(
        users=place[observations.users[kept]],
        items=observations.items[kept],
        levels=observations.levels[kept],
        num_users=len(users),
    )
    part = state._replace(
        tau=state.tau[kept],
        nu=state.nu[kept],
        theta=state.theta[users],
        user_level=level,
        user_scale=scale,
    )
    blocks = make_blocks(some, most=_BLOCKS, alike=True, columns=len(state.mean))
    with jax.enable_x64(True):
        laid_out = unpack(part, blocks)
        prior = jax.device_put(laid_out.prior)
        for block, user in zip(blocks, laid_out.users, strict=True):
            found = _block_functions(prior, block, user)
            who = np.asarray(block.users).ravel()
            there = who < len(users)
            for target, values in zip((mean, variance), found, strict=True):
                target[who[there]] = np.asarray(values).reshape(len(who), -1)[there]
    return mean, variance


@jit
def _block_functions(prior: Prior, block: Block, user: UserState) -> tuple[Array, Array]:
    diagonal = jnp.diagonal(prior.kernel)

    def one(items: Array, weights: Array, levels: Array, user: UserState) -> tuple[Array, Array]:
        told = told_by(prior, items, weights, levels, user)
        posterior = user_posterior(told.covariance, user.tau, user.nu - user.tau * told.mean)
        rows = user.scale * jnp.einsum("sw,swm->sm", weights, prior.kernel[items])
        mean = prior.mean + user.level + posterior.shift @ rows
        return mean, user.scale * diagonal - jnp.sum((posterior.half @ rows) ** 2, axis=0)

    data = tuple(jnp.asarray(x) for x in (block.items, block.weights, block.levels))
    return lax.map(lambda batch: jax.vmap(one)(*batch), (*data, user))


def draws_of(
    user: int, state: EMState, observations: Observations, normal: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draws of one user's function at all items, from standard normals of shape (draws, m)."""
    mine = observations.users == user
    items, weights = observations.items[mine], np.asarray(observations.weights)
    level, scale = state.user_level[user], state.user_scale[user]
    rows = scale * np.einsum("w,kwm->km", weights, state.kernel[items])
    covariance = np.einsum("w,klw->kl", weights, rows[:, items])
    root = np.sqrt(state.tau[mine])
    inner = np.eye(len(root)) + root[:, None] * covariance * root
    half = np.linalg.solve(np.linalg.cholesky(inner), root[:, None] * rows)
    nu = state.nu[mine] - state.tau[mine] * ((state.mean[items] + level) @ weights)
    told = np.zeros(len(state.mean))  # P' nu
    np.add.at(told, items, nu[:, None] * weights)
    mean = state.mean + level + nu @ rows - half.T @ (half @ told)
    values, vectors = np.linalg.eigh(scale * state.kernel - half.T @ half)
    # Eigenvalues that are negative at rounding level are zero.
    return mean + normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T


def level_probabilities(
    likelihood: str,
    theta: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Probability of each level, the uncertainty of the function included.

    Parameters
    ----------
    likelihood
        "probit" or "logit".
    theta
        Parameters of the user of each row, shape (K, p).
    mean, variance
        Of the function at the item of each row, shape (K,).

    Returns
    -------
    ndarray
        Shape (K, p + 1).
    """
    with jax.enable_x64(True):
        return np.exp(np.asarray(_log_probabilities(likelihood, theta, mean, variance)))


@partial(jit, static_argnums=0)
def _log_probabilities(likelihood: str, theta: Array, mean: Array, variance: Array) -> Array:
    law = LIKELIHOODS[likelihood]
    levels = jnp.arange(theta.shape[1] + 1)

    def row(theta: Array, mean: Array, variance: Array) -> Array:
        return jax.vmap(lambda y: law.moments(theta, y, mean, variance).log_z)(levels)

    return jax.vmap(row)(theta, mean, variance)
