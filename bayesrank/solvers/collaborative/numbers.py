r"""Numbers: how a user gives them, and the M-step for that.

A user's number is :math:`y = a + c_j (f_j - a) + \sigma_j \epsilon`: the function, stretched about
the anchor :math:`a`, which is the mean of all numbers, and noise. So it is an observation
:math:`a + (y - a) / c_j` of the function, with noise :math:`\sigma_j / c_j`. A user's parameters
are the anchor, :math:`\log c_j` and :math:`\log \sigma_j`.

Where users are alike, :math:`c_j = 1`, and the noise has a closed form: the mean square residual
over all that was observed. Where they differ, :math:`\log c_j \sim N(0, s^2)` and
:math:`\log \sigma_j = \log \sigma + e_j` with :math:`e_j \sim N(0, s^2)`. With :math:`m_j`
observations, and :math:`S_0`, :math:`S_1`, :math:`S_2` the sums of :math:`(y - a)^2`,
:math:`(y - a)(f_j - a)` and :math:`(f_j - a)^2` in expectation, the expected log joint density is

.. math::
    \sum_j \left(- m_j \log \sigma_j - \frac{S_0 - 2 c_j S_1 + c_j^2 S_2}{2 \sigma_j^2}
        - \frac{(\log c_j)^2 + e_j^2}{2 s^2}\right).

A few of Newton's steps in each user's :math:`\log c_j`, then in :math:`\log \sigma_j`, and then the
mean of these, come near its maximum.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from bayesrank.solvers.collaborative.e_step import UserSums
from bayesrank.solvers.collaborative.posterior import UserState
from bayesrank.solvers.collaborative.thresholds import Theta

__all__ = ["update_numbers"]

_STEPS = 5
# Newton's steps may be far too long where a scale is far too small, or a noise too large.
_LONGEST_STEP = 0.5


def update_numbers(
    theta: Theta,
    users: tuple[UserState, ...],
    sums: tuple[UserSums, ...],
    known: tuple[Array, ...],
) -> tuple[Theta, tuple[UserState, ...]]:
    """Make the step.

    Parameters
    ----------
    theta
        Anchor, zero and shared log noise; the spread of users' about them, zero for none.
    users, sums, known
        Of each block: states, what the E-step found, and which users are there.
    """
    zero = jnp.zeros((), theta.shared.dtype)
    differ = theta.spread[-1] > 0
    pull = jnp.where(differ, 1.0 / jnp.where(differ, theta.spread[-1], 1.0) ** 2, 0.0)
    scales, squares = [], []
    for user, own, there in zip(users, sums, known, strict=True):
        log_scale = jnp.where(there & differ, _scale(user, own, pull), 0.0)
        scales.append(log_scale)
        squares.append(_residual(user, own, log_scale))
    total = sum((jnp.sum(square) for square in squares), zero)
    observed = sum((jnp.sum(own.observed) for own in sums), zero)
    common = 0.5 * jnp.log(total / observed)
    noises = [
        jnp.where(there & differ, _noise(user, own, square, theta.shared[-1], pull), common)
        for user, own, square, there in zip(users, sums, squares, known, strict=True)
    ]
    number = sum((jnp.sum(there) for there in known), zero)
    mean = sum((jnp.sum(jnp.where(t, x, 0.0)) for x, t in zip(noises, known, strict=True)), zero)
    shared = theta.shared.at[-1].set(jnp.where(differ, mean / number, common))
    after = tuple(
        user._replace(theta=jnp.stack([user.theta[..., 0], log_scale, log_noise], axis=-1))
        for user, log_scale, log_noise in zip(users, scales, noises, strict=True)
    )
    return theta._replace(shared=shared), after


def _scale(user: UserState, own: UserSums, pull: Array) -> Array:
    """Log scale of each user."""
    at, precision = user.theta[..., 1], jnp.exp(-2.0 * user.theta[..., 2])
    product = jnp.exp(at) * own.cross

    def newton(_: int, log_scale: Array) -> Array:
        linear, square = product * jnp.exp(log_scale), own.square * jnp.exp(2.0 * log_scale)
        gradient = precision * (linear - square) - pull * log_scale
        # Where the density is not concave, that it is not is left out.
        curvature = precision * (square + jnp.maximum(square - linear, 0.0)) + pull
        step = gradient / jnp.where(curvature > 0, curvature, 1.0)
        return log_scale + jnp.clip(step, -_LONGEST_STEP, _LONGEST_STEP)

    return lax.fori_loop(0, _STEPS, newton, at)


def _residual(user: UserState, own: UserSums, log_scale: Array) -> Array:
    """Sum of each user's expected squared residuals, at a new scale."""
    before, after = jnp.exp(user.theta[..., 1]), jnp.exp(log_scale)
    told = before**2 * (own.residual + 2.0 * own.cross - own.square)
    return told - 2.0 * after * before * own.cross + after**2 * own.square


def _noise(user: UserState, own: UserSums, square: Array, shared: Array, pull: Array) -> Array:
    """Log noise of each user."""

    def newton(_: int, log_noise: Array) -> Array:
        misfit = square * jnp.exp(-2.0 * log_noise)
        gradient = misfit - own.observed - pull * (log_noise - shared)
        step = gradient / (2.0 * misfit + pull)
        return log_noise + jnp.clip(step, -_LONGEST_STEP, _LONGEST_STEP)

    return lax.fori_loop(0, _STEPS, newton, user.theta[..., 2])
