"""Lists padded to a few lengths, and a field over all of them at once."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from bayesrank._sizes import next_size
from bayesrank.datasets import QueryLists
from bayesrank.solvers.lambda_rank.fields import Field

LambdaField = Callable[[Array, Array, Array], tuple[Array, Array]]
_PAIRS = 2**22  # of items in memory at once
_SHORTEST = 8


class Buckets(NamedTuple):
    """Lists padded to a few lengths n, and what a field needs of their grades.

    `rows` are places in the sorted order, (lists, n) for each length, -1 for none, and `labels`
    their grades; `place` (m,) is where each row stands in these, end to end, -1 if nowhere.
    """

    rows: tuple[Any, ...]
    place: Any
    labels: tuple[Any, ...]
    known: tuple[Any, ...]


def padded_count(count: int) -> int:
    """Return the least of 8, 12, 16, 24, 32, ... that is enough: like sizes compile once."""
    power = next_size(count, _SHORTEST)
    return power * 3 // 4 if max(count, _SHORTEST) <= power * 3 // 4 else power


def padded_rows(lists: QueryLists) -> tuple[np.ndarray, ...]:
    """Pad each list to a power of two, and the number of lists of one length as well."""
    width = 2 ** np.ceil(np.log2(np.maximum(lists.sizes, _SHORTEST))).astype(int)
    buckets = []
    for n in np.unique(width):
        mine = width == n
        rows = lists.starts[mine][:, None] + np.arange(n)
        bucket = np.full((padded_count(len(rows)), n), -1)
        bucket[: len(rows)] = np.where(np.arange(n) < lists.sizes[mine][:, None], rows, -1)
        buckets.append(bucket)
    return tuple(buckets)


def bucketed(
    field: LambdaField, lists: QueryLists, labels: Any, size: int | None = None
) -> Buckets:
    """Pad lists whose labels, shape (m,), stand list after list; `size` pads the rows as well."""
    rows = padded_rows(lists)
    flat = np.concatenate([bucket.ravel() for bucket in rows])
    filled = np.flatnonzero(flat >= 0)
    place = np.full(size or len(filled), -1)
    place[flat[filled]] = filled
    grades = tuple(np.where(part >= 0, np.asarray(labels, float)[part], 0.0) for part in rows)
    known = tuple(
        field.prepared(y, part >= 0, np) if isinstance(field, Field) else ()
        for y, part in zip(grades, rows, strict=True)
    )
    return Buckets(rows, place, grades, known)


def field_of_lists(field: LambdaField, buckets: Buckets, scores: Array) -> tuple[Array, Array]:
    """Lambda and curvature of all rows, shape (m,) each, from their scores."""
    at = field.at if isinstance(field, Field) else field
    every = scores[jnp.maximum(jnp.concatenate([jnp.ravel(rows) for rows in buckets.rows]), 0)]
    start, found = 0, []
    for rows, grades, known in zip(buckets.rows, buckets.labels, buckets.known, strict=True):
        count, width = rows.shape
        mine = every[start : start + rows.size].reshape(rows.shape)
        lists = (mine, grades, rows >= 0, *known)
        batch = max(1, _PAIRS // (width * min(width, 64)))
        if count <= batch:
            found.append(jax.vmap(at)(*lists))
        else:
            found.append(lax.map(lambda args: at(*args), lists, batch_size=batch))
        start += rows.size
    nothing = jnp.zeros(1, scores.dtype)
    lam, curvature = (
        jnp.concatenate([*(jnp.ravel(part) for part in parts), nothing])[buckets.place]
        for parts in zip(*found, strict=True)
    )
    return lam, curvature


_compiled = partial(jax.jit, static_argnums=0)(field_of_lists)


def field_of_rows(
    field: LambdaField, lists: QueryLists, labels: Any
) -> Callable[[Any], tuple[Array, Array]]:
    """Return a function from scores to lambda and curvature, all (m,), of rows list after list.

    Parameters
    ----------
    field
        How scores of one list should move, such as `Field`.
    lists, labels
        The lists, and the rows' grades, list after list, shape (m,).
    """
    buckets = jax.tree.map(jnp.asarray, bucketed(field, lists, labels))
    return lambda scores: _compiled(field, buckets, scores)


def frozen_pairs(
    field: Field, scores: Any, labels: Any, lists: QueryLists
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Pairs of rows and the weights that a field gives them at some scores.

    Parameters
    ----------
    field
        The field.
    scores, labels, lists
        Scores and grades of rows list after list, shape (m,), and the lists.

    Returns
    -------
    pairs, weights : ndarray
        Numbers of rows, better first, shape (P, 2), and weights, shape (P,). Pairs of weight zero
        are left out.
    """
    pairs, weights = [], []
    with jax.enable_x64(True):
        for bucket in padded_rows(lists):
            rows, where = np.maximum(bucket, 0), bucket >= 0
            s, grades = (jnp.asarray(np.asarray(v, np.float64)[rows]) for v in (scores, labels))
            table = _table(field, s, grades, jnp.asarray(where))
            number, better, worse = np.nonzero(np.asarray(table))
            pairs.append(np.stack([rows[number, better], rows[number, worse]], axis=1))
            weights.append(np.asarray(table)[number, better, worse])
    return np.concatenate(pairs), np.concatenate(weights)


@partial(jax.jit, static_argnums=0)
def _table(field: Field, scores: jax.Array, labels: jax.Array, where: jax.Array) -> jax.Array:
    """Weights of the pairs of each list, shape (lists, n, n)."""
    return jax.lax.map(lambda args: field.pair_weights(*args), (scores, labels, where))
