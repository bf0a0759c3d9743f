r"""PRank, and ensembles of it.

PRank: a perceptron with thresholds between the levels.

The predicted level of an example is the first whose threshold lies above its score,
:math:`\hat y = \min \{ r : w \cdot x - c(r) < 0 \}` with :math:`c(k) = \infty`. After a mistake,
each threshold on the wrong side of the score moves by one towards it. The weights move along the
example by as many steps, so that the score approaches the thresholds. Thresholds that start in
order stay in order (Crammer and Singer, 2002, Pranking with ranking, NIPS 14, 641-647). This is
Algorithm 1 of Harrington (2003), Online ranking/collaborative filtering using the perceptron
algorithm, ICML, whose line 16 swaps the names of weights and thresholds.

Arrays hold all members along their last axis. What a member is shown depends on nothing but the
seed, the number of the example and its own number. So the answer does not depend on how the stream
is cut into chunks.

In the kernel form a member's function is :math:`f_j(x) = \sum_i \alpha_{j,i} K(x_i, x)` over
examples :math:`x_i` that the members share (`bayesrank.online._kernel_form`). An example is stored
if any member learned from it.

The members run side by side under `vmap`, in one `lax.scan` over the examples of a block. Examples
that nobody is shown pad a block, and change no bit of any member. This is Algorithm 2 and section 3
of Harrington (2003), Online ranking/collaborative filtering using the perceptron algorithm, ICML;
its averages use the members *after* the round.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike
from tinygp.kernels import Kernel

from bayesrank.online._kernel_form import Store, empty_store, kernel_row, oldest, put


class Change(NamedTuple):
    """What one perceptron learns from one example."""

    steps: Any  # by how many multiples of the example its weights move; a scalar
    thresholds: Any  # by how much each threshold moves, shape (k - 1,)
    correct: Any  # whether it predicted the level


def level_of(score: Array, thresholds: Array) -> Array:
    """Level of a score: one more than the number of ordered thresholds (k - 1,) that it reaches."""
    return 1 + jnp.sum(score - thresholds >= 0.0)


def prank_change(score: Array, thresholds: Array, level: Array) -> Change:
    """Compare a perceptron's prediction with the level from 1 to k, Algorithm 1."""
    side = jnp.where(level <= jnp.arange(1, thresholds.shape[0] + 1), -1.0, 1.0)
    correct = level_of(score, thresholds) == level
    wrong = ((score - thresholds) * side <= 0.0) & ~correct
    moved = jnp.where(wrong, side, 0.0)
    return Change(moved.sum(), -moved, correct)


class Members(NamedTuple):
    """All that N members have learned."""

    weights: Any  # (d, N); in the kernel form coefficients of stored examples, (budget, N)
    thresholds: Any  # (k - 1, N)
    votes: Any  # levels that each predicted rightly, of examples shown to it; (N,)
    seen: Any  # number of examples of the stream
    support: Any  # stored examples, (budget, d); none in the linear form
    stamps: Any  # see `Store`, (budget,)


class Records(NamedTuple):
    """The members as they met each example of a block of B, before they learned from it."""

    scores: Any  # shape (B, N)
    thresholds: Any  # shape (B, k - 1, N)
    votes: Any  # shape (B, N)
    weights: Any  # shape (B, d, N), or (B, 0, N) unless asked for


def init_members(num_members: int, num_levels: int, num_features: int, budget: int = 0) -> Members:
    """Members that have seen nothing; with a ``budget``, in the kernel form."""
    return Members(
        weights=np.zeros((budget or num_features, num_members)),
        thresholds=np.zeros((num_levels - 1, num_members)),
        votes=np.zeros(num_members),
        seen=np.int64(0),
        **empty_store(budget, num_features)._asdict(),
    )


@partial(jax.jit, static_argnames=("keep_weights", "poisson"))
def learn_block(
    members: Members,
    X: ArrayLike,
    y: ArrayLike,
    count: ArrayLike,
    seed: ArrayLike,
    tau: ArrayLike,
    kernel: Kernel | None = None,
    *,
    keep_weights: bool = False,
    poisson: bool = False,
) -> tuple[Members, Records]:
    """Show `count` examples of a block (B, d), (B,) to members in turn."""
    # Each with chance `tau`, or, if `poisson`, as often as a variable of that mean says.
    X, y = jnp.asarray(X), jnp.asarray(y)
    there = jnp.arange(X.shape[0]) < count
    shape = (X.shape[0], members.votes.shape[0])
    shown = jnp.where(there[:, None], _shown(seed, members.seen, shape, tau, poisson), 0)
    kept = members.weights.shape[0] if keep_weights else 0
    all_changes = jax.vmap(prank_change, in_axes=(0, 1, None), out_axes=Change(0, 1, 0))

    def show(members: Members, x: Array, level: Array, present: Any, shown: Array) -> Any:
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
        if kernel is None:
            after = after._replace(weights=members.weights + row[:, None] * steps)
        else:
            after = _stored(after, x, steps, jnp.any(shown & ~correct))
        return after, Records(scores, members.thresholds, members.votes, members.weights[:kept])

    def turn(members: Members, example: tuple[Array, ...]) -> tuple[Members, Records]:
        x, level, present, times = example
        after, records = show(members, x, level, present, times > 0)
        if poisson:
            after = lax.fori_loop(
                1, jnp.max(times), lambda k, one: show(one, x, level, 0, times > k)[0], after
            )
        return after, records

    return lax.scan(turn, members, (X, y, there, shown))


def _shown(
    seed: ArrayLike, seen: Array, shape: tuple[int, int], tau: ArrayLike, poisson: bool
) -> Array:
    """Draw how often each member is shown each example, shape (size, N)."""
    key = random.key(jnp.asarray(seed), impl="threefry2x32")

    def draw(number: Array) -> Array:
        high = (number >> 32).astype(jnp.uint32)
        own = random.fold_in(random.fold_in(key, high), number.astype(jnp.uint32))
        if poisson:
            return random.poisson(own, tau, shape[1:])
        return (random.uniform(own, shape[1:]) < tau).astype(int)

    return jax.vmap(draw)(seen + jnp.arange(shape[0]))


def _stored(members: Members, x: Array, steps: Array, learned: Array) -> Members:
    """Store an example in the place of the oldest, if any member learned from it."""
    store = Store(members.support, members.stamps)
    slot = oldest(store)
    weights = members.weights.at[slot].set(jnp.where(learned, steps, members.weights[slot]))
    return members._replace(weights=weights, **put(store, slot, x, members.seen, learned)._asdict())
