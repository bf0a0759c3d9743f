"""Latents each of which the program draws given few others, read without a joint covariance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array

from bayesrank.infer.gaussian.factorised import merged
from bayesrank.infer.gaussian.links import LinkedPrior, linked
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.reader.affine import Affine, Degree
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.prior import GaussianForm, unwrap

__all__ = ["Linked", "linked_prior"]

# The most latents that one is given.
_MOST_PARENTS = 7


class Linked(NamedTuple):
    """The prior of latents that are drawn given few others.

    Attributes
    ----------
    mean
        Of the latents, shape (n,).
    prior
        The Gaussian about it.
    proper
        For each site, whether its distribution is a proper one.
    """

    mean: Array
    prior: LinkedPrior
    proper: dict[str, Array]


class _Given(NamedTuple):
    """Elements of a site given other latents: their weights by column, location and variance."""

    values: Array
    columns: Array
    loc: Array
    spread: Array


def linked_prior(joint: Joint, core: Sequence[str]) -> Linked | None:
    """The prior of the latents `core`, or None where one is of another kind or all independent.

    A site qualifies whose elements are normal, each with a mean that is affine in few latents and
    a standard deviation that is constant; and a `GaussianRandomWalk`.
    """
    shapes, starts, start = joint.inventory.latents, {}, 0
    for name, shape in shapes.items():
        starts[name] = start
        start += int(np.prod(shape, dtype=int))
    sites, found = joint.sites_at_zero(), []
    for name in core:
        if joint.inventory.families[name].startswith(("masked ", "scaled ")):
            return None
        given = _given(joint.latent[name], sites[name], starts[name])
        if given is None:
            return None
        found.append(given)
    width = max(given.values.shape[1] for given in found)
    if not 0 < width <= _MOST_PARENTS:
        return None
    place = np.zeros(start, np.int32)
    kept = np.concatenate(
        [starts[name] + np.arange(int(np.prod(shapes[name], dtype=int))) for name in core]
    )
    place[kept] = np.arange(kept.size, dtype=np.int32)
    more = [((0, 0), (0, width - given.values.shape[1])) for given in found]
    pairs = list(zip(found, more, strict=True))
    values = jnp.concatenate([jnp.pad(given.values, pad) for given, pad in pairs])
    columns = jnp.concatenate([jnp.pad(given.columns, pad) for given, pad in pairs])
    rows = merged(Rows(values, jnp.asarray(place)[columns], kept.size))
    loc, spread = (
        jnp.concatenate(parts) for parts in zip(*((g.loc, g.spread) for g in found), strict=True)
    )
    mean, prior = linked(rows, loc, spread)
    proper = {name: jnp.all(g.spread > 0) for name, g in zip(core, found, strict=True)}
    return Linked(mean, prior, proper)


def _given(form: Any, site: dict[str, Any], start: int) -> _Given | None:
    if isinstance(form, GaussianForm):
        return _elementwise(form)
    base, mask = unwrap(site["fn"])
    if form is Degree.QUADRATIC and isinstance(base, dist.GaussianRandomWalk) and mask is None:
        # Its density is quadratic only where its scale depends on no latent.
        return _walk(base.scale, jnp.shape(site["value"]), start)
    return None


def _elementwise(form: GaussianForm) -> _Given | None:
    if form.scale is None or isinstance(form.scale, (Affine, Degree)):
        return None
    spread = (form.scale**2).reshape(-1)
    if isinstance(form.loc, Degree):
        return None
    if not isinstance(form.loc, Affine):
        none = jnp.zeros((spread.size, 0), spread.dtype)
        return _Given(none, none.astype(jnp.int32), form.loc.reshape(-1), spread)
    if form.loc.columns is None:
        return None
    flat = form.loc.reshape((spread.size,))
    return _Given(flat.values, form.loc.columns.reshape(flat.values.shape), flat.offset, spread)


def _walk(scale: Any, shape: tuple[int, ...], start: int) -> _Given:
    spread = jnp.broadcast_to(jnp.asarray(scale, jnp.result_type(float))[..., None] ** 2, shape)
    own = start + np.arange(int(np.prod(shape, dtype=int)), dtype=np.int32).reshape(shape)
    before = np.where(np.arange(shape[-1]) > 0, own - 1, own).reshape(-1, 1)
    step = np.broadcast_to(np.arange(shape[-1]) > 0, shape).reshape(-1, 1)
    values = jnp.asarray(step, spread.dtype)
    return _Given(values, jnp.asarray(before), jnp.zeros(own.size), spread.reshape(-1))
