"""Affine predictors found in a trace, with sparse rows where rows touch few latents.

In a traced program every intermediate array is one of four things as a function of the latents
``z`` (length ``n``): constant, affine, quadratic, or none of these. An affine array has a value at
``z = 0`` and rows. These are in ELLPACK form, ``r`` pairs (column, value) for each element, as long
as ``r < n``. So the difference ``f[winner] - f[loser]`` of K comparisons takes K x 2 numbers and
never a K x n array. Everything here is traceable: which columns a row touches may depend on the
data, how many it touches may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayesrank.infer.reader.jaxpr import (
    BILINEAR,
    STRUCTURAL,
    Constant,
    Equation,
    FlatTrace,
    bind,
    degree_of,
    linear_operands,
    moves_integers,
)


class Degree(Enum):
    """What is known of an array that is neither constant nor affine in the latents."""

    QUADRATIC = 2
    NONLINEAR = 3


class Affine(NamedTuple):
    """An array of shape S, affine in the n latents."""

    offset: Array  # at ``z = 0``, shape S
    values: Array  # row entries, shape S + (r,)
    columns: Array | None  # int, shape S + (r,); None when rows are dense
    size: int  # number of latents n
    sites: frozenset[str]  # latent sites, and tables, that the rows may touch

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape S."""
        return self.offset.shape

    def dense(self) -> Array:
        """Rows as an array of shape S + (n,)."""
        if self.columns is None:
            return self.values
        count = math.prod(self.shape)
        rows = jnp.arange(count)[:, None]
        width = self.values.shape[-1]
        flat = jnp.zeros((count, self.size), self.values.dtype)
        columns, values = self.columns.reshape(count, width), self.values.reshape(count, width)
        return flat.at[rows, columns].add(values).reshape(*self.shape, self.size)

    def at(self, latents: Array) -> Array:
        """Its value at latents (n,)."""
        if self.columns is None:
            return self.offset + self.values @ latents
        return self.offset + jnp.sum(self.values * latents[self.columns], axis=-1)

    def densified(self) -> Affine:
        """The same array with dense rows."""
        return self._replace(values=self.dense(), columns=None)

    def widened(self, width: int) -> Affine:
        """The same array with sparse rows padded by zeros to `width` entries."""
        if self.columns is None or self.values.shape[-1] == width:
            return self
        pad = [(0, 0)] * len(self.shape) + [(0, width - self.values.shape[-1])]
        return self._replace(values=jnp.pad(self.values, pad), columns=jnp.pad(self.columns, pad))

    def broadcast(self, shape: tuple[int, ...]) -> Affine:
        """The array broadcast to `shape`, as NumPy does."""
        return self._map(lambda array, tail: jnp.broadcast_to(array, shape + tail))

    def reshape(self, shape: tuple[int, ...]) -> Affine:
        """The array reshaped to `shape`."""
        return self._map(lambda array, tail: array.reshape(shape + tail))

    def _map(self, function: Callable[[Array, tuple[int, ...]], Array]) -> Affine:
        tail = (self.values.shape[-1],)
        columns = None if self.columns is None else function(self.columns, tail)
        return self._replace(
            offset=function(self.offset, ()), values=function(self.values, tail), columns=columns
        )


Value = Array | Affine | Degree
AffineRule = Callable[[Equation, list[Any]], Sequence[Value]]


def identity(
    sizes: dict[str, int], shapes: dict[str, tuple[int, ...]], dtype: Any
) -> dict[str, Affine]:
    """Each latent site as an affine function of all latents, laid end to end in order."""
    total, start, result = sum(sizes.values()), 0, {}
    for name, size in sizes.items():
        shape = shapes[name]
        columns = (start + jnp.arange(size, dtype=jnp.int32)).reshape(*shape, 1)
        zero, one = jnp.zeros(shape, dtype), jnp.ones((*shape, 1), dtype)
        result[name] = Affine(zero, one, columns, total, frozenset({name}))
        start += size
    return result


def affine_rule(equation: Equation, operands: list[Any]) -> Sequence[Value]:
    """Results of an equation that are affine in the latents, its operands being so or constant."""
    name = equation.name
    if name in ("neg", "mul", "div", "convert_element_type", "reduce_precision", "integer_pow"):
        return [_scale_rows(equation, operands)]
    if name in ("add", "add_any", "sub"):
        return [_add(equation, operands)]
    if name in STRUCTURAL:
        return _move(equation, operands)
    if name == "reduce_sum":
        return [_reduce_sum(equation, operands[0])]
    if name == "dot_general":
        return [_dot_general(equation, operands)]
    if name == "scan":
        return _scan(equation, operands)
    return _linear_map(equation, operands)


