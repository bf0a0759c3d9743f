"""A program with its hyperparameters free, as one density of an unconstrained vector."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.infer.util import constrain_fn, initialize_model, potential_energy, unconstrain_fn

from bayesrank.infer import whiten
from bayesrank.infer.spi import as_working_dtype, jit, readable_arguments, run_with, split

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
        sites = np.asarray(self.constrained(np.reshape(white, (-1, self.size))))
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
    left_over = jit(lambda: _left_over(conditioned, args, kwargs, draws, eliminated))()
    hidden = handlers.block(
        handlers.substitute(handlers.seed(conditioned, jax.random.key(0)), data=left_over),
        hide=list(left_over),
    )
    white = whiten(hidden)
    called = white, args, kwargs
    free = _unconstrained_shapes(*called)
    known = {name: value for name, value in draws.items() if name in free}

    def unconstrained(values: Draws) -> dict[str, NDArray[np.float64]]:
        mapped = jit(jax.vmap(lambda one: unconstrain_fn(*called, one)))
        found = mapped({name: jnp.asarray(value) for name, value in values.items()})
        return {name: np.asarray(value) for name, value in found.items()}

    there = unconstrained(known) if known else {}
    centre = [there[k].mean(0) if k in there else np.zeros(v) for k, v in free.items()]
    width = [there[k].std(0) if k in there else np.ones(v) for k, v in free.items()]
    loc, scale = (np.concatenate([np.ravel(x) for x in each]) for each in (centre, width))

    def constrained(z: Array) -> Array:
        values = constrain_fn(*called, split(loc + scale * z, free), return_deterministic=True)
        return jnp.concatenate([jnp.reshape(values[name], -1) for name in shapes])

    return FullProgram(
        lambda z: jnp.negative(potential_energy(*called, split(loc + scale * z, free))),
        loc.size,
        jit(jax.vmap(constrained)),
        shapes,
        unconstrained,
    )


def _left_over(
    model: Callable[..., Any], args: tuple, kwargs: Any, draws: Draws, eliminated: tuple[str, ...]
) -> dict[str, Array]:
    """Values of latents that are neither drawn nor eliminated."""
    first = {name: value[0] for name, value in draws.items()}
    return {
        name: site["value"]
        for name, site in run_with(model, args, kwargs, first).items()
        if site["type"] == "sample" and not site["is_observed"]
        if name not in draws and name not in eliminated
    }


def _unconstrained_shapes(*called: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of free sites; nothing is run, which would compile each operation of the program."""
    model, args, kwargs = called

    def start() -> Any:
        key, given = jax.random.key(0), {"model_args": args, "model_kwargs": kwargs}
        return initialize_model(key, model, **given, validate_grad=False).param_info

    return {name: value.shape for name, value in jax.eval_shape(start).z.items()}
