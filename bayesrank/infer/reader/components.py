"""Which elements of a trace's outputs hang together through its nonlinear part.

EP replaces factors one by one, so each element of a likelihood needs its own predictor. The
nonlinear part of a program takes arrays of affine predictors to arrays of log densities. Here every
element of every intermediate array has the number of a predictor that it depends on. An operation
that mixes elements with different numbers joins these. Each set joined in the end is one component:
one factor of the model. An unknown operation joins everything, which is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayesrank.infer.reader.jaxpr import (
    Constant,
    Equation,
    FlatTrace,
    UnknownValueError,
    bind,
    concrete_value,
    flat,
    moves_integers,
)

ELEMENTWISE = frozenset(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil "
    "clamp convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 "
    "floor ge gt igamma igammac imag integer_pow is_finite le lgamma log log1p log2 logistic lt "
    "max min mul ne neg nextafter not one_minus_square or polygamma polynomial pow real "
    "reduce_precision regularized_incomplete_beta rem round rsqrt select_n sign sin sinh sqrt "
    "square stop_gradient sub tan tanh xor zeta".split()
)
_MOVES = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev tile gather dynamic_slice concatenate "
    "stack pad split unstack".split()
)
_REDUCTIONS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin".split()
)
_CUMULATIVE = frozenset("cumsum cumprod cumlogsumexp cummax cummin".split())
_CUSTOM = frozenset({"custom_jvp_call", "custom_vjp_call"})


class Components(NamedTuple):
    """Components of the factors of one site."""

    size: int  # number of components G
    predictor: np.ndarray  # component of each predictor element, -1 if no output needs it
    output: np.ndarray  # component of each output element, -1 if it depends on no latent

    @property
    def elementwise(self) -> bool:
        """Whether predictors and outputs pair up one to one, in order."""
        order = np.arange(self.size)
        return np.array_equal(self.predictor, order) and np.array_equal(self.output, order)


def is_elementwise(name: str) -> bool:
    """Whether it is known which elements of its operands a primitive mixes."""
    return name in ELEMENTWISE | _MOVES | _REDUCTIONS | _CUMULATIVE


def find_components(
    trace: FlatTrace,
    equations: Sequence[Equation],
    shapes: dict[int, tuple[int, ...]],
    output: int,
) -> Components:
    """Join predictor elements, of affine arrays of these `shapes`, that an output element joins."""
    marks: dict[int, np.ndarray] = {}
    total = 0
    for number, shape in shapes.items():
        size = math.prod(shape)
        marks[number] = total + np.arange(size).reshape(shape)
        total += size
    walker = _Walker(partial(concrete_value, trace), total)
    with jax.ensure_compile_time_eval():
        walker.run(equations, marks)
    label = walker.labels()
    out = np.asarray(marks[output]).reshape(-1)
    used = out >= 0
    # Components are numbered in the order in which outputs need them.
    roots, first, inverse = np.unique(label[out[used]], return_index=True, return_inverse=True)
    rank = np.empty_like(roots)
    rank[np.argsort(first)] = np.arange(roots.size)
    output_component = np.full(out.shape, -1)
    output_component[used] = rank[inverse]
    number_of = np.full(total, -1)
    number_of[roots] = rank
    return Components(roots.size, number_of[label], output_component)


class _Walker:
    """Propagates marks through equations and collects which marks are mixed."""

    def __init__(self, value_of: Callable[[int], np.ndarray], total: int) -> None:
        self.value_of = value_of
        self.total = total
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def labels(self) -> np.ndarray:
        if not self.pairs:
            return np.arange(self.total)
        left, right = (np.concatenate(side) for side in zip(*self.pairs, strict=True))
        shape = (self.total, self.total)
        graph = coo_array((np.ones(left.size, bool), (left, right)), shape=shape)
        _, component = connected_components(graph, directed=False)
        _, representative = np.unique(component, return_index=True)
        return representative[component]

    def join(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Marks of a result that mixes two arrays of marks elementwise."""
        left, right = np.broadcast_arrays(left, right)
        both = (left >= 0) & (right >= 0) & (left != right)
        if both.any():
            self.pairs.append((left[both], right[both]))
        return np.maximum(left, right)

    def join_axes(self, marks: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        top = marks.max(axis=axes, keepdims=True, initial=-1)
        self.join(marks, top)
        return top

    def join_all(self, operands: Sequence[np.ndarray]) -> int:
        flat = np.concatenate([np.asarray(x).reshape(-1) for x in operands])
        return int(self.join_axes(flat, (0,))[0])

    def run(self, equations: Sequence[Equation], marks: dict[int, np.ndarray]) -> None:
        for equation in equations:
            operands = [None if isinstance(x, Constant) else marks.get(x) for x in equation.inputs]
            if all(x is None for x in operands):
                continue
            results = self.equation(equation, operands)
            for number, result in zip(equation.outputs, results, strict=True):
                marks[number] = result

    def equation(self, equation: Equation, operands: list[np.ndarray | None]) -> list[np.ndarray]:
        name, shape = equation.name, equation.shapes[0]
        if name in ELEMENTWISE:
            result = np.full(shape, -1)
            for operand in operands:
                if operand is not None:
                    result = self.join(result, operand)
            return [result]
        if name in _MOVES:
            return self._move(equation, operands)
        first = operands[0]
        if name in _REDUCTIONS and first is not None:
            return [self.join_axes(first, tuple(equation.params["axes"])).reshape(shape)]
        if name in _CUMULATIVE and first is not None:
            top = self.join_axes(first, (equation.params["axis"],))
            return [np.broadcast_to(top, shape)]
        if name in _CUSTOM:
            return self._custom(equation, operands)
        mixed = self.join_all([x for x in operands if x is not None])
        return [np.full(each, mixed) for each in equation.shapes]

    def _move(self, equation: Equation, operands: list[np.ndarray | None]) -> list[np.ndarray]:
        try:
            return self._move_exactly(equation, operands)
        except UnknownValueError:
            # Where to does not matter for elements that hang together anyway (a level looked up in
            # a row of levels).
            if equation.name != "gather" or operands[0] is None:
                raise
            axes = tuple(equation.params["dimension_numbers"].start_index_map)
            joined = self._shared(operands[0], axes).astype(np.int32)
            anywhere = np.zeros(equation.input_shapes[1], np.int32)
            return [np.asarray(x) for x in bind(moves_integers(equation, -1), [joined, anywhere])]

    def _shared(self, marks: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """The one mark of all elements along `axes`; an error if these do not hang together."""
        top = np.broadcast_to(marks.max(axis=axes, keepdims=True, initial=-1), marks.shape)
        label = self.labels()
        if np.any((marks >= 0) & (label[marks] != label[top])):
            raise UnknownValueError
        return top

    def _move_exactly(
        self, equation: Equation, operands: list[np.ndarray | None]
    ) -> list[np.ndarray]:
        moved = []
        for operand, marks in zip(equation.inputs, operands, strict=True):
            if marks is not None:
                # 32 bits, so that JAX in its default configuration keeps them as they are.
                moved.append(marks.astype(np.int32))
                continue
            # A number that is moved along depends on nothing; an index or a predicate says where
            # to.
            array = self._value(operand)
            is_number = np.issubdtype(array.dtype, np.inexact)
            moved.append(np.full(array.shape, -1, np.int32) if is_number else array)
        return [np.asarray(x) for x in bind(moves_integers(equation, -1), moved)]

    def _custom(self, equation: Equation, operands: list[np.ndarray | None]) -> list[np.ndarray]:
        """A call with its own derivative rule: walk through the function that it calls."""
        params = equation.params
        inner = params.get("call_jaxpr", params.get("fun_jaxpr"))
        if inner is None:
            mixed = self.join_all([x for x in operands if x is not None])
            return [np.full(each, mixed) for each in equation.shapes]
        trace = flat(inner)
        marks: dict[int, np.ndarray] = {}
        outer: dict[int, int | Constant] = {}
        for number, operand, mark in zip(trace.inputs, equation.inputs, operands, strict=True):
            if mark is None:
                outer[number] = operand
            else:
                marks[number] = mark

        def value_of(number: int) -> np.ndarray:
            return self._value(outer[number]) if number in outer else concrete_value(trace, number)

        walker = _Walker(value_of, self.total)
        walker.pairs = self.pairs
        walker.run(trace.equations, marks)
        unmarked = [np.full(shape, -1) for shape in equation.shapes]
        return [
            marks.get(number, none) if isinstance(number, int) else none
            for number, none in zip(trace.outputs, unmarked, strict=True)
        ]

    def _value(self, operand: int | Constant) -> np.ndarray:
        return (
            np.asarray(operand.value) if isinstance(operand, Constant) else self.value_of(operand)
        )
