"""Each latent site given the others, and latents that follow from one another as one Gaussian.

A program's latents are Gaussian given those before them: ``z = c + J z + e`` with ``e ~ N(0, Q)``.
Mostly a site depends on earlier ones only. In a scan over time elements of one or several sites
depend on one another: such sites make one group, and ``z = (I - J)^-1 (c + e)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import Array
from scipy.sparse.csgraph import connected_components

from bayesrank.infer.gaussian.arrow import Groups
from bayesrank.infer.gaussian.low_rank import LowRank
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.reader.affine import Affine, Degree
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.prior import (
    Conditional,
    GaussianForm,
    after,
    as_matrix,
    block_diagonal,
)
from bayesrank.infer.reader.refusals import Refusal


class Local(NamedTuple):
    """A latent site given all others, as the program states it."""

    loc: Array  # where the others are zero, shape (n_s,)
    rows: Array | None  # coefficients of all latents, (n_s, n), or None
    covariance: Any  # (n_s, n_s), or its diagonal (n_s,), or a `LowRank`
    proper: Array  # whether its distribution is
    recursive: bool = False  # whether elements may depend on one another unseen


def positions(joint: Joint, names: Sequence[str]) -> np.ndarray:
    """Places of the named latents in the order in which the trace lays all latents end to end."""
    start, spans = 0, {}
    for name, shape in joint.inventory.latents.items():
        size = math.prod(shape)
        spans[name] = np.arange(start, start + size)
        start += size
    return np.concatenate([spans[name] for name in names]) if names else np.zeros(0, int)


def among(rows: Rows, kept: np.ndarray) -> Rows:
    """The same rows over the latents at the places `kept` alone, in their order."""
    if rows.columns is None:
        return rows._replace(values=rows.values[:, kept], size=kept.size)
    place = np.zeros(rows.size, np.int32)
    place[kept] = np.arange(kept.size, dtype=np.int32)
    return rows._replace(columns=jnp.asarray(place)[rows.columns], size=kept.size)


def parents_of(joint: Joint, name: str) -> frozenset[str]:
    """Inputs that a latent's distribution depends on; itself where its elements do on others."""
    reached = joint.reach(joint.latent_numbers[name])
    form = joint.latent[name]
    if isinstance(form, GaussianForm):
        return reached
    affine = isinstance(form, Affine) and name in form.sites
    return reached if affine else reached - {name}


def grouped(names: Sequence[str], parents: Callable[[str], frozenset[str]]) -> list[list[str]]:
    """Sort sites into groups that depend on one another, each after its parents, else in order."""
    above = {name: parents(name) & frozenset(names) for name in names}
    edges = np.array([[other in above[name] for other in names] for name in names], int)
    labels = connected_components(edges, connection="strong")[1] if names else np.zeros(0, int)
    of_label: dict[int, list[str]] = {}
    for name, label in zip(names, labels, strict=True):
        of_label.setdefault(int(label), []).append(name)
    waiting, placed, order = list(of_label.values()), set(), []
    while waiting:
        group = next(g for g in waiting if all(above[name] <= placed | set(g) for name in g))
        waiting.remove(group)
        placed |= set(group)
        order.append(group)
    return order


def group_conditional(
    joint: Joint, group: Sequence[str], before: Sequence[str], locals_: Sequence[Local]
) -> Conditional:
    """A group of latents given those before it, from each of its sites given all others."""
    loc = jnp.concatenate([site.loc for site in locals_])
    diagonal = all(site.covariance.ndim == 1 for site in locals_)
    spreads = [site.covariance for site in locals_]
    alone = len(spreads) == 1 and locals_[0].rows is None
    if alone:
        [covariance] = spreads
    elif diagonal:
        covariance = jnp.concatenate(spreads)
    else:
        covariance = jax.scipy.linalg.block_diag(*map(as_matrix, spreads))
    proper = jnp.stack([site.proper for site in locals_]).all()
    if all(site.rows is None for site in locals_):
        return Conditional(loc, None, covariance, proper)
    size = sum(math.prod(shape) for shape in joint.inventory.latents.values())
    every = jnp.concatenate(
        [
            jnp.zeros((site.loc.size, size), loc.dtype) if site.rows is None else site.rows
            for site in locals_
        ]
    )
    rows = every[:, positions(joint, before)]
    recursive = any(site.recursive for site in locals_)
    if recursive or any(parents_of(joint, name) & set(group) for name in group):
        own = jnp.eye(loc.size, dtype=loc.dtype) - every[:, positions(joint, group)]
        full = jnp.diag(covariance) if diagonal else covariance
        solved = jnp.linalg.solve(own, jnp.concatenate([loc[:, None], rows, full], axis=1))
        loc, rows = solved[:, 0], solved[:, 1 : 1 + rows.shape[1]]
        covariance = jnp.linalg.solve(own, solved[:, 1 + rows.shape[1] :].T)
        covariance = 0.5 * (covariance + covariance.T)
    return Conditional(loc, rows if before else None, covariance, proper)


