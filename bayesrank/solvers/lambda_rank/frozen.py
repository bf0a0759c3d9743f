"""A field frozen at given scores: pairs with weights for `weighted_preferences`."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import QueryLists
from bayesrank.solvers.lambda_rank.fields import Field
from bayesrank.solvers.lambda_rank.lists import padded_rows


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
