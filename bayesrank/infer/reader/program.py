"""Reads a plain NumPyro program as a Gaussian prior and factors of scalar predictors.

Nothing in the program is marked.  It is run once to list its sites and once more under JAX's
tracing, with the latents as inputs and the densities of its sites as outputs.  In that trace every
array that is affine in the latents is found with its rows; the likelihood is what is done to those
arrays afterwards.

A program is read at given hyperparameters and may be read under `jit`, `vmap` and `grad`: what a
`Program` is made of is static, its arrays may be traced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.infer.gaussian.arrow import ArrowPrior, one_group_each
from bayesrank.infer.gaussian.dense import DensePrior, DiagonalPrior
from bayesrank.infer.gaussian.factorised import merged
from bayesrank.infer.gaussian.low_rank import LowRankPrior
from bayesrank.infer.reader.affine import Degree
from bayesrank.infer.reader.conditionals import (
    Grouped,
    Local,
    conditional,
    gaussian_local,
    grouped,
    grouped_latents,
    parents_of,
    positions,
)
from bayesrank.infer.reader.densities import bounds
from bayesrank.infer.reader.inventory import Inventory, take_inventory
from bayesrank.infer.reader.joint import Joint, trace_joint
from bayesrank.infer.reader.many import linked_prior, shared_prior
from bayesrank.infer.reader.observed import Checks, Factors, all_factors
from bayesrank.infer.reader.own_prior import own_prior
from bayesrank.infer.reader.prior import Conditional, GaussianForm, after, extend, joint_prior
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.tables import MOST_SHARED, NotShortError
from bayesrank.infer.reader.traced import ProgramSource
from bayesrank.infer.sites import Block, Problem

# Of more latents than this no joint covariance is made, where some of them are of groups.
_MOST_TOGETHER = 4000
# Up to here a joint covariance is made where nobody says otherwise; and the most entries of a row
# that sees few latents.
MOST_DENSE = 3000
_WIDEST = 8

SiteGroups = list[list[str]]


class ProgramLayout(NamedTuple):
    """What is static in a program: the same for all values of its arrays.

    Attributes
    ----------
    shapes
        Shape of every latent site: the core's, then the leaves'.
    sampled
        Names of hyperparameters that are `sample` sites left free, whose prior counts.
    dropped
        Unobserved sites on which nothing depends and that are not Gaussian: they integrate to one.
    block_sites
        Name of the observed site behind each block of factors.
    eliminated
        Latents of groups that are too many for a joint covariance: their posterior is not kept.
    conditioned_sites
        Sites held fixed whose density latents reach, so that it is a factor.
    """

    shapes: dict[str, tuple[int, ...]]
    sampled: tuple[str, ...]
    block_sites: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    eliminated: tuple[str, ...] = ()
    conditioned_sites: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of latents; what follows from them in tables stands behind them."""
        return sum(math.prod(shape) for shape in self.shapes.values())


class Program(NamedTuple):
    """A program as EP sees it: its numbers, and its layout.

    Attributes
    ----------
    problem
        The Gaussian over the core latents, those that the data touch, measured from `mean`; and the
        factors.
    mean
        Prior mean of the core latents, shape (n,).
    hyperparameters
        Values of the hyperparameters.
    layout
        What is static.
    leaves
        Latents on which no data depend, in order, given those before; they follow from the
        posterior without EP.
    checks
        Refusals, each with a boolean array that must hold for it not to be raised.
    ends
        Lower and upper ends of the supports of all latents kept, laid end to end; None where no
        support is bounded.
    """

    problem: Problem
    mean: Array
    hyperparameters: dict[str, Array]
    layout: ProgramLayout
    leaves: tuple[Conditional, ...] = ()
    checks: tuple[tuple[Refusal, Array], ...] = ()
    ends: tuple[Array, Array] | None = None

    def all_latents(self, posterior: Any) -> tuple[Array, Array]:
        """Mean and covariance of core and leaves from the core's posterior, but for eliminated."""
        if not self.problem.prior.keeps_covariances:
            raise Refusal("no_covariances", ", ".join(self.layout.shapes)).error()
        if self.layout.eliminated:
            inner = posterior.core
            return self.mean[: inner.mean.size] + inner.mean, inner.covariance
        return extend(self.mean + posterior.mean, posterior.covariance, self.leaves)


