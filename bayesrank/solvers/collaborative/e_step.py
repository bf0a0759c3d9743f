r"""The E-step: every user's posterior, and the sums over users that the M-step needs.

The sums of :math:`\hat f_j` and of :math:`\hat\Sigma_j + (\hat f_j - h)(\hat f_j - h)'`
(`bayesrank.solvers.collaborative.posterior`) follow from :math:`\sum_j P_j' a_j` and
:math:`\sum_j P_j' (a_j a_j' - G_j) P_j`. No user needs a matrix of size m x m.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bayesrank.solvers.collaborative.posterior import user_data
from bayesrank.solvers.collaborative.types import (
    Setting,
    SharedPrior,
    Sums,
    UserBlock,
    UserPosterior,
    UserState,
    UserStatistics,
)

AXIS = "users"


def expect(
    setting: Setting,
    mesh: Mesh | None,
    prior: SharedPrior,
    users: UserState,
    block: UserBlock,
    before: Sums | None = None,
) -> tuple[UserState, UserStatistics, Sums]:
    """E-step of one block, its sums over all devices added to those of the blocks before."""

    def local(prior: SharedPrior, users: UserState, block: UserBlock) -> Any:
        after, statistics, sums = _block(setting, prior, users, block)
        if mesh is not None:
            sums = lax.psum(sums, AXIS)._replace(delta=lax.pmax(sums.delta, AXIS))
        return after, statistics, sums

    if mesh is not None:
        split, replicated = PartitionSpec(AXIS), PartitionSpec()
        specs: Any = {
            "in_specs": (replicated, split, split),
            "out_specs": (split, split, replicated),
        }
        local = jax.shard_map(local, mesh=mesh, check_vma=False, **specs)
    after, statistics, sums = local(prior, users, block)
    if before is not None:
        delta = jnp.maximum(before.delta, sums.delta)
        sums = jax.tree.map(jnp.add, before, sums)._replace(delta=delta)
    return after, statistics, sums


def _block(
    setting: Setting, prior: SharedPrior, users: UserState, block: UserBlock
) -> tuple[UserState, UserStatistics, Sums]:
    """Work through the batches of a block, one after the other."""

    def one(items: Array, weights: Array, levels: Array, state: UserState) -> Any:
        data = user_data(prior, items, weights, levels, state)
        after, fit, own = setting.likelihood.sufficient_statistics(data, state)
        ones = fit.posterior.half @ data.filled.astype(fit.posterior.half.dtype)
        return (
            after,
            fit,
            UserStatistics(
                trace=fit.posterior.shift @ fit.posterior.mean - fit.posterior.explained,
                level_score=jnp.sum(fit.posterior.shift),
                level_information=ones @ ones,
                num_observations=jnp.sum(data.filled),
                likelihood=own,
            ),
        )

    def batch(sums: Sums, data: tuple) -> tuple[Sums, tuple[UserState, UserStatistics]]:
        items, weights, *_ = data
        after, fit, own = jax.vmap(one)(*data)
        shift, spread = sums.shift, sums.spread
        if setting.collaborative:
            shift, spread = _scatter(shift, spread, items, weights, fit.posterior)
        log_evidence = sums.log_evidence + jnp.sum(fit.log_evidence)
        delta = jnp.maximum(sums.delta, jnp.max(fit.delta))
        return Sums(shift, spread, log_evidence, delta), (after, own)

    m, zero = len(prior.mean), jnp.zeros(())
    shape = (m, m) if setting.collaborative else (0, 0)
    data = *(jnp.asarray(x) for x in (block.items, block.weights, block.levels)), users
    sums, both = lax.scan(batch, Sums(jnp.zeros(m), jnp.zeros(shape), zero, zero), data)
    return *both, sums


def _scatter(
    shift: Array, spread: Array, items: Array, weights: Array, posterior: UserPosterior
) -> tuple[Array, Array]:
    """Add a batch of users to the sums over items."""
    a, half = posterior.shift, posterior.half
    local = a[:, :, None] * a[:, None, :] - jnp.einsum("bks,bkt->bst", half, half)
    width = items.shape[-1]
    for p in range(width):
        shift = shift.at[items[..., p]].add(weights[..., p] * a)
        for q in range(width):
            entries = weights[:, :, None, p] * local * weights[:, None, :, q]
            spread = spread.at[items[:, :, None, p], items[:, None, :, q]].add(entries)
    return shift, spread


def place(mesh: Mesh | None, tree: Any, *, split: bool) -> Any:
    """Put arrays on the devices, split by their first axis or whole; a process keeps its part."""
    if mesh is None:
        return jax.device_put(tree)  # jnp.asarray compiles code for each shape
    sharding = NamedSharding(mesh, PartitionSpec(AXIS) if split else PartitionSpec())

    def put(array: Any) -> Array:
        array = jnp.asarray(array) if not hasattr(array, "shape") else array
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(put, tree)
