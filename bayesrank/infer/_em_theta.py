r"""The M-step for the likelihood's parameters: one Newton step on EP's log evidence.

At EP's fixed point the evidence is stationary in the sites, so that its gradient in a likelihood's
parameters is the sum of the gradients of the observations' :math:`\log Z_k` at their cavities; the
sum of outer products of these stands for minus its Hessian (Berndt, Hall, Hall, Hausman, 1974).

A user's parameters are shared ones plus a deviation :math:`e_j \sim N(0, \Lambda^{-1})`, so that
few ratings leave a user near the others. With gradients :math:`\gamma_j` and informations
:math:`I_j`, the step in the shared ones with the deviations maximised out solves

.. math::
    \sum_j I_j (I_j + \Lambda)^{-1} \Lambda \; \delta
        = \sum_j \left(\gamma_j - I_j (I_j + \Lambda)^{-1} (\gamma_j - \Lambda e_j)\right),

and then :math:`\delta_j = (I_j + \Lambda)^{-1} (\gamma_j - \Lambda e_j - I_j \delta)`. The
variance of gaps in :math:`\Lambda` is the one that the deviations show, their uncertainty included
(EM with Laplace's approximation).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from bayesrank.infer._em_estep import UserState, UserSums

__all__ = ["Theta", "log_deviations", "update_theta"]

_LONGEST_STEP = 0.5
# Scores are those at the sites of the sweep before, which follow a user's parameters one iteration
# later: whole steps of the users' own swing to and fro, half steps do not.
_SHARE = 0.5
# Keeps the step finite where nothing is known: a gap beside a level that nobody used.
_RIDGE = 1e-6


class Theta(NamedTuple):
    """Parameters of an ordinal likelihood that users share.

    Attributes
    ----------
    shared
        Log gaps, then log noise, shape (p,); the log noise is zero and sets the unit.
    spread
        Standard deviations of the users' deviations from it, shape (p,); zero for none.
    """

    shared: Array
    spread: Array


def log_deviations(theta: Theta, users: UserState, known: Array) -> Array:
    """Log prior density of users' deviations, those of no user left out; a scalar."""
    free = theta.spread > 0
    spread = jnp.where(free, theta.spread, 1.0)
    ratio = (users.theta - theta.shared) / spread
    density = -0.5 * ratio**2 - jnp.log(spread) - 0.5 * jnp.log(2.0 * jnp.pi)
    return jnp.sum(jnp.where(free & known[..., None], density, 0.0))


def update_theta(
    theta: Theta,
    users: tuple[UserState, ...],
    sums: tuple[UserSums, ...],
    known: tuple[Array, ...],
    *,
    learn_shared: bool,
    learn_spread: bool,
) -> tuple[Theta, tuple[UserState, ...]]:
    """Make the step.

    Parameters
    ----------
    theta
        Shared parameters.
    users, sums, known
        Of each block: states, what the E-step found, and which users are there.
    learn_shared, learn_spread
        Which of the shared parameters are learned.
    """
    free = theta.spread > 0
    precision = jnp.diag(jnp.where(free, 1.0 / jnp.where(free, theta.spread, 1.0) ** 2, 0.0))
    kept = jnp.diag(free.astype(theta.shared.dtype))
    parts = [_reduce(theta, *part, precision, kept) for part in zip(users, sums, strict=True)]
    step = jnp.zeros_like(theta.shared)
    if learn_shared:
        ridge = _RIDGE * jnp.eye(step.shape[0], dtype=step.dtype)
        matrix = sum((part.matrix for part in parts), ridge)
        right = sum((part.right for part in parts), step)
        # The shared noise, the last, is the unit.
        step = jnp.append(_limited(jnp.linalg.solve(matrix[:-1, :-1], right[:-1])), 0.0)
    shared = theta.shared + step
    after, squares, count = [], jnp.zeros_like(step), jnp.zeros((), step.dtype)
    for user, part, there in zip(users, parts, known, strict=True):
        deviation = user.theta - theta.shared
        own = part.gain - jnp.einsum("...pq,...q->...p", part.reach, jnp.einsum(
            "...pq,q->...p", part.information, step))  # fmt: skip
        deviation = deviation + _SHARE * _limited(own)
        after.append(user._replace(theta=shared + deviation))
        variance = jnp.diagonal(part.reach, axis1=-2, axis2=-1)
        squares += jnp.sum(jnp.where(there[..., None], deviation**2 + variance, 0.0), axis=(0, 1))
        count += jnp.sum(there)
    spread = theta.spread
    if learn_spread:
        pooled = jnp.sqrt(jnp.mean(squares[:-1]) / count) if squares.shape[0] > 1 else 0.0
        # The noise's own is not learned: where users rate items once, much noise is as probable as
        # functions that vary from item to item, and the spread would grow for ever.
        spread = jnp.where(free & (jnp.arange(free.shape[0]) < free.shape[0] - 1), pooled, spread)
    return Theta(shared, spread), tuple(after)


class _Reduced(NamedTuple):
    """A block's share of the equations, and what its users' own steps need."""

    matrix: Array
    right: Array
    gain: Array
    reach: Array
    information: Array


def _reduce(
    theta: Theta, user: UserState, sums: UserSums, precision: Array, kept: Array
) -> _Reduced:
    size = theta.shared.shape[0]
    information, score = sums.information, sums.score
    # (I + Lambda)^-1 on the free deviations, zero on the others.
    inside = kept @ information @ kept + precision + (jnp.eye(size) - kept)
    reach = kept @ jnp.linalg.inv(inside + _RIDGE * jnp.eye(size)) @ kept
    pull = jnp.einsum("pq,...q->...p", precision, user.theta - theta.shared)
    gain = jnp.einsum("...pq,...q->...p", reach, score - pull)
    matrix = information - information @ reach @ information
    right = score - jnp.einsum("...pq,...q->...p", information, gain)
    return _Reduced(matrix.sum((0, 1)), right.sum((0, 1)), gain, reach, information)


def _limited(step: Array) -> Array:
    """Shorten steps that no quadratic model is good for."""
    longest = jnp.max(jnp.abs(step), axis=-1, keepdims=True)
    return step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(longest, 1e-300))
