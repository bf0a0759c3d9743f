r"""The base process in the M-step: items outside of the core, and the scales of the base kernels.

Items outside of the core follow it by the base process :math:`\Psi = \sum_c s_c K_c`. They are
independent given the core (Snelson and Ghahramani, 2006, Sparse Gaussian processes using
pseudo-inputs, NIPS). With :math:`W = \Psi_{CC}^{-1} \Psi_{CR}`,
:math:`D = \mathrm{diag}(\Psi_{RR} - W' \Psi_{CR})` and :math:`A' = [I, W]`, the kernel of all items
is :math:`\Sigma = A \Sigma_{CC} A' + \mathrm{diag}(0, D)`. The M-step factorises matrices of the
core's size only. ``docs/systems/collaborative.md`` derives how it learns the scales.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_solve

from bayesrank.gp import KernelPrior, Tier
from bayesrank.solvers.collaborative.newton import ascent_step
from bayesrank.solvers.collaborative.types import SharedPrior

# No kernel's variance is below this part of the largest one's: what keeps the mixture positive
# definite may be a kernel that the data have no use for.
_SMALLEST = 1e-6
_SHORTEST_SHARE = 1e-3  # of a step: what is shorter is none


class CoreKernels(NamedTuple):
    """What is needed of the base kernels; the core items come first."""

    core: Array  # of the core items, shape (C, c, c)
    across: Array  # between core and other items, shape (C, c, k)
    own: Array  # variances of the other items, shape (C, k)


class CoreConditional(NamedTuple):
    """The base process at its scales: how the other items follow the core."""

    factor: Array  # Cholesky factor of ``Psi_CC``, shape (c, c)
    weights: Array  # ``W``, shape (c, k)
    own: Array  # the diagonal of ``D``, shape (k,)


def mix(scales: Array, kernels: Array) -> Array:
    """Mix base kernels, stacked along the first axis, by their scales."""
    return jnp.einsum("c,cij->ij", scales, kernels)


def condition_on_core(scales: Array, kernels: CoreKernels) -> CoreConditional:
    """Mix the base kernels by their scales, and condition the other items on the core."""
    factor = jnp.linalg.cholesky(mix(scales, kernels.core))
    across, own = mix(scales, kernels.across), scales @ kernels.own
    weights = cho_solve((factor, True), across) if across.shape[1] else across
    return CoreConditional(factor, weights, own - jnp.sum(across * weights, axis=0))


def columns(kernel: Array, conditional: CoreConditional) -> Array:
    """``A Sigma_CC``, the columns of the core in the kernel of all items, shape (c + k, c)."""
    return jnp.concatenate([kernel, conditional.weights.T @ kernel])


def all_items(prior: SharedPrior, conditional: CoreConditional) -> SharedPrior:
    """Return mean and kernel of all items, from the mean of all and the kernel of the core."""
    across = prior.kernel @ conditional.weights
    rest = conditional.weights.T @ across + jnp.diag(conditional.own)
    return prior._replace(kernel=jnp.block([[prior.kernel, across], [across.T, rest]]))


def multiply(kernel: Array, conditional: CoreConditional, vector: Array) -> Array:
    """Multiply the kernel of all items by a vector, shape (c + k,)."""
    core, rest = jnp.split(vector, [kernel.shape[0]])
    product = kernel @ (core + conditional.weights @ rest)
    return jnp.concatenate([product, product @ conditional.weights + conditional.own * rest])


def inverse_product(factor: Array, conditional: CoreConditional, u: Array, v: Array) -> Array:
    """``u' Sigma^-1 v``, with the Cholesky factor of ``Sigma_CC``."""
    (core, rest), (other, its_rest) = (jnp.split(x, [factor.shape[0]]) for x in (u, v))
    left, right = rest - core @ conditional.weights, its_rest - other @ conditional.weights
    return core @ cho_solve((factor, True), other) + jnp.sum(left * right / conditional.own)


class FunctionMoments(NamedTuple):
    """Second moments of users' functions about the mean, summed over users."""

    core: Array  # (c, c)
    across: Array  # with what is left of the other items by their weights, (c, k)
    rest: Array  # of what is left of the other items, (k,)


def update_scales(
    scales: Array,
    kernels: CoreKernels,
    conditional: CoreConditional,
    moments: FunctionMoments,
    num_users: Array,
    prior: KernelPrior,
    *,
    hold_size: bool,
) -> Array:
    """A Newton step in log scales (C,) that does not lower the objective; its size may be held."""
    size = jnp.mean(jax.vmap(jnp.diagonal)(kernels.core), axis=1)

    def scales_at(log_scales: Array) -> Array:
        new = jnp.exp(log_scales)
        return new * (scales @ size) / (new @ size) if hold_size else new

    def objective(log_scales: Array) -> Array:
        return _objective(scales_at(log_scales), kernels, conditional, moments, num_users, prior)

    start = jnp.log(scales)
    present, gradient = jax.value_and_grad(objective)(start)
    # A column at a time: a batch of LAPACK's calls may wait for its own threads for ever.
    slopes = jax.grad(objective)
    hessian = lax.map(lambda v: jax.jvp(slopes, (start,), (v,))[1], jnp.eye(len(scales)))
    # What is as small as may be, and should be smaller, must not shorten the step of the others.
    free = (scales * size > 1.01 * _SMALLEST * jnp.max(scales * size)) | (gradient > 0)
    step = ascent_step(gradient, hessian, free)

    def moved(share: Array) -> Array:
        new = jnp.exp(start + share * step)
        return jnp.log(jnp.maximum(new, _SMALLEST * jnp.max(new * size) / size))

    def too_long(share: Array) -> Array:
        return ~(objective(moved(share)) >= present) & (share > _SHORTEST_SHARE)

    share = lax.while_loop(too_long, lambda share: 0.5 * share, jnp.ones((), step.dtype))
    return jnp.where(share > _SHORTEST_SHARE, scales_at(moved(share)), scales)


def _objective(
    scales: Array,
    kernels: CoreKernels,
    present: CoreConditional,
    moments: FunctionMoments,
    num_users: Array,
    prior: KernelPrior,
) -> Array:
    """Expected log joint density with the kernel that the M-step would choose, up to a constant."""
    base, target = condition_on_core(scales, kernels), mix(scales, kernels.core)
    value = jnp.zeros((), base.own.dtype)
    for tier in prior.tiers:
        chosen = prior.posterior_mode(tier, moments.core, target, num_users)
        ours, theirs = (_log_det(x, tier) for x in (target, chosen))
        value += 0.5 * (tier.strength * ours - (num_users + tier.strength) * theirs)
    change, (core, across, rest) = base.weights - present.weights, moments
    left = rest - jnp.sum(change * (2.0 * across - core @ change), axis=0)
    return value - 0.5 * jnp.sum(num_users * jnp.log(base.own) + left / base.own)


def _log_det(matrix: Array, tier: Tier) -> Array:
    """Log determinant of a tier of a matrix (c, c) given those before, by LU."""
    # Its derivatives are products, and take a fraction of the time of Cholesky's.
    every, before = (
        jnp.linalg.slogdet(matrix[:end, :end])[1] if end else 0.0 for end in (tier.end, tier.start)
    )
    return jnp.asarray(every - before)
