"""The latents of a program in order, and their joint Gaussian as the program states it.

Latents that are not Gaussian: a wide Gaussian for the prior, and a factor that corrects it.

``p(z) = N(z; m, w^2) * [p(z) / N(z; m, w^2)]``: EP takes the bracket as a factor of an observed
site. It sees one element of the site, or its difference from its prior mean. EP's fixed point does
not depend on m and w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array, lax

from bayesrank.infer.gaussian.arrow import ArrowPrior
from bayesrank.infer.gaussian.rows import Rows
from bayesrank.infer.quadrature_check import QuadratureMoments
from bayesrank.infer.reader.affine import Degree
from bayesrank.infer.reader.conditionals import (
    Grouped,
    Local,
    gaussian_local,
    group_conditional,
    grouped,
    grouped_latents,
    parents_of,
    positions,
)
from bayesrank.infer.reader.densities import bounds
from bayesrank.infer.reader.joint import Joint
from bayesrank.infer.reader.many import linked_prior
from bayesrank.infer.reader.observed import SiteFactors, nonlinear_part
from bayesrank.infer.reader.predictors import mixture_moments, predictors_of
from bayesrank.infer.reader.prior import Conditional, GaussianForm, joint_prior, unwrap
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.structure import Wanted

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


# Of more latents than this no joint covariance is made, where some of them are of groups.
_MOST_TOGETHER = 4000

SiteGroups = list[list[str]]


class Latents(NamedTuple):
    """The core, latents that the data touch, and its Gaussian; and the leaves."""

    groups: SiteGroups  # sites of the core, those that depend on one another together
    # The Gaussians that make the core's; and those of the leaves, given these.
    conditionals: list[Conditional]
    leaves: tuple[Conditional, ...]
    # Sites of the leaves; and those on which nothing depends and that are not Gaussian.
    leaf_names: list[str]
    dropped: tuple[str, ...]
    own: dict[str, SiteFactors]  # factors that correct priors that are not Gaussian, by site
    behind: Grouped | None  # latents of the core that can be eliminated group by group
    # Of the core, laid end to end; of tables behind it, where there are some.
    mean: Array
    prior: Any
    proper: dict[str, Array]  # for each site, whether its prior is
    # What follows from the core and stands behind it, see `bayesrank.infer.reader.tables`.
    tables: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Sites of the core in order."""
        return _flat(self.groups)

    @property
    def columns(self) -> list[str]:
        """Sites and tables whose elements the prior is of, in order."""
        return [*self.names, *self.tables]

    @property
    def eliminated(self) -> tuple[str, ...]:
        """Latents of groups that are too many for a joint covariance."""
        many = self.behind is not None and self.mean.size > _MOST_TOGETHER and not self.leaves
        return self.behind.names if many and self.behind else ()

    def together(self) -> Latents:
        """With one Gaussian of all, that knows all covariances."""
        mean, prior = joint_prior(self.conditionals)
        prior = prior.dense() if prior.on_host else prior
        return self._replace(behind=None, mean=mean, prior=prior)

    def spread(self, joint: Joint) -> Array:
        """Prior standard deviations of all of a trace's latents; of those not in the core, one."""
        count = sum(math.prod(shape) for shape in joint.inventory.latents.values())
        variances, places = self.prior.variances, positions(joint, self.columns)
        return jnp.ones(count, variances.dtype).at[places].set(jnp.sqrt(variances))


def stated_latents(joint: Joint, wanted: Wanted) -> Latents:
    """The latents, and what the program states of them; of many, with links to few others."""
    groups, leaf_groups, dropped = _split_latents(joint)
    core, leaves = _flat(groups), _flat(leaf_groups)
    stated = {name: _local(joint, name, wanted.power) for name in core + leaves}
    own = {name: factors for name, (_, factors) in stated.items() if factors is not None}
    locals_ = {name: local for name, (local, _) in stated.items() if name not in own}
    behind = grouped_latents(joint, core, locals_, wanted.eliminates)
    if behind is not None:
        last = behind.names
        groups.sort(key=lambda group: group[0] in last)
    conditionals, order = [], []
    for group in groups + leaf_groups:
        conditionals.append(group_conditional(joint, group, order, [stated[k][0] for k in group]))
        order += group
    found = Latents(
        groups,
        conditionals[: len(groups)],
        tuple(conditionals[len(groups) :]),
        leaves,
        dropped,
        own,
        behind,
        *_gaussian(conditionals[: len(groups)], behind),
        {name: local.proper for name, (local, _) in stated.items()},
    )
    linkable = wanted.takes("probes") and wanted.is_large(found.mean.size)
    if not linkable or behind is not None or found.prior.serves or own:
        return found
    linked = linked_prior(joint, core + leaves)
    if linked is None:
        return found
    # A leaf is one latent more; as the last slope of a trend.
    all_groups = groups + leaf_groups
    return found._replace(
        groups=all_groups, conditionals=conditionals, leaves=(), leaf_names=[], **linked._asdict()
    )


def _flat(groups: SiteGroups) -> list[str]:
    return [name for group in groups for name in group]


def _gaussian(conditionals: list[Conditional], behind: Grouped | None) -> tuple[Array, Any]:
    """Mean (n,) of the core latents, and the Gaussian about it."""
    if behind is None:
        return joint_prior(conditionals)
    first = conditionals[: -len(behind.names)]
    rest = conditionals[-len(behind.names) :]
    mean, inner = joint_prior(first)
    variances = jnp.concatenate([c.covariance for c in rest])
    mean = jnp.concatenate([mean, *(c.loc for c in rest)])
    return mean, ArrowPrior(inner.dense(), variances, behind.groups)


def _split_latents(joint: Joint) -> tuple[SiteGroups, SiteGroups, tuple[str, ...]]:
    """Core latents, Gaussian leaves, and unobserved sites that can be dropped."""
    parents = {name: parents_of(joint, name) for name in joint.inventory.latents}
    queue = [joint.reach(joint.observed_numbers[name].log_prob) for name in joint.observed]
    needed: set[str] = set()
    while queue:
        new = queue.pop() - needed
        needed |= new
        queue += [parents[name] for name in new if name in parents]
    for name in joint.inventory.discrete:
        if name in needed:
            raise Refusal("discrete", name).error()
    groups = grouped(list(parents), parents.__getitem__)
    core = [group for group in groups if needed.issuperset(group)]
    known, leaves = {name for group in core for name in group}, []
    dropped = [*joint.inventory.discrete, *joint.inventory.childless]
    for group in groups:
        if known.issuperset(group):
            continue
        gaussian = all(isinstance(joint.latent[name], GaussianForm) for name in group)
        if gaussian and all(parents[name] <= known | set(group) for name in group):
            leaves.append(group)
            known |= set(group)
        else:
            dropped += group
    # With no data on any latent, the posterior of all of them is their prior.
    return (core, leaves, tuple(dropped)) if core else (leaves, [], tuple(dropped))


def _local(joint: Joint, name: str, power: float) -> tuple[Local, SiteFactors | None]:
    """A latent site given all others, with factors that correct a prior that is not Gaussian."""
    for how in ("masked", "scaled"):
        if joint.inventory.families[name].startswith(f"{how} "):
            raise Refusal(f"{how}_latent", name).error()
    if joint.latent[name] is Degree.NONLINEAR:
        return own_prior(joint, name, power)
    return gaussian_local(joint, name), None
