"""Priors of many latents without a joint covariance: drawn given few others, or sharing few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import numpyro.distributions as dist
from jax import Array

from bayesrank.infer.gaussian.factorised import merged
from bayesrank.infer.gaussian.links import LinkedPrior, linked
from bayesrank.infer.gaussian.low_rank import LowRank, LowRankPrior
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.reader.affine import Affine, Degree
from bayesrank.infer.reader.conditionals import (
    among,
    gaussian_local,
    group_conditional,
    parents_of,
    positions,
)
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.predictors import stacked
from bayesrank.infer.reader.prior import GaussianForm, joint_prior, unwrap
from bayesrank.infer.reader.tables import Tables, looked_up

# The most latents that one is given.
_MOST_PARENTS = 7


class Linked(NamedTuple):
    """The prior of latents that are drawn given few others."""

    mean: Array  # of the latents, shape (n,)
    prior: LinkedPrior  # the Gaussian about it
    proper: dict[str, Array]  # for each site, whether its distribution is a proper one


def linked_prior(joint: Joint, core: Sequence[str]) -> Linked | None:
    """The prior of normal `core` latents with means affine in few others; None if it is not so."""
    sites, found, spreads = joint.sites_at_zero(), [], []
    for name in core:
        if joint.inventory.families[name].startswith(("masked ", "scaled ")):
            return None
        given = _given(joint.latent[name], sites[name], positions(joint, [name]))
        if given is None:
            return None
        found.append(given[0])
        spreads.append(given[1])
    values, columns, loc = stacked(found)
    if columns is None or not 0 < values.shape[1] <= _MOST_PARENTS:
        return None
    total = positions(joint, list(joint.inventory.latents)).size
    rows = among(Rows(values, columns, total), positions(joint, core))
    mean, prior = linked(merged(rows), loc, jnp.concatenate(spreads))
    proper = {name: jnp.all(spread > 0) for name, spread in zip(core, spreads, strict=True)}
    return Linked(mean, prior, proper)


def _given(form: Any, site: dict[str, Any], own: np.ndarray) -> tuple[Affine, Array] | None:
    """Mean and variances of a site's elements given other latents, laid end to end."""
    if isinstance(form, GaussianForm):
        return _elementwise(form)
    base, mask = unwrap(site["fn"])
    if form is Degree.QUADRATIC and isinstance(base, dist.GaussianRandomWalk) and mask is None:
        # Its density is quadratic only where its scale depends on no latent.
        return _walk(base.scale, own.reshape(jnp.shape(site["value"])))
    return None


def _elementwise(form: GaussianForm) -> tuple[Affine, Array] | None:
    if form.scale is None or isinstance(form.scale, (Affine, Degree)):
        return None
    spread = (form.scale**2).reshape(-1)
    if isinstance(form.loc, Degree):
        return None
    if not isinstance(form.loc, Affine):
        none = jnp.zeros((spread.size, 0), spread.dtype)
        return Affine(form.loc.reshape(-1), none, none.astype(jnp.int32), 0, frozenset()), spread
    if form.loc.columns is None:
        return None
    return form.loc.reshape((spread.size,)), spread


def _walk(scale: Any, own: np.ndarray) -> tuple[Affine, Array]:
    """Each step given the one before it, of latents at the places `own`."""
    spread = jnp.broadcast_to(jnp.asarray(scale, jnp.result_type(float))[..., None] ** 2, own.shape)
    later = np.broadcast_to(np.arange(own.shape[-1]) > 0, own.shape)
    before = jnp.asarray(np.where(later, own - 1, own).reshape(-1, 1), jnp.int32)
    values = jnp.asarray(later.reshape(-1, 1), spread.dtype)
    return Affine(jnp.zeros(own.size), values, before, 0, frozenset()), spread.reshape(-1)


class Shared(NamedTuple):
    """The prior of latents and tables."""

    tables: tuple[str, ...]  # their names; their elements stand behind those of the latents
    mean: Array  # prior means, shape (n,)
    prior: LowRankPrior  # the Gaussian about it


class _SitePrior(NamedTuple):
    """Mean, factor and diagonal of some latents."""

    mean: Array
    factor: Array
    diagonal: Array


