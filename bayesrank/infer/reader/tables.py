"""Long rows as a table that short rows point into.

The skill ``Phi[i] @ w + e[i]`` of an item sees all of `w`, and data that compare two items see it
twice. Multiplied out, that is a row of `w`'s length for each datum. But the elements of
``v = Phi @ w`` can be quantities of their own, known for certain given few latents. A datum then
sees four: ``v[i] + e[i] - v[j] - e[j]``. So a walk through a trace may make a table ``v = T z`` of
the latents ``z`` of some sites. The elements of ``v`` get columns behind those of all latents.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayesrank.infer.reader.affine import Affine, Degree, Value, affine_rule, evaluate, gathered
from bayesrank.infer.reader.jaxpr import STRUCTURAL, Equation, FlatTrace

# Of more latents than this no table is made.
MOST_SHARED = 3000
# The most entries of a row that is not put into a table.
_SHORT = 8
_SAME_LENGTH = STRUCTURAL | frozenset(
    "neg mul div convert_element_type reduce_precision integer_pow".split()
)
_SUMS = frozenset("add add_any sub".split())


class NotShortError(Exception):
    """An operation makes long rows of too many latents."""


class LongRows(NamedTuple):
    """Numbers ``v = T z`` that follow from few latents."""

    values: Array  # ``T``, shape (V, R)
    sites: tuple[str, ...]  # the sites of ``z``, laid end to end


class Tables:
    """A walk through a trace with short rows, and the tables `found` by name."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.found: dict[str, LongRows] = {}
        self.shapes = dict(shapes)
        self.seen: tuple[str, ...] = ()

    def evaluate(self, trace: FlatTrace, inputs: Sequence[Value]) -> dict[int, Value]:
        """Evaluate a trace as `evaluate` does, with short rows; else a `NotShortError`."""
        endless = [_sized(x, sys.maxsize) for x in inputs]  # no row is too long for this
        env = evaluate(trace, endless, self._rule)
        direct: set[str] = set()
        for equation in trace.equations:
            if any(isinstance(env[x], Degree) for x in equation.outputs):
                direct |= self._touched(env.get(x) for x in equation.inputs if isinstance(x, int))
        direct |= self._touched(env.get(x) for x in trace.outputs if isinstance(x, int))
        self.seen = tuple(name for name in self.found if name in direct)
        return {number: _sized(x, self.size(self.shapes)) for number, x in env.items()}

    def size(self, names: Iterable[str]) -> int:
        """Number of elements of sites and tables."""
        return sum(math.prod(self.shapes[name]) for name in names)

    def first(self, name: str) -> int:
        """Column of the first element of a site or table."""
        names = list(self.shapes)
        return self.size(names[: names.index(name)])

    def spelt_out(self, array: Affine) -> Affine:
        """The same array with entries for latents alone, none for tables."""
        sites = self._latents([array])
        rows = self._over(array, sites).values
        columns = np.concatenate([self.first(k) + np.arange(self.size([k])) for k in sites])
        spread = jnp.broadcast_to(jnp.asarray(columns, jnp.int32), rows.shape)
        return Affine(array.offset, rows, spread, array.size, frozenset(sites))

    def _rule(self, equation: Equation, operands: list[Any]) -> Sequence[Value]:
        arrays = [x for x in operands if isinstance(x, Affine)]
        sites = self._latents(arrays)
        if not self._is_long(equation, operands, arrays, self.size(sites)):
            return affine_rule(equation, operands)
        if self.size(sites) > MOST_SHARED:
            raise NotShortError
        if equation.name == "reduce_sum":
            axes = tuple(equation.params["axes"])
            results: Sequence[Value] = [self._over(gathered(arrays[0], axes), sites)]
        else:
            dense = [self._over(x, sites) if isinstance(x, Affine) else x for x in operands]
            results = affine_rule(equation, dense)
        return [self._kept(x, sites) if isinstance(x, Affine) else x for x in results]

    def _is_long(
        self, equation: Equation, operands: list[Any], arrays: list[Affine], latents: int
    ) -> bool:
        """Whether results go into a table; a sum with more elements than its tables does not."""
        if equation.name in _SAME_LENGTH:
            return False
        if equation.name in _SUMS:
            touched = frozenset().union(*(x.sites for x in arrays))
            several = len(touched) > 1 and touched <= self.found.keys()
            most = min((self.size([name]) for name in touched), default=0)
            return several and math.prod(equation.shapes[0]) <= most
        if equation.name not in ("reduce_sum", "dot_general"):
            return True
        length = _contracted(equation, operands)
        width = arrays[0].values.shape[-1] * length
        return width > _SHORT or 1 < latents <= length

    def _latents(self, arrays: Iterable[Affine]) -> tuple[str, ...]:
        """The latent sites behind arrays, in order."""
        touched: set[str] = set()
        for name in self._touched(arrays):
            touched.update(self.found[name].sites if name in self.found else (name,))
        return tuple(name for name in self.shapes if name in touched)

    def _touched(self, values: Iterable[Any]) -> set[str]:
        return {name for x in values if isinstance(x, Affine) for name in x.sites}

    def _over(self, array: Affine, sites: tuple[str, ...]) -> Affine:
        """The same array with dense rows over the latents of `sites` alone."""
        if array.columns is None:
            raise ValueError("the rows are dense already")
        count, width = math.prod(array.shape), array.values.shape[-1]
        values, columns = (x.reshape(count, width) for x in (array.values, array.columns))
        size = self.size(sites)
        rows = jnp.zeros((count, size), values.dtype)
        for name in sorted(array.sites):
            at = columns - self.first(name)
            own = (at >= 0) & (at < self.size([name]))
            weights, at = jnp.where(own, values, 0.0), jnp.where(own, at, 0)
            if name in self.found:
                table = self.found[name]
                added = looked_up(weights, at, table.values)
                rows = rows.at[:, self._places(table.sites, sites)].add(added)
            else:
                places = jnp.asarray(self._places((name,), sites))[at]
                rows = rows.at[jnp.arange(count)[:, None], places].add(weights)
        return Affine(array.offset, rows.reshape(*array.shape, size), None, size, array.sites)

    def _places(self, names: tuple[str, ...], sites: tuple[str, ...]) -> np.ndarray:
        """Places of the latents of some sites among those of `sites`."""
        starts = {k: self.size(sites[:number]) for number, k in enumerate(sites)}
        return np.concatenate([starts[k] + np.arange(self.size([k])) for k in names])

    def _kept(self, array: Affine, sites: tuple[str, ...]) -> Affine:
        """Put dense rows over `sites` into a new table; the array that points into it."""
        name, count = f"(table {len(self.found)})", math.prod(array.shape)
        columns = self.size(self.shapes) + jnp.arange(count, dtype=jnp.int32)
        self.found[name] = LongRows(array.values.reshape(count, array.size), sites)
        self.shapes[name] = (count,)
        one = jnp.ones((*array.shape, 1), array.values.dtype)
        columns = columns.reshape(one.shape)
        return Affine(array.offset, one, columns, sys.maxsize, frozenset({name}))


def looked_up(values: Array, columns: Array, table: Array) -> Array:
    """Rows (G, k) times a table (V, M), an entry at a time: nothing is larger than (G, M)."""
    total = jnp.zeros((values.shape[0], table.shape[1]), table.dtype)
    for entry in range(values.shape[1]):
        total += values[:, entry, None] * table[columns[:, entry]]
    return total


def _contracted(equation: Equation, operands: list[Any]) -> int:
    """Number of elements that are added up in each element of a sum or product."""
    if equation.name == "reduce_sum":
        axes = equation.params["axes"]
    else:
        left, right = equation.params["dimension_numbers"][0]
        axes = left if isinstance(operands[0], Affine) else right
    array = next(x for x in operands if isinstance(x, Affine))
    return math.prod(array.shape[axis] for axis in axes)


def _sized(value: Value, size: int) -> Value:
    return value._replace(size=size) if isinstance(value, Affine) else value
