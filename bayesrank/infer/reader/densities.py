"""What the distribution of a site says: its start, its support, its parameters, its log density."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, core
from numpyro import validation_enabled
from numpyro.distributions import constraints
from numpyro.distributions.transforms import AffineTransform, ComposeTransform

from bayesrank.infer.reader.prior import is_gaussian, unwrap


class SiteDensity(NamedTuple):
    """Log densities of a site's elements."""

    log_prob: Any
    # Of mixtures, the logs of their weighted parts, with the number of the part as last axis;
    # `log_prob` is computed from them. None for other distributions.
    parts: Any = None


def log_density_of(site: Mapping[str, Any]) -> Array:
    """The summed, scaled log density of a site's value."""
    scale = 1.0 if site["scale"] is None else site["scale"]
    return jnp.sum(scale * site["fn"].log_prob(site["value"]))


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
        return SiteDensity(_cut_off(base, mask, value, fn.log_prob(value)))
    if mask is not None:  # no slope passes through a datum that is not a number
        value = jnp.where(mask, value, base.support.feasible_like(value))
    parts = base.component_log_probs(value)
    count = parts.shape[-1]
    parts = jnp.broadcast_to(parts, (*jnp.broadcast_shapes(fn.batch_shape, value.shape), count))
    if mask is not None:
        parts = jnp.where(jnp.asarray(mask)[..., None], parts, -jnp.log(float(count)))
    # No gradient flows into a part without density.
    known = jnp.where(jnp.isneginf(parts), -jnp.inf, parts)
    return SiteDensity(jax.nn.logsumexp(known, axis=-1), parts)


def is_cut_off(fn: dist.Distribution) -> bool:
    """Whether a distribution is a transform of one that is bounded."""
    base, _ = unwrap(fn)
    transformed = isinstance(base, dist.TransformedDistribution)
    return transformed and not is_real(base.base_dist.support)


def takes_any_value(fn: dist.Distribution) -> bool:
    """Whether the support of a distribution is real, or its density says where it ends."""
    return is_real(unwrap(fn)[0].support) or is_cut_off(fn)


def _cut_off(base: dist.Distribution, mask: Any, value: Array, log_prob: Any) -> Any:
    """A log density, minus infinity where a transform leads to values that its base has not."""
    if not isinstance(base, dist.TransformedDistribution) or not is_cut_off(base):
        return log_prob
    given: Any = base.base_dist.support
    inside = given(ComposeTransform(base.transforms).inv(value))
    inside = inside if mask is None else inside | ~jnp.asarray(mask)
    return jnp.where(inside, log_prob, -jnp.inf)


def latent_density(fn: dist.Distribution, value: Array) -> SiteDensity:
    """Log density of a latent's elements, minus infinity outside of its support."""
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


_MEDIAN_DRAWS = 1001


def is_real(support: Any) -> bool:
    """Whether a support is that of real numbers, however many."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support in (constraints.real, constraints.real_vector, constraints.real_matrix)


def leaves_out_domain(fn: dist.Distribution) -> bool:
    """Whether an affine map says that it takes all real numbers, and is given some of them."""
    base, _ = unwrap(fn)
    if not isinstance(base, dist.TransformedDistribution):
        return False
    given: Any = base.base_dist.support
    for transform in base.transforms:
        if isinstance(transform, AffineTransform) and is_real(transform.domain):
            return not is_real(given)
        given = transform.codomain
    return False


def starts_at_zero(fn: dist.Distribution) -> bool:
    """Whether a site starts at zero: one with real support does."""
    support: Any = fn.support
    return not support.is_discrete and (is_real(support) or is_gaussian(fn))


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


def given_value(params: Mapping[str, Any], site: dict[str, Any]) -> Array | None:
    """Look up the value at which the caller fixes a site, and refuse one that does not fit it."""
    name = site["name"]
    if name not in params:
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
        raise ValueError(f"params[{name!r}] has shape {given.shape}, the site has shape {shape}")
    return given


def _shape(site: dict[str, Any]) -> tuple[int, ...] | None:
    """Shape of a site; None for a `param` site that computes its initial value."""
    if site["type"] == "sample":
        return site["fn"].shape(site["kwargs"].get("sample_shape", ()))
    return jnp.shape(site["args"][0]) if site["args"] else None


class Domain(NamedTuple):
    """A parameter of a site's distribution that has to lie in its domain."""

    site: str
    family: str
    parameter: str
    constraint: str

    def raise_unless(self, holds: Any, shown: str = "") -> None:
        """Refuse the parameter where it does not lie there."""
        if not np.all(holds):
            raise ValueError(
                f"site {self.site!r}: the {self.parameter}{shown} of its {self.family} "
                f"distribution is invalid (its domain is {self.constraint}). Check the "
                "model's arguments and params"
            )


def validates(fn: dist.Distribution, default: bool) -> bool:
    """Whether a distribution, built while validation was off, was to be validated."""
    own = vars(fn).get("_validate_args")
    return default if own is None else bool(own)


def check_known_domains(sites: Mapping[str, Any], default: bool) -> None:
    """Refuse distributions whose parameters are known, not traced, and outside their domain."""
    for domain, constraint, value in _parameters(sites, default):
        if not isinstance(value, core.Tracer):
            shown = f"={value}" if np.ndim(value) == 0 else ", an array,"
            with jax.ensure_compile_time_eval():
                domain.raise_unless(_holds(constraint, value), shown)


def unknown_domains(sites: Mapping[str, Any], default: bool) -> Iterator[tuple[Domain, Array]]:
    """Domains of computed parameters, but for matrices, and whether they lie there."""
    for domain, constraint, value in _parameters(sites, default):
        if isinstance(value, core.Tracer) and constraint.event_dim < 2:
            yield domain, jnp.all(constraint(value))


def _holds(constraint: Any, value: Any) -> Any:
    """Whether a constraint holds of numbers that are known."""
    value = np.asarray(value)
    if constraint is constraints.positive_definite:
        symmetric = np.allclose(value, np.swapaxes(value, -1, -2), atol=1e-6)
        return symmetric and _has_root(value)
    return np.all(constraint(value))


def _has_root(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _parameters(sites: Mapping[str, Any], default: bool) -> Iterator[tuple[Domain, Any, Any]]:
    """Parameters that were given as values and whose domain does not depend on others."""
    for name, site in sites.items():
        if site["type"] != "sample":
            continue
        for fn in filter(lambda fn: validates(fn, default), _nested(site["fn"])):
            for parameter, constraint in fn.arg_constraints.items():
                value = vars(fn).get(parameter)
                if _is_array(value) and not constraints.is_dependent(constraint):
                    shown = Domain(name, type(fn).__name__, parameter, str(constraint))
                    yield shown, constraint, value


def _nested(fn: Any) -> Iterator[dist.Distribution]:
    """A distribution and those that it is made of."""
    if isinstance(fn, dist.Distribution):
        yield fn
        for part in vars(fn).values():
            yield from _nested(part)
    elif isinstance(fn, (list, tuple)):
        for part in fn:
            yield from _nested(part)


def _is_array(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.generic, jax.Array))
