"""The sites of a NumPyro program: which are latent, which are hyperparameters, which are observed.

The program runs once with every unobserved site at a chosen value. A site with real support, or of
a Gaussian family, counts as a latent; the program's own densities show later whether the latents
are jointly Gaussian. Sites with bounded support that nothing depends on are left out. Those used as
latents (`bayesrank.infer.reader.roles`) are latents. The others are hyperparameters, as `param`
sites are, with the value in `params`, else their initial value or the median of their prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

from bayesrank.infer.reader.densities import has_log_density, leaves_out_domain, starts_at_zero
from bayesrank.infer.reader.precision import as_number
from bayesrank.infer.reader.prior import unwrap
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.roles import Role, roles_of_bounded
from bayesrank.infer.reader.traced import Traced


class NoLatentsError(ValueError):
    """A program has hyperparameters alone, or nothing that is unobserved."""


class Inventory(NamedTuple):
    """What a program consists of."""

    latents: dict[str, tuple[int, ...]]  # shapes, in order
    families: dict[str, str]  # distributions, after masked or scaled
    discrete: dict[str, Array]  # draws of unobserved sites
    childless: tuple[str, ...]  # bounded, and nothing depends on them
    hyperparameters: dict[str, Array]  # `param` sites and the rest, given or chosen
    supports: dict[str, Any]  # of those that are free
    sampled: tuple[str, ...]  # free `sample` sites, which have a prior
    given: tuple[str, ...]  # `sample` sites that `params` holds
    observed: tuple[str, ...]  # factors included, in order
    factors: frozenset[str]  # `numpyro.factor` statements
    plates: dict[str, tuple[tuple[str, int, int], ...]]  # name, axis from the end, size
    validates: bool  # whether NumPyro does by default


def take_inventory(source: Traced, params: Mapping[str, Any]) -> Inventory:
    """Sort the sites of a program, and refuse `params`, plates and parameters that do not fit."""
    sites = source.sites(params)
    _refuse_subsampling(sites)
    _check_params(sites, params)
    roles = {name: role for name, site in sites.items() if (role := _role(site, params))}
    if Role.HYPERPARAMETER in roles.values():
        held = {
            name: _value(site)
            for name, site in sites.items()
            if site["type"] == "param" or roles.get(name) is Role.GIVEN
        }
        roles |= roles_of_bounded(source, sites, roles, held)
    _refuse_empty(roles, params)
    for name, role in roles.items():
        if role is Role.LATENT and leaves_out_domain(sites[name]["fn"]):
            raise Refusal("domain_left_out", name).error()
    return _inventory(sites, roles, params, source.validates)


def _role(site: Mapping[str, Any], params: Mapping[str, Any]) -> Role | None:
    """Role of a `sample` site on its own evidence; bounded ones are hyperparameters so far."""
    if site["type"] != "sample":
        return None
    if site["is_observed"]:
        return Role.OBSERVED
    if site["name"] in params:
        return Role.GIVEN
    fn = site["fn"]
    if isinstance(base := unwrap(fn)[0], dist.Delta):
        return Role.OBSERVED if has_log_density(base) else None
    if fn.support.is_discrete:
        return Role.DISCRETE
    return Role.LATENT if starts_at_zero(fn) else Role.HYPERPARAMETER


def _refuse_empty(roles: Mapping[str, Role], params: Mapping[str, Any]) -> None:
    if Role.LATENT not in roles.values():
        fixed = f", or leave one out of params ({', '.join(sorted(params))})" if params else ""
        raise NoLatentsError(
            "the model has no unobserved sample site with real support for EP to infer; give it "
            f"one{fixed}"
        )
    if Role.OBSERVED not in roles.values():
        raise ValueError(
            "the model has no observed site, so there is nothing to learn from; pass the data "
            "that it conditions on"
        )


def _inventory(
    sites: Mapping[str, Any],
    roles: Mapping[str, Role],
    params: Mapping[str, Any],
    validates: bool,
) -> Inventory:
    def named(role: Role) -> tuple[str, ...]:
        return tuple(name for name in sites if roles.get(name) is role)

    hyper, supports = {}, {}
    for name, site in sites.items():
        if site["type"] == "param" or roles.get(name) in (Role.GIVEN, Role.HYPERPARAMETER):
            hyper[name] = _value(site)
            if site["type"] == "param" and name not in params:
                supports[name] = site["kwargs"].get("constraint", constraints.real)
            elif roles.get(name) is Role.HYPERPARAMETER:
                supports[name] = site["fn"].support
    observed = named(Role.OBSERVED)
    return Inventory(
        {name: jnp.shape(sites[name]["value"]) for name in named(Role.LATENT)},
        {name: _family(sites[name]) for name in named(Role.LATENT)},
        {name: sites[name]["value"] for name in named(Role.DISCRETE)},
        named(Role.CHILDLESS),
        hyper,
        supports,
        named(Role.HYPERPARAMETER),
        named(Role.GIVEN),
        observed,
        frozenset(name for name in observed if isinstance(sites[name]["fn"], dist.Unit)),
        {name: _plates(sites[name]) for name in (*named(Role.LATENT), *observed)},
        validates,
    )


def _plates(site: Mapping[str, Any]) -> tuple[tuple[str, int, int], ...]:
    frames = site["cond_indep_stack"]
    return tuple((f.name, f.dim - site["fn"].event_dim, f.size) for f in frames)


def _family(site: Mapping[str, Any]) -> str:
    base, mask = unwrap(site["fn"])
    how = "masked " if mask is not None else "scaled " if site["scale"] is not None else ""
    return how + type(base).__name__


def _value(site: Mapping[str, Any]) -> Array:
    """Value of a hyperparameter or of a fixed site; that of a discrete one may be an index."""
    discrete = site["type"] == "sample" and site["fn"].support.is_discrete
    return jnp.asarray(site["value"]) if discrete else as_number(site["value"])


def _refuse_subsampling(sites: Mapping[str, Any]) -> None:
    for name, site in sites.items():
        if site["type"] != "plate":
            continue
        size, subsample_size = site["args"]
        if subsample_size is not None and subsample_size != size:
            raise ValueError(
                f"plate {name!r} is subsampled (subsample_size={subsample_size} of {size}); EP "
                "needs every element: leave out subsample_size"
            )


def _check_params(sites: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    for name in params:
        if name not in sites or sites[name]["type"] not in ("sample", "param"):
            known = sorted(k for k, s in sites.items() if s["type"] in ("sample", "param"))
            raise ValueError(
                f"params names {name!r}, which is not a site of the model; its sites are {known}"
            )
