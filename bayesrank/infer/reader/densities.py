"""The log densities of sites, element by element, as they are traced."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro import validation_enabled

from bayesrank.infer.reader.prior import unwrap

__all__ = [
    "SiteDensity",
    "bounds",
    "elementwise",
    "has_log_density",
    "latent_density",
    "observed_density",
    "with_trailing_axes",
]


class SiteDensity(NamedTuple):
    """Log densities of a site's elements.

    Attributes
    ----------
    log_prob
        The logs.
    parts
        Of mixtures, the logs of their weighted parts, with the number of the part as last axis;
        `log_prob` is computed from them. None for other distributions.
    """

    log_prob: Any
    parts: Any = None


def has_log_density(fn: dist.Delta) -> bool:
    """Whether a point mass may have a log density; an array that is zero here need not stay so."""
    return not (isinstance(fn.log_density, (int, float)) and fn.log_density == 0)


def elementwise(fn: dist.Distribution) -> dist.Distribution:
    """The same distribution without `to_event`, which sums over independent elements."""
    if isinstance(fn, dist.Independent):
        return elementwise(fn.base_dist)
    if not isinstance(fn, (dist.ExpandedDistribution, dist.MaskedDistribution)):
        return fn
    inner = elementwise(fn.base_dist)
    split = fn.event_dim - inner.event_dim
    if not split:
        return fn
    if isinstance(fn, dist.MaskedDistribution):
        return inner.mask(with_trailing_axes(fn._mask, split))
    return inner.expand(fn.batch_shape + fn.event_shape[:split])


def with_trailing_axes(x: Any, count: int) -> Any:
    """Append axes of length one, for the elements of an event; a scalar needs none."""
    return jnp.reshape(x, jnp.shape(x) + (1,) * count) if jnp.ndim(x) else x


def bounds(fn: dist.Distribution) -> tuple[Any, Any]:
    """Ends of the support of a site's elements, None where there is none."""
    support = unwrap(fn)[0].support
    return getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)


def observed_density(fn: dist.Distribution, value: Array) -> SiteDensity:
    """Log density of the elements of an observed site, as `elementwise` gives its distribution."""
    base, mask = unwrap(fn)
    if base.event_dim or not isinstance(base, (dist.MixtureSameFamily, dist.MixtureGeneral)):
        return SiteDensity(fn.log_prob(value))
    parts = base.component_log_probs(value)
    count = parts.shape[-1]
    parts = jnp.broadcast_to(parts, (*jnp.broadcast_shapes(fn.batch_shape, value.shape), count))
    if mask is not None:
        parts = jnp.where(jnp.asarray(mask)[..., None], parts, -jnp.log(float(count)))
    # No gradient flows into a part without density.
    known = jnp.where(jnp.isneginf(parts), -jnp.inf, parts)
    return SiteDensity(jax.nn.logsumexp(known, axis=-1), parts)


def latent_density(fn: dist.Distribution, value: Array) -> SiteDensity:
    """Log density of a latent site's elements, minus infinity outside of its support.

    NumPyro's own is a number there for some distributions, and for others none.
    """
    fn = elementwise(fn)
    lower, upper = bounds(fn)
    # A check of the value, as a branch on it, would not be polynomial in it.
    with validation_enabled(False):
        if fn.event_dim or (lower is None and upper is None):
            log_prob, parts = observed_density(fn, value)
            return SiteDensity(jnp.asarray(log_prob), parts)
        inside = jnp.ones_like(value, bool)
        if lower is not None:
            inside &= value > lower
        if upper is not None:
            inside &= value < upper
        found = observed_density(fn, jnp.where(inside, value, _interior(lower, upper)))
    log_prob = jnp.where(inside, found.log_prob, -jnp.inf)
    return SiteDensity(log_prob, found.parts)


def _interior(lower: Any, upper: Any) -> Any:
    if lower is None:
        return upper - 1.0
    return lower + 1.0 if upper is None else 0.5 * (lower + upper)