def evaluate(
    trace: FlatTrace, inputs: Sequence[Value], rule: AffineRule = affine_rule
) -> dict[int, Value]:
    """Values of all variables: arrays, `Affine` or `Degree`; `rule` evaluates affine equations."""
    env: dict[int, Value] = dict(trace.constants)
    env.update(zip(trace.inputs, inputs, strict=True))
    for equation in trace.equations:
        operands = [x.value if isinstance(x, Constant) else env[x] for x in equation.inputs]
        for number, value in zip(
            equation.outputs, _evaluate(equation, operands, rule), strict=True
        ):
            env[number] = value
    return env


def _evaluate(equation: Equation, operands: list[Any], rule: AffineRule) -> Sequence[Value]:
    if not any(isinstance(x, (Affine, Degree)) for x in operands):
        return bind(equation, operands)
    degree = degree_of(equation, [_order(x) for x in operands])
    if degree == 1:
        return rule(equation, operands)
    outcome = Degree.QUADRATIC if degree == 2 else Degree.NONLINEAR
    return [outcome] * len(equation.outputs)


# ---------------------------------------------------------------- affine results


def _order(value: Any) -> int:
    if isinstance(value, Affine):
        return 1
    return value.value if isinstance(value, Degree) else 0


def _offset(equation: Equation, operands: list[Any]) -> list[Array]:
    return bind(equation, [x.offset if isinstance(x, Affine) else x for x in operands])


def _size_and_sites(arrays: Iterable[Affine]) -> tuple[int, frozenset[str]]:
    """Number of latents, and the sites that any of the arrays may touch."""
    sizes, sites = zip(*((x.size, x.sites) for x in arrays), strict=True)
    return sizes[0], frozenset().union(*sites)


def _scale_rows(equation: Equation, operands: list[Any]) -> Affine:
    """Elementwise operations that multiply each row by a constant."""
    (offset,) = _offset(equation, operands)
    affine = next(x for x in operands if isinstance(x, Affine)).broadcast(offset.shape)
    values = affine.values.astype(offset.dtype)
    if equation.name == "neg":
        values = -values
    elif equation.name in ("mul", "div"):
        other = operands[1] if isinstance(operands[0], Affine) else operands[0]
        factor = jnp.broadcast_to(jnp.asarray(other, offset.dtype), offset.shape)[..., None]
        values = values * factor if equation.name == "mul" else values / factor
    return affine._replace(offset=offset, values=values)


def _add(equation: Equation, operands: list[Any]) -> Affine:
    (offset,) = _offset(equation, operands)
    left, right = operands
    sign = -1.0 if equation.name == "sub" else 1.0
    if not isinstance(right, Affine):
        return left.broadcast(offset.shape)._replace(offset=offset)
    right = right.broadcast(offset.shape)
    right = right._replace(values=sign * right.values)
    if not isinstance(left, Affine):
        return right._replace(offset=offset)
    left = left.broadcast(offset.shape)
    sites = left.sites | right.sites
    width = left.values.shape[-1] + right.values.shape[-1]
    if left.columns is None or right.columns is None or width >= left.size:
        return Affine(offset, left.dense() + right.dense(), None, left.size, sites)
    values = jnp.concatenate([left.values, right.values], axis=-1)
    columns = jnp.concatenate([left.columns, right.columns], axis=-1)
    return Affine(offset, values, columns, left.size, sites)


def _by_column(
    equation: Equation, operands: list[Any], rows: Mapping[int, Array], linear: Sequence[int]
) -> list[Array]:
    """Results at each column of rows, by operand; others in which it is `linear` count as zero."""
    first = next(iter(rows.values()))
    filled, axes = [], []
    for i, x in enumerate(operands):
        if i in linear and i not in rows:
            x = jnp.zeros((*jnp.shape(x), first.shape[-1]), first.dtype)
        filled.append(rows.get(i, x))
        axes.append(-1 if i in linear or i in rows else None)
    batched = jax.vmap(lambda *args: tuple(bind(equation, args)), tuple(axes), out_axes=-1)
    return list(batched(*filled))


def _move(equation: Equation, operands: list[Any]) -> list[Value]:
    """Operations that only move elements: the same move is made on the rows' columns and values."""
    offsets = _offset(equation, operands)
    affine = {i: x for i, x in enumerate(operands) if isinstance(x, Affine)}
    size, sites = _size_and_sites(affine.values())
    sparse = all(x.columns is not None for x in affine.values())
    width = max(x.values.shape[-1] for x in affine.values())
    even = {i: x.widened(width) if sparse else x.densified() for i, x in affine.items()}

    def moved(move: Equation, rows: Callable[[Affine], Any], kind: Any) -> list[Array]:
        linear = linear_operands(equation.name, len(operands))
        each = {i: rows(x).astype(kind) for i, x in even.items()}
        return _by_column(move, operands, each, linear)

    values = moved(equation, lambda x: x.values, next(iter(affine.values())).values.dtype)
    columns: list[Any] = [None] * len(values)
    if sparse:
        columns = moved(moves_integers(equation, 0), lambda x: x.columns, jnp.int32)
    moves = zip(offsets, values, columns, strict=True)
    return [Affine(o, v, c, size, sites) for o, v, c in moves]


