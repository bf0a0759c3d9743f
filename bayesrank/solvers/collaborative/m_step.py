r"""The M-step for mean and kernel that users share, and for the base that they are drawn towards.

The prior of mean and kernel is worth ``strength`` users drawn from the base process
:math:`N(l 1, \Psi)`, :math:`\Psi = \sum_c s_c K_c`. Its log density is, up to a constant,

.. math::
    -\frac{\tau}{2} \left(\log |\Sigma| - \log |\Psi| + \mathrm{tr} \, \Psi \Sigma^{-1} - m\right)
    - \frac{\kappa}{2} (h - l 1)' \Sigma^{-1} (h - l 1).

The first part is :math:`\tau` times the divergence of :math:`N(0, \Psi)` from
:math:`N(0, \Sigma)`; of many items it is a sum of such parts, see
`bayesrank.solvers.collaborative.kernel_prior`. Together they are a Normal-Inverse-Wishart density
with scale matrix :math:`\tau \Psi`, of :math:`\tau - 1` degrees of freedom with respect to the
measure :math:`|\Sigma|^{-(m+1)/2} d\Sigma`, for which it makes no difference whether one estimates
:math:`\Sigma` or its inverse. (For :math:`\tau \le m` it has no integral, and remains a penalty.)
Setting derivatives of the expected
log joint density to zero, with :math:`\bar f` the mean of the users' posterior means,

.. math::
    \hat h &= (n \bar f + \kappa l 1) / (n + \kappa), \\
    \hat\Sigma &= \frac{1}{n + \tau} \Big( \sum_j \big[(\hat f_j - \bar f)(\hat f_j - \bar f)'
        + \hat\Sigma_j\big] + \frac{n \kappa}{n + \kappa} (\bar f - l 1)(\bar f - l 1)'
        + \tau \Psi \Big),

where the level is :math:`l = 1'\Sigma^{-1} \bar f / 1'\Sigma^{-1} 1` with the present
:math:`\Sigma`. For :math:`\tau = \kappa = 0` these are the paper's (3).

Where only some of the items, the core, have a kernel that is learned, see
`bayesrank.solvers.collaborative.carry`, the first part is of the core's :math:`\Sigma` and
:math:`\Psi`, the second of all items. The mean is found as before, and the core's
:math:`\hat\Sigma` from what users think of the core.

The scales :math:`s_c` are learned from the same moments, see
`bayesrank.solvers.collaborative.scales`. Where each user rates an item once, what a user thinks of
one item alone cannot be told from noise: :math:`\Sigma + \epsilon I` with a noise variance less by
:math:`\epsilon` gives the same evidence. The base process decides between them.

References
----------
.. [1] Yu, S., Yu, K. and Tresp, V. (2005). Collaborative ordinal regression. NIPS Workshop on
   Learning to Rank; equation (3).
.. [2] Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple
   tasks. ICML.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from bayesrank.solvers.collaborative.carry import (
    Carried,
    CoreKernels,
    columns,
    inverse_product,
    mix,
    multiply,
)
from bayesrank.solvers.collaborative.e_step import Sums
from bayesrank.solvers.collaborative.kernel_prior import Tier, divergence, draw_towards
from bayesrank.solvers.collaborative.posterior import Prior
from bayesrank.solvers.collaborative.scales import Moments, update_scales

__all__ = ["Base", "log_prior", "update_prior"]


class Base(NamedTuple):
    """What the prior is drawn towards.

    Attributes
    ----------
    level
        ``l``, a scalar.
    scales
        ``s``, shape (C,).
    """

    level: Array
    scales: Array


def log_prior(
    prior: Prior, level: Array, carried: Carried, tiers: tuple[Tier, ...], mean_strength: float
) -> Array:
    """Log density of mean and kernel, zero where they are the base's own."""
    if not mean_strength and not any(tier.worth for tier in tiers):
        return jnp.zeros((), prior.mean.dtype)
    factor = jnp.linalg.cholesky(prior.kernel)
    gap = prior.mean - level
    distance = inverse_product(factor, carried, gap, gap)
    return -0.5 * (divergence(factor, carried.factor, tiers) + mean_strength * distance)


def update_prior(
    prior: Prior,
    base: Base,
    kernels: CoreKernels,
    carried: Carried,
    sums: Sums,
    num_users: Array,
    tiers: tuple[Tier, ...],
    mean_strength: float,
    *,
    learn_base: bool,
    hold_size: bool,
) -> tuple[Prior, Base]:
    """Maximise the expected log joint density in mean, kernel and level; improve the scales.

    Parameters
    ----------
    prior, base
        Those that the E-step was made with: the mean of all items, the kernel of the core.
    kernels, carried
        Base kernels, and the base process that they make.
    sums
        What the E-step found.
    num_users
        Number of users with observations.
    tiers, mean_strength
        ``tau``, for each tier of items, and ``kappa``.
    learn_base, hold_size
        Whether the scales are learned, where there is a strength, and whether only their ratios.
    """
    n = num_users
    step = sums.shift / n
    average = prior.mean + multiply(prior.kernel, carried, step)
    strong = any(tier.worth for tier in tiers)
    if strong or mean_strength:
        factor, ones = jnp.linalg.cholesky(prior.kernel), jnp.ones_like(average)
        sum_of = partial(inverse_product, factor, carried, ones)
        base = base._replace(level=sum_of(average) / sum_of(ones))
    gap = average - base.level
    mean = base.level + n / (n + mean_strength) * gap
    moments = _moments(prior.kernel, carried, sums, n, gap, n * mean_strength / (n + mean_strength))
    if learn_base and strong:
        scales = update_scales(
            base.scales, kernels, carried, moments, n, tiers, hold_size=hold_size
        )
        base = base._replace(scales=scales)
    target = mix(base.scales, kernels.core)
    return Prior(mean, draw_towards(moments.core, target, n, tiers)), base


def _moments(
    kernel: Array, carried: Carried, sums: Sums, num_users: Array, gap: Array, worth: Array
) -> Moments:
    """Moments of the users' functions about their mean, and of its `gap`, `worth` so many users."""
    core, step = columns(kernel, carried), sums.shift / num_users
    spread = sums.spread - num_users * step[:, None] * step
    product, size = spread @ core, len(kernel)
    inside, outside = jnp.split(gap, [size])
    left = outside - inside @ carried.weights
    rest = num_users + carried.own * jnp.diagonal(spread)[size:]
    return Moments(
        num_users * kernel + core.T @ product + worth * inside[:, None] * inside,
        carried.own * product[size:].T + worth * inside[:, None] * left,
        carried.own * rest + worth * left**2,
    )
