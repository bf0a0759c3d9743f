"""A flat list of equations from a JAX trace, and its evaluation.

A traced function may call other traced functions (``jit``, ``remat``).  Reading how its outputs
depend on its inputs is simpler on one flat list, so calls are inlined and every variable gets a
number.  Functions with a derivative of their own (``custom_jvp``) stay whole: their numerics were
chosen with care.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core

__all__ = [
    "Constant",
    "Equation",
    "FlatTrace",
    "UnknownValueError",
    "bind",
    "concrete_value",
    "evaluated",
    "flat",
    "flat_trace",
    "needed_equations",
]

_INLINED = frozenset({"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"})


class UnknownValueError(Exception):
    """A value is asked for that is not known while tracing."""


class Constant(NamedTuple):
    """A literal operand."""

    value: Any


class Equation(NamedTuple):
    """One primitive operation; `shapes` are of its outputs."""

    primitive: Any
    inputs: tuple[int | Constant, ...]
    outputs: tuple[int, ...]
    params: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    input_shapes: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        """The primitive's name."""
        return self.primitive.name

    @property
    def variables(self) -> frozenset[int]:
        """Numbers of the operands that are not literals."""
        return frozenset(x for x in self.inputs if isinstance(x, int))


class FlatTrace(NamedTuple):
    """A traced function without inner calls.

    Attributes
    ----------
    equations
        In order of evaluation.
    inputs, outputs
        Variable numbers (an output may be a literal).
    constants
        Values of the variables that the trace closed over.
    """

    equations: tuple[Equation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int | Constant, ...]
    constants: dict[int, Any]


def flat_trace(function: Callable[..., Any], *args: Any) -> tuple[FlatTrace, Any]:
    """Trace `function` at `args` and inline its inner calls.

    Parameters
    ----------
    function
        A function of pytrees of arrays.
    *args
        Arrays or `jax.ShapeDtypeStruct`, as for `jax.make_jaxpr`.

    Returns
    -------
    tuple
        The flat trace, and the tree structure of the function's output.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    return flat(closed), jax.tree.structure(shape)


def flat(closed: Any) -> FlatTrace:
    """Inline the inner calls of a closed jaxpr."""
    flattener = _Flattener()
    inputs = tuple(flattener.new(var) for var in closed.jaxpr.invars)
    outputs = flattener.inline(closed)
    return FlatTrace(tuple(flattener.equations), inputs, tuple(outputs), flattener.constants)


class _Flattener:
    """Numbers the variables of nested jaxprs; one instance serves one trace."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[int, Any] = {}
        self._numbers: dict[Any, int | Constant] = {}
        self._count = 0

    def new(self, var: Any) -> int:
        number = self._count
        self._count += 1
        self._numbers[var] = number
        return number

    def _operand(self, var: Any) -> int | Constant:
        if isinstance(var, core.Literal):
            return Constant(_as_traced(var.val, var))
        return self._numbers[var]

    def inline(self, closed: Any) -> list[int | Constant]:
        for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            self.constants[self.new(var)] = _as_traced(value, var)
        for eqn in closed.jaxpr.eqns:
            operands = tuple(self._operand(var) for var in eqn.invars)
            if eqn.primitive.name in _INLINED:
                self._inline_call(eqn, operands)
                continue
            outputs = tuple(self.new(var) for var in eqn.outvars)
            shapes, input_shapes = (
                tuple(tuple(getattr(var.aval, "shape", ())) for var in variables)
                for variables in (eqn.outvars, eqn.invars)
            )
            self.equations.append(
                Equation(eqn.primitive, operands, outputs, eqn.params, shapes, input_shapes)
            )
        return [self._operand(var) for var in closed.jaxpr.outvars]

    def _inline_call(self, eqn: Any, operands: Sequence[int | Constant]) -> None:
        inner = eqn.params["jaxpr"] if "jaxpr" in eqn.params else eqn.params["call_jaxpr"]
        if not isinstance(inner, core.ClosedJaxpr):
            inner = core.ClosedJaxpr(inner, ())
        # The same inner jaxpr may be called twice: its variables are numbered anew at each call.
        for var, operand in zip(inner.jaxpr.invars, operands, strict=True):
            self._numbers[var] = operand
        for var, result in zip(eqn.outvars, self.inline(inner), strict=True):
            self._numbers[var] = result


def _as_traced(value: Any, var: Any) -> Any:
    """A constant in the type it was traced with: a NumPy array of float64 otherwise stays one."""
    if isinstance(value, jax.Array) or jnp.issubdtype(var.aval.dtype, jax.dtypes.extended):
        return value
    return np.asarray(value, var.aval.dtype)


def bind(equation: Equation, operands: Sequence[Any]) -> list[Any]:
    """Evaluate one equation at concrete or traced operands."""
    params = equation.primitive.get_bind_params(equation.params)
    result = equation.primitive.bind(*operands, **params)
    return list(result) if equation.primitive.multiple_results else [result]


def evaluated(
    equations: Iterable[Equation], outputs: Iterable[int | Constant], known: dict[int, Any]
) -> list[Any]:
    """Evaluate variables from those that are known, to which all others are added."""

    def read(x: int | Constant) -> Any:
        return x.value if isinstance(x, Constant) else known[x]

    for equation in equations:
        results = bind(equation, [read(x) for x in equation.inputs])
        known.update(zip(equation.outputs, results, strict=True))
    return [read(x) for x in outputs]


def concrete_value(trace: FlatTrace, number: int) -> np.ndarray:
    """Value of a variable that depends on constants only, also under an outer trace.

    Raises
    ------
    UnknownValueError
        If it depends on an input of the trace, or on an array that an outer trace does not know.
    """
    constants = {k: v for k, v in trace.constants.items() if not isinstance(v, Tracer)}
    with jax.ensure_compile_time_eval():
        known = dict(constants)
        for equation in needed_equations(trace.equations, [number], constants):
            operands = [
                x.value if isinstance(x, Constant) else known.get(x) for x in equation.inputs
            ]
            if any(x is None for x in operands):
                raise UnknownValueError
            known.update(zip(equation.outputs, bind(equation, operands), strict=True))
        if number not in known:
            raise UnknownValueError
        return np.asarray(known[number])


def needed_equations(
    equations: Iterable[Equation], outputs: Iterable[int | Constant], given: Iterable[int]
) -> tuple[Equation, ...]:
    """The equations that compute `outputs` once the variables `given` are known."""
    known = set(given)
    wanted = {number for number in outputs if isinstance(number, int)} - known
    needed: list[Equation] = []
    for equation in reversed(list(equations)):
        if wanted.isdisjoint(equation.outputs):
            continue
        needed.append(equation)
        wanted |= {number for number in equation.inputs if isinstance(number, int)} - known
    return tuple(reversed(needed))
