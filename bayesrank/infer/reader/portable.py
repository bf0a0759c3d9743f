"""Distributions that JAX can take apart and put together, so that a trace holds all there is.

A user's class may store numbers where JAX does not see them, and its methods may read what changes
between two runs. For such a distribution a trace has the log density, as equations.
"""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import transforms

from bayesrank.infer.reader.jaxpr import FlatTrace, evaluated, flat_trace
from bayesrank.infer.reader.predictors import SupportsTiltedMoments

_KNOWN = ("numpyro", "bayesrank")

Shape = tuple[int, ...]


def portable(fn: dist.Distribution, shape: Shape) -> dist.Distribution:
    """A distribution as it is; in the place of a user's one, its density at values of a shape."""
    parts = vars(fn).items()
    if not _is_known(fn) or any(not _is_known(x) for _, part in parts for x in _transforms(part)):
        return _density_of(fn, shape)
    changed = {}
    for name, part in parts:
        if isinstance(part, (list, tuple)) and any(isinstance(x, dist.Distribution) for x in part):
            new: Any = type(part)(portable(x, x.shape()) for x in part)
            changed |= (
                {name: new} if any(a is not b for a, b in zip(new, part, strict=True)) else {}
            )
        elif isinstance(part, dist.Distribution):
            new = portable(part, shape if name == "base_dist" else part.shape())
            changed |= {name: new} if new is not part else {}
    if not changed:
        return fn
    if isinstance(fn, dist.ExpandedDistribution):
        return _density_of(fn, shape)
    outer = copy.copy(fn)
    vars(outer).update(changed)
    return outer


def _is_known(x: Any) -> bool:
    if type(x).__module__.split(".")[0] in _KNOWN:
        return True
    return isinstance(x, SupportsTiltedMoments) and _is_whole(x)


def _transforms(part: Any) -> list[Any]:
    if isinstance(part, transforms.Transform):
        return [part, *(x for inner in vars(part).values() for x in _transforms(inner))]
    if isinstance(part, (list, tuple)):
        return [x for inner in part for x in _transforms(inner)]
    return []


def _is_whole(fn: Any) -> bool:
    """Whether a distribution that is taken apart and put together has all that it had."""
    leaves, tree = jax.tree.flatten(fn)
    again = vars(jax.tree.unflatten(tree, leaves))
    return all(name in again for name, value in vars(fn).items() if value is not None)


class _TracedDensity(dist.Distribution):
    """The log density of a distribution, as equations; `parts` are what these closed over."""

    arg_constraints: dict[str, Any] = {}
    pytree_data_fields = ("parts", "inside")
    pytree_aux_fields = ("trace", "at")

    def __init__(self, fn: dist.Distribution, trace: FlatTrace, at: Shape) -> None:
        self.parts, self.trace = trace.constants, trace._replace(constants={})
        self.inside, self.at = fn.support, at
        super().__init__(fn.batch_shape, fn.event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        """That of the distribution."""
        return self.inside

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """Its log density."""

        def density(value: Any) -> Array:
            known = {**self.parts, self.trace.inputs[0]: jnp.broadcast_to(value, self.at)}
            (found,) = evaluated(self.trace.equations, self.trace.outputs, known)
            return found

        for _ in range(jnp.ndim(value) - len(self.at)):
            density = jax.vmap(density)
        return density(value)


def _density_of(fn: dist.Distribution, shape: Shape) -> dist.Distribution:
    support: Any = fn.support
    kind = int if support.is_discrete else float
    at = jnp.broadcast_shapes(shape, fn.shape())
    trace, _ = flat_trace(fn.log_prob, jax.ShapeDtypeStruct(at, jnp.result_type(kind)))
    return type(type(fn).__name__, (_TracedDensity,), {})(fn, trace, at)
