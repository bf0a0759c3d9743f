r"""Perceptrons side by side, each shown a random part of the stream.

All members are kept in arrays whose last axis counts them. What a member is shown depends on
nothing but the seed, the number of the example and its own number, so that the answer does not
depend on how the stream is cut into chunks, nor on where the members are computed.

In the kernel form a member's function is :math:`f_j(x) = \sum_i \alpha_{j,i} K(x_i, x)` over
examples :math:`x_i` that the members share. An example is stored once any member has learned from
it, in a free slot or else in that of the oldest, or of the smallest: the one with the least
:math:`\sum_j |\alpha_{j,i}| \sqrt{K(x_i, x_i)}`, of equals the older.

References
----------
.. [1] Harrington, E. F. (2003). Online ranking/collaborative filtering using the perceptron
   algorithm. ICML, Algorithm 2 and section 3. (The averages use the members *after* the round.)
.. [2] Kivinen, J., Smola, A. and Williamson, R. C. (2002). Online learning with kernels. NIPS 14.
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
    support
        Stored examples, shape (budget, d); in the linear form it has no row.
    stamps
        Number of the example in each slot, counted from 1, and 0 for a free slot; (budget,).
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
    """

    scores: Any
    thresholds: Any
    votes: Any
    weights: Any


def init_members(n_members: int, n_levels: int, n_features: int, budget: int = 0) -> Members:
    """Members that have seen nothing; with a ``budget``, in the kernel form."""
    return Members(
        weights=np.zeros((budget or n_features, n_members)),
        thresholds=np.zeros((n_levels - 1, n_members)),
        votes=np.zeros(n_members),
        seen=np.int64(0),
        support=np.zeros((budget, n_features)),
        stamps=np.zeros(budget, np.int64),
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

    The loop's length is data: blocks of one shape share compiled code, however many examples they
    hold, and one example makes one turn.

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
        Devices over which the members are divided, by its only axis; linear form only.
    keep_weights
        Whether to record the members' weights.
    """
    X, y = jnp.asarray(X), jnp.asarray(y)
    shown = _shown(seed, members.seen, X.shape[0], members.votes.shape[0], tau)
    learn = partial(_learn, evict=evict, keep_weights=keep_weights)
    if mesh is None:
        return learn(members, X, y, count, shown, kernel)
    each, every = PartitionSpec(), PartitionSpec(None, *mesh.axis_names)
    own = PartitionSpec(*mesh.axis_names)
    split = Members(every, every, own, each, each, each)
    history = PartitionSpec(None, None, *mesh.axis_names)
    return jax.shard_map(
        partial(learn, kernel=None),
        mesh=mesh,
        in_specs=(split, each, each, each, every),
        out_specs=(split, Records(every, history, every, history)),
        check_vma=False,
    )(members, X, y, count, shown)


def _shown(seed: ArrayLike, seen: Array, size: int, n_members: int, tau: ArrayLike) -> Array:
    """Draw which examples each member is shown, shape (size, N)."""
    key = random.key(jnp.asarray(seed), impl="threefry2x32")

    def draw(number: Array) -> Array:
        high = (number >> 32).astype(jnp.uint32)
        own = random.fold_in(random.fold_in(key, high), number.astype(jnp.uint32))
        return random.uniform(own, (n_members,)) < tau

    return jax.vmap(draw)(seen + jnp.arange(size))


def _learn(
    members: Members,
    X: Array,
    y: Array,
    count: ArrayLike,
    shown: Array,
    kernel: Kernel | None,
    *,
    evict: str,
    keep_weights: bool,
) -> tuple[Members, Records]:
    size, n_members = shown.shape
    n_thresholds = members.thresholds.shape[0]
    kept = members.weights.shape[0] if keep_weights else 0
    records = Records(
        jnp.zeros((size, n_members)),
        jnp.zeros((size, n_thresholds, n_members)),
        jnp.zeros((size, n_members)),
        jnp.zeros((size, kept, n_members)),
    )
    all_changes = jax.vmap(prank_change, in_axes=(0, 1, None), out_axes=Change(0, 1, 0))

    def turn(i: Array, carry: tuple[Members, Records]) -> tuple[Members, Records]:
        members, records = carry
        row = X[i] if kernel is None else _row(kernel, members, X[i])
        scores = row @ members.weights
        meeting = Records(scores, members.thresholds, members.votes, members.weights[:kept])
        records = jax.tree.map(lambda all_, one: all_.at[i].set(one), records, meeting)
        steps, moves, correct = all_changes(scores, members.thresholds, y[i])
        steps = jnp.where(shown[i], steps, 0.0)
        members = members._replace(
            thresholds=members.thresholds + jnp.where(shown[i], moves, 0.0),
            votes=members.votes + (shown[i] & correct),
            seen=members.seen + 1,
        )
        if kernel is None:
            return members._replace(weights=members.weights + row[:, None] * steps), records
        return _store(kernel, members, X[i], steps, evict), records

    return lax.fori_loop(0, count, turn, (members, records))


def _row(kernel: Kernel, members: Members, x: Array) -> Array:
    """Kernel of an example with the stored ones, zero for free slots."""
    return jnp.where(members.stamps > 0, kernel(members.support, x[None])[:, 0], 0.0)


def _store(kernel: Kernel, members: Members, x: Array, steps: Array, evict: str) -> Members:
    """Store an example that any member learned from."""
    age = members.stamps
    if evict == "smallest":
        size = jnp.abs(members.weights).sum(1) * jnp.sqrt(kernel(members.support))
        size = jnp.where(age > 0, size, -1.0)
        age = jnp.where(size == size.min(), age, jnp.iinfo(age.dtype).max)
    slot = jnp.argmin(age)
    learned = jnp.any(steps != 0.0)
    return members._replace(
        weights=members.weights.at[slot].set(jnp.where(learned, steps, members.weights[slot])),
        support=members.support.at[slot].set(jnp.where(learned, x, members.support[slot])),
        stamps=members.stamps.at[slot].set(jnp.where(learned, members.seen, members.stamps[slot])),
    )
