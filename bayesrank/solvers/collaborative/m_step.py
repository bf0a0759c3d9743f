"""The M-step: mean and kernel that users share, the base that they are drawn towards, and users.

``docs/systems/collaborative.md`` derives the equations. Without a prior, those of mean and kernel
are (3) of Yu, Yu and Tresp (2005), Collaborative ordinal regression, NIPS Workshop on Learning to
Rank. If only the core of the items has a learned kernel, the mean is still that of all items.
"""

from functools import partial

import jax.numpy as jnp
from jax import Array

from bayesrank.solvers.collaborative.kernel_prior import (
    CoreConditional,
    CoreKernels,
    FunctionMoments,
    columns,
    inverse_product,
    mix,
    multiply,
    update_scales,
)
from bayesrank.solvers.collaborative.types import (
    Base,
    EStep,
    Setting,
    SharedPrior,
    State,
    Sums,
    UserBlock,
    UserState,
    UserStatistics,
)


def log_prior(
    setting: Setting, state: State, conditional: CoreConditional, blocks: tuple[UserBlock, ...]
) -> Array:
    """Log prior density of what is estimated, up to a constant."""
    total = jnp.zeros((), state.prior.mean.dtype)
    for user, block in zip(state.users, blocks, strict=True):
        total += setting.likelihood.log_prior(state.params, user.theta, block.known)
    if not setting.collaborative:
        return total
    return total + log_prior_of_shared(setting, state.prior, state.base.level, conditional)


def log_prior_of_shared(
    setting: Setting, prior: SharedPrior, level: Array, conditional: CoreConditional
) -> Array:
    """Log density of mean and kernel, zero where they are the base's own."""
    if not setting.mean_strength and not setting.kernel_prior.informative:
        return jnp.zeros((), prior.mean.dtype)
    factor = jnp.linalg.cholesky(prior.kernel)
    gap = prior.mean - level
    distance = inverse_product(factor, conditional, gap, gap)
    of_kernel = setting.kernel_prior.log_density(factor, conditional.factor)
    return of_kernel - 0.5 * setting.mean_strength * distance


def maximize(
    setting: Setting,
    state: State,
    e_step: EStep,
    blocks: tuple[UserBlock, ...],
    kernels: CoreKernels,
) -> State:
    """Make the M-step: the state after it, from the one before and what the E-step found."""
    known = tuple(block.known for block in blocks)
    users, params, pooled = e_step.users, state.params, setting.collaborative
    if pooled:
        num_users = sum((jnp.sum(there) for there in known), jnp.zeros(()))
        prior, base = _update_shared(setting, state, e_step, kernels, num_users)
    else:
        prior, base = state.prior, state.base
        pairs = zip(users, e_step.statistics, known, strict=True)
        sees_level = setting.likelihood.sees_level
        users = tuple(_update_individual(*pair, sees_level=sees_level) for pair in pairs)
    if params.shared.shape[0]:
        params, users = setting.likelihood.m_step(
            params, users, e_step.statistics, known, pooled=pooled
        )
    return State(prior, base, params, users)


def _update_shared(
    setting: Setting, state: State, e_step: EStep, kernels: CoreKernels, num_users: Array
) -> tuple[SharedPrior, Base]:
    """Maximise in mean, kernel and level; improve the scales of the base kernels."""
    prior, base, sums, conditional = state.prior, state.base, e_step.sums, e_step.conditional
    kernel_prior, kappa, n = setting.kernel_prior, setting.mean_strength, num_users
    average = prior.mean + multiply(prior.kernel, conditional, sums.shift / n)
    if kernel_prior.informative or kappa:
        factor, ones = jnp.linalg.cholesky(prior.kernel), jnp.ones_like(average)
        sum_of = partial(inverse_product, factor, conditional, ones)
        base = base._replace(level=sum_of(average) / sum_of(ones))
    gap = average - base.level
    mean = base.level + n / (n + kappa) * gap
    moments = _moments(prior.kernel, conditional, sums, n, gap, n * kappa / (n + kappa))
    if setting.learn_base and kernel_prior.informative:
        hold_size = setting.likelihood.sets_unit
        scales = update_scales(
            base.scales, kernels, conditional, moments, n, kernel_prior, hold_size=hold_size
        )
        base = base._replace(scales=scales)
    kernel = kernel_prior.maximize(moments.core, mix(base.scales, kernels.core), n)
    return SharedPrior(mean, kernel), base


def _moments(
    kernel: Array,
    conditional: CoreConditional,
    sums: Sums,
    num_users: Array,
    gap: Array,
    strength: Array,
) -> FunctionMoments:
    """Moments of the users' functions about their mean, and of its `gap`, so many users'."""
    core, step = columns(kernel, conditional), sums.shift / num_users
    spread = sums.spread - num_users * step[:, None] * step
    product, size = spread @ core, len(kernel)
    inside, outside = jnp.split(gap, [size])
    left = outside - inside @ conditional.weights
    rest = num_users + conditional.own * jnp.diagonal(spread)[size:]
    return FunctionMoments(
        num_users * kernel + core.T @ product + strength * inside[:, None] * inside,
        conditional.own * product[size:].T + strength * inside[:, None] * left,
        conditional.own * rest + strength * left**2,
    )


def _update_individual(
    user: UserState, statistics: UserStatistics, known: Array, *, sees_level: bool
) -> UserState:
    """Each user's own level and scale, as in a model of this user alone."""
    count = jnp.maximum(statistics.num_observations, 1)
    scale = user.scale * (1.0 + statistics.trace / count)
    if not sees_level:
        return user._replace(scale=scale)
    step = statistics.level_score / jnp.where(known, statistics.level_information, 1.0)
    return user._replace(scale=scale, level=user.level + step)
