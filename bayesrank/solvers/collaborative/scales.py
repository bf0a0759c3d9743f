r"""The scales of the base kernels, learned with the shared kernel that is drawn towards them.

With the E-step's moments of the core :math:`T = n \hat T` and :math:`\Psi(s) = \sum_c s_c K_c`, the
shared kernel that the M-step would choose is :math:`\hat\Sigma(s) = (T + \tau \Psi(s)) /
(n + \tau)`. Put in, the expected log joint density is, up to a constant,

.. math::
    Q(s) = \frac{\tau}{2} \log |\Psi(s)| - \frac{n + \tau}{2} \log |\hat\Sigma(s)|
        - \frac12 \sum_r \left(n \log D_r(s) + \frac{V_r(s)}{D_r(s)}\right).

The sum is over items outside of the core, see `bayesrank.solvers.collaborative.carry`:
:math:`V_r(s)` is the second moment, over users and with what the prior of the mean adds, of what is
left of item :math:`r` after its weights :math:`w_r(s)` on the core.

The step is Fisher's in :math:`\log s`, with the information that :math:`Q` has where :math:`\hat T
= \Psi` and :math:`V_r = n D_r`, so that the base process is right,

.. math::
    s_c s_d \left(\frac{n \tau}{2 (n + \tau)} \mathrm{tr}(\Psi^{-1} K_c \Psi^{-1} K_d)
        + \sum_r \left(\frac{n}{2} \, \partial_c \log D_r \, \partial_d \log D_r
        + n \frac{\partial_c w_r' \, \Psi \, \partial_d w_r}{D_r}\right)\right),

which is long enough for any strength, and halved until it does not lower :math:`Q`. Where the core
has several tiers, see `bayesrank.solvers.collaborative.kernel_prior`, its terms are sums over
tiers, of logarithms of determinants given the tiers before.

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
from jax.scipy.linalg import solve_triangular

from bayesrank.solvers.collaborative.carry import Carried, CoreKernels, carry, mix
from bayesrank.solvers.collaborative.kernel_prior import Tier, draw_as

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


class _Given(NamedTuple):
    """What stays as it is while scales are sought; see `update_scales`."""

    kernels: CoreKernels
    carried: Carried
    moments: Moments
    num_users: Array
    tiers: tuple[Tier, ...]


def update_scales(
    scales: Array,
    kernels: CoreKernels,
    carried: Carried,
    moments: Moments,
    num_users: Array,
    tiers: tuple[Tier, ...],
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
    tiers
        ``tau``, above zero for some.
    hold_size
        Whether only the scales' ratios are learned.
    """
    given = _Given(kernels, carried, moments, num_users, tiers)
    size = jnp.mean(jax.vmap(jnp.diagonal)(kernels.core), axis=1)
    shared = _shared_factors(given, scales)
    present = _objective(given, carried, shared)
    step = _step(given, scales, size, shared, hold_size=hold_size)

    def moved(share: Array) -> Array:
        new = scales * jnp.exp(share * step)
        new = jnp.maximum(new, _SMALLEST * jnp.max(new * size) / size)
        return new * (scales @ size) / (new @ size) if hold_size else new

    def too_long(share: Array) -> Array:
        new = moved(share)
        value = _objective(given, carry(new, kernels), _shared_factors(given, new))
        return ~(value >= present) & (share > _SHORTEST_SHARE)

    share = lax.while_loop(too_long, lambda share: 0.5 * share, jnp.ones((), step.dtype))
    return jnp.where(share > _SHORTEST_SHARE, moved(share), scales)


def _shared_factors(given: _Given, scales: Array) -> list[Array]:
    """Cholesky factors of the kernels that the M-step would choose with each tier's strength."""
    target = mix(scales, given.kernels.core)
    return [
        jnp.linalg.cholesky(draw_as(tier, given.moments.core, target, given.num_users))
        for tier in given.tiers
    ]


def _objective(given: _Given, base: Carried, shared: list[Array]) -> Array:
    """``Q`` for a base process and the shared kernel's factors that go together."""
    n, value = given.num_users, jnp.zeros((), base.own.dtype)
    for (start, end, tau), factor in zip(given.tiers, shared, strict=True):
        ours, theirs = (jnp.log(jnp.diagonal(x)[start:end]) for x in (base.factor, factor))
        value += jnp.sum(tau * ours - (n + tau) * theirs)
    change, (core, across, rest) = base.weights - given.carried.weights, given.moments
    left = rest - jnp.sum(change * (2.0 * across - core @ change), axis=0)
    return value - 0.5 * jnp.sum(n * jnp.log(base.own) + left / base.own)