def gaussian_local(joint: Joint, name: str) -> Local:
    """A Gaussian latent given all others; refused if it is not jointly Gaussian with them."""
    form = joint.latent[name]
    if not isinstance(form, GaussianForm):
        return _from_density(joint, name)
    numbers = joint.latent_numbers[name]
    spread = form.scale if form.scale is not None else form.covariance
    parts = spread if isinstance(spread, LowRank) else (spread,)
    if any(isinstance(part, (Affine, Degree)) for part in parts):
        parents = ", ".join(sorted(joint.reach((numbers.scale, numbers.covariance))))
        raise Refusal("scale_not_constant", name, parents).error()
    if isinstance(form.loc, Degree):
        raise Refusal("loc_not_affine", name).error()
    if isinstance(spread, LowRank):
        covariance = spread
    elif form.scale is not None:
        covariance = (spread**2).reshape(-1)
    else:
        covariance = block_diagonal(spread)
    if not isinstance(form.loc, Affine):
        return Local(form.loc.reshape(-1), None, covariance, form.proper)
    rows = form.loc.dense().reshape(-1, form.loc.size)
    return Local(form.loc.offset.reshape(-1), rows, covariance, form.proper)


def _from_density(joint: Joint, name: str) -> Local:
    """A latent of an unknown family, from the Hessian of its density if that is quadratic."""
    if joint.latent[name] is not Degree.QUADRATIC:
        family = f"{joint.inventory.families[name]} distribution"
        raise Refusal("not_gaussian", name, family).error()
    shapes = joint.inventory.latents
    before = [k for k in shapes if k in parents_of(joint, name)]
    zeros = {k: jnp.zeros(shape, jnp.result_type(float)) for k, shape in shapes.items()}

    def slope(own: Array, others: dict[str, Array]) -> Array:
        def log_density(value: Array) -> Array:
            return joint.log_densities((name,), {**zeros, **others, name: value})

        return jax.grad(log_density)(own.reshape(shapes[name])).reshape(-1)

    own, others = zeros[name].reshape(-1), {k: zeros[k] for k in before}
    precision = -jax.jacfwd(slope)(own, others)
    values = jnp.linalg.eigvalsh(precision)
    covariance = jnp.linalg.inv(after(precision, values[:, None]))
    loc = covariance @ slope(own, others)
    proper = jnp.all(values > 0)
    if not before:
        return Local(loc, None, covariance, proper)
    split_sites = jax.jacfwd(slope, argnums=1)(own, others)
    slopes = jnp.concatenate([split_sites[k].reshape(own.size, -1) for k in before], axis=1)
    size = positions(joint, list(shapes)).size
    rows = jnp.zeros((own.size, size), loc.dtype).at[:, positions(joint, before)].set(slopes)
    return Local(loc, covariance @ rows, covariance, proper)


# With fewer of them, all latents together are as quick.
MANY = 300
_MOST_EACH = 64


class Grouped(NamedTuple):
    """Latents of the groups that one plate makes."""

    plate: str
    names: tuple[str, ...]  # their sites
    groups: Groups  # their groups, in the order of these sites


def grouped_latents(
    joint: Joint, core: Sequence[str], stated: Mapping[str, Local], named: str | None
) -> Grouped | None:
    """Independent latents, of which one plate holds all sites, for elimination; or None.

    Of a plate that is not `named`, only where they are many, in small groups.
    """
    plates = joint.inventory.plates
    best, most = None, MANY - 1 if named is None else 0
    for plate in dict.fromkeys(frame[0] for name in core for frame in plates[name]):
        names = tuple(n for n in core if _belongs(joint, n, plate, core, stated.get(n)))
        axes = [_axis(joint, name, plate) for name in names]
        sizes = [math.prod(joint.inventory.latents[name]) for name in names]
        count = max((size for _, size in axes), default=0)
        total = sum(sizes)
        small = total <= _MOST_EACH * count if named is None else plate == named
        if total > most and len(names) < len(core) and small:
            numbers = [
                _group(joint.inventory.latents[n], *axis)
                for n, axis in zip(names, axes, strict=True)
            ]
            best, most = Grouped(plate, names, Groups.of(np.concatenate(numbers))), total
    return best


def _belongs(joint: Joint, name: str, plate: str, core: Sequence[str], local: Local | None) -> bool:
    """Whether a latent stands in a plate, alone, for data that see one group of it each."""
    if plate not in _names(joint, name):
        return False
    if local is None or local.rows is not None or local.covariance.ndim != 1:
        return False
    if any(name in joint.reach(joint.latent_numbers[n]) for n in core if n != name):
        return False
    if joint.decided.by_rows:
        return plate not in joint.decided.joined
    seers = [n for n, x in joint.observed_numbers.items() if name in joint.reach(x.log_prob)]
    return all(plate in _names(joint, n) for n in seers)


def _names(joint: Joint, name: str) -> list[str]:
    return [frame[0] for frame in joint.inventory.plates[name]]


def _axis(joint: Joint, name: str, plate: str) -> tuple[int, int]:
    """Axis of a plate in a latent, from the end, and its size."""
    return next((dim, size) for p, dim, size in joint.inventory.plates[name] if p == plate)


def _group(shape: tuple[int, ...], axis: int, size: int) -> np.ndarray:
    """Number of each element's group, for the elements of a latent in order."""
    along = np.arange(size).reshape((size,) + (1,) * (-1 - axis))
    return np.broadcast_to(along, shape).reshape(-1)
