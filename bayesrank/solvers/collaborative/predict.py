"""Users' functions, and predictions of their ratings, from the shared prior and users' sites."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from bayesrank.infer.spi import jit
from bayesrank.solvers.collaborative.blocks import make_blocks
from bayesrank.solvers.collaborative.likelihood_ordinal import Ordinal
from bayesrank.solvers.collaborative.posterior import user_data, user_posterior
from bayesrank.solvers.collaborative.state import EMState, unpack
from bayesrank.solvers.collaborative.types import (
    Observations,
    SharedPrior,
    UserBlock,
    UserState,
)

_NUMBERS_IN_PIECE = 10_000_000
_BLOCKS = 3


Functions = tuple[NDArray[np.float64], NDArray[np.float64]]


def functions_of(
    users: NDArray[np.int64], state: EMState, observations: Observations
) -> Iterator[tuple[slice, Functions]]:
    """Rows of `users` (u,), mean and variance (rows, m) at all items, as many as memory holds."""
    size = max(1, _NUMBERS_IN_PIECE // len(state.mean))
    for start in range(0, len(users), size):
        rows = slice(start, start + size)
        yield rows, _functions_of(users[rows], state, observations)


def _only(
    users: NDArray[np.int64], state: EMState, observations: Observations
) -> tuple[Observations, EMState]:
    """Observations and state of some users, numbered as they are given."""
    place = np.full(observations.num_users, -1)
    place[users] = np.arange(len(users))
    kept = np.flatnonzero(place[observations.users] >= 0)
    some = observations._replace(
        users=place[observations.users[kept]],
        items=observations.items[kept],
        levels=observations.levels[kept],
        num_users=len(users),
    )
    return some, state._replace(
        tau=state.tau[kept],
        nu=state.nu[kept],
        theta=state.theta[users],
        user_level=state.user_level[users],
        user_scale=state.user_scale[users],
    )


def _functions_of(
    users: NDArray[np.int64], state: EMState, observations: Observations
) -> Functions:
    some, part = _only(users, state, observations)
    mean = state.mean + part.user_level[:, None]
    variance = part.user_scale[:, None] * np.diagonal(state.kernel)
    if not len(some.users):
        return mean, variance
    blocks = make_blocks(some, max_blocks=_BLOCKS, alike=True, columns=len(state.mean))
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


def _function(
    prior: SharedPrior, items: Array, weights: Array, levels: Array, user: UserState
) -> tuple[Array, Array]:
    """One user's mean at all items, (m,), and ``H`` with ``H' H`` what observations explain."""
    data = user_data(prior, items, weights, levels, user)
    posterior = user_posterior(data.covariance, user.tau, user.nu - user.tau * data.mean)
    rows = user.scale * jnp.einsum("sw,swm->sm", weights, prior.kernel[items])
    return prior.mean + user.level + posterior.shift @ rows, posterior.half @ rows


@jit
def _block_functions(prior: SharedPrior, block: UserBlock, user: UserState) -> tuple[Array, Array]:
    diagonal = jnp.diagonal(prior.kernel)

    def one(*args: Any) -> tuple[Array, Array]:
        mean, explained = _function(prior, *args)
        return mean, args[-1].scale * diagonal - jnp.sum(explained**2, axis=0)

    data = tuple(jnp.asarray(x) for x in (block.items, block.weights, block.levels))
    return lax.map(lambda batch: jax.vmap(one)(*batch), (*data, user))


@jit
def _covariance(prior: SharedPrior, block: UserBlock, user: UserState) -> tuple[Array, Array]:
    """Mean and covariance at all items of the only user of a block."""
    data = jax.tree.map(lambda x: jnp.asarray(x)[0, 0], (*block[:3], user))
    mean, explained = _function(prior, *data)
    return mean, data[-1].scale * prior.kernel - explained.T @ explained


def draws_of(
    user: int, state: EMState, observations: Observations, normal: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draws of one user's function at all items, from standard normals of shape (draws, m)."""
    some, part = _only(np.array([user]), state, observations)
    mean, covariance = state.mean + part.user_level, part.user_scale * state.kernel
    if len(some.users):
        with jax.enable_x64(True):
            blocks = make_blocks(some, alike=True)
            laid_out = unpack(part, blocks)
            mean, covariance = _covariance(laid_out.prior, blocks[0], laid_out.users[0])
    values, vectors = np.linalg.eigh(np.asarray(covariance))
    # Eigenvalues that are negative at rounding level are zero.
    return np.asarray(mean) + normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T


def level_probabilities(
    likelihood: Ordinal,
    theta: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Probability of each level, (K, p + 1), at theta (K, p) and moments of functions (K,)."""
    with jax.enable_x64(True):
        return np.exp(np.asarray(_log_probabilities(likelihood, theta, mean, variance)))


@partial(jit, static_argnums=0)
def _log_probabilities(likelihood: Ordinal, theta: Array, mean: Array, variance: Array) -> Array:
    levels = jnp.arange(theta.shape[1] + 1)

    def row(*args: Array) -> Array:
        return jax.vmap(lambda y: likelihood.moments(args[0], y, *args[1:]).log_z)(levels)

    return jax.vmap(row)(theta, mean, variance)