def read_program(
    source: ProgramSource,
    params: Mapping[str, Any] | None = None,
    *,
    power: float = 1.0,
    structure: str = "dense",
) -> Program:
    """Read a program, with `params` held fixed; a refusal names site, fault and cure."""
    inventory = take_inventory(source, dict(params or {}))
    _refuse_free_vectors(inventory)
    joint = trace_joint(source, inventory)
    core, own = _core(joint, power, structure)
    of_priors = _checks_of_priors(joint, core.proper)
    seen = all_factors(joint, power, _spread(joint, core.names, core.prior.variances))
    checks = [*of_priors, *_checks_of_own(inventory, own), *seen.checks]
    constant = seen.constant
    of_all = [*seen.factors.values(), *own.values()]
    if seen.quadratic or any(factors.rows.columns is None for factors in of_all):
        core = core.together()
    if seen.quadratic:
        core, log_factor, valid = _absorb(joint, seen.quadratic, core)
        constant += log_factor
        checks.append((Refusal("improper_factor", ", ".join(seen.quadratic)), valid))
    factors = seen.factors | own
    blocks = {name: _block(joint, f, core.names, core.mean) for name, f in factors.items()}
    checks += _checks_of_groups(core, blocks)
    possible = bool(blocks) and not (core.leaves or own) and power == 1
    if possible and _is_sparse(structure, core.prior, blocks):
        core = core._replace(prior=core.prior.without_covariances())
        blocks = _with_merged_rows(blocks)
    else:
        if possible and not seen.quadratic and _may_be_low_rank(structure, core):
            most = _most_shared(structure, core.prior.size)
            short = _with_short_rows(source, inventory, core, most)
            if short is not None:
                return short._replace(checks=(*of_priors, *short.checks))
        _refuse_structure(structure, power)
        core = core.with_covariances()
    program = _program(joint, core, blocks, constant, checks)
    ends = _ends(joint, list(program.layout.shapes)) if own else None
    return program._replace(problem=program.problem._replace(power=power), ends=ends)


