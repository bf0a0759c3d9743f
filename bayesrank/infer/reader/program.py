"""Reads a plain NumPyro program as a Gaussian prior and factors of scalar predictors.

Nothing in the program is marked.  It is run once to list its sites and once more under JAX's
tracing, with the latents as inputs and the densities of its sites as outputs.  In that trace every
array that is affine in the latents is found with its rows; the likelihood is what is done to those
arrays afterwards.

A program is read at given hyperparameters and may be read under `jit`, `vmap` and `grad`: what a
`Program` is made of is static, its arrays may be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.infer.gaussian.dense import DensePrior
from bayesrank.infer.reader.affine import Affine, Degree
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.joint import Joint, trace_joint
from bayesrank.infer.reader.observed import Factors, observed_factors
from bayesrank.infer.reader.prior import (
    Conditional,
    GaussianForm,
    block_diagonal,
    extend,
    joint_prior,
)
from bayesrank.infer.reader.refusals import Refusal
from bayesrank.infer.sites import Block, Problem

__all__ = ["Program", "read_program"]


class Program(NamedTuple):
    """A program as EP sees it.

    Attributes
    ----------
    problem
        The Gaussian over the core latents, those that the data touch, measured from `mean`; and the
        factors.
    mean
        Prior mean of the core latents, shape (n,).
    leaves
        Latents on which no data depend, in order, given those before; they follow from the
        posterior without EP.
    shapes
        Shape of every latent site: the core's, then the leaves'.
    hyperparameters
        Values of the hyperparameters.
    sampled
        Names of those that are `sample` sites left free, and so have a prior that counts.
    dropped
        Unobserved sites on which nothing depends and that are not Gaussian: they integrate to one.
    block_sites
        Name of the observed site behind each block of `problem`.
    gaussian
        Whether all factors are Gaussian, so that one sweep is exact.
    checks
        Refusals, each with a boolean array that must hold for it not to be raised.
    """

    problem: Problem
    mean: Array
    leaves: tuple[Conditional, ...]
    shapes: dict[str, tuple[int, ...]]
    hyperparameters: dict[str, Array]
    sampled: tuple[str, ...]
    dropped: tuple[str, ...]
    block_sites: tuple[str, ...]
    gaussian: bool
    checks: tuple[tuple[Refusal, Array], ...]

    def all_latents(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance of core and leaves from those of the centred core."""
        return extend(self.mean + mean, covariance, self.leaves)


def read_program(
    model: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    *,
    power: float = 1.0,
) -> Program:
    """Read a program at given hyperparameters.

    Parameters
    ----------
    model, args, kwargs
        The program and what it is called with.
    params
        Values of sites to be held fixed, by name; other hyperparameters take their initial value or
        prior median.
    power
        Power of EP, to which the factors are raised.

    Returns
    -------
    Program

    Raises
    ------
    ValueError
        When the program is not one that EP can take; the message names the site, what is wrong and
        the cure.
    """
    inventory = take_inventory(model, args, kwargs, dict(params or {}))
    joint = trace_joint(model, args, kwargs, inventory)
    core, leaves, dropped = _split_latents(joint)
    conditionals = {name: _conditional(joint, name, core + leaves) for name in core + leaves}
    mean, prior = joint_prior([conditionals[name] for name in core])
    hyperparameters = ", ".join(sorted(inventory.hyperparameters))
    checks = [
        (Refusal("improper_prior", name, hyperparameters), conditional.proper)
        for name, conditional in conditionals.items()
    ]
    factors: dict[str, Factors] = {}
    quadratic: list[str] = []
    constant = jnp.zeros((), mean.dtype)
    for name in inventory.observed:
        found = observed_factors(joint, name, power)
        supported = joint.observed[name].supported
        if supported is not None and not isinstance(supported, (Affine, Degree)):
            checks.append((Refusal("unsupported_value", name), supported))
        if isinstance(found, Factors):
            factors[name] = found
            constant += found.constant
            if found.collinear is not None:
                reason = "not_quadratic" if name in inventory.factors else "two_directions"
                checks.append((Refusal(reason, name), found.collinear))
        elif found is None:
            quadratic.append(name)
        else:
            constant += found
    if quadratic:
        product = _absorb(joint, quadratic, core, mean, prior.alone().covariance)
        mean, prior, log_factor, valid = product
        constant += log_factor
        checks.append((Refusal("improper_factor", ", ".join(quadratic)), valid))
    blocks = tuple(_block(joint, f, core, mean) for f in factors.values())
    return Program(
        Problem(prior, blocks, constant, power),
        mean,
        tuple(conditionals[name] for name in leaves),
        {name: inventory.latents[name] for name in core + leaves},
        inventory.hyperparameters,
        inventory.sampled,
        dropped,
        tuple(factors),
        all(f.gaussian for f in factors.values()),
        tuple(checks),
    )


def _positions(joint: Joint, names: list[str]) -> np.ndarray:
    """Where the named latents stand in the order in which the trace lays all latents end to end."""
    start, spans = 0, {}
    for name, shape in joint.inventory.latents.items():
        size = int(np.prod(shape, dtype=int))
        spans[name] = np.arange(start, start + size)
        start += size
    return np.concatenate([spans[name] for name in names]) if names else np.zeros(0, int)


# ---------------------------------------------------------------- latents


