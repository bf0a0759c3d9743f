"""Parts of a trace as hashable keys that are compared whole, by what is in them."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from bayesrank.infer.reader.jaxpr import Constant, Equation, flat

_OURS = str(Path(__file__).parents[2])
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


class _Same:
    """An object that is equal to itself alone; a reference stops others from taking its place."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


class Key:
    """A key that is hashed once; it is large, and compared only with others of its hash."""

    def __init__(self, content: Hashable) -> None:
        self._content = content
        self._hash = hash(content)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Key):
            return self is other
        return self._hash == other._hash and self._content == other._content

    def __hash__(self) -> int:
        return self._hash


@functools.lru_cache(maxsize=128)
def shared_key(key: Key) -> Key:
    """The first of equal keys: whatever is looked up under it then compares by identity."""
    return key


def digest(x: Any) -> Hashable:
    """An array by its numbers."""
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    array = np.asarray(x)
    if array.dtype == object:
        return _Same(x)
    return array.shape, str(array.dtype), array.tobytes()


def frozen(x: Any) -> Hashable:
    """A key of a value among the parameters of an equation, or of a tree's node."""
    if isinstance(x, (str, bytes, bool, int, type(None), type)):
        return type(x), x
    if isinstance(x, Constant):
        return "constant", frozen(x.value)
    if isinstance(x, (core.Jaxpr, core.ClosedJaxpr)):
        return _frozen_jaxpr(x)
    if isinstance(x, Mapping):
        return type(x), tuple((frozen(k), frozen(v)) for k, v in x.items())
    if isinstance(x, (tuple, list)):
        return type(x), tuple(map(frozen, x))
    if isinstance(x, (np.ndarray, np.generic, jax.Array, float, complex)):
        return type(x) if isinstance(x, (float, complex)) else "array", digest(x)
    if isinstance(x, functools.partial):
        return "partial", frozen((x.func, x.args, x.keywords))
    if hasattr(x, "debug_info") and hasattr(x, "f"):
        return _frozen_rule(x)
    return _frozen_object(x)


def _frozen_object(x: Any) -> Hashable:
    """By content what has no identity that matters: constraints, transforms; else by equality."""
    leaves, tree = jax.tree.flatten(x)
    if not jax.tree_util.treedef_is_leaf(tree):
        return frozen_tree(tree), frozen(leaves)
    try:
        hash(x)
    except TypeError:
        return _Same(x)
    return type(x), x


def frozen_equations(equations: Iterable[Equation]) -> Hashable:
    """Equations whose variables are numbered in order."""
    return frozen([(e.primitive, e.inputs, e.outputs, e.params) for e in equations])


def _frozen_jaxpr(x: Any) -> Hashable:
    """An inner trace, its constants by value."""
    trace = flat(x if isinstance(x, core.ClosedJaxpr) else core.ClosedJaxpr(x, ()))
    constants = tuple(map(digest, trace.constants.values()))
    equations, shown = frozen_equations(trace.equations), tuple(map(str, trace.avals))
    return constants, shown, equations, frozen(trace.outputs)


def _frozen_rule(x: Any) -> Hashable:
    """A rule of differentiation: an installed one by where it is written, a user's by identity."""
    where = str(x.debug_info.func_src_info)
    return where if all(map(_is_installed, [where, *_files(x.f)])) else _Same(x)


def _is_installed(where: str) -> bool:
    return _OURS in where or bool(_INSTALLED.search(where))


def _files(x: Any) -> set[str]:
    """Files of a function and of those that it wraps: `defjvps` wraps rules in one of JAX."""
    if isinstance(x, functools.partial):
        return _files((x.func, *x.args))
    if hasattr(x, "debug_info") and hasattr(x, "f"):
        return _files(x.f)
    if isinstance(x, (tuple, list)):
        return set().union(*map(_files, x))
    if not isinstance(x, types.FunctionType):
        return set()
    cells = [cell.cell_contents for cell in x.__closure__ or ()]
    return {x.__code__.co_filename}.union(*map(_files, cells))


def frozen_tree(tree: Any) -> Hashable:
    """The structure of a tree, its nodes by content."""
    node = tree.node_data()
    if node is None:
        return tree.num_leaves
    kind, rest = node
    return kind, frozen(rest), tuple(map(frozen_tree, tree.children()))
