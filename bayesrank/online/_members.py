r"""Perceptrons side by side, each shown a random part of the stream.

All members are kept in arrays whose last axis counts them. What a member is shown depends on
nothing but the seed, the number of the example and its own number, so that the answer does not
depend on how the stream is cut into chunks, nor on where the members are computed.

In the kernel form a member's function is :math:`f_j(x) = \sum_i \alpha_{j,i} K(x_i, x)` over
examples :math:`x_i` that the members share, see `bayesrank.online._store`. An example is stored
once any member has learned from it. Where the members are divided over devices, each device has
all stored examples and its own members' coefficients; these are whole numbers, so that their sizes
add up to the same in any order.

The members run side by side under `vmap`, in one `lax.scan` over the examples of a block. What pads
a block is an example that nobody is shown, which changes no bit of any member.

References
----------
.. [1] Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron
   algorithm. ICML, Algorithm 2 and section 3. (The averages use the members *after* the round.)
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike
from tinygp.kernels import Kernel

from bayesrank.online._prank import Change, prank_change
from bayesrank.online._store import Store, choose_slot, empty_store, kernel_row, put

__all__ = ["Members", "Records", "init_members", "learn_block"]


class Members(NamedTuple):
    """All that N members have learned.

    Attributes
    ----------
    weights
        Shape (d, N); in the kernel form coefficients of the stored examples, shape (budget, N).
    thresholds
        Shape (k - 1, N).
    votes
        Number of levels that each member predicted rightly, of the examples shown to it; (N,).
    seen
        Number of examples of the stream.
    support, stamps
        The stored examples, shapes (budget, d) and (budget,), see `Store`; in the linear form there
        is none.
    """

    weights: Any
    thresholds: Any
    votes: Any
    seen: Any
    support: Any
    stamps: Any


class Records(NamedTuple):
    """The members as they met each example of a block of B, before they learned from it.

    Attributes
    ----------
    scores
        Shape (B, N).
    thresholds
        Shape (B, k - 1, N).
    votes
        Shape (B, N).
    weights
        Shape (B, d, N), or (B, 0, N) unless asked for.
    slots
        In the kernel form the slot that the example took, or would have taken, else 0; (B,).
    """

    scores: Any
    thresholds: Any
    votes: Any
    weights: Any
    slots: Any


def init_members(num_members: int, num_levels: int, num_features: int, budget: int = 0) -> Members:
    """Members that have seen nothing; with a ``budget``, in the kernel form."""
    return Members(
        weights=np.zeros((budget or num_features, num_members)),
        thresholds=np.zeros((num_levels - 1, num_members)),
        votes=np.zeros(num_members),
        seen=np.int64(0),
        **empty_store(budget, num_features)._asdict(),
    )


@partial(jax.jit, static_argnames=("evict", "mesh", "keep_weights"))
def learn_block(
    members: Members,
    X: ArrayLike,
    y: ArrayLike,
    count: ArrayLike,
    seed: ArrayLike,
    tau: ArrayLike,
    kernel: Kernel | None = None,
    *,
    evict: str = "oldest",
    mesh: Mesh | None = None,
    keep_weights: bool = False,
) -> tuple[Members, Records]:
    """Show a block of examples to the members, one after the other.

    Blocks of one shape share compiled code, however many examples they hold.

    Parameters
    ----------
    members
        Before the block.
    X, y
        Examples, shape (B, d), and levels, shape (B,), of which the first ``count`` are used.
    count
        Number of examples.
    seed
        Of the choice of what each member is shown.
    tau
        Probability that a member is shown an example.
    kernel
        None for the linear form.
    evict
        "oldest" or "smallest": what leaves a full store of examples.
    mesh
        Devices over which the members are divided, by its only axis.
    keep_weights
        Whether to record the members' weights, in the linear form.
    """
    X, y = jnp.asarray(X), jnp.asarray(y)
    there = jnp.arange(X.shape[0]) < count
    shown = _shown(seed, members.seen, X.shape[0], members.votes.shape[0], tau) & there[:, None]
    learn = partial(_learn, evict=evict, keep_weights=keep_weights)
    if mesh is None:
        return learn(members, X, y, there, shown, kernel)
    (axis,) = mesh.axis_names
    each, every = PartitionSpec(), PartitionSpec(None, axis)
    split = Members(every, every, PartitionSpec(axis), each, each, each)
    history = PartitionSpec(None, None, axis)
    return jax.shard_map(
        partial(learn, axis=axis),
        mesh=mesh,
        in_specs=(split, each, each, each, every, each),
        out_specs=(split, Records(every, history, every, history, each)),
        check_vma=False,
    )(members, X, y, there, shown, kernel)


def _shown(seed: ArrayLike, seen: Array, size: int, num_members: int, tau: ArrayLike) -> Array:
    """Draw which examples each member is shown, shape (size, N)."""
    key = random.key(jnp.asarray(seed), impl="threefry2x32")

    def draw(number: Array) -> Array:
        high = (number >> 32).astype(jnp.uint32)
        own = random.fold_in(random.fold_in(key, high), number.astype(jnp.uint32))
        return random.uniform(own, (num_members,)) < tau

    return jax.vmap(draw)(seen + jnp.arange(size))


def _learn(
    members: Members,
    X: Array,
    y: Array,
    there: Array,
    shown: Array,
    kernel: Kernel | None,
    *,
    evict: str,
    keep_weights: bool,
    axis: str | None = None,
) -> tuple[Members, Records]:
    kept = members.weights.shape[0] if keep_weights else 0
    all_changes = jax.vmap(prank_change, in_axes=(0, 1, None), out_axes=Change(0, 1, 0))

    def turn(members: Members, example: tuple[Array, ...]) -> tuple[Members, Records]:
        x, level, present, shown = example
        store = Store(members.support, members.stamps)
        row = x if kernel is None else kernel_row(kernel, store, x)
        scores = row @ members.weights
        steps, moves, correct = all_changes(scores, members.thresholds, level)
        steps = jnp.where(shown, steps, 0.0)
        after = members._replace(
            thresholds=members.thresholds + jnp.where(shown, moves, 0.0),
            votes=members.votes + (shown & correct),
            seen=members.seen + present,
        )
        slot = jnp.zeros((), jnp.int64)
        if kernel is None:
            after = after._replace(weights=members.weights + row[:, None] * steps)
        else:
            mistaken = jnp.any(shown & ~correct)
            after, slot = _learn_example(kernel, after, x, steps, mistaken, evict, axis)
        return after, Records(
            scores, members.thresholds, members.votes, members.weights[:kept], slot
        )

    return lax.scan(turn, members, (X, y, there, shown))


def _learn_example(
    kernel: Kernel,
    members: Members,
    x: Array,
    steps: Array,
    learned: Array,
    evict: str,
    axis: str | None,
) -> tuple[Members, Array]:
    """Store an example if any member learned from it; return also its slot."""
    store, totals = Store(members.support, members.stamps), jnp.abs(members.weights).sum(1)
    if axis is not None:
        learned = lax.pmax(learned.astype(int), axis) > 0
        totals = lax.psum(totals, axis) if evict == "smallest" else totals
    slot = choose_slot(kernel, store, totals, evict)
    store = put(store, slot, x, members.seen, learned)
    weights = members.weights.at[slot].set(jnp.where(learned, steps, members.weights[slot]))
    return members._replace(weights=weights, **store._asdict()), slot
