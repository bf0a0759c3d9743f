r"""The scales of the base kernels, learned with the shared kernel that is drawn towards them.

With the E-step's moments of the core :math:`T = n \hat T` and :math:`\Psi(s) = \sum_c s_c K_c`, the
shared kernel that the M-step would choose is :math:`\hat\Sigma(s) = (T + \tau \Psi(s)) /
(n + \tau)`. Put in, the expected log joint density is, up to a constant,

.. math::
    Q(s) = \frac{\tau}{2} \log |\Psi(s)| - \frac{n + \tau}{2} \log |\hat\Sigma(s)|
        - \frac12 \sum_r \left(n \log D_r(s) + \frac{V_r(s)}{D_r(s)}\right).

The sum is over items outside of the core, see `bayesrank.infer._em_carry`: :math:`V_r(s)` is the
second moment, over users and with what the prior of the mean adds, of what is left of item
:math:`r` after its weights :math:`w_r(s)` on the core.

The step is Fisher's in :math:`\log s`, with the information that :math:`Q` has where :math:`\hat T
= \Psi` and :math:`V_r = n D_r`,

.. math::
    s_c s_d \left(\frac{n \tau}{2 (n + \tau)} \mathrm{tr}(\Psi^{-1} K_c \Psi^{-1} K_d)
        + \sum_r \left(\frac{n}{2} \, \partial_c \log D_r \, \partial_d \log D_r
        + \frac{\partial_c w_r' \, T \, \partial_d w_r}{D_r}\right)\right),

which is long enough for any strength, and halved until it does not lower :math:`Q`.

Where the noise is the unit, as it is for levels, only ratios are learned, and the variance
:math:`\mathrm{tr}\, \Psi / m` stays as it is. What a user thinks of one item alone does the same as
noise where items are rated once: with all else in proportion, the less of the whole is called
noise, the larger would :math:`s` become, without end.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_solve

from bayesrank.infer._em_carry import Carried, CoreKernels, carry, mix

__all__ = ["Moments", "update_scales"]

_LONGEST_STEP = 1.0  # in log scale
_RIDGE = 1e-12  # relative: keeps the step finite where two kernels are the same
_SHORTEST_SHARE = 1e-3  # of a step: what is shorter is none
# No kernel's variance is below this part of the largest one's: what keeps the mixture positive
# definite may be a kernel that the data have no use for.
_SMALLEST = 1e-6


class Moments(NamedTuple):
    """Second moments of users' functions about the mean, summed over users.

    Attributes
    ----------
    core
        Of the core items, ``T``, shape (c, c).
    across
        Between the core and what is left of the other items by their present weights, (c, k).
    rest
        Of what is left of the other items, ``V``, shape (k,).
    """

    core: Array
    across: Array
    rest: Array


def update_scales(
    scales: Array,
    kernels: CoreKernels,
    carried: Carried,
    moments: Moments,
    num_users: Array,
    strength: float,
    *,
    hold_size: bool,
) -> Array:
    """Make a step from the present scales that does not lower :math:`Q`.

    Parameters
    ----------
    scales
        ``s``, shape (C,).
    kernels
        Base kernels.
    carried
        The base process at the present scales, which the moments were found with.
    moments
        What the E-step found.
    num_users
        ``n``.
    strength
        ``tau``, above zero.
    hold_size
        Whether only the scales' ratios are learned.
    """
    total = num_users + strength
    size = jnp.mean(jax.vmap(jnp.diagonal)(kernels.core), axis=1)

    def shared_factor(scales: Array) -> Array:
        target = mix(scales, kernels.core)
        return jnp.linalg.cholesky((moments.core + strength * target) / total)

    def objective(base: Carried, shared: Array) -> Array:
        half, other = (jnp.sum(jnp.log(jnp.diagonal(x))) for x in (base.factor, shared))
        change = base.weights - carried.weights
        left = moments.rest - jnp.sum(change * (2.0 * moments.across - moments.core @ change), 0)
        rest = jnp.sum(num_users * jnp.log(base.own) + left / base.own)
        return strength * half - total * other - 0.5 * rest

    def moved(share: Array) -> Array:
        new = scales * jnp.exp(share * step)
        new = jnp.maximum(new, _SMALLEST * jnp.max(new * size) / size)
        return new * (scales @ size) / (new @ size) if hold_size else new

    def too_long(share: Array) -> Array:
        new = moved(share)
        value = objective(carry(new, kernels), shared_factor(new))
        return ~(value >= present) & (share > _SHORTEST_SHARE)

    shared = shared_factor(scales)
    present = objective(carried, shared)
    gradient, information = _of_core(kernels.core, carried, shared, num_users, strength)
    if carried.own.shape[0]:
        more = _of_rest(kernels, carried, moments, num_users)
        gradient, information = gradient + more[0], information + more[1]
    gradient, information = scales * gradient, scales[:, None] * information * scales
    information += _RIDGE * jnp.diag(jnp.diagonal(information))
    step = jnp.linalg.solve(information, gradient)
    if hold_size:
        # Newton's step among those that, to first order, change no size.
        shares = scales * size
        back = jnp.linalg.solve(information, shares)
        step = step - back * (shares @ step) / (shares @ back)
    step = step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))
    share = lax.while_loop(too_long, lambda share: 0.5 * share, jnp.ones((), step.dtype))
    return jnp.where(share > _SHORTEST_SHARE, moved(share), scales)


def _of_core(
    kernels: Array, carried: Carried, shared: Array, num_users: Array, strength: float
) -> tuple[Array, Array]:
    """Gradient and information of the core's part of ``Q`` in the scales, (C,) and (C, C)."""
    identity = jnp.eye(shared.shape[0], dtype=shared.dtype)
    inverse, other = (cho_solve((x, True), identity) for x in (carried.factor, shared))
    gradient = 0.5 * strength * jnp.einsum("ij,cij->c", inverse - other, kernels)
    across = jnp.einsum("ij,cjk->cik", inverse, kernels)
    share = 0.5 * num_users * strength / (num_users + strength)
    return gradient, share * jnp.einsum("cij,dji->cd", across, across)


def _of_rest(
    kernels: CoreKernels, carried: Carried, moments: Moments, num_users: Array
) -> tuple[Array, Array]:
    """Gradient and information of the others' part of ``Q`` in the scales, (C,) and (C, C)."""
    weights, own = carried.weights, carried.own
    core, others = weights.shape
    unexplained = kernels.across - kernels.core @ weights
    # In one call: several batches of LAPACK's in a program may wait for each other for ever.
    side_by_side = jnp.moveaxis(unexplained, 0, 1).reshape(core, -1)
    by_weights = cho_solve((carried.factor, True), side_by_side).reshape(core, -1, others)
    log_own = kernels.own - jnp.sum((kernels.across + unexplained) * weights, axis=1)
    log_own = log_own / own
    slopes = jnp.einsum("ik,ick->ck", moments.across, by_weights) / own
    gradient = 0.5 * (log_own @ (moments.rest / own - num_users)) + slopes.sum(axis=1)
    products = jnp.einsum("ij,jck->ick", moments.core, by_weights) / own
    information = 0.5 * num_users * log_own @ log_own.T
    return gradient, information + jnp.einsum("ick,idk->cd", by_weights, products)
