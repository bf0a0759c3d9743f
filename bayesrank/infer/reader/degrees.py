"""The polynomial degree of an equation's result in the latents, from those of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from bayesrank.infer.reader.jaxpr import Constant, Equation, FlatTrace, flat_trace

__all__ = [
    "BILINEAR",
    "STRUCTURAL",
    "body_of",
    "degree_of",
    "is_linear",
    "linear_operands",
    "propagated",
    "scan_counts",
    "scan_orders",
]

STRUCTURAL = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev tile copy gather dynamic_slice "
    "concatenate stack pad select_n split unstack".split()
)
# Operands in which the primitive is jointly linear, the others being held fixed.
_LINEAR: dict[str, Callable[[int], tuple[int, ...]]] = {
    "neg": lambda count: (0,),
    "add": lambda count: (0, 1),
    "add_any": lambda count: (0, 1),
    "sub": lambda count: (0, 1),
    "convert_element_type": lambda count: (0,),
    "reduce_precision": lambda count: (0,),
    "stop_gradient": lambda count: (0,),
    "div": lambda count: (0,),
    "reduce_sum": lambda count: (0,),
    "cumsum": lambda count: (0,),
    "reduce_window_sum": lambda count: (0,),
    "triangular_solve": lambda count: (1,),
    "custom_linear_solve": lambda count: (count - 1,),
    "scatter-add": lambda count: (0, 2),
    "scatter-sub": lambda count: (0, 2),
    "scatter": lambda count: (0, 2),
    "dynamic_update_slice": lambda count: (0, 1),
    "gather": lambda count: (0,),
    "dynamic_slice": lambda count: (0,),
    "concatenate": lambda count: tuple(range(count)),
    "stack": lambda count: tuple(range(count)),
    "pad": lambda count: (0, 1),
    "select_n": lambda count: tuple(range(1, count)),
}
BILINEAR = frozenset({"mul", "dot_general"})


def is_linear(name: str) -> bool:
    """Whether a primitive is linear in some of its operands."""
    return name in _LINEAR or name in STRUCTURAL


def linear_operands(name: str, count: int) -> tuple[int, ...]:
    """Operands in which a linear primitive is jointly linear, the others being held fixed."""
    return _LINEAR[name](count) if name in _LINEAR else (0,)


def degree_of(equation: Equation, orders: Sequence[int]) -> int:
    """Polynomial degree of an equation's result in the latents: 0, 1, 2, or 3 for anything higher.

    Parameters
    ----------
    equation
        The equation.
    orders
        Degree of each of its operands.
    """
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
    closed = equation.params["jaxpr"]
    return flat_trace(core.jaxpr_as_fun(closed), *closed.in_avals)[0]


def propagated(trace: FlatTrace, orders: dict[int, int]) -> dict[int, int]:
    """Degrees of all variables of a trace, from those of its inputs; zero where there is none."""
    for equation in trace.equations:
        operands = [0 if isinstance(x, Constant) else orders.get(x, 0) for x in equation.inputs]
        degree = degree_of(equation, operands)
        if degree:
            orders.update(dict.fromkeys(equation.outputs, degree))
    return orders


def scan_counts(equation: Equation) -> tuple[int, int]:
    """How many of a scan's inputs are constants of its body, and how many it carries."""
    if "ft_in" in equation.params:  # from JAX 0.12 on
        consts, carry_orders, _ = equation.params["ft_in"].unpack()
        return len(consts), len(carry_orders)
    return equation.params["num_consts"], equation.params["num_carry"]


def scan_orders(equation: Equation, orders: Sequence[int]) -> tuple[list[int], list[int]]:
    """Degrees of a scan's carries and of its stacked results.

    A carry has the highest degree that it comes to in any step.
    """
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
