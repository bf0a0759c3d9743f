"""Arguments of a program, and values of its sites, as the arrays that a trace takes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

__all__ = ["as_number", "as_working_dtype", "is_array", "to_numpy"]


def as_number(value: Any) -> Array:
    """Value of a hyperparameter or of a site held fixed; whole numbers become floats."""
    value = jnp.asarray(value)
    floating = jnp.issubdtype(value.dtype, jnp.floating)
    return value if floating else value.astype(jnp.result_type(float))


def is_array(leaf: Any) -> bool:
    """Whether an argument is an array of numbers; NumPy's whole numbers are counts, as Python's."""
    if not isinstance(leaf, (np.ndarray, np.floating, jax.Array)):
        return False
    return bool(jnp.issubdtype(leaf.dtype, jnp.number) or jnp.issubdtype(leaf.dtype, jnp.bool_))


def to_numpy(leaf: Any) -> Any:
    """An array argument as NumPy's; everything else as it is."""
    return np.asarray(leaf) if is_array(leaf) else leaf


def as_working_dtype(tree: Any) -> Any:
    """Arrays of floats in JAX's present default precision; everything else as it is.

    SciPy's sparse matrices become dense ones, for JAX takes no others.
    """

    def convert(leaf: Any) -> Any:
        leaf = leaf.toarray() if sparse.issparse(leaf) else leaf
        if not is_array(leaf):
            return leaf
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.result_type(float) if floating else None)

    return jax.tree.map(convert, tree)
