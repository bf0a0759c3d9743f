r"""A store of examples for the kernel form, with a budget.

A function in the kernel form is :math:`f(x) = \sum_i \alpha_i K(x_i, x)` over stored examples. A
new one takes a free slot, or else that of the oldest (Kivinen, Smola and Williamson, 2002, Online
learning with kernels, NIPS 14).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from tinygp.kernels import Kernel

from bayesrank.online._blocks import SMALL, blocks_of


class Store(NamedTuple):
    """Stored examples."""

    support: Any  # (budget, d)
    stamps: Any  # number of the example in each slot from 1, 0 in a free one; (budget,)


def empty_store(budget: int, num_features: int) -> Store:
    """Store that holds nothing; without a budget it has no slot."""
    return Store(np.zeros((budget, num_features)), np.zeros(budget, np.int64))


def kernel_row(kernel: Kernel, store: Store, x: Array) -> Array:
    """Kernel of an example with the stored ones, zero for free slots; (budget,)."""
    return jnp.where(store.stamps > 0, kernel(store.support, x[None])[:, 0], 0.0)


def oldest(store: Store) -> Array:
    """The slot that the next example takes: a free one, or that of the oldest example."""
    return jnp.argmin(store.stamps)


def put(store: Store, slot: Array, x: Array, stamp: Array, wanted: Array) -> Store:
    """Put an example into a slot, if it is wanted."""
    return Store(
        store.support.at[slot].set(jnp.where(wanted, x, store.support[slot])),
        store.stamps.at[slot].set(jnp.where(wanted, stamp, store.stamps[slot])),
    )


def kernel_rows(kernel: Kernel, store: Store, X: np.ndarray) -> np.ndarray:
    """Kernel of each example with the stored ones, (n, budget); in blocks of one shape."""
    used = np.asarray(store.stamps) > 0
    rows = [np.zeros((0, len(used)))]
    for (part,), count in blocks_of((SMALL,), X):
        values = kernel(jnp.asarray(part), jnp.asarray(store.support))
        rows.append(np.asarray(values)[:count])
    return np.where(used, np.concatenate(rows), 0.0)
