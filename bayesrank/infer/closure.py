"""The values that a program closes over, as a key that changes when one of them does.

Compiled code has them for constants. A program that reads ``data["y"]`` from the module it stands
in has to be compiled anew when that changes.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import core

__all__ = ["closed_over", "has_stale_arrays"]

# Functions of libraries hold nothing that a user changes between two runs.
_LIBRARIES = ("jax", "jaxlib", "numpy", "numpyro", "scipy", "tinygp", "equinox", "builtins")
_DEEPEST = 6
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_ARRAYS = (np.ndarray, np.generic, jax.Array)


def closed_over(model: Any) -> Hashable:
    """Fingerprint of the arrays, numbers and strings that a function reaches without its arguments.

    It looks into closures, defaults, the globals that code names, bound objects, `partial`,
    containers, and what JAX takes for trees, such as distributions; objects of other kinds count by
    identity.
    """
    return tuple(_key(x) for x in _values(model, {}, 0))


def has_stale_arrays(model: Any) -> bool:
    """Whether JAX takes an array that a function closes over to have another precision than now.

    As long as a trace lives, JAX (0.10 to 0.12) takes the NumPy arrays that it closed over to have
    the precision that it was made in, wherever else they are used. A program that somebody has run
    by NUTS in single precision, say, fails in double precision, or has its numbers rounded.
    """
    arrays = (x for x in _values(model, {}, 0) if type(x) is np.ndarray and x.dtype.kind in "iufc")
    return any(jnp.asarray(x).dtype != jax.dtypes.canonicalize_dtype(x.dtype) for x in arrays)


def _values(x: Any, seen: dict[int, Any], depth: int) -> Iterator[Any]:
    if isinstance(x, (*_SIMPLE, *_ARRAYS, core.Tracer)) or depth > _DEEPEST:
        yield x
    elif id(x) not in seen:
        seen[id(x)] = x  # kept, so that no other object takes its place
        for part in _parts(x):
            yield from _values(part, seen, depth + 1)


def _key(x: Any) -> Hashable:
    if isinstance(x, _SIMPLE):
        return type(x), x
    if isinstance(x, _ARRAYS) and not isinstance(x, core.Tracer):
        return _array_key(x)
    return id(x)


def _array_key(x: Any) -> Hashable:
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    array = np.asarray(x)
    if array.dtype == object:
        return id(x)
    return array.shape, str(array.dtype), hash(array.tobytes())


def _parts(x: Any) -> Iterator[Any]:
    """What an object holds that a program may read."""
    if isinstance(x, (types.ModuleType, type)):
        return
    if _of_a_library(x):
        leaves, structure = jax.tree.flatten(x)
        if not jax.tree_util.treedef_is_leaf(structure):
            yield from (str(structure), *leaves)
    elif isinstance(x, Mapping):  # not its items, which are other pairs each time
        yield from (*x.keys(), *x.values())
    elif isinstance(x, (list, tuple, set, frozenset)):
        yield from x
    elif isinstance(x, functools.partial):
        yield from (x.func, x.args, x.keywords)
    elif isinstance(x, types.MethodType):
        yield from (x.__func__, x.__self__)
    elif isinstance(x, types.FunctionType):
        yield from _of_function(x)
    elif hasattr(x, "__dict__"):
        yield vars(x)


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield from (function.__defaults__, function.__kwdefaults__)
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a name that has no value yet
            yield cell.cell_contents
    yield from (function.__globals__[name] for name in _names(function.__code__, function))


def _names(code: types.CodeType, function: types.FunctionType) -> Iterator[str]:
    """Globals that a function's code names, functions inside it included."""
    yield from (name for name in code.co_names if name in function.__globals__)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant, function)


def _of_a_library(x: Any) -> bool:
    module = getattr(x, "__module__", None) or type(x).__module__
    return (
        isinstance(module, str)
        and module.split(".")[0] in _LIBRARIES
        and not isinstance(x, (Mapping, list, tuple, set, frozenset, functools.partial))
    )
