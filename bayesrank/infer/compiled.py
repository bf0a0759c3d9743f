"""Compiled code of functions of programs, shared by calls with arguments of the same shapes."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from scipy import sparse

from bayesrank._forks import refuse_forked_child
from bayesrank.infer.closure import closed_over, has_stale_arrays
from bayesrank.infer.gaussian.sharded import everywhere, global_array
from bayesrank.infer.reader.refusals import TracedStructureError
from bayesrank.infer.room import check_compiled, check_trace

__all__ = [
    "ONE_AT_A_TIME",
    "Arguments",
    "CompileCache",
    "as_working_dtype",
    "jit",
    "split_arguments",
    "without_stale_traces",
]


Result = TypeVar("Result")

# An engine that serves a process for long meets data of many shapes.
_MOST_KEPT = 128

# The newer of the two code generators for processors in jaxlib 0.10 takes half as long again to
# compile what EP does, and the result is no faster.  Later ones have a single one, without choice.
_IS_0_10 = version("jaxlib").startswith("0.10.")
_OPTIONS = {"xla_cpu_use_fusion_emitters": False} if _IS_0_10 else None

# Types as JAX names them in messages: float32, float32[3], f32[3].
_NUMBERS = re.compile(r"\b(int|uint|float|i|u|f)(32|64)\b")

# NumPyro keeps the handlers of a trace, and whether distributions are validated, for the whole
# process: two threads must not trace at once.
ONE_AT_A_TIME = threading.RLock()

# `jax.jit` for code that solves EP or differentiates it.
jit = partial(jax.jit, compiler_options=_OPTIONS)


class Arguments(NamedTuple):
    """The arguments of a program.

    Attributes
    ----------
    arrays
        Its array arguments, flattened.
    join
        Puts arrays back among the other arguments; returns ``(args, kwargs)``.
    key
        Equal for calls that can share compiled code.
    """

    arrays: tuple[Any, ...]
    join: Callable[[Sequence[Any]], tuple[tuple, dict[str, Any]]]
    key: Hashable


class CompileCache:
    """Compiled code of functions of programs, kept for calls with arguments of the same shapes.

    Parameters
    ----------
    model
        The program; where the values change that it closes over, code is compiled anew.
    mesh
        The devices that the code runs on, each of which gets all arguments and has all results;
        None for JAX's default device.
    """

    def __init__(self, model: Any = None, mesh: Mesh | None = None) -> None:
        self._model = model
        self._sharding = None if mesh is None else everywhere(mesh)
        self._entries: dict[Hashable, tuple[Callable[..., Any], dict[str, Any]]] = {}
        self._shown: int | None = None

    def __call__(
        self,
        function: Callable[[Any, tuple, dict[str, Any]], tuple[Any, Any]],
        dynamic: Any,
        args: tuple,
        kwargs: Mapping[str, Any],
    ) -> tuple[Any, Any]:
        """Call a function, compiled.

        Parameters
        ----------
        function
            ``function(dynamic, args, kwargs) -> (arrays, static)``, where the second result is not
            made of arrays and is the same for all calls with arguments of the same shapes.
        dynamic
            A tree of arrays.
        args, kwargs
            What the program is called with.  Where it looks at the values of its arrays, or its
            structure depends on them, code is compiled for these values.

        Returns
        -------
        tuple
            The function's results.
        """
        refuse_forked_child()
        dynamic, args, kwargs = self._placed(as_working_dtype((dynamic, args, dict(kwargs))))

        def call() -> tuple[Any, Any]:
            try:
                return self._call(function, dynamic, split_arguments(args, kwargs, by_value=False))
            except _NEEDS_VALUES:
                return self._call(function, dynamic, split_arguments(args, kwargs, by_value=True))

        with ONE_AT_A_TIME:
            return without_stale_traces(call)

    def _placed(self, tree: Any) -> Any:
        """Arrays where the code runs; every process of a mesh has all their values."""
        sharding = self._sharding
        if sharding is None:
            return tree
        return jax.tree.map(
            lambda leaf: global_array(leaf, sharding) if _is_array(leaf) else leaf, tree
        )

    def show_values(
        self, function: Callable[[tuple, dict[str, Any]], Any], args: tuple, kwargs: Mapping
    ) -> None:
        """Trace a function of a program's arguments with their values known.

        A program can check them then, as it does where NumPyro runs it; compiled code knows the
        values of arrays no more. Nothing is done if these values are the last ones shown.
        """
        arguments = split_arguments(*as_working_dtype((args, dict(kwargs))), by_value=True)
        shown = hash((arguments.key, closed_over(self._model)))
        if shown == self._shown:
            return

        def run() -> None:
            function(*arguments.join(()))

        # A program that has to know more than the values of its arguments is not compiled either.
        with contextlib.suppress(*_NEEDS_VALUES):
            without_stale_traces(lambda: jax.eval_shape(run))
        self._shown = shown

    def _call(
        self, function: Callable[..., tuple[Any, Any]], dynamic: Any, arguments: Arguments
    ) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(dynamic)
        known = closed_over(self._model)
        key = (function.__qualname__, structure, _signature(leaves), arguments.key, known)
        if key not in self._entries:
            if has_stale_arrays(self._model):
                jax.clear_caches()
            self._entries[key] = _compile(function, dynamic, arguments, self._sharding)
        self._entries[key] = compiled, static = self._entries.pop(key)  # the last one used is last
        if len(self._entries) > _MOST_KEPT:
            del self._entries[next(iter(self._entries))]
        arrays = compiled(dynamic, arguments.arrays)
        return arrays, static["static"]


def _signature(leaves: Sequence[Any]) -> Hashable:
    """What code is compiled for: shapes, types, and on which devices arrays are."""
    return tuple(
        (jnp.shape(leaf), str(jnp.result_type(leaf)), getattr(leaf, "sharding", None))
        for leaf in leaves
    )


def _compile(
    function: Callable[..., tuple[Any, Any]],
    dynamic: Any,
    arguments: Arguments,
    sharding: NamedSharding | None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    static: dict[str, Any] = {}

    def traced(dynamic: Any, arrays: tuple[Any, ...]) -> Any:
        args, kwargs = arguments.join(arrays)
        # The static result is kept while tracing; compiled code returns the arrays.
        result, static["static"] = function(dynamic, args, kwargs)
        return result

    stages = jit(traced, out_shardings=sharding).trace(dynamic, arguments.arrays)
    check_trace(stages.jaxpr)
    # Only the compiled code is kept, see `has_stale_arrays`.
    compiled = stages.lower().compile()
    check_compiled(compiled, stages.jaxpr)
    return compiled, static


def without_stale_traces(call: Callable[[], Result], model: Any = None) -> Result:
    """Call a function that traces a program; if that mixes precisions, again without JAX's caches.

    They are cleared beforehand where `model`, the program, has stale arrays. There are arrays that
    `has_stale_arrays` does not reach, or is not asked about. JAX complains of these in many places
    and words (``lax.add requires``, ``scan body function carry``), which have in common that they
    name one kind of number at both precisions.
    """
    if model is not None and has_stale_arrays(model):
        jax.clear_caches()
    try:
        return call()
    except TypeError as error:
        named = set(_NUMBERS.findall(str(error)))
        if not any({(kind, "32"), (kind, "64")} <= named for kind, _ in named):
            raise
        jax.clear_caches()
        return call()


_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    TracedStructureError,
)


def as_working_dtype(tree: Any) -> Any:
    """Arrays of floats in JAX's present default precision; everything else as it is.

    SciPy's sparse matrices become dense ones: compiled code could only take them for constants, and
    nothing tells whether two of them are equal.
    """

    def convert(leaf: Any) -> Any:
        leaf = leaf.toarray() if sparse.issparse(leaf) else leaf
        if not _is_array(leaf):
            return leaf
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.asarray(leaf, jnp.result_type(float))
        return jnp.asarray(leaf)

    return jax.tree.map(convert, tree)


def split_arguments(args: tuple, kwargs: Mapping[str, Any], *, by_value: bool) -> Arguments:
    """Split the arguments of a program.

    Parameters
    ----------
    args, kwargs
        What the program is called with.
    by_value
        Whether arrays, too, are part of what the code is compiled for: for programs whose structure
        depends on them.  They are NumPy's then: what is computed from those is known while tracing.
    """
    leaves, structure = jax.tree.flatten((tuple(args), dict(kwargs)))
    if by_value:
        leaves = [np.asarray(leaf) if _is_array(leaf) else leaf for leaf in leaves]
    dynamic = [not by_value and _is_array(leaf) for leaf in leaves]
    arrays = tuple(leaf for leaf, is_array in zip(leaves, dynamic, strict=True) if is_array)

    def join(values: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
        replaced = iter(values)
        joined = [
            next(replaced) if is_array else leaf
            for leaf, is_array in zip(leaves, dynamic, strict=True)
        ]
        return jax.tree.unflatten(structure, joined)

    static = tuple(
        _value_key(leaf) for leaf, is_array in zip(leaves, dynamic, strict=True) if not is_array
    )
    return Arguments(arrays, join, (structure, tuple(dynamic), static, _signature(arrays)))


def _is_array(leaf: Any) -> bool:
    """Whether an argument is an array of numbers; NumPy's whole numbers are counts, as Python's."""
    if not isinstance(leaf, (np.ndarray, np.floating, jax.Array)):
        return False
    return bool(jnp.issubdtype(leaf.dtype, jnp.number) or jnp.issubdtype(leaf.dtype, jnp.bool_))


def _value_key(leaf: Any) -> Hashable:
    if isinstance(leaf, (np.ndarray, jax.Array)):
        array = np.asarray(leaf)
        return (array.shape, str(array.dtype), array.tobytes())
    try:
        hash(leaf)
    except TypeError:
        # Nothing is known of when two such arguments are equal: compile anew.
        return object()
    return (type(leaf), leaf)
