"""Compiled code of functions of programs, stored for the process under the programs' equations."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from bayesrank._memory import TooLargeError, available, size_of
from bayesrank._process import FORGETTERS, enter_jax
from bayesrank.infer.reader.freeze import digest, shared_key
from bayesrank.infer.reader.precision import as_working_dtype, without_stale_traces
from bayesrank.infer.reader.refusals import TracedStructureError
from bayesrank.infer.reader.traced import NEEDS_VALUES, Traced


class Identified(Protocol):
    """An engine; those of equal `identity` share compiled code."""

    @property
    def identity(self) -> Hashable: ...  # noqa: D102


# A process that serves for long meets data of many shapes.
_MOST_KEPT = 128

# The newer of the two code generators for processors in jaxlib 0.10 takes half as long again to
# compile what EP does, and the result is no faster.  Later ones have a single one, without choice.
_IS_0_10 = version("jaxlib").startswith("0.10.")
_OPTIONS = {"xla_cpu_use_fusion_emitters": False} if _IS_0_10 else None

# NumPyro keeps the handlers of a trace, and whether distributions are validated, for the whole
# process: two threads must not trace at once.
ONE_AT_A_TIME = threading.RLock()

# `jax.jit` for code that solves EP or differentiates it.
jit = partial(jax.jit, compiler_options=_OPTIONS)


class _Entry(NamedTuple):
    code: Callable[..., Any]
    static: Any


# Code that needs no values of constants is kept under its key alone; None says that it needs them.
_ENTRIES: OrderedDict[Hashable, _Entry | None] = OrderedDict()


def _forget() -> None:
    with ONE_AT_A_TIME:
        _ENTRIES.clear()
        shared_key.cache_clear()


FORGETTERS.append(_forget)


def compiled_call(
    function: Callable[..., tuple[Any, Any]],
    engine: Identified,
    program: Traced,
    dynamic: Any,
    *statics: Hashable,
) -> tuple[Any, Any]:
    """Call ``function(engine, source, dynamic, *statics) -> arrays, static``, compiled once."""
    enter_jax()
    if function.__closure__:
        raise TypeError(f"{function.__qualname__} closes over values that no key would show")
    constants, dynamic = tuple(program.constants), as_working_dtype(dynamic)
    key = (function, engine.identity, statics, program.key, _context(), _signature(dynamic))
    build = partial(_compile, function, engine, program, constants, dynamic, statics)
    with ONE_AT_A_TIME:
        entry = without_stale_traces(partial(_entry, key, constants, build))
        return entry.code(constants, dynamic), entry.static


def _entry(key: Hashable, constants: Sequence[Any], build: Callable[[bool], _Entry]) -> _Entry:
    """The code for a key: for any constants, or for these."""
    # Shapes and types of constants are in the program's key.
    key = (key, tuple(getattr(constant, "sharding", None) for constant in constants))
    if key not in _ENTRIES:
        try:
            _keep(key, build(False))
        except (TracedStructureError, *NEEDS_VALUES):
            _keep(key, None)
    entry = _found(key)
    if entry is None:
        key = (key, tuple(map(digest, constants)))
        if key not in _ENTRIES:
            _keep(key, build(True))
        entry = _found(key)
    return entry


def _keep(key: Hashable, entry: _Entry | None) -> None:
    _ENTRIES[key] = entry
    if len(_ENTRIES) > _MOST_KEPT:
        _ENTRIES.popitem(last=False)


def _found(key: Hashable) -> Any:
    _ENTRIES.move_to_end(key)
    return _ENTRIES[key]


def _compile(
    function: Callable[..., tuple[Any, Any]],
    engine: Identified,
    program: Traced,
    constants: Sequence[Any],
    dynamic: Any,
    statics: tuple,
    by_value: bool,
) -> _Entry:
    static: list[Any] = []
    known = tuple(map(_as_known, constants))

    def traced(constants: Sequence[Any], dynamic: Any) -> Any:
        source: Traced = program.at(known if by_value else constants)
        # The static result is kept while tracing; compiled code returns the arrays.
        result, what = function(engine, source, dynamic, *statics)
        static.append(what)
        return result

    stages = jit(traced).trace(constants, dynamic)
    check_trace(stages.jaxpr)
    code = stages.lower().compile()
    check_compiled(code, stages.jaxpr)
    return _Entry(code, static[-1])


def _as_known(constant: Any) -> Any:
    is_key = jnp.issubdtype(constant.dtype, jax.dtypes.extended)
    return constant if is_key else np.asarray(constant)


def _context() -> Hashable:
    """JAX's settings that code depends on."""
    config: Any = jax.config
    return config.jax_enable_x64, config.jax_default_matmul_precision, config.jax_default_device


