"""Checks of the programs' arguments, with one clear message for each thing that can be wrong.

Shapes and dtypes are checked always; values only where they are known, which they are not while
JAX traces the program.
"""

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpyro.util import not_jax_tracer

__all__ = [
    "check_comparisons",
    "check_count",
    "check_features",
    "check_outcomes",
]


def check_count(count: Any, name: str) -> int:
    """Return a count as an integer.

    Raises
    ------
    ValueError
        If it is not a positive whole number.
    """
    try:
        whole = operator.index(count)
    except TypeError:
        whole = 0
    if whole < 1:
        raise ValueError(f"`{name}` is {count!r}; pass a positive whole number.")
    return whole


def check_features(X: ArrayLike, name: str, *, columns: int | None = None) -> Array:
    """Return the items' features as a floating array of shape (n, d).

    Raises
    ------
    ValueError
        If they are not a table of finite numbers with the expected number of columns.
    """
    values = _known(X)
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


def check_comparisons(comparisons: ArrayLike, n_items: int) -> Array:
    """Return the comparisons as an integer array of shape (K, 2).

    Raises
    ------
    ValueError
        If they are not pairs of the numbers of two different items.
    """
    values = _known(comparisons)
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
        _check_items(values, n_items)
    return jnp.asarray(comparisons)


def _check_items(comparisons: np.ndarray, n_items: int) -> None:
    unknown = (comparisons < 0) | (comparisons >= n_items)
    if unknown.any():
        row, column = np.argwhere(unknown)[0]
        raise ValueError(
            f"`comparisons` names item {comparisons[row, column]} in row {row}, but the "
            f"{n_items} items are numbered 0 to {n_items - 1}."
        )
    with_itself = comparisons[:, 0] == comparisons[:, 1]
    if with_itself.any():
        row = int(np.argmax(with_itself))
        raise ValueError(
            f"`comparisons` compares item {comparisons[row, 0]} with itself in row {row}; remove "
            "the row."
        )


def check_outcomes(outcomes: ArrayLike, n_comparisons: int) -> Array:
    """Return the outcomes of comparisons with ties as an integer array of shape (K,).

    Raises
    ------
    ValueError
        If there is not one outcome, 0, 1 or 2, for each comparison.
    """
    values = _known(outcomes)
    if values.shape != (n_comparisons,):
        raise ValueError(
            f"`outcomes` has shape {values.shape}; pass ({n_comparisons},), one outcome for each "
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


def _known(value: ArrayLike) -> Any:
    """Return the value as a NumPy array, or as it is while JAX traces it."""
    return np.asarray(value) if not_jax_tracer(value) else value