def _reduce_sum(equation: Equation, affine: Affine) -> Affine:
    axes = tuple(equation.params["axes"])
    if affine.columns is None:
        (offset,) = bind(equation, [affine.offset])
        return affine._replace(offset=offset, values=affine.values.sum(axes))
    found = gathered(affine, axes)
    return found if found.values.shape[-1] < affine.size else found.densified()


def gathered(affine: Affine, axes: tuple[int, ...]) -> Affine:
    """The sum over axes, with all entries of the sparse rows that are added up side by side."""
    if affine.columns is None:
        raise ValueError("dense rows have no entries to gather")
    offset, last = affine.offset.sum(axes), tuple(range(-1 - len(axes), -1))
    width = affine.values.shape[-1] * math.prod(affine.shape[axis] for axis in axes)
    values, columns = (
        jnp.moveaxis(x, axes, last).reshape(*offset.shape, width)
        for x in (affine.values, affine.columns)
    )
    return affine._replace(offset=offset, values=values, columns=columns)


def _dot_general(equation: Equation, operands: list[Any]) -> Affine:
    """A product with a constant array; sparse when the contraction leaves rows short."""
    (offset,) = _offset(equation, operands)
    (contract_l, contract_r), (batch_l, batch_r) = equation.params["dimension_numbers"]
    left = isinstance(operands[0], Affine)
    affine, constant = operands if left else operands[::-1]
    dims = [(contract_l, batch_l), (contract_r, batch_r)]
    (contract_a, batch_a), (contract_c, batch_c) = dims if left else dims[::-1]
    length = math.prod(affine.shape[axis] for axis in contract_a)
    width = affine.values.shape[-1] * length
    if affine.columns is None or width >= affine.size:
        return _linear_map(equation, operands)[0]
    matrix = _grouped(jnp.asarray(constant), batch_c, contract_c, 0)[..., None]
    values = _grouped(affine.values, batch_a, contract_a, 1)
    columns = _grouped(affine.columns, batch_a, contract_a, 1)
    batch, free_c, free_a = matrix.shape[0], matrix.shape[1], values.shape[1]
    shape = (batch, free_a, free_c, *values.shape[2:])
    product = values[:, :, None] * matrix[:, None]
    columns = jnp.broadcast_to(columns[:, :, None], shape)
    if not left:
        product, columns = (jnp.swapaxes(x, 1, 2) for x in (product, columns))
    target = (*offset.shape, width)
    return affine._replace(
        offset=offset, values=product.reshape(target), columns=columns.reshape(target)
    )


def _grouped(array: Array, batch: Sequence[int], contract: Sequence[int], trailing: int) -> Array:
    """Axes in the order batch, free, contracted (and trailing), each group made one axis."""
    ndim = array.ndim - trailing
    free = [axis for axis in range(ndim) if axis not in batch and axis not in contract]
    order = [*batch, *free, *contract, *range(ndim, array.ndim)]
    sizes = [math.prod(array.shape[axis] for axis in group) for group in (batch, free, contract)]
    return array.transpose(order).reshape(*sizes, *array.shape[ndim:])


def _linear_map(equation: Equation, operands: list[Any]) -> list[Affine]:
    """Any other linear operation: applied to each column of the dense rows."""
    offsets = _offset(equation, operands)
    affine = {i: x for i, x in enumerate(operands) if isinstance(x, Affine)}
    size, sites = _size_and_sites(affine.values())
    linear = () if equation.name in BILINEAR else linear_operands(equation.name, len(operands))
    dense = {i: x.dense() for i, x in affine.items()}
    rows = _by_column(equation, operands, dense, linear)
    return [Affine(o, v, None, size, sites) for o, v in zip(offsets, rows, strict=True)]


def _scan(equation: Equation, operands: list[Any]) -> Sequence[Value]:
    """A scan all of whose results are affine, or no numbers: its derivative, column by column."""
    places = [i for i, x in enumerate(operands) if isinstance(x, Affine)]
    affine = [operands[i] for i in places]
    size, sites = _size_and_sites(affine)

    def run(*values: Array) -> list[Array]:
        filled = dict(zip(places, values, strict=True))
        return bind(equation, [filled.get(i, x) for i, x in enumerate(operands)])

    at = tuple(x.offset for x in affine)
    offsets = run(*at)

    def slope(*columns: Array) -> list[Array]:
        moved = jax.jvp(run, at, columns)[1]
        return [x for x in moved if x.dtype != jax.dtypes.float0]

    rows = iter(jax.vmap(slope, in_axes=-1, out_axes=-1)(*(x.dense() for x in affine)))
    return [
        Affine(x, next(rows), None, size, sites) if jnp.issubdtype(x.dtype, np.floating) else x
        for x in offsets
    ]