def _split_latents(joint: Joint) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Core latents, Gaussian leaves, and unobserved sites that can be dropped."""
    latents, discrete = list(joint.inventory.latents), list(joint.inventory.discrete)
    needed = set().union(
        *(joint.reach(numbers.log_prob) for numbers in joint.observed_numbers.values())
    )
    for name in reversed(latents):
        if name in needed:
            needed |= joint.reach(joint.latent_numbers[name])
    for name in discrete:
        if name in needed:
            raise Refusal("discrete", name).error()
    core = [name for name in latents if name in needed]
    leaves: list[str] = []
    dropped = discrete
    for name in latents:
        if name in needed:
            continue
        parents = joint.reach(joint.latent_numbers[name]) - {name}
        gaussian = isinstance(joint.latent[name], GaussianForm)
        if gaussian and parents <= {*core, *leaves}:
            leaves.append(name)
        else:
            dropped.append(name)
    # With no data on any latent, the posterior of all of them is their prior.
    return (core, leaves, tuple(dropped)) if core else (leaves, [], tuple(dropped))


def _conditional(joint: Joint, name: str, order: list[str]) -> Conditional:
    """A latent site given those before it in `order`."""
    form = joint.latent[name]
    before = _positions(joint, order[: order.index(name)])
    if not isinstance(form, GaussianForm):
        return _conditional_from_density(joint, name, order)
    numbers = joint.latent_numbers[name]
    spread = form.scale if form.scale is not None else form.covariance
    if isinstance(spread, (Affine, Degree)):
        parents = ", ".join(sorted(joint.reach((numbers.scale, numbers.covariance))))
        raise Refusal("scale_not_constant", name, parents).error()
    if isinstance(form.loc, Degree):
        raise Refusal("loc_not_affine", name).error()
    if form.scale is not None:
        covariance = (spread**2).reshape(-1)
    else:
        covariance = block_diagonal(spread)
    if not isinstance(form.loc, Affine):
        return Conditional(form.loc.reshape(-1), None, covariance, form.proper)
    rows = form.loc.dense().reshape(-1, form.loc.size)[:, before]
    return Conditional(form.loc.offset.reshape(-1), rows, covariance, form.proper)


def _conditional_from_density(joint: Joint, name: str, order: list[str]) -> Conditional:
    """A latent site of an unknown family, from the derivatives of its log density.

    A density that is quadratic in the latents is Gaussian: minus its Hessian is the precision.
    """
    if joint.inventory.families[name].startswith("masked "):
        raise Refusal("masked_latent", name).error()
    if joint.latent[name] is not Degree.QUADRATIC:
        family = f"{joint.inventory.families[name]} distribution"
        raise Refusal("not_gaussian", name, family).error()
    shapes = joint.inventory.latents
    before = order[: order.index(name)]
    zeros = {k: jnp.zeros(shape, jnp.result_type(float)) for k, shape in shapes.items()}

    def slope(own: Array, others: dict[str, Array]) -> Array:
        def log_density(value: Array) -> Array:
            return joint.log_densities((name,), {**zeros, **others, name: value})

        return jax.grad(log_density)(own.reshape(shapes[name])).reshape(-1)

    own, others = zeros[name].reshape(-1), {k: zeros[k] for k in before}
    precision = -jax.jacfwd(slope)(own, others)
    covariance = jnp.linalg.inv(precision)
    loc = covariance @ slope(own, others)
    proper = jnp.all(jnp.linalg.eigvalsh(precision) > 0)
    if not before:
        return Conditional(loc, None, covariance, proper)
    by_site = jax.jacfwd(slope, argnums=1)(own, others)
    rows = jnp.concatenate([by_site[k].reshape(own.size, -1) for k in before], axis=1)
    return Conditional(loc, covariance @ rows, covariance, proper)


# ---------------------------------------------------------------- factors


def _block(joint: Joint, factors: Factors, core: list[str], mean: Array) -> Block:
    """Factors over the core latents alone, measured from their mean."""
    positions = _positions(joint, core)
    rows = factors.rows
    if rows.columns is None:
        rows = rows._replace(values=rows.values[:, positions], size=positions.size)
    else:
        place = np.zeros(rows.size, np.int32)
        place[positions] = np.arange(positions.size, dtype=np.int32)
        rows = rows._replace(columns=jnp.asarray(place)[rows.columns], size=positions.size)
    return Block(rows, factors.offset + rows.apply(mean), factors.moments)


def _absorb(
    joint: Joint, names: list[str], core: list[str], mean: Array, covariance: Array
) -> tuple[Array, DensePrior, Array, Array]:
    """Multiply the prior by factors that are quadratic in the latents.

    Returns
    -------
    tuple
        Mean of the product and the Gaussian about it, log of its integral, whether it is proper.
    """
    shapes = joint.inventory.latents
    cuts = np.cumsum([int(np.prod(shapes[name], dtype=int)) for name in core])[:-1]
    others = {k: jnp.zeros(shape, mean.dtype) for k, shape in shapes.items() if k not in core}

    def log_factor(x: Array) -> Array:
        parts = jnp.split(mean + x, cuts)
        latents = {k: part.reshape(shapes[k]) for k, part in zip(core, parts, strict=True)}
        return joint.log_densities(tuple(names), {**others, **latents})

    zero = jnp.zeros_like(mean)
    value, slope = jax.value_and_grad(log_factor)(zero)
    precision = -jax.hessian(log_factor)(zero)
    posterior = DensePrior(covariance).multiply(precision, slope)
    log_integral = value + posterior.log_normaliser
    # A determinant does not tell two negative directions from none.
    rounding = jnp.finfo(mean.dtype).eps ** 0.5 * jnp.max(jnp.diagonal(posterior.covariance))
    jitter = rounding * jnp.eye(mean.size, dtype=mean.dtype)
    root = jnp.linalg.cholesky(lax.stop_gradient(posterior.covariance + jitter))
    valid = posterior.valid & jnp.all(jnp.isfinite(root))
    return mean + posterior.mean, DensePrior(posterior.covariance), log_integral, valid
