"""A program with its hyperparameters free, as one density of an unconstrained vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.infer.util import initialize_model, unconstrain_fn

from bayesrank.infer import whiten
from bayesrank.infer.spi import as_working_dtype, jit, readable_arguments, run_with

Draws = Mapping[str, NDArray[np.float64]]


class FullProgram(NamedTuple):
    """A program's white latents and unconstrained hyperparameters, scaled by draws, for NUTS."""

    log_joint: Callable[[Array], Array]  # log density of such a vector, shape (size,)
    size: int
    # From vectors (N, size) to `sites` laid end to end, on their own scales.
    constrained: Callable[[Any], Any]
    sites: dict[str, tuple[int, ...]]  # shapes of the latents and hyperparameters
    # From draws of hyperparameters by name, shapes (N,) + their own, to their unconstrained scale.
    unconstrained: Callable[[Draws], dict[str, NDArray[np.float64]]]

    def colour(self, white: Any) -> Any:
        """Sites laid end to end, on their own scales, from vectors (..., size)."""
        sites = np.asarray(self.constrained(jnp.asarray(white).reshape(-1, self.size)))
        return sites.reshape(*np.shape(white)[:-1], -1)


def full_program(
    model: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    params: Mapping[str, Any],
    draws: Draws,
    eliminated: tuple[str, ...] = (),
) -> FullProgram:
    """One density of latents and free hyperparameters, whose `draws` (N, ...) set the scale."""
    given: dict[str, Any]
    args, kwargs = readable_arguments(model, args, kwargs, params)
    given, draws = as_working_dtype((dict(params), dict(draws)))
    shapes = {name: value.shape[1:] for name, value in draws.items()}
    conditioned = handlers.substitute(handlers.condition(model, data=given), data=given)
    first = {name: value[0] for name, value in draws.items()}
    left_over = {
        name: site["value"]
        for name, site in run_with(conditioned, args, kwargs, first).items()
        if site["type"] == "sample" and not site["is_observed"]
        if name not in draws and name not in eliminated
    }
    hidden = handlers.block(
        handlers.substitute(handlers.seed(conditioned, jax.random.key(0)), data=left_over),
        hide=list(left_over),
    )
    white = whiten(hidden)
    info: Any = initialize_model(
        jax.random.key(0), white, model_args=args, model_kwargs=kwargs, dynamic_args=False
    )
    start = info.param_info.z
    known = {name: value for name, value in draws.items() if name in start}

    def unconstrained(values: Draws) -> dict[str, NDArray[np.float64]]:
        mapped = jit(jax.vmap(lambda one: unconstrain_fn(white, args, kwargs, one)))
        found = mapped({name: jnp.asarray(value) for name, value in values.items()})
        return {name: np.asarray(value) for name, value in found.items()}

    there = unconstrained(known) if known else {}
    centre = {k: there[k].mean(0) if k in there else jnp.zeros_like(v) for k, v in start.items()}
    width = {k: there[k].std(0) if k in there else jnp.ones_like(v) for k, v in start.items()}
    (loc, unravel), (scale, _) = ravel_pytree(centre), ravel_pytree(width)

    return FullProgram(
        lambda z: -info.potential_fn(unravel(loc + scale * z)),
        loc.size,
        jit(jax.vmap(lambda z: _sites(info, unravel(loc + scale * z), shapes))),
        shapes,
        unconstrained,
    )


def _sites(info: Any, unconstrained: Any, shapes: Mapping[str, tuple[int, ...]]) -> Array:
    values = info.postprocess_fn(unconstrained)
    return jnp.concatenate([jnp.reshape(values[name], -1) for name in shapes])
