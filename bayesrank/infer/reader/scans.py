"""Scans over time, taken apart into what is constant, what is affine, and what is neither.

A scan is one equation of a trace, whose results depend on all that goes in. If what it carries from
step to step is affine in the latents, three equations replace it. One scan has all that no latent
reaches. An affine one also gives out whatever the nonlinear part of a step starts from. That part
is mapped over the steps, with its elements apart. Any other scan stays as it is.

A scan that draws its latents one given the other carries these, and no sums of them. What it
carries into a step was made in the one before, or few before that. Such a carry is its start and
then what all steps make of their inputs, moved on by one. So the affine part is mapped over the
steps too, and each of its elements depends on as few latents as the program says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.reader.jaxpr import (
    Constant,
    Equation,
    FlatTrace,
    bind,
    body_of,
    computed,
    degree_of,
    evaluated,
    flat_trace,
    needed_equations,
    operand_orders,
    propagated,
    scan_counts,
    scan_orders,
)


def split_scans(trace: FlatTrace, affine: Sequence[int]) -> FlatTrace:
    """Rewrite the scans of a trace, of whose inputs `affine` are latents; inputs keep numbers."""
    if all(equation.name != "scan" for equation in trace.equations):
        return trace

    def rewritten(*inputs: Array) -> list[Any]:
        known: dict[int, Any] = {**trace.constants, **dict(enumerate(inputs))}
        orders = dict.fromkeys(affine, 1)
        for equation in trace.equations:
            operands = evaluated((), equation.inputs, known)
            degrees = operand_orders(equation, orders)
            results, found = _evaluated_apart(equation, operands, degrees)
            known.update(zip(equation.outputs, results, strict=True))
            orders.update(zip(equation.outputs, found, strict=True))
        return evaluated((), trace.outputs, known)

    return flat_trace(rewritten, *trace.avals)[0]


def _evaluated_apart(
    equation: Equation, operands: list[Any], orders: list[int]
) -> tuple[list[Any], list[int]]:
    """Results of an equation and their degrees; of an affine scan by its parts."""
    if equation.name == "scan" and any(orders):
        carry_orders, stacked = scan_orders(equation, orders)
        if max([*carry_orders, 0]) <= 1:
            parts = _Parts(equation, orders, carry_orders)
            return parts.run(*operands), [*carry_orders, *stacked]
    return bind(equation, operands), [degree_of(equation, orders)] * len(equation.outputs)


class _Parts:
    """The three parts of one scan."""

    def __init__(self, equation: Equation, orders: list[int], carry_orders: list[int]) -> None:
        self.params = equation.params
        self.body = body_of(equation)
        self.consts, self.count = scan_counts(equation)
        given = [*orders[: self.consts], *carry_orders, *orders[self.consts + self.count :]]
        self.orders = propagated(self.body, dict(zip(self.body.inputs, given, strict=True)))
        self.carry_orders = carry_orders
        results = self.body.outputs[self.count :]
        smooth = [x for x in self._variables() if self.orders.get(x, 0) <= 1]
        self.rough = needed_equations(
            self.body.equations, [x for x in results if self._order(x) > 1], smooth
        )
        borders = {x for equation in self.rough for x in equation.variables}
        inner = {x for equation in self.rough for x in equation.outputs}
        self.borders = sorted(borders - inner - set(self.body.constants))
        self.forgetful = self._forgetful() if self.params["length"] else None

    def _variables(self) -> list[int]:
        produced = [x for equation in self.body.equations for x in equation.outputs]
        return [*self.body.constants, *self.body.inputs, *produced]

    def _order(self, x: int | Constant) -> int:
        return self.orders.get(x, 0) if isinstance(x, int) else 0

    def _forgetful(self) -> list[int] | None:
        """Affine carries, each after those that it is made of; None where one is made of itself."""
        carries = self.body.inputs[self.consts : self.consts + self.count]
        left = {i for i in range(self.count) if self.carry_orders[i] == 1}
        needs = {
            i: {j for j in left if carries[j] in self._read([self.body.outputs[i]])} for i in left
        }
        found: list[int] = []
        while left:
            ready = [i for i in sorted(left) if needs[i] <= set(found)]
            if not ready:
                return None
            found += ready
            left -= set(ready)
        return found

    def _read(self, outputs: Sequence[int | Constant]) -> set[int]:
        """Variables that outputs of the body are made of, themselves among them."""
        needed = needed_equations(self.body.equations, outputs, ())
        own = {x for x in outputs if isinstance(x, int)}
        return own.union(*(equation.variables for equation in needed))

    def run(self, *operands: Array) -> list[Array]:
        """The scan's results, by its parts."""
        consts = operands[: self.consts]
        init = operands[self.consts : self.consts + self.count]
        xs = operands[self.consts + self.count :]
        ends: list[Any] = [None] * self.count
        traced: dict[int, Array] = {}
        for degree in (0, 1):
            places = [i for i in range(self.count) if self.carry_orders[i] <= degree]
            wanted = self._wanted(degree)
            if degree == 1 and self.forgetful is not None:
                last, stacks = self._moved_on(consts, init, xs, traced, wanted)
                last = [last.get(i) for i in places]
            else:
                last, stacks = self._scan(consts, [init[i] for i in places], xs, places, wanted)
            ends = [
                last[places.index(i)] if self.carry_orders[i] == degree else end
                for i, end in enumerate(ends)
            ]
            traced.update(zip(wanted, stacks, strict=True))
        rough = self._mapped(traced)
        results = [
            jnp.broadcast_to(x.value, (self.params["length"], *jnp.shape(x.value)))
            if isinstance(x, Constant)
            else rough[x]
            if self._order(x) > 1
            else traced[x]
            for x in self.body.outputs[self.count :]
        ]
        return [*ends, *results]

    def _wanted(self, degree: int) -> list[int]:
        results = self.body.outputs[self.count :]
        wanted = {x for x in results if isinstance(x, int)} | set(self.borders)
        if self.forgetful is not None:
            carries = set(self.body.inputs[self.consts : self.consts + self.count])
            wanted |= carries & self._read(self.body.outputs)
        return sorted(x for x in wanted if self._order(x) == degree)

    def _scan(
        self,
        consts: Sequence[Array],
        init: Sequence[Array],
        xs: Sequence[Array],
        places: list[int],
        wanted: list[int],
    ) -> tuple[list[Array], list[Array]]:
        """One pass over time, of the carries at `places`, which gives out what is wanted."""
        inputs = self.body.inputs
        carries = [inputs[self.consts + i] for i in places]
        new = [self.body.outputs[i] for i in places]
        # Of what goes in, latents that nothing here depends on would look as if something did.
        read = self._read([*new, *wanted])
        slices = zip(inputs[self.consts + self.count :], xs, strict=True)
        used = {variable: x for variable, x in slices if variable in read}

        def step(carry: list[Array], x: dict[int, Array]) -> tuple[list[Array], list[Array]]:
            known = dict(zip(inputs[: self.consts], consts, strict=True))
            known |= zip(carries, carry, strict=True)
            known |= x
            known |= self.body.constants
            found = computed(self.body.equations, [*new, *wanted], known)
            same = [
                jnp.asarray(a, b.dtype) if _is_number(b) else a
                for a, b in zip(found, carry, strict=False)
            ]
            return same, found[len(new) :]

        return lax.scan(step, list(init), used, self.params["length"], self.params["reverse"])

    def _moved_on(
        self,
        consts: Sequence[Array],
        init: Sequence[Array],
        xs: Sequence[Array],
        traced: Mapping[int, Array],
        wanted: list[int],
    ) -> tuple[dict[int, Array], list[Array]]:
        """Ends of the affine carries, and what is wanted, all steps at once."""
        inputs, outputs = self.body.inputs, self.body.outputs
        stacks = {**traced, **dict(zip(inputs[self.consts + self.count :], xs, strict=True))}
        same = self.body.constants | dict(zip(inputs[: self.consts], consts, strict=True))
        ends: dict[int, Array] = {}

        def all_steps(x: int | Constant, dtype: Any) -> Array:
            def step(_: Array, known: dict[int, Array]) -> Array:
                return jnp.asarray(computed(self.body.equations, [x], same | known)[0], dtype)

            read = {k: stacks[k] for k in self._read([x]) if k in stacks}
            return jax.vmap(step)(jnp.arange(self.params["length"]), read)

        for i in self.forgetful or ():
            start = init[i][None]
            made = all_steps(outputs[i], start.dtype)
            if self.params["reverse"]:
                ends[i], before = made[0], jnp.concatenate([made[1:], start])
            else:
                ends[i], before = made[-1], jnp.concatenate([start, made[:-1]])
            stacks[inputs[self.consts + i]] = before
        return ends, [stacks[x] if x in stacks else all_steps(x, None) for x in wanted]

    def _mapped(self, traced: Mapping[int, Array]) -> dict[int, Array]:
        """The nonlinear part of all steps at once."""
        results = [x for x in self.body.outputs[self.count :] if self._order(x) > 1]
        names = [x for x in dict.fromkeys(results) if isinstance(x, int)]
        if not names:
            return {}

        def step(borders: Sequence[Array]) -> list[Array]:
            known = dict(self.body.constants) | dict(zip(self.borders, borders, strict=True))
            return computed(self.rough, names, known)

        mapped = jax.vmap(step)([traced[x] for x in self.borders])
        return dict(zip(names, mapped, strict=True))


def _is_number(x: Any) -> bool:
    return not jnp.issubdtype(x.dtype, jax.dtypes.extended)
