"""Reads a plain NumPyro program as a Gaussian prior and factors of one or two predictors.

The program runs once to list its sites. JAX then traces it once more, from the latents to the
densities of its sites. Every array of that trace that is affine in the latents gets its rows; the
likelihood is what the program does to those arrays afterwards.

Reading works at given hyperparameters, also under `jit`, `vmap` and `grad`: the make-up of a
`Program` is static, its arrays may be traced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.infer.gaussian.arrow import one_group_each
from bayesrank.infer.gaussian.dense import DensePrior
from bayesrank.infer.gaussian.factorised import FactorisedPrior, merged
from bayesrank.infer.pairs import PairBlock
from bayesrank.infer.reader.conditionals import among, positions
from bayesrank.infer.reader.densities import bounds
from bayesrank.infer.reader.inventory import Inventory, take_inventory
from bayesrank.infer.reader.joint import Joint, trace_joint
from bayesrank.infer.reader.latents import Latents, stated_latents
from bayesrank.infer.reader.many import shared_prior
from bayesrank.infer.reader.observed import Checks, Observed, all_factors
from bayesrank.infer.reader.prior import Conditional, after, extend
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.reader.structure import Plan, Wanted
from bayesrank.infer.reader.tables import NotShortError
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.sites import Block, Problem

# The most entries of a row that sees few latents.
_WIDEST = 8


class ProgramLayout(NamedTuple):
    """What is static in a program: the same for all values of its arrays.

    `shapes` are those of the latent sites, the core's before the leaves'; `block_sites` names the
    observed site behind each block of factors. `sampled` are free hyperparameters with a prior;
    `dropped` are unobserved sites, not Gaussian, that integrate to one as nothing depends on them.
    `eliminated` latents have no posterior: those of groups, and behind or after those that have.
    `conditioned_sites` are fixed sites whose density latents reach, so that it is a factor.
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

    `problem` has the Gaussian over the core latents, which the data touch, about `mean` (n,), and
    the factors. No data depend on `leaves`: they follow from the posterior in order, without EP.
    `checks` are refusals, each with a boolean array that must hold for it not to be raised.
    `support` has the lower and upper ends of all latents, end to end; None if unbounded.
    """

    problem: Problem
    mean: Array
    hyperparameters: dict[str, Array]
    layout: ProgramLayout
    leaves: tuple[Conditional, ...] = ()
    checks: tuple[tuple[Refusal, Array], ...] = ()
    support: tuple[Array, Array] | None = None

    def all_latents(self, posterior: Any) -> tuple[Array, Array]:
        """Mean and covariance of core and leaves from the core's posterior, but for eliminated."""
        if not self.problem.prior.keeps_covariances:
            raise Refusal("no_covariances", ", ".join(self.layout.shapes)).error()
        if self.layout.eliminated:
            kept, inner = slice(self.layout.size), posterior.core
            return self.mean[kept] + inner.mean[kept], inner.covariance[kept, kept]
        return extend(self.mean + posterior.mean, posterior.covariance, self.leaves)


def read_program(
    source: Traced,
    params: Mapping[str, Any] | None = None,
    *,
    power: float = 1.0,
    structure: str = "dense",
    eliminates: str | None = None,
) -> Program:
    """Read a program, with fixed `params`; a refusal names site, fault and fix.

    It eliminates the latents of a plate group by group where these are many, or if it is named.
    """
    inventory = take_inventory(source, dict(params or {}))
    _refuse_free_vectors(inventory)
    wanted, joint = Wanted(structure, power, eliminates), trace_joint(source, inventory)
    latents = stated_latents(joint, wanted)
    seen = all_factors(joint, power, latents.spread(joint))
    checks = _checks_of_priors(joint, latents)
    plan = _planned(wanted, latents, seen)
    if plan is Plan.TABLES:
        found = _with_tables(source, inventory, latents, wanted)
        joint, latents, seen = found or (joint, latents, seen)
        plan = Plan.SPARSE if found else Plan.COVARIANCES
    checks += seen.checks
    if plan is Plan.SPARSE:
        prior = latents.prior
        prior = prior if prior.on_host else FactorisedPrior(prior.variances)
        latents = latents._replace(prior=prior)
        blocks = {name: _merged(block) for name, block in _blocks(joint, latents, seen).items()}
    else:
        wanted.refuse_others()
        latents, seen, of_quadratic = _with_covariances(joint, latents, seen)
        blocks = _blocks(joint, latents, seen)
        checks += [*of_quadratic, *_checks_of_groups(latents, blocks)]
    problem = Problem(latents.prior, tuple(blocks.values()), seen.constant, power)
    layout = _layout(joint, latents, tuple(blocks))
    ends = _ends(joint, list(layout.shapes)) if latents.own else None
    values, leaves = inventory.hyperparameters, latents.leaves
    return Program(problem, latents.mean, values, layout, leaves, tuple(checks), ends)


def _refuse_free_vectors(inventory: Inventory) -> None:
    """A scale at its prior's median is a convention; twenty of them are another model."""
    for name in inventory.sampled:
        size = math.prod(inventory.hyperparameters[name].shape)
        if size > 1:
            raise Refusal("free_vector", name, str(size)).error()


# ---------------------------------------------------------------- the plan


