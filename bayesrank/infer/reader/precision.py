"""Arrays in the precision at work: those that a program is given, and those that JAX stored.

While a trace lives, JAX (0.10 to 0.12) takes the NumPy arrays that it closed over to have its
precision wherever they are used. A program that somebody has run by NUTS in single precision, say,
fails in double precision, or has its numbers rounded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse


def as_number(value: Any) -> Array:
    """Value of a hyperparameter or of a fixed site; whole numbers become floats."""
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
    """Arrays of floats in JAX's default precision, SciPy's sparse ones dense; the rest as it is."""

    def convert(leaf: Any) -> Any:
        leaf = leaf.toarray() if sparse.issparse(leaf) else leaf
        if not is_array(leaf):
            return leaf
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.result_type(float) if floating else None)

    return jax.tree.map(convert, tree)


Result = TypeVar("Result")

# To what an array is a view of: the view's, the name's, and that of the call that counts them.
_OWN_REFERENCES = 3

# Types as JAX names them in messages: float32, float32[3], f32[3].
_NUMBERS = re.compile(r"\b(int|uint|float|i|u|f)(32|64)\b")


class _StaleError(Exception):
    """An array is taken to have another precision than now."""


def refuse_stale(closed: Any) -> None:
    """Refuse a traced function with constants of another precision than now."""
    if any(map(_is_stale, closed.consts)):
        raise _StaleError


def _is_stale(value: Any) -> bool:
    """Whether JAX stores the array in another precision; nobody else refers to such a copy."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return False
    if value.dtype != jax.dtypes.canonicalize_dtype(value.dtype):
        return True
    is_single = value.dtype.itemsize == (8 if value.dtype.kind == "c" else 4)
    owner = value.base
    if not is_single or not isinstance(owner, np.ndarray) or not owner.flags.owndata:
        return False
    return jnp.result_type(float) == np.float64 and sys.getrefcount(owner) <= _OWN_REFERENCES


def without_stale_traces(call: Callable[[], Result]) -> Result:
    """Call a function that traces; if that mixes precisions, again without JAX's caches."""
    try:
        return call()
    except _StaleError:
        pass
    except TypeError as error:
        named = set(_NUMBERS.findall(str(error)))
        if not any({(kind, "32"), (kind, "64")} <= named for kind, _ in named):
            raise
    jax.clear_caches()
    return call()
