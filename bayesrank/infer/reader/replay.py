"""A traced program as a program for NumPyro's handlers, of what it had read when it was traced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers

from bayesrank.infer.reader.densities import log_density_of
from bayesrank.infer.reader.jaxpr import evaluated, needed_equations
from bayesrank.infer.reader.traced import Traced


def as_model(
    source: Traced,
    fixed: Mapping[str, Any],
    latents: Collection[str],
    data: Collection[str] = (),
) -> Callable[[], None]:
    """Make a NumPyro program without arguments, whose unobserved sites are `latents`.

    Sites in `fixed` have these values, and no density unless `data` names them; all others have
    their initial value and none. Latents that follow from each other within a scan, and one value
    of several elements of a plate, come without a density, which is a factor.
    """
    places = jax.tree.unflatten(source.tree, range(len(source.outputs)))
    numbers = {name: given.number for name, given in source.inputs.items()}
    counted = [
        name
        for name, message in source.messages.items()
        if message["type"] == "sample" and (name not in numbers or name in {*latents, *data})
    ]

    def model() -> None:
        known = source.known(fixed, besides=latents)

        def needs(place: Any) -> tuple[list[Any], list[Any]]:
            outputs = [source.outputs[k] for k in jax.tree.leaves(place)]
            return outputs, list(needed_equations(source.equations, outputs, known))

        def computed(place: Any) -> Any:
            outputs, equations = needs(place)
            found = evaluated(equations, outputs, known)
            return jax.tree.unflatten(jax.tree.structure(place), found)

        def draw(name: str, fn: dist.Distribution) -> None:
            shape = source.inputs[name].shape
            shape = shape[: len(shape) - len(fn.shape())]
            known[numbers[name]] = numpyro.sample(name, fn, sample_shape=shape)

        def draw_without_density(name: str) -> None:
            draw(name, dist.Normal().expand(source.inputs[name].shape).mask(False))

        for name in counted:
            density = {k: places[name][k] for k in ("fn", "scale")}
            outputs, equations = needs(density)
            read = {number for number in outputs if isinstance(number, int)}
            read = read.union(*(e.variables for e in equations))
            first = [k for k in latents if numbers[k] in read and numbers[k] not in known]
            for each in first:
                draw_without_density(each)
            if name in latents and numbers[name] not in known:
                site = computed(density)
                shape, own = source.inputs[name].shape, site["fn"].shape()
                if shape[len(shape) - len(own) :] == own and len(own) <= len(shape):
                    scale = site["scale"]
                    with nullcontext() if scale is None else handlers.scale(scale=scale):
                        draw(name, site["fn"])
                    continue
                draw_without_density(name)
            site = computed(places[name])
            inside = jnp.all(site["fn"].support(site["value"])) if name in latents else True
            numpyro.factor(f"{name}_density", jnp.where(inside, log_density_of(site), -jnp.inf))

    return model
