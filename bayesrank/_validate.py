"""Checks of arguments that several rooms share, with one clear message for each thing wrong.

Shapes and dtypes are checked always; values only where they are known, which they are not while
JAX traces a program.
"""

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpyro.util import not_jax_tracer
from scipy import sparse

__all__ = [
    "check_comparisons",
    "check_count",
    "check_features",
    "check_laplacian",
    "check_outcomes",
    "check_weight",
    "check_weights",
    "known",
]


def check_count(count: Any, name: str, least: int = 1) -> int:
    """Return a count as an integer.

    Raises
    ------
    ValueError
        If it is not a whole number, or smaller than ``least``.
    """
    try:
        whole = least - 1 if isinstance(count, bool | np.bool) else operator.index(count)
    except TypeError:
        whole = least - 1
    if whole < least:
        raise ValueError(f"{name} is {count!r}; pass a whole number from {least} on")
    return whole


def check_features(X: ArrayLike, name: str, *, columns: int | None = None) -> Array:
    """Return the items' features as a floating array of shape (n, d).

    Raises
    ------
    ValueError
        If they are not a table of finite numbers with the expected number of columns.
    """
    values = known(X)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` has dtype {values.dtype}; pass a table of numbers.")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"`{name}` has shape {values.shape}; pass (n, d), one row of features for each item."
        )
    if columns is not None and values.shape[1] != columns:
        raise ValueError(
            f"`{name}` has {values.shape[1]} columns, but `X` has {columns}; describe the new "
            "items by the same features."
        )
    if isinstance(values, np.ndarray) and not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"`{name}` is {values[row, column]} in row {row}, column {column}; remove the item or "
            "fill the value in."
        )
    features = jnp.asarray(X)
    return features.astype(jnp.result_type(features.dtype, float))


def check_comparisons(comparisons: ArrayLike, num_items: int) -> Array:
    """Return the comparisons as an integer array of shape (K, 2).

    Raises
    ------
    ValueError
        If they are not pairs of the numbers of two different items.
    """
    values = known(comparisons)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"`comparisons` has shape {values.shape}; pass (K, 2), one row (winner, loser) for "
            "each comparison."
        )
    if values.shape[0] == 0:
        raise ValueError("`comparisons` has no rows; pass None for draws from the prior.")
    if values.dtype.kind not in "iu":
        raise ValueError(
            f"`comparisons` has dtype {values.dtype}; pass the items' numbers as integers."
        )
    if isinstance(values, np.ndarray):
        _check_items(values, num_items)
    return jnp.asarray(comparisons)


def _check_items(comparisons: np.ndarray, num_items: int) -> None:
    unknown = (comparisons < 0) | (comparisons >= num_items)
    if unknown.any():
        row, column = np.argwhere(unknown)[0]
        raise ValueError(
            f"`comparisons` names item {comparisons[row, column]} in row {row}, but the "
            f"{num_items} items are numbered 0 to {num_items - 1}."
        )
    with_itself = comparisons[:, 0] == comparisons[:, 1]
    if with_itself.any():
        row = int(np.argmax(with_itself))
        raise ValueError(
            f"`comparisons` compares item {comparisons[row, 0]} with itself in row {row}; remove "
            "the row."
        )


def check_outcomes(outcomes: ArrayLike, num_comparisons: int) -> Array:
    """Return the outcomes of comparisons with ties as an integer array of shape (K,).

    Raises
    ------
    ValueError
        If there is not one outcome, 0, 1 or 2, for each comparison.
    """
    values = known(outcomes)
    if values.shape != (num_comparisons,):
        raise ValueError(
            f"`outcomes` has shape {values.shape}; pass ({num_comparisons},), one outcome for each "
            "row of `comparisons`."
        )
    if values.dtype.kind not in "iu":
        raise ValueError(f"`outcomes` has dtype {values.dtype}; pass integers 0, 1 or 2.")
    if isinstance(values, np.ndarray) and not np.isin(values, (0, 1, 2)).all():
        row = int(np.argmin(np.isin(values, (0, 1, 2))))
        raise ValueError(
            f"`outcomes` is {values[row]} in row {row}; pass 2 if the first item wins, 1 for no "
            "difference, 0 if the second wins."
        )
    return jnp.asarray(outcomes)


def check_weights(weights: ArrayLike, num_comparisons: int) -> Array:
    """Return how often each comparison counts as a floating array of shape (K,).

    Raises
    ------
    ValueError
        If there is not a positive finite number for each comparison.
    """
    values = known(weights)
    if values.shape != (num_comparisons,) or values.dtype.kind not in "biuf":
        raise ValueError(
            f"`weights` has shape {values.shape} and dtype {values.dtype}; pass "
            f"({num_comparisons},), a number for each row of `comparisons`."
        )
    if isinstance(values, np.ndarray) and not ((values > 0) & (values < np.inf)).all():
        row = int(np.argmin((values > 0) & (values < np.inf)))
        raise ValueError(
            f"`weights` is {values[row]} in row {row}; pass positive numbers, and leave a "
            "comparison out that is not to count."
        )
    result = jnp.asarray(weights)
    return result.astype(jnp.result_type(result.dtype, float))


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


def check_laplacian(laplacian: Any, num_items: int) -> Array:
    """Return the Laplacian of a graph of the items, sparse or dense, as a dense array (n, n).

    Raises
    ------
    ValueError
        If it is not a symmetric matrix of that shape, or a Laplacian's entries cannot be its.
    """
    matrix: Any = laplacian.toarray() if sparse.issparse(laplacian) else laplacian
    values = known(matrix)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"`laplacian` has dtype {values.dtype}; pass a matrix of numbers.")
    if values.shape != (num_items, num_items):
        raise ValueError(
            f"`laplacian` has shape {values.shape}; pass ({num_items}, {num_items}), a row and a "
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


def known(value: ArrayLike) -> Any:
    """Return the value as a NumPy array, or as it is while JAX traces it."""
    return np.asarray(value) if not_jax_tracer(value) else value
