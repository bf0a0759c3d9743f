"""Checks of Laplacians and their weights, by value where they are known: JAX traces programs."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.util import not_jax_tracer
from scipy import sparse

__all__ = ["check_laplacian", "check_weight"]


def check_weight(weight: Any) -> Any:
    """Return the weight of a Laplacian.

    Raises
    ------
    ValueError
        If it is not a number, or a negative one.
    """
    if np.shape(weight) != () or (not_jax_tracer(weight) and not 0.0 <= float(weight) < np.inf):
        raise ValueError(f"`weight` is {weight}; pass a finite number that is not negative.")
    return weight


def check_laplacian(laplacian: Any, n_items: int) -> Array:
    """Return the Laplacian of a graph of the items, sparse or dense, as a dense array (n, n).

    Raises
    ------
    ValueError
        If it is not a symmetric matrix of that shape, or a Laplacian's entries cannot be its.
    """
    matrix: Any = laplacian.toarray() if sparse.issparse(laplacian) else laplacian
    values: Any = np.asarray(matrix) if not_jax_tracer(matrix) else matrix
    if values.dtype.kind not in "biuf":
        raise ValueError(f"`laplacian` has dtype {values.dtype}; pass a matrix of numbers.")
    if values.shape != (n_items, n_items):
        raise ValueError(
            f"`laplacian` has shape {values.shape}; pass ({n_items}, {n_items}), a row and a "
            "column for each row of `X`, whether the item is in a comparison or not."
        )
    if isinstance(values, np.ndarray):
        _check_laplacian_values(values)
    matrix = jnp.asarray(values)
    return matrix.astype(jnp.result_type(matrix.dtype, float))


def _check_laplacian_values(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"`laplacian` is {values[row, column]} in row {row}, column {column}; pass "
            "`bayesrank.gp.laplacian` a graph whose weights are finite."
        )
    rounding = 1e3 * float(np.finfo(np.result_type(values, np.float32)).eps) * np.abs(values).max()
    if np.abs(values - values.T).max() > rounding:
        raise ValueError(
            "`laplacian` is not symmetric; make it of a graph whose edges have no direction, as "
            "`bayesrank.gp.knn_graph` returns."
        )
    # No entry of a positive semi-definite matrix is larger than its row's and column's diagonal.
    diagonal = np.diagonal(values)
    if (
        diagonal.min() < 0.0
        or (np.abs(values) > np.sqrt(np.outer(diagonal, diagonal)) + rounding).any()
    ):
        raise ValueError(
            "`laplacian` is not positive semi-definite, as a Laplacian is; pass "
            "`bayesrank.gp.laplacian(graph)`, not the graph itself."
        )