def shared_prior(
    joint: Joint, tables: Tables, core: Sequence[Sequence[str]], most: int
) -> Shared | None:
    """The prior of latents and of seen tables; None where none, all, or too many are shared."""
    names = tuple(name for group in core for name in group)
    shared = _shared_sites(joint, tables, names)
    some = shared and (tables.seen or shared < set(names))
    if not some or not shared <= set(names) or tables.size(shared) > most:
        return None
    joint = _spelt_out(joint, tables, shared)
    conditionals, before = [], []
    for group in core:
        if shared.issuperset(group):
            locals_ = [gaussian_local(joint, name) for name in group]
            conditionals.append(group_conditional(joint, group, before, locals_))
            before += group
    loc, root = _rooted(conditionals)
    of_shared = _SitePrior(loc, root, jnp.zeros_like(loc))
    base = {k: _rows_of(k, tables, before, of_shared) for k in (*before, *tables.seen)}
    parts, own_factors = [], []
    for name in (*names, *tables.seen):
        part = base.get(name)
        own = jnp.zeros((tables.size([name]), 0), loc.dtype)
        if part is None:
            part, own = _alone(joint.latent[name], tables, base)
        parts.append(part)
        own_factors.append(own)
    mean, factor, diagonal = (jnp.concatenate(x) for x in zip(*parts, strict=True))
    if any(own.shape[1] for own in own_factors):
        factor = jnp.concatenate([factor, jax.scipy.linalg.block_diag(*own_factors)], axis=1)
    return Shared(tables.seen, mean, LowRankPrior(LowRank(factor, diagonal)))


def _shared_sites(joint: Joint, tables: Tables, names: tuple[str, ...]) -> set[str]:
    shared = {site for name in tables.seen for site in tables.found[name].sites}
    for name in names:
        shared |= parents_of(joint, name)
        if not _stands_alone(joint.latent[name]):
            shared.add(name)
    return shared


def _stands_alone(form: Any) -> bool:
    """Whether a site's elements are independent, or of low rank plus diagonal, about their mean."""
    if not isinstance(form, GaussianForm):
        return False
    return form.scale is not None or isinstance(form.covariance, LowRank)


def _spelt_out(joint: Joint, tables: Tables, shared: set[str]) -> Joint:
    """The same, with means of shared sites that see latents alone."""
    latent = dict(joint.latent)
    for name in shared:
        form = latent[name]
        if isinstance(form, GaussianForm) and isinstance(form.loc, Affine):
            latent[name] = form._replace(loc=tables.spelt_out(form.loc))
    return joint._replace(latent=latent)


def _rooted(conditionals: Sequence[Any]) -> tuple[Array, Array]:
    """Mean of latents that are drawn one after another, and a root of their covariance."""
    loc, prior = joint_prior(conditionals)
    covariance = prior.dense().covariance
    # Latents on a subspace, as of a `ZeroSumNormal`, have a root too.
    jitter = jnp.finfo(loc.dtype).eps ** 0.75 * jnp.diag(jnp.diagonal(covariance))
    return loc, jnp.linalg.cholesky(covariance + jitter)


def _rows_of(name: str, tables: Tables, shared: list[str], of_shared: _SitePrior) -> _SitePrior:
    """Mean and factor of a shared site, or of a table."""
    starts = {k: tables.size(shared[:number]) for number, k in enumerate(shared)}
    table = tables.found.get(name)
    sites = (name,) if table is None else table.sites
    places = np.concatenate([starts[k] + np.arange(tables.size([k])) for k in sites])
    mean, factor = of_shared.mean[places], of_shared.factor[places]
    if table is not None:
        mean, factor = table.values @ mean, table.values @ factor
    return _SitePrior(mean, factor, jnp.zeros_like(mean))


def _alone(
    form: GaussianForm, tables: Tables, base: dict[str, _SitePrior]
) -> tuple[_SitePrior, Array]:
    """A site that stands alone about its mean, and the factor of its own."""
    if isinstance(form.covariance, LowRank):
        own, diagonal = form.covariance
    else:
        diagonal = (form.scale**2).reshape(-1)
        own = jnp.zeros((diagonal.size, 0), diagonal.dtype)
    width = next(iter(base.values())).factor.shape[1]
    if not isinstance(form.loc, Affine):
        mean = form.loc.reshape(-1)
        return _SitePrior(mean, jnp.zeros((mean.size, width), mean.dtype), diagonal), own
    flat = form.loc.reshape((diagonal.size,))
    if flat.columns is None:
        raise ValueError("the mean has no short rows")
    mean, factor = flat.offset, jnp.zeros((diagonal.size, width), diagonal.dtype)
    for name in sorted(form.loc.sites):
        at = flat.columns - tables.first(name)
        seen = (at >= 0) & (at < tables.size([name]))
        weights, at = jnp.where(seen, flat.values, 0.0), jnp.where(seen, at, 0)
        mean += jnp.sum(weights * base[name].mean[at], axis=1)
        factor += looked_up(weights, at, base[name].factor)
    return _SitePrior(mean, factor, diagonal), own