def _step(
    given: _Given, scales: Array, size: Array, shared: list[Array], *, hold_size: bool
) -> Array:
    """Fisher's step in the logarithms of the scales, shortened."""
    gradient, information = _of_core(given, shared)
    if given.carried.own.shape[0]:
        more = _of_rest(given)
        gradient, information = gradient + more[0], information + more[1]
    gradient, information = scales * gradient, scales[:, None] * information * scales
    information += _RIDGE * jnp.diag(jnp.diagonal(information))
    # To first order, change no size.
    tangent = scales * size if hold_size else jnp.zeros_like(scales)
    step = _newton(gradient, information, tangent, scales > 0)
    # What is as small as may be, and should be smaller, must not shorten the step of the others.
    smallest = 1.01 * _SMALLEST * jnp.max(scales * size)
    step = _newton(gradient, information, tangent, (scales * size > smallest) | (step > 0))
    return step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1e-300))


def _newton(gradient: Array, information: Array, tangent: Array, free: Array) -> Array:
    """Newton's step of what is free; orthogonal to `tangent`, which may be zero."""
    inside = jnp.where(free[:, None] & free, information, jnp.diag(1.0 - free))
    both = jnp.where(free, jnp.stack([gradient, tangent]), 0.0)
    step, back = jnp.linalg.solve(inside, both.T).T
    along = both[1] @ back
    return step - back * (both[1] @ step) / jnp.where(along > 0, along, 1.0)


def _of_core(given: _Given, shared: list[Array]) -> tuple[Array, Array]:
    """Gradient and information of the core's part of ``Q`` in the scales, (C,) and (C, C)."""
    n, kernels = given.num_users, given.kernels.core
    whitened = [_whiten(given.carried.factor, kernel) for kernel in kernels]
    slopes, share = [], jnp.zeros_like(given.carried.factor)
    for (start, end, tau), factor in zip(given.tiers, shared, strict=True):
        inside = [_whiten(factor, kernel[:end, :end]) for kernel in kernels]
        pairs = zip(whitened, inside, strict=True)
        parts = [(jnp.diagonal(x)[:end] - jnp.diagonal(y))[start:].sum() for x, y in pairs]
        slopes.append(tau * jnp.stack(parts))
        # An entry counts in the first tier that has both of its items.
        share = share.at[start:end, :end].set(tau / (n + tau))
        share = share.at[:start, start:end].set(tau / (n + tau))
    across = jnp.stack(whitened)
    information = jnp.einsum("cij,ij,dij->cd", across, share, across)
    return 0.5 * jnp.stack(slopes).sum(axis=0), 0.5 * n * information


def _whiten(factor: Array, kernel: Array) -> Array:
    """``L^-1 K L^-T``."""
    half = solve_triangular(factor, kernel, lower=True)
    return solve_triangular(factor, half.T, lower=True)


def _of_rest(given: _Given) -> tuple[Array, Array]:
    """Gradient and information of the others' part of ``Q`` in the scales, (C,) and (C, C)."""
    kernels, (factor, weights, own), moments, num_users, _ = given
    unexplained = kernels.across - kernels.core @ weights
    log_own = (kernels.own - jnp.sum((kernels.across + unexplained) * weights, axis=1)) / own
    # Beside each other: batches of LAPACK's calls are slower, and may wait for each other for ever.
    columns = jnp.concatenate([*unexplained, moments.across], axis=1)
    halves = solve_triangular(factor, columns, lower=True)
    halves = halves.reshape(len(weights), -1, len(own))
    by_weights, across = halves[:, :-1], halves[:, -1]
    slopes = jnp.einsum("ik,ick,k->c", across, by_weights, 1.0 / own)
    gradient = 0.5 * (log_own @ (moments.rest / own - num_users)) + slopes
    information = jnp.einsum("ick,idk->cd", by_weights, by_weights / own)
    return gradient, num_users * (0.5 * log_own @ log_own.T + information)
