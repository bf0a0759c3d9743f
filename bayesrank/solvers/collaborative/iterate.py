"""One iteration of EM on blocks of users, on one device or on a mesh of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bayesrank.solvers.collaborative.blocks import Block
from bayesrank.solvers.collaborative.carry import Carried, CoreKernels
from bayesrank.solvers.collaborative.e_step import Sums, UserSums, block_sums
from bayesrank.solvers.collaborative.kernel_prior import Tier
from bayesrank.solvers.collaborative.likelihoods import LIKELIHOODS
from bayesrank.solvers.collaborative.m_step import Base, log_prior, update_prior
from bayesrank.solvers.collaborative.numbers import update_numbers
from bayesrank.solvers.collaborative.posterior import Prior, UserState
from bayesrank.solvers.collaborative.thresholds import (
    Theta,
    log_deviations,
    log_volume,
    update_theta,
)

__all__ = ["Found", "Setting", "State", "density", "expect", "maximise", "place"]

AXIS = "users"


class Setting(NamedTuple):
    """What does not change between iterations, and is known when code is compiled."""

    likelihood: str
    collaborative: bool
    tiers: tuple[Tier, ...]
    mean_strength: float
    learn_base: bool
    learn_theta: bool
    learn_spread: bool
    damping: float

    @property
    def numbers(self) -> bool:
        """Whether the observations are numbers."""
        return self.likelihood == "gaussian"

    @property
    def model(self) -> str:
        """What is fitted, in words."""
        return f"{self.likelihood}, {'collaborative' if self.collaborative else 'individual'}"


class State(NamedTuple):
    """Everything that is estimated.

    Attributes
    ----------
    prior, base, theta
        What the users share; of the kernel, the core's.
    users
        Their own, for each block.
    """

    prior: Prior
    base: Base
    theta: Theta
    users: tuple[UserState, ...]


class Found(NamedTuple):
    """What the E-step found.

    Attributes
    ----------
    users, own
        Of each block: states after the sweep, and what the M-step needs of each user.
    sums
        Over all users.
    carried
        The base process that it was made with.
    """

    users: tuple[UserState, ...]
    own: tuple[UserSums, ...]
    sums: Sums
    carried: Carried


def density(setting: Setting, state: State, found: Found, blocks: tuple[Block, ...]) -> Array:
    """Log prior density of what is estimated, up to a constant.

    `found` is what the E-step found at the state. What users' thresholds deviate by is integrated
    out, as their spread is learned.
    """
    total = jnp.zeros((), state.prior.mean.dtype)
    known = tuple(block.known for block in blocks)
    for user, there in zip(state.users, known, strict=True):
        total += log_deviations(state.theta, user, there)
    if setting.learn_spread:
        total += log_volume(state.theta, found.own, known)
    if not setting.collaborative:
        return total
    return total + log_prior(
        state.prior, state.base.level, found.carried, setting.tiers, setting.mean_strength
    )


def expect(
    setting: Setting,
    mesh: Mesh | None,
    prior: Prior,
    users: UserState,
    block: Block,
    before: Sums | None = None,
) -> tuple[UserState, UserSums, Sums]:
    """Make the E-step of one block: each device sums over its users, then the sums are added up.

    Parameters
    ----------
    setting
        Settings.
    mesh
        Devices that share the users, along an axis named "users"; None for one.
    prior
        What users share, the kernel of all items.
    users, block
        States and observations.
    before
        Sums of the blocks before, to which those of this one are added.
    """

    def local(prior: Prior, users: UserState, block: Block) -> Any:
        after, own, found = block_sums(
            None if setting.numbers else LIKELIHOODS[setting.likelihood],
            prior,
            block,
            users,
            damping=setting.damping,
            shared=setting.collaborative,
            curved=setting.learn_spread,
        )
        if mesh is not None:
            delta = lax.pmax(found.delta, AXIS)
            found = lax.psum(found, AXIS)._replace(delta=delta)
        return after, own, found

    if mesh is not None:
        split, whole = PartitionSpec(AXIS), PartitionSpec()
        local = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(whole, split, split),
            out_specs=(split, split, whole),
            check_vma=False,
        )
    after, own, found = local(prior, users, block)
    if before is not None:
        delta = jnp.maximum(before.delta, found.delta)
        found = jax.tree.map(jnp.add, before, found)._replace(delta=delta)
    return after, own, found


def maximise(
    setting: Setting, state: State, found: Found, blocks: tuple[Block, ...], kernels: CoreKernels
) -> State:
    """Make the M-step.

    Parameters
    ----------
    setting
        Settings.
    state
        The state before the E-step.
    found
        What the E-step found.
    blocks
        The observations.
    kernels
        Base kernels.
    """
    own = found.own
    known = tuple(block.known for block in blocks)
    num_users = sum((jnp.sum(there) for there in known), jnp.zeros((), state.prior.mean.dtype))
    state = state._replace(users=found.users)
    prior, base, theta, users = state
    if setting.collaborative:
        prior, base = update_prior(
            prior,
            base,
            kernels,
            found.carried,
            found.sums,
            num_users,
            setting.tiers,
            setting.mean_strength,
            learn_base=setting.learn_base,
            hold_size=not setting.numbers,
        )
    else:
        users = tuple(_individual(setting, *x) for x in zip(users, own, known, strict=True))
    if setting.numbers:
        if setting.learn_theta and setting.collaborative:
            theta, users = update_numbers(theta, users, own, known)
    elif setting.learn_theta and theta.shared.shape[0]:
        theta, users = update_theta(
            theta,
            users,
            own,
            known,
            learn_shared=setting.collaborative,
            learn_spread=setting.learn_spread,
        )
    return State(prior, base, theta, users)


def _individual(setting: Setting, user: UserState, own: UserSums, known: Array) -> UserState:
    """Each user's own level, scale and noise, as in a model of this user alone."""
    count = jnp.maximum(own.observed, 1)
    scale = user.scale * (1.0 + own.trace / count)
    level, theta = user.level, user.theta
    if setting.likelihood != "pairwise":  # comparisons say nothing of a level
        level = level + own.level_score / jnp.where(known, own.level_information, 1.0)
    if setting.numbers and setting.learn_theta:
        noise = 0.5 * jnp.log(jnp.where(known, own.residual / count, 1.0))
        theta = theta.at[..., -1].set(noise)
    return user._replace(scale=scale, level=level, theta=theta)


def place(mesh: Mesh | None, tree: Any, *, split: bool) -> Any:
    """Put arrays on the devices: split by their first axis, or whole on each.

    With several processes, each is given all of an array and keeps its part.
    """
    if mesh is None:
        return jax.device_put(tree)  # jnp.asarray compiles code for each shape
    sharding = NamedSharding(mesh, PartitionSpec(AXIS) if split else PartitionSpec())

    def put(array: Any) -> Array:
        array = jnp.asarray(array) if not hasattr(array, "shape") else array
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(put, tree)