class _Core(NamedTuple):
    """The latents that the data touch, and their Gaussian.

    Attributes
    ----------
    groups, names
        Their sites, those that depend on one another together; and one after the other.
    conditionals, leaves
        The Gaussians that make theirs; and those of the leaves, given these.
    behind
        Those among them that can be eliminated group by group.
    mean, prior
        Of all, laid end to end.
    proper
        For each site, whether its prior is.
    """

    groups: SiteGroups
    conditionals: list[Conditional]
    leaves: tuple[Conditional, ...]
    leaf_names: list[str]
    behind: Grouped | None
    mean: Array
    prior: Any
    proper: dict[str, Array]
    dropped: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Their sites in order."""
        return _flat(self.groups)

    def together(self) -> _Core:
        """With one Gaussian of all, no groups being eliminated."""
        mean, prior = joint_prior(self.conditionals)
        return self._replace(behind=None, mean=mean, prior=prior)

    def with_covariances(self) -> _Core:
        """With a prior whose posterior has all covariances."""
        if not self.prior.on_host:
            return self
        whole = self.together()
        return self._replace(prior=whole.prior.dense())

    @property
    def eliminated(self) -> tuple[str, ...]:
        """Latents of groups that are too many for a joint covariance."""
        many = self.behind is not None and self.mean.size > _MOST_TOGETHER and not self.leaves
        return self.behind.names if many and self.behind else ()


def _flat(groups: SiteGroups) -> list[str]:
    return [name for group in groups for name in group]


def _core(joint: Joint, power: float, structure: str) -> tuple[_Core, dict[str, Factors]]:
    """The Gaussian of the core latents, and factors that mend other priors."""
    groups, leaf_groups, dropped = _split_latents(joint)
    core, leaves = _flat(groups), _flat(leaf_groups)
    stated = {name: _local(joint, name, power) for name in core + leaves}
    own = {name: factors for name, (_, factors) in stated.items() if factors is not None}
    locals_ = {name: local for name, (local, _) in stated.items() if name not in own}
    behind = grouped_latents(joint, core, locals_)
    if behind is not None:
        last = behind.names
        groups.sort(key=lambda group: group[0] in last)
    conditionals, order = [], []
    for group in groups + leaf_groups:
        conditionals.append(conditional(joint, group, order, [stated[k][0] for k in group]))
        order += group
    own_part, rest = conditionals[: len(groups)], tuple(conditionals[len(groups) :])
    mean, prior = _prior(own_part, behind)
    proper = {name: local.proper for name, (local, _) in stated.items()}
    found = _Core(groups, own_part, rest, leaves, behind, mean, prior, proper, dropped)
    wanted = structure == "probes" or (structure == "auto" and prior.size > MOST_DENSE)
    if wanted and behind is None and not prior.serves and not own:
        linked = linked_prior(joint, core + leaves)
        if linked is not None:
            # A leaf is one latent more; as the last slope of a trend.
            found = found._replace(
                groups=groups + leaf_groups,
                conditionals=conditionals,
                leaves=(),
                leaf_names=[],
                **linked._asdict(),
            )
    return found, own


def _checks_of_priors(joint: Joint, proper: Mapping[str, Array]) -> Checks:
    hyperparameters = ", ".join(sorted(joint.inventory.hyperparameters))
    checks = [(Refusal("improper_prior", k, hyperparameters), x) for k, x in proper.items()]
    return checks + [(Refusal("out_of_order", k), found) for k, found in joint.in_order.items()]


def _checks_of_own(inventory: Inventory, own: Mapping[str, Factors]) -> Checks:
    """Whether elements of latents whose prior is mended see one direction each."""
    return [
        (Refusal("not_gaussian", k, f"{inventory.families[k]} distribution"), found.collinear)
        for k, found in own.items()
        if found.collinear is not None
    ]


def _checks_of_groups(core: _Core, blocks: Mapping[str, Block]) -> Checks:
    """Whether each datum sees latents of one group."""
    behind = core.behind
    if behind is None:
        return []
    last = ", ".join(behind.names)
    return [
        (Refusal("two_groups", name, last), one_group_each(behind.groups, block.rows))
        for name, block in blocks.items()
    ]


def _program(
    joint: Joint, core: _Core, blocks: Mapping[str, Block], constant: Array, checks: Checks
) -> Program:
    """The program, but for the power, and ends of supports where priors were mended."""
    inventory = joint.inventory
    kept = [name for name in core.names + core.leaf_names if name not in core.eliminated]
    layout = ProgramLayout(
        shapes={name: inventory.latents[name] for name in kept},
        sampled=inventory.sampled,
        block_sites=tuple(blocks),
        dropped=core.dropped,
        eliminated=core.eliminated,
        conditioned_sites=tuple(name for name in inventory.given if name in joint.observed),
    )
    problem = Problem(core.prior, tuple(blocks.values()), constant)
    values = inventory.hyperparameters
    return Program(problem, core.mean, values, layout, core.leaves, tuple(checks))


def _with_short_rows(
    source: ProgramSource, inventory: Inventory, core: _Core, most: int
) -> Program | None:
    """The program with long rows in tables, sharing `most` latents; or None."""
    try:
        joint = trace_joint(source, inventory, short=True)
    except NotShortError:
        return None
    found = None if joint.tables is None else shared_prior(joint, joint.tables, core.groups, most)
    if found is None:
        return None
    names = list(found.names)
    seen = all_factors(joint, 1.0, _spread(joint, names, found.prior.variances))
    blocks = {name: _block(joint, f, names, found.mean) for name, f in seen.factors.items()}
    if seen.quadratic or not _are_short(blocks):
        return None
    core = core._replace(leaves=(), leaf_names=[], behind=None, mean=found.mean, prior=found.prior)
    return _program(joint, core, _with_merged_rows(blocks), seen.constant, seen.checks)


def _with_merged_rows(blocks: Mapping[str, Block]) -> dict[str, Block]:
    """The same, with each column once in a row."""
    return {name: block._replace(rows=merged(block.rows)) for name, block in blocks.items()}


def _is_sparse(structure: str, prior: Any, blocks: Mapping[str, Block]) -> bool:
    """Whether latents are kept without a joint covariance: asked for, or many; and possible."""
    if structure == "dense" or (structure == "auto" and prior.size <= MOST_DENSE):
        return False
    asked = structure == "auto" or structure in prior.serves
    return _are_short(blocks) and bool(prior.serves) and asked


def _may_be_low_rank(structure: str, core: _Core) -> bool:
    """Whether a prior of low rank is looked for behind long rows: asked for, or many latents."""
    many = core.prior.size > MOST_DENSE and core.behind is None
    return structure == "low_rank" or (structure == "auto" and many)


def _most_shared(structure: str, size: int) -> int:
    """Of latents, how many may be shared: not as many as all, unless low rank is asked for."""
    return MOST_SHARED if structure == "low_rank" else min(MOST_SHARED, size // 2)


def _are_short(blocks: Mapping[str, Block]) -> bool:
    return all(
        block.rows.columns is not None and block.rows.values.shape[1] <= _WIDEST
        for block in blocks.values()
    )


def _refuse_structure(structure: str, power: float) -> None:
    if structure not in ("auto", "dense"):
        reason = "not_low_rank" if structure == "low_rank" else "not_sparse"
        raise Refusal(reason, structure, "power=1 and " if power != 1 else "").error()


def _prior(
    conditionals: list[Conditional], behind: Grouped | None
) -> tuple[Array, DensePrior | DiagonalPrior | LowRankPrior | ArrowPrior]:
    """Mean of the core latents and the Gaussian about it."""
    if behind is None:
        return joint_prior(conditionals)
    first = conditionals[: -len(behind.names)]
    rest = conditionals[-len(behind.names) :]
    mean, inner = joint_prior(first)
    variances = jnp.concatenate([c.covariance for c in rest])
    mean = jnp.concatenate([mean, *(c.loc for c in rest)])
    return mean, ArrowPrior(inner.dense(), variances, behind.groups)


def _ends(joint: Joint, names: list[str]) -> tuple[Array, Array]:
    sites, ends = joint.sites_at_zero(), []
    for number, nothing in enumerate((-jnp.inf, jnp.inf)):
        found = [(bounds(sites[name]["fn"])[number], sites[name]["value"]) for name in names]
        parts = [jnp.broadcast_to(nothing if x is None else x, v.shape) for x, v in found]
        ends.append(jnp.concatenate([part.reshape(-1) for part in parts]))
    return ends[0], ends[1]


def _refuse_free_vectors(inventory: Inventory) -> None:
    """A scale at its prior's median is a convention; twenty of them are another model."""
    for name in inventory.sampled:
        size = int(np.prod(inventory.hyperparameters[name].shape, dtype=int))
        if size > 1:
            raise Refusal("free_vector", name, str(size)).error()


