"""Whether what compiled code asks for fits into memory, told before anything is computed.

XLA fuses elementwise operations, so that most of their results never are arrays. In a trace only
what it does not fuse is counted: factorisations, products of matrices, scatters, loops, and what
these read. That tells the need to about a third before any code is made; code that is compiled
tells it to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.extend import core

from bayesrank._memory import TooLargeError, available, size_of

__all__ = ["bytes_at_once", "check_compiled", "check_trace"]

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
_CURE = (
    "give it fewer latents or fewer data; docs/scale.md says which programs need less, and "
    "bayesrank.solvers.comparisons.DynamicEP keeps skills in time"
)


def check_trace(jaxpr: Any) -> None:
    """Refuse a traced function that needs far more memory than there is.

    Raises
    ------
    TooLargeError
        If it does; the message says how much it needs, what for, and how much there is.
    """
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
            f"{shape} numbers), and {size_of(room)} are free; {_CURE}"
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
    return int(np.prod(getattr(variable.aval, "shape", ()), dtype=object))


def _largest(jaxpr: Any) -> tuple[int, ...]:
    """Shape of the largest array that is sure to be one."""
    shapes: list[tuple[int, ...]] = [()]
    for equation in _live(jaxpr):
        shapes += map(_largest, _inner(equation))
        if equation.primitive.name in _WHOLE:
            variables = [*_read(equation), *equation.outvars]
            shapes += [getattr(x.aval, "shape", ()) for x in variables]
    return max(shapes, key=lambda shape: int(np.prod(shape, dtype=object)))
