"""Lists padded to a few lengths, and a field over all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.datasets import QueryLists

__all__ = ["LambdaField", "bucketed", "field_of_rows"]

LambdaField = Callable[[Array, Array, Array], tuple[Array, Array]]
_PAIRS = 2**22  # of items in memory at once


def bucketed(lists: QueryLists) -> list[np.ndarray]:
    """Rows of each list, padded with -1 to a power of two; an array for each length.

    Rows are places in the sorted order.
    """
    width = 2 ** np.ceil(np.log2(np.maximum(lists.sizes, 4))).astype(int)
    buckets = []
    for n in np.unique(width):
        mine = width == n
        rows = lists.starts[mine][:, None] + np.arange(n)
        buckets.append(np.where(np.arange(n) < lists.sizes[mine][:, None], rows, -1))
    return buckets


def field_of_rows(
    field: LambdaField, buckets: list[Any], labels: Any
) -> Callable[[Array], tuple[Array, Array]]:
    """Return a function from the scores of all rows, shape (m,), to their lambda and curvature."""
    labels = jnp.asarray(labels)

    def evaluate(scores: Array) -> tuple[Array, Array]:
        lam, curvature = jnp.zeros_like(scores), jnp.zeros_like(scores)
        for bucket in buckets:
            rows, where = jnp.maximum(jnp.asarray(bucket), 0), jnp.asarray(bucket) >= 0
            batch = max(1, _PAIRS // (bucket.shape[1] * min(bucket.shape[1], 64)))
            moved, bent = lax.map(
                lambda args: field(*args),
                (scores[rows], labels[rows], where),
                batch_size=min(batch, len(bucket)),
            )
            lam = lam.at[rows].add(jnp.where(where, moved, 0.0))
            curvature = curvature.at[rows].add(jnp.where(where, bent, 0.0))
        return lam, curvature

    return jax.jit(evaluate)