def _spread(joint: Joint, core: list[str], variances: Array) -> Array:
    """Prior standard deviations of all latents; of those that no data touch, one."""
    count = sum(int(np.prod(shape, dtype=int)) for shape in joint.inventory.latents.values())
    return jnp.ones(count, variances.dtype).at[positions(joint, core)].set(jnp.sqrt(variances))


# ---------------------------------------------------------------- latents


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


def _local(joint: Joint, name: str, power: float) -> tuple[Local, Factors | None]:
    """A latent site given all others, with the factors that mend a prior that is not Gaussian."""
    for how in ("masked", "scaled"):
        if joint.inventory.families[name].startswith(f"{how} "):
            raise Refusal(f"{how}_latent", name).error()
    if joint.latent[name] is Degree.NONLINEAR:
        return own_prior(joint, name, power)
    return gaussian_local(joint, name), None


# ---------------------------------------------------------------- factors


def _block(joint: Joint, factors: Factors, core: list[str], mean: Array) -> Block:
    """Factors over the core latents alone, measured from their mean."""
    kept = positions(joint, core)
    rows = factors.rows
    if rows.columns is None:
        rows = rows._replace(values=rows.values[:, kept], size=kept.size)
    else:
        place = np.zeros(rows.size, np.int32)
        place[kept] = np.arange(kept.size, dtype=np.int32)
        rows = rows._replace(columns=jnp.asarray(place)[rows.columns], size=kept.size)
    offset = factors.offset + rows.apply(mean)
    return Block(rows, offset, factors.moments, factors.gaussian)


def _absorb(joint: Joint, names: list[str], core: _Core) -> tuple[_Core, Array, Array]:
    """Multiply the prior by quadratic factors; with the log integral, and whether it is proper."""
    mean = core.mean
    shapes = joint.inventory.latents
    cuts = np.cumsum([int(np.prod(shapes[name], dtype=int)) for name in core.names])[:-1]
    others = {k: jnp.zeros(shape, mean.dtype) for k, shape in shapes.items() if k not in core.names}

    def log_factor(x: Array) -> Array:
        parts = jnp.split(mean + x, cuts)
        latents = {k: part.reshape(shapes[k]) for k, part in zip(core.names, parts, strict=True)}
        return joint.log_densities(tuple(names), {**others, **latents})

    zero = jnp.zeros_like(mean)
    value, slope = jax.value_and_grad(log_factor)(zero)
    precision = -jax.hessian(log_factor)(zero)
    posterior = core.prior.dense().multiply(precision, slope)
    log_integral = value + posterior.log_normaliser
    # A determinant does not tell two negative directions from none.
    rounding = jnp.finfo(mean.dtype).eps ** 0.5 * jnp.max(jnp.diagonal(posterior.covariance))
    jitter = rounding * jnp.eye(mean.size, dtype=mean.dtype)
    root = jnp.linalg.cholesky(lax.stop_gradient(posterior.covariance + jitter))
    valid = posterior.valid & jnp.all(jnp.isfinite(root))
    covariance = after(posterior.covariance, root)
    core = core._replace(mean=mean + posterior.mean, prior=DensePrior(covariance))
    return core, log_integral, valid