def _signature(tree: Any) -> Hashable:
    """What code is compiled for: shapes, types, and on which devices arrays are."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(
        (jnp.shape(leaf), str(jnp.result_type(leaf)), getattr(leaf, "sharding", None))
        for leaf in leaves
    )


_WHOLE = frozenset(
    {
        *("cholesky", "eigh", "lu", "qr", "svd", "triangular_solve"),
        *("dot_general", "scan", "scatter", "scatter-add", "sort", "while"),
    }
)
# What a trace says is refused only where it is beyond doubt.
_MARGIN = 1.4
# Their first operand becomes their result.
_IN_PLACE = frozenset({"scan", "scatter", "scatter-add", "while"})
_FIX = (
    "give it fewer latents or fewer data; docs/scale.md says which programs need less, and "
    "bayesrank.solvers.comparisons.DynamicEP keeps skills in time"
)


def check_trace(jaxpr: Any) -> None:
    """Refuse a trace that needs far more memory than there is; what XLA fuses is not counted."""
    need = bytes_at_once(jaxpr.jaxpr)
    need += sum(_bytes(x) for x in (*jaxpr.jaxpr.invars, *jaxpr.jaxpr.constvars))
    _refuse_above(need / _MARGIN, jaxpr)


def check_compiled(compiled: Any, jaxpr: Any) -> None:
    """Refuse compiled code, which knows its need to the byte, in the same way."""
    stats = compiled.memory_analysis()
    if stats is not None:
        need = stats.temp_size_in_bytes + stats.output_size_in_bytes
        _refuse_above(need, jaxpr)


def _refuse_above(need: float, jaxpr: Any) -> None:
    room = available()
    if room is not None and need > room:
        shape = " x ".join(f"{side:,}" for side in _largest(jaxpr.jaxpr))
        raise TooLargeError(
            f"the program takes at least {size_of(need)} of memory at once (it has arrays of "
            f"{shape} numbers), and {size_of(room)} are free; {_FIX}"
        )


def bytes_at_once(jaxpr: Any) -> int:
    """Bytes that a trace needs at once beyond its inputs, to about a third."""
    equations = list(_live(jaxpr))
    last = {x: number for number, e in enumerate(equations) for x in _read(e)}
    last |= {x: len(equations) for x in jaxpr.outvars if isinstance(x, core.Var)}
    held: dict[Any, int] = {}
    inputs, peak = {*jaxpr.invars, *jaxpr.constvars}, 0
    for number, equation in enumerate(equations):
        need = max((bytes_at_once(inner) for inner in _inner(equation)), default=0)
        if equation.primitive.name in _WHOLE:
            read = sum(_bytes(x) for x in _read(equation) - inputs - held.keys())
            results = {x: _bytes(x) for x in equation.outvars}
            total = sum(results.values())
            in_place = equation.primitive.name in _IN_PLACE
            need += max(read, total) if in_place else read + total
            peak = max(peak, sum(held.values()) + need)
            held |= results
        peak = max(peak, sum(held.values()) + need)
        held = {x: size for x, size in held.items() if last.get(x, -1) > number}
    return peak


def _live(jaxpr: Any) -> Iterator[Any]:
    """The equations that the outputs depend on, in order."""
    needed, kept = {x for x in jaxpr.outvars if isinstance(x, core.Var)}, []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            kept.append(equation)
            needed |= _read(equation)
    return reversed(kept)


def _inner(equation: Any) -> Iterator[Any]:
    """The traces that an equation calls."""
    for value in equation.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            item = getattr(item, "jaxpr", item)
            if hasattr(item, "eqns"):
                yield item


def _read(equation: Any) -> set[Any]:
    return {x for x in equation.invars if isinstance(x, core.Var)}


def _bytes(variable: Any) -> int:
    return _count(variable) * getattr(getattr(variable.aval, "dtype", None), "itemsize", 0)


def _count(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _largest(jaxpr: Any) -> tuple[int, ...]:
    """Shape of the largest array that is sure to be one."""
    shapes: list[tuple[int, ...]] = [()]
    for equation in _live(jaxpr):
        shapes += map(_largest, _inner(equation))
        if equation.primitive.name in _WHOLE:
            variables = [*_read(equation), *equation.outvars]
            shapes += [getattr(x.aval, "shape", ()) for x in variables]
    return max(shapes, key=lambda shape: math.prod(shape))
