"""A flat list of equations from a JAX trace, and its evaluation.

A traced function may call other traced functions (``jit``, ``remat``).  Reading how its outputs
depend on its inputs is simpler on one flat list, so calls are inlined and every variable gets a
number.  Functions with a derivative of their own (``custom_jvp``) stay whole: their numerics were
chosen with care.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core

_NOTHING: frozenset[str] = frozenset()
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
    """A traced function without inner calls."""

    equations: tuple[Equation, ...]  # in order of evaluation
    inputs: tuple[int, ...]  # variable numbers, from zero on (an output may be a literal)
    outputs: tuple[int | Constant, ...]
    constants: dict[int, Any]  # values of the variables that the trace closed over
    avals: tuple[Any, ...] = ()  # shapes and types of the inputs


def flat_trace(function: Callable[..., Any], *args: Any) -> tuple[FlatTrace, Any]:
    """Trace `function` at `args`, inner calls inlined; and the tree structure of its output."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    return flat(closed), jax.tree.structure(shape)


def flat(closed: Any) -> FlatTrace:
    """Inline the inner calls of a closed jaxpr."""
    flattener = _Flattener()
    inputs = tuple(flattener.new(var) for var in closed.jaxpr.invars)
    outputs, equations = tuple(flattener.inline(closed)), tuple(flattener.equations)
    return FlatTrace(equations, inputs, outputs, flattener.constants, tuple(closed.in_avals))


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


def moves_integers(equation: Equation, nothing: int) -> Equation:
    """The same move, of numbers that cannot be NaN: it reads `nothing` beyond the ends."""
    if equation.params.get("fill_value") is None:
        return equation
    return equation._replace(params=equation.params | {"fill_value": nothing})


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


def computed(
    equations: Iterable[Equation], outputs: Sequence[int | Constant], known: Mapping[int, Any]
) -> list[Any]:
    """Evaluate variables by the equations that they need, once some are known."""
    return evaluated(needed_equations(equations, outputs, known), outputs, dict(known))


def concrete_value(trace: FlatTrace, number: int) -> np.ndarray:
    """Value of a variable that depends on constants only, else an `UnknownValueError`."""
    known = {k: v for k, v in trace.constants.items() if not isinstance(v, Tracer)}
    with jax.ensure_compile_time_eval():
        try:
            return np.asarray(computed(trace.equations, [number], known)[0])
        except KeyError:
            raise UnknownValueError from None


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


STRUCTURAL = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev tile copy gather dynamic_slice "
    "concatenate stack pad select_n split unstack".split()
)
# Operands in which a primitive is jointly linear, the others being held fixed; else in the first.
_LINEAR: dict[str, slice] = {
    **dict.fromkeys("neg convert_element_type reduce_precision".split(), slice(0, 1)),
    **dict.fromkeys("stop_gradient div reduce_sum cumsum reduce_window_sum".split(), slice(0, 1)),
    **dict.fromkeys("add add_any sub dynamic_update_slice pad".split(), slice(0, 2)),
    **dict.fromkeys("scatter scatter-add scatter-sub".split(), slice(0, 3, 2)),
    **dict.fromkeys("concatenate stack".split(), slice(None)),
    "select_n": slice(1, None),
    "triangular_solve": slice(1, 2),
    "custom_linear_solve": slice(-1, None),
}
BILINEAR = frozenset({"mul", "dot_general"})


def is_linear(name: str) -> bool:
    """Whether a primitive is linear in some of its operands."""
    return name in _LINEAR or name in STRUCTURAL


def linear_operands(name: str, count: int) -> tuple[int, ...]:
    """Operands in which a linear primitive is jointly linear, the others being held fixed."""
    return tuple(range(count)[_LINEAR.get(name, slice(0, 1))])


def degree_of(equation: Equation, orders: Sequence[int]) -> int:
    """Degree of a result in the latents, of operands of these `orders`; 3 for more than 2."""
    if not any(orders):
        return 0
    name = equation.name
    if name in BILINEAR:
        return min(sum(orders), 3)
    if name == "square" or (name == "integer_pow" and equation.params["y"] == 2):
        return min(2 * orders[0], 3)
    if name == "integer_pow" and equation.params["y"] == 1:
        return orders[0]
    if name == "scan":
        carry_orders, stacked = scan_orders(equation, orders)
        highest = max([*carry_orders, *stacked, 0])
        return 1 if highest == 1 else 3
    if not is_linear(name):
        return 3
    linear = linear_operands(name, len(orders))
    if any(order for i, order in enumerate(orders) if i not in linear):
        return 3
    if name == "convert_element_type" and not jnp.issubdtype(
        equation.params["new_dtype"], np.floating
    ):
        return 3
    return max(orders[i] for i in linear)


# ---------------------------------------------------------------- scans


def body_of(equation: Equation) -> FlatTrace:
    """The body of a scan: constants, carries and slices in, carries and slices out."""
    return flat(equation.params["jaxpr"])


def operand_orders(equation: Equation, orders: Mapping[int, int]) -> list[int]:
    """Degrees of an equation's operands, from those of variables; zero where there is none."""
    return [0 if isinstance(x, Constant) else orders.get(x, 0) for x in equation.inputs]


def propagated(trace: FlatTrace, orders: dict[int, int]) -> dict[int, int]:
    """Degrees of all variables of a trace, from those of its inputs; zero where there is none."""
    for equation in trace.equations:
        degree = degree_of(equation, operand_orders(equation, orders))
        if degree:
            orders.update(dict.fromkeys(equation.outputs, degree))
    return orders


def reached(trace: FlatTrace, sources: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
    """Which sources reach each variable of a trace, from those that are its inputs."""
    for equation in trace.equations:
        union = _NOTHING.union(*(sources.get(x, _NOTHING) for x in equation.variables))
        if union:
            sources.update(dict.fromkeys(equation.outputs, union))
    return sources


def scan_counts(equation: Equation) -> tuple[int, int]:
    """How many of a scan's inputs are constants of its body, and how many it carries."""
    if "ft_in" in equation.params:  # from JAX 0.12 on
        consts, carry_orders, _ = equation.params["ft_in"].unpack()
        return len(consts), len(carry_orders)
    return equation.params["num_consts"], equation.params["num_carry"]


def scan_orders(equation: Equation, orders: Sequence[int]) -> tuple[list[int], list[int]]:
    """Degrees of a scan's carries, the highest of any step, and of its stacked results."""
    body, (consts, count) = body_of(equation), scan_counts(equation)
    carry_orders = list(orders[consts : consts + count])
    while True:
        given = [*orders[:consts], *carry_orders, *orders[consts + count :]]
        known = propagated(body, dict(zip(body.inputs, given, strict=True)))
        out = [known.get(x, 0) if isinstance(x, int) else 0 for x in body.outputs]
        larger = [max(pair) for pair in zip(carry_orders, out[:count], strict=True)]
        if larger == carry_orders:
            return carry_orders, out[count:]
        carry_orders = larger
