"""Latents that are not Gaussian: a wide Gaussian for the prior, and a factor that corrects it.

``p(z) = N(z; m, w^2) * [p(z) / N(z; m, w^2)]``: EP takes the bracket as a factor of an observed
site. It sees one element of the site, or its difference from its prior mean. EP's fixed point does
not depend on m and w.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax

from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.quadrature_check import QuadratureMoments
from bayesrank.infer.reader.conditionals import Local, positions
from bayesrank.infer.reader.densities import bounds
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.observed import SiteFactors, nonlinear_part
from bayesrank.infer.reader.predictors import mixture_moments, predictors_of
from bayesrank.infer.reader.prior import unwrap
from bayesrank.infer.reader.refusals import Refusal

_DRAWS = 1001
_TAIL = 0.05
# Of a Gaussian, the distance of these quantiles in standard deviations.
_WIDTH = 3.29
# Of its width, how near to an end of the support a density is looked at.
_EDGE = 1e-7
_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def own_prior(joint: Joint, name: str, power: float) -> tuple[Local, SiteFactors]:
    """Split the prior of a latent into a Gaussian and a factor for each element, or refuse it."""
    numbers = joint.latent_numbers[name], joint.latent_parts[name]
    part = nonlinear_part(joint, name, *numbers)
    own, components = positions(joint, [name]), part.components
    if not np.array_equal(np.sort(components.output), np.arange(own.size)):
        raise _not_gaussian(joint, name)
    ones = jnp.ones(positions(joint, list(joint.inventory.latents)).size)
    predictors = predictors_of(part.arrays, components, ones)
    # Factor k is the density of element `element[k]` of the site.
    element = np.argsort(components.output)
    slope = _coefficients(predictors.rows, own[element])
    at_zero = _at_zero(joint, name)
    loc, width, lower, upper = (x[element] for x in at_zero)

    def corrected(log_density: Callable[[list[Array]], Array], eta: Array) -> Array:
        """Log density over that of the base, shape (G, 1), or (G, K) of a mixture's parts."""
        own_part = (eta - predictors.offset) / slope
        # Outside of the support it falls off, so that whoever looks for the mass finds the way.
        inside = jnp.clip(own_part, lower + _EDGE * width, upper - _EDGE * width)
        beyond = jnp.abs(own_part - inside) / width
        log_prior = log_density(predictors.expand(predictors.offset + slope * inside))
        log_base = -0.5 * ((own_part - loc) / width) ** 2 - jnp.log(width) - _HALF_LOG_2PI
        each = log_prior.reshape(own.size, -1)[element]
        return each - (beyond / _EDGE + log_base)[:, None]

    if part.log_parts is None:
        moments = QuadratureMoments(lambda eta: power * corrected(part.evaluate, eta)[:, 0])
    else:
        moments = partial(mixture_moments, partial(corrected, part.log_parts), power)

    seen, none = predictors, jnp.zeros((), loc.dtype)
    factors = SiteFactors(seen.rows, seen.offset, moments, none, seen.collinear, False)
    back = np.argsort(element)
    proper = jnp.all(jnp.isfinite(loc) & jnp.isfinite(width) & (width > 0))
    rows, recursive = None, name in joint.scanned
    if recursive or any(array.sites != {name} for array in part.arrays):
        rows = (-predictors.rows.dense() / slope[:, None])[back].at[np.arange(own.size), own].add(1)
    return Local(loc[back], rows, width[back] ** 2, proper, recursive), factors


def _not_gaussian(joint: Joint, name: str) -> ValueError:
    detail = f"{joint.inventory.families[name]} distribution"
    return Refusal("not_gaussian", name, detail).error()


def _coefficients(rows: Rows, columns: np.ndarray) -> Array:
    """For each row, the entry at a column of its own, shape (G,)."""
    if rows.columns is None:
        return rows.values[np.arange(columns.size), columns]
    return jnp.sum(jnp.where(rows.columns == columns[:, None], rows.values, 0.0), axis=-1)


def _at_zero(joint: Joint, name: str) -> tuple[Array, Array, Array, Array]:
    """Centre and width, from draws, and ends of a site's elements, other latents being zero."""
    site: dict[str, Any] = joint.sites_at_zero()[name]
    base, _ = unwrap(site["fn"])
    draws = _built_anew(base).sample(jax.random.key(0), (_DRAWS,))
    low, high = jnp.quantile(draws, jnp.array([_TAIL, 1 - _TAIL]), axis=0)
    lower, upper = bounds(base)
    return tuple(
        lax.stop_gradient(jnp.broadcast_to(x, joint.inventory.latents[name]).reshape(-1))
        for x in (
            0.5 * (low + high),
            (high - low) / _WIDTH,
            -jnp.inf if lower is None else lower,
            jnp.inf if upper is None else upper,
        )
    )  # type: ignore[return-value]


def _built_anew(fn: dist.Distribution) -> dist.Distribution:
    """The same distribution from its parameters: a scan leaves parts of one in other shapes."""
    parameters = {k: vars(fn).get(k) for k in fn.arg_constraints}
    arguments = signature(type(fn).__init__).parameters.values()
    required = (x for x in arguments if x.default is x.empty)
    needed = {x.name for x in required if x.kind is x.POSITIONAL_OR_KEYWORD}
    if any(value is None for value in parameters.values()) or needed - {"self", *parameters}:
        return fn
    return type(fn)(**parameters)
