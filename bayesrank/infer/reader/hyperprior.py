"""The prior density of hyperparameters: what of it is not already a factor of the latents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax import Array

from bayesrank.infer.reader.inventory import Inventory
from bayesrank.infer.reader.jaxpr import flat_trace, needed_equations
from bayesrank.infer.reader.traced import ProgramSource

__all__ = ["log_hyperprior"]


def log_hyperprior(
    source: ProgramSource,
    inventory: Inventory,
    hyperparameters: Mapping[str, Array],
) -> Array:
    """Log prior density of the free hyperparameters, and of fixed sites that depend on them.

    A density that a latent reaches is left out: it is one of the factors, and part of the evidence.

    Parameters
    ----------
    source, inventory
        The program and its sites.
    hyperparameters
        Values of all hyperparameters, by name.

    Returns
    -------
    Array
        A scalar, differentiable in `hyperparameters`.
    """
    latents = {k: jnp.zeros(shape) for k, shape in inventory.latents.items()}
    free = {k: v for k, v in hyperparameters.items() if k in inventory.supports}
    fixed = {k: v for k, v in hyperparameters.items() if k not in free}

    def densities(latents: Mapping[str, Array], free: Mapping[str, Array]) -> dict[str, Array]:
        known = {**inventory.discrete, **fixed, **latents, **free}
        sites = source.sites(known)
        return {k: _log_density(sites[k]) for k in (*inventory.sampled, *inventory.given)}

    trace, _ = flat_trace(densities, latents, free)
    inner, outer = trace.inputs[: len(latents)], trace.inputs[len(latents) :]
    values, total = densities(latents, free), jnp.zeros(())
    for name, output in zip(sorted(values), trace.outputs, strict=True):
        equations = needed_equations(trace.equations, [output], ())
        used = frozenset().union(*(equation.variables for equation in equations))
        if used.isdisjoint(inner) and (name in free or not used.isdisjoint(outer)):
            total += values[name]
    return total


def _log_density(site: Mapping[str, Any]) -> Array:
    scale = 1.0 if site["scale"] is None else site["scale"]
    return jnp.sum(scale * site["fn"].log_prob(site["value"]))
