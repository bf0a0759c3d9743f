"""Chosen factors of an observed site, evaluated without the others.

The equations of a trace hold the shapes that it was made with. Where each element of the result
depends on the elements of the same number only, the same equations give any choice of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core

from bayesrank.distributions import TiltedMoments
from bayesrank.infer.reader.components import is_pointwise
from bayesrank.infer.reader.jaxpr import Constant, Equation, FlatTrace, bind, flat_trace

__all__ = ["Elements", "elements_of_distribution", "elements_of_trace"]

# What keeps elements in their order.
_RESHAPING = frozenset({"reshape", "broadcast_in_dim", "squeeze", "expand_dims"})


class Elements(NamedTuple):
    """The factors of a block, one by one.

    Attributes
    ----------
    arguments
        Arrays (G, ...) whose k-th rows hold all that tells the likelihood of factor k from others.
    moments
        Tilted moments of the factors whose numbers are given, as `Block.moments`.
    """

    arguments: tuple[Array, ...]
    moments: Callable[[Array], Callable[[Array, Array], TiltedMoments]]


def elements_of_trace(
    equations: Sequence[Equation],
    known: dict[int, Any],
    entry: int,
    output: int,
    scale: Any,
    size: int,
    to_moments: Callable[[Callable[[Array], Array]], Callable[[Array, Array], TiltedMoments]],
) -> Elements | None:
    """Elements of factors whose likelihood is part of a trace.

    Parameters
    ----------
    equations
        That part, in order.
    known
        Values of what it takes beside the predictors.
    entry, output
        Variable numbers of the predictors and of the log likelihoods.
    scale
        What the log likelihoods are multiplied by.
    size
        Number of factors.
    to_moments
        Makes tilted moments of an elementwise log likelihood.

    Returns
    -------
    Elements or None
        None where it is not known to work element by element.
    """
    taken = {x for equation in equations for x in equation.variables} & known.keys()
    given = {number: jnp.asarray(known[number]) for number in sorted(taken)}
    scale = jnp.asarray(scale)
    arrays = [*given.values(), scale]
    if any(x.size not in (1, size) for x in arrays) or not _is_pointwise(equations, size):
        return None

    def moments(chosen: Array) -> Callable[[Array, Array], TiltedMoments]:
        def some(x: Array) -> Array:
            return x.reshape(()) if x.size == 1 else x.reshape(-1)[chosen]

        values, factor = {number: some(x) for number, x in given.items()}, some(scale)

        def log_likelihood(eta: Array) -> Array:
            return factor * _evaluated(equations, values | {entry: eta}, [output])[0]

        return to_moments(log_likelihood)

    return Elements(tuple(x.reshape(-1) for x in arrays if x.size == size), moments)


def elements_of_distribution(
    fixed: Any, predictor: str, value: Array, mask: Any, shape: tuple[int, ...]
) -> Elements | None:
    """Elements of factors that a distribution knows the tilted moments of.

    Parameters
    ----------
    fixed
        The distribution, with any predictor.
    predictor
        Name of its predictor.
    value, mask
        What was observed, and whether it counts; None where all does.
    shape
        Shape of the array of factors.
    """
    event_dims = {name: each.event_dim for name, each in fixed.arg_constraints.items()}
    if len(jax.tree.leaves(fixed)) != len(event_dims):
        return None
    size = int(np.prod(shape, dtype=int))
    parts = {name: jnp.asarray(getattr(fixed, name)) for name in event_dims if name != predictor}
    parts |= {"value": jnp.asarray(value), "mask": jnp.asarray(True if mask is None else mask)}
    common, own = {}, {}
    for name, array in parts.items():
        cut = array.ndim - event_dims.get(name, 0)
        if all(length == 1 for length in array.shape[:cut]):
            common[name] = array.reshape(array.shape[cut:])
        else:
            event = array.shape[cut:]
            own[name] = jnp.broadcast_to(array, shape + event).reshape(size, *event)

    def moments(chosen: Array) -> Callable[[Array, Array], TiltedMoments]:
        some = common | {name: array[chosen] for name, array in own.items()}
        value, counts = some.pop("value"), some.pop("mask")
        likelihood = copy.copy(fixed)
        for name, array in some.items():
            setattr(likelihood, name, array)

        def tilted(mean: Array, variance: Array) -> TiltedMoments:
            found = likelihood.tilted_moments(value, mean, variance)
            return TiltedMoments(*(jnp.where(counts, x, 0.0) for x in found))

        return tilted

    return Elements(tuple(own.values()), moments)


def _is_pointwise(equations: Sequence[Equation], size: int) -> bool:
    """Whether equations work element by element, on arrays of so many elements and on numbers."""
    for equation in equations:
        inputs, outputs = equation.input_shapes, equation.shapes
        if any(int(np.prod(x, dtype=int)) not in (1, size) for x in (*inputs, *outputs)):
            return False
        if equation.name == "custom_jvp_call":
            inner = _inner(equation)
            if inner.constants or not _is_pointwise(inner.equations, size):
                return False
        elif equation.name in _RESHAPING:
            if equation.params.get("dimensions") is not None:
                return False
        elif not is_pointwise(equation.name):
            return False
    return True


def _evaluated(
    equations: Sequence[Equation], given: dict[int, Array], outputs: Sequence[int | Constant]
) -> list[Array]:
    """Evaluate equations that work element by element at arrays of another length."""
    known: dict[int, Any] = dict(given)

    def read(x: int | Constant) -> Any:
        return jnp.asarray(x.value) if isinstance(x, Constant) else known[x]

    for equation in equations:
        operands = [read(x) for x in equation.inputs]
        if equation.name == "custom_jvp_call":
            inner = _inner(equation)
            entered = dict(zip(inner.inputs, operands, strict=True))
            results = _evaluated(inner.equations, entered, inner.outputs)
        elif equation.name in _RESHAPING:
            results = [operands[0]]
        else:
            results = bind(equation, jnp.broadcast_arrays(*operands))
        known.update(zip(equation.outputs, results, strict=True))
    return [read(x) for x in outputs]


def _inner(equation: Equation) -> FlatTrace:
    inner = equation.params["call_jaxpr"]
    avals = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inner.in_avals]
    return flat_trace(core.jaxpr_as_fun(inner), *avals)[0]
