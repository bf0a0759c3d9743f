"""Values at which a program's sites are held, and at which the others start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

from bayesrank.infer.reader.prior import is_gaussian, unwrap

__all__ = ["given_value", "initial_value", "is_real", "median", "starts_at_zero"]

_MEDIAN_DRAWS = 1001


def is_real(support: Any) -> bool:
    """Whether a support is that of real numbers, however many."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support in (constraints.real, constraints.real_vector, constraints.real_matrix)


def starts_at_zero(fn: dist.Distribution) -> bool:
    """Whether a site starts at zero: one with real support does."""
    support: Any = fn.support
    return not support.is_discrete and (is_real(support) or is_gaussian(fn))


def initial_value(site: dict[str, Any]) -> Array | None:
    """Zeros for an unobserved site with real support, else the median of its prior."""
    if site["type"] != "sample" or site["is_observed"] or site["value"] is not None:
        return None
    fn, key = site["fn"], site["kwargs"]["rng_key"]
    shape = site["kwargs"].get("sample_shape", ())
    if isinstance(fn, dist.Delta) or fn.support.is_discrete:
        return None
    if starts_at_zero(fn):
        return jnp.zeros(fn.shape(shape), jnp.result_type(float))
    return median(fn, key, fn.shape(shape))


def median(fn: dist.Distribution, key: Array, shape: tuple[int, ...]) -> Array:
    """Median of a prior, from its quantile function or else a fixed number of draws."""
    base, _ = unwrap(fn)
    try:
        found = base.icdf(jnp.full(base.shape(), 0.5))
    except (NotImplementedError, ImportError):  # some quantile functions need a further package
        transform = dist.biject_to(base.support)
        draws = transform.inv(base.sample(key, (_MEDIAN_DRAWS,)))
        found = transform(jnp.median(draws, axis=0))
    return jnp.broadcast_to(found, shape)


def given_value(params: Mapping[str, Any]) -> Callable[[dict[str, Any]], Array | None]:
    """Look up the value at which the caller holds a site, and refuse one that does not fit it."""

    def value(site: dict[str, Any]) -> Array | None:
        name = site["name"]
        if name not in params or site["type"] not in ("sample", "param"):
            return None
        if site["type"] == "sample" and site["is_observed"]:
            what = (
                "a factor and has no value to fix"
                if isinstance(site["fn"], dist.Unit)
                else "observed; pass other data to the model instead"
            )
            raise ValueError(f"params names {name!r}, which is {what}")
        given, shape = jnp.asarray(params[name]), _shape(site)
        if shape is not None and given.shape != shape:
            raise ValueError(
                f"params[{name!r}] has shape {given.shape}, the site has shape {shape}"
            )
        return given

    return value


def _shape(site: dict[str, Any]) -> tuple[int, ...] | None:
    """Shape of a site; None for a `param` site that computes its initial value."""
    if site["type"] == "sample":
        return site["fn"].shape(site["kwargs"].get("sample_shape", ()))
    return jnp.shape(site["args"][0]) if site["args"] else None
