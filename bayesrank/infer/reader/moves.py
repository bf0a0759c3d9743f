"""A trace in which elements are moved before anything nonlinear is done to them.

``exp(f)[i]`` becomes ``exp(f[i])``, and an operation between arrays of different shapes becomes one
between arrays of its result's. So each element of a likelihood has affine predictors of its own,
where otherwise all elements that share ``exp(f_i)`` would be one factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array

from bayesrank.infer.reader.components import ELEMENTWISE
from bayesrank.infer.reader.jaxpr import (
    Constant,
    Equation,
    FlatTrace,
    bind,
    flat_trace,
    needed_equations,
    propagated,
)

_MOVES = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev gather dynamic_slice copy".split()
)


def moves_first(trace: FlatTrace, latents: Sequence[int]) -> FlatTrace:
    """The same function, traced anew as long as some move comes late; `latents` are inputs."""
    orders = propagated(trace, dict.fromkeys(latents, 1))
    made = {x: e for e in trace.equations if e.name in ELEMENTWISE for x in e.outputs}
    curved = {x for x in made if orders.get(x, 0) > 1}
    if not any(map(partial(_is_late, curved), trace.equations)):
        return trace

    def evaluated(*inputs: Array) -> list[Any]:
        known = {**trace.constants, **dict(zip(trace.inputs, inputs, strict=True))}
        for equation in trace.equations:
            known.update(zip(equation.outputs, _moved(equation, known, made, curved), strict=True))
        return [_value(x, known) for x in trace.outputs]

    found = flat_trace(evaluated, *trace.avals)[0]
    wanted = needed_equations(found.equations, found.outputs, ())
    return moves_first(found._replace(equations=wanted), latents)


def _is_late(curved: set[int], equation: Equation) -> bool:
    """Whether an equation moves elements of an array that was computed element by element."""
    if not equation.shapes:
        return False
    if equation.name in _MOVES:
        seen = curved & equation.variables
        return len(seen) == 1 and equation.inputs[0] in seen
    pairs = zip(equation.inputs, equation.input_shapes, strict=True)
    return equation.name in ELEMENTWISE and any(
        isinstance(x, int) and x in curved and shape not in ((), equation.shapes[0])
        for x, shape in pairs
    )


def _moved(
    equation: Equation, known: dict[int, Any], made: dict[int, Equation], curved: set[int]
) -> list[Any]:
    """Results of an equation, moves of whose operands come before what these are made by."""

    def move(x: int | Constant, to: Callable[[Any], Any]) -> Any:
        if isinstance(x, Constant) or x not in curved:
            return to(_value(x, known))
        maker = made[x]
        shape = maker.shapes[0]
        return bind(
            maker, [move(y, lambda z: to(jnp.broadcast_to(z, shape))) for y in maker.inputs]
        )[0]

    if equation.name in _MOVES and _is_late(curved, equation):
        first, *rest = equation.inputs
        others = [_value(x, known) for x in rest]
        return [move(first, lambda z: bind(equation, [z, *others])[0])]
    operands = [_value(x, known) for x in equation.inputs]
    if equation.name in ELEMENTWISE and _is_late(curved, equation):
        shape = equation.shapes[0]
        operands = [move(x, lambda z: jnp.broadcast_to(z, shape)) for x in equation.inputs]
    return bind(equation, operands)


def _value(x: int | Constant, known: dict[int, Any]) -> Any:
    return x.value if isinstance(x, Constant) else known[x]