def _planned(wanted: Wanted, latents: Latents, seen: Observed) -> Plan:
    """What stands for the posterior, by what is static: the first that fits."""
    prior, has_more = latents.prior, bool(latents.leaves or latents.own)
    # The three sites of a pair are one, which latents kept alone would take for three.
    has_more |= any(each.pair_likelihood is not None for each in seen.factors.values())
    if has_more or seen.quadratic or not seen.factors or wanted.power != 1:
        return Plan.COVARIANCES
    if not wanted.is_large(latents.mean.size):
        return Plan.COVARIANCES
    if _are_short(seen) and any(map(wanted.takes, prior.serves)):
        return Plan.SPARSE
    if wanted.structure == "low_rank" or (wanted.structure == "auto" and latents.behind is None):
        return Plan.TABLES
    return Plan.COVARIANCES


def _are_short(seen: Observed) -> bool:
    rows = [factors.rows for factors in seen.factors.values()]
    return all(x.columns is not None and x.values.shape[1] <= _WIDEST for x in rows)


# ---------------------------------------------------------------- the build


def _with_tables(
    source: Traced, inventory: Inventory, latents: Latents, wanted: Wanted
) -> tuple[Joint, Latents, Observed] | None:
    """The program traced with long rows in tables; None where its rows do not become short."""
    try:
        joint = trace_joint(source, inventory, short=True)
    except NotShortError:
        return None
    most = wanted.most_shared(latents.mean.size)
    found = joint.tables and shared_prior(joint, joint.tables, latents.groups, most)
    if not found:
        return None
    latents = latents._replace(leaves=(), leaf_names=[], behind=None, **found._asdict())
    seen = all_factors(joint, wanted.power, latents.spread(joint))
    return None if seen.quadratic or not _are_short(seen) else (joint, latents, seen)


def _with_covariances(
    joint: Joint, latents: Latents, seen: Observed
) -> tuple[Latents, Observed, Checks]:
    """Latents whose posterior knows all covariances, with quadratic factors in their prior."""
    factors = *seen.factors.values(), *latents.own.values()
    dense_rows = any(each.rows.columns is None for each in factors)
    if latents.prior.on_host or seen.quadratic or (latents.behind and dense_rows):
        latents = latents.together()
    if not seen.quadratic:
        return latents, seen, []
    latents, log_factor, valid = _absorb(joint, seen.quadratic, latents)
    check = Refusal("improper_factor", ", ".join(seen.quadratic)), valid
    return latents, seen._replace(constant=seen.constant + log_factor), [check]


def _blocks(joint: Joint, latents: Latents, seen: Observed) -> dict[str, Block | PairBlock]:
    """Factors over the core latents alone, measured from their mean."""
    places, found = positions(joint, latents.columns), seen.factors | latents.own
    return {k: x.block(among(x.rows, places), latents.mean) for k, x in found.items()}


def _merged(block: Block | PairBlock) -> Block | PairBlock:
    """The same, with each column once in a row."""
    return block._replace(rows=merged(block.rows))


def _absorb(joint: Joint, names: list[str], core: Latents) -> tuple[Latents, Array, Array]:
    """Multiply the prior by quadratic factors; with the log integral, and whether it is proper."""
    mean = core.mean
    shapes = joint.inventory.latents
    cuts = np.cumsum([math.prod(shapes[name]) for name in core.names])[:-1]
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


def _layout(joint: Joint, latents: Latents, block_sites: tuple[str, ...]) -> ProgramLayout:
    inventory = joint.inventory
    names = (*latents.names, *latents.leaf_names)
    return ProgramLayout(
        shapes={k: inventory.latents[k] for k in names if k not in latents.eliminated},
        sampled=inventory.sampled,
        block_sites=block_sites,
        dropped=latents.dropped,
        eliminated=latents.eliminated,
        conditioned_sites=tuple(name for name in inventory.given if name in joint.observed),
    )


def _ends(joint: Joint, names: list[str]) -> tuple[Array, Array]:
    sites, ends = joint.sites_at_zero(), []
    for number, nothing in enumerate((-jnp.inf, jnp.inf)):
        found = [(bounds(sites[name]["fn"])[number], sites[name]["value"]) for name in names]
        parts = [jnp.broadcast_to(nothing if x is None else x, v.shape) for x, v in found]
        ends.append(jnp.concatenate([part.reshape(-1) for part in parts]))
    return ends[0], ends[1]


# ---------------------------------------------------------------- what must hold


def _checks_of_priors(joint: Joint, latents: Latents) -> Checks:
    """Whether priors are proper, in order, and those that are corrected see one direction each."""
    families, free = joint.inventory.families, ", ".join(sorted(joint.inventory.hyperparameters))
    checks = [(Refusal("improper_prior", k, free), proper) for k, proper in latents.proper.items()]
    checks += [(Refusal("out_of_order", k), found) for k, found in joint.in_order.items()]
    return checks + [
        (Refusal("not_gaussian", k, f"{families[k]} distribution"), found.collinear)
        for k, found in latents.own.items()
        if found.collinear is not None
    ]


def _checks_of_groups(latents: Latents, blocks: Mapping[str, Block | PairBlock]) -> Checks:
    """Whether each datum sees latents of one group."""
    if latents.behind is None:
        return []
    plate, groups = latents.behind.plate, latents.behind.groups
    return [
        (Refusal("two_groups", name, plate), one_group_each(groups, block.rows))
        for name, block in blocks.items()
    ]
