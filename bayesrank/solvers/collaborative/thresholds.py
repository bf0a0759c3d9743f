r"""The M-step for the likelihood's parameters: one Newton step on EP's log evidence.

At EP's fixed point the evidence is stationary in the sites, so that its gradient in a likelihood's
parameters is the sum of the gradients of the observations' :math:`\log Z_k` at their cavities; the
sum of outer products of these stands for minus its Hessian (Berndt, Hall, Hall, Hausman, 1974).
Where users have few ratings gradients may nearly vanish although the evidence is sharply curved,
and steps would swing to and fro: where the curvature :math:`A_j` of a user's log evidence is known
(see `bayesrank.solvers.collaborative.curvature`), the information is at least that in every
direction.

A user's parameters are shared ones plus a deviation :math:`e_j \sim N(0, \Lambda^{-1})`, so that
few ratings leave a user near the others. With gradients :math:`\gamma_j` and informations
:math:`I_j`, the step in the shared ones with the deviations maximised out solves

.. math::
    \sum_j I_j (I_j + \Lambda)^{-1} \Lambda \; \delta
        = \sum_j \left(\gamma_j - I_j (I_j + \Lambda)^{-1} (\gamma_j - \Lambda e_j)\right),

and then :math:`\delta_j = (I_j + \Lambda)^{-1} (\gamma_j - \Lambda e_j - I_j \delta)`.

How much users differ in their gaps is what their evidence says with the deviations integrated out,
by Laplace's approximation. With :math:`z_j = A_j e_j + \gamma_j`, a quadratic stands for a user's
log evidence, and the evidence of the spread is, up to a constant,

.. math::
    \sum_j \tfrac{1}{2} z_j' (A_j + \Lambda)^{-1} z_j
        - \tfrac{1}{2} \log | I + \Lambda^{-1} A_j |.

After the noise's deviation, whose variance is given, is eliminated, and :math:`A_j` brought to
its axes, it is a function of one number, and maximised in it outright. An EM step for a variance
would approach zero ever more slowly, and neither reach nor leave it; here zero is a value like
others.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.solvers.collaborative.e_step import UserSums
from bayesrank.solvers.collaborative.posterior import UserState

__all__ = ["Theta", "log_deviations", "log_volume", "update_theta"]

_LONGEST_STEP = 0.5
# Scores are those at the sites of the sweep before, which follow a user's parameters one iteration
# later: whole steps of the users' own swing to and fro, half steps do not.
_SHARE = 0.5
# Keeps the step finite where nothing is known: a gap beside a level that nobody used.
_RIDGE = 1e-6
# Spreads among which the largest evidence is sought, then refined between its neighbours.
_SPREADS = np.concatenate([[0.0], np.geomspace(1e-2, 3.0, 40)])
_HALVINGS = 30
# The first scores, far from where EM ends, are those of no spread at all: it grows step by step.
_GROWTH, _LEAST_TOP = 1.5, 0.1


class Theta(NamedTuple):
    """Parameters of a likelihood that users share.

    Attributes
    ----------
    shared
        Of levels log gaps, then log noise, shape (p,); the log noise is zero and sets the unit. Of
        numbers see `bayesrank.solvers.collaborative.numbers`.
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


def log_volume(theta: Theta, sums: tuple[UserSums, ...], known: tuple[Array, ...]) -> Array:
    """What integrating users' deviations out adds to the density where they are; a scalar.

    Laplace's approximation. With the density, zero where nobody differs. Of all blocks together,
    see `_decompose`.
    """
    free = theta.spread > 0
    curvature = _together([x.curvature for x in sums])
    scaled = theta.spread[:, None] * curvature * theta.spread
    widths = jnp.maximum(jnp.linalg.eigvalsh(scaled), 0.0)
    each = jnp.log(jnp.where(free, theta.spread, 1.0)) + 0.5 * jnp.log(2.0 * jnp.pi)
    volume = jnp.sum(jnp.where(free, each, 0.0)) - 0.5 * jnp.sum(jnp.log1p(widths), axis=-1)
    return jnp.sum(jnp.where(_together(list(known)), volume, 0.0))


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
    # Of all blocks together, so that there is less to compile.
    every = _Users(
        _together([user.theta for user in users]),
        _together([x.score for x in sums]),
        _together([x.information for x in sums]),
        _together([x.curvature for x in sums]),
        _together(list(known)),
    )
    information, axes = _decompose(every, theta.spread[-1])
    every = every._replace(information=information)
    shared, spread, deviation = theta.shared, theta.spread, every.theta - theta.shared
    free = spread > 0
    precision = jnp.diag(jnp.where(free, 1.0 / jnp.where(free, spread, 1.0) ** 2, 0.0))
    reduced = _reduce(deviation, every, precision, jnp.diag(free.astype(shared.dtype)))
    step, gaps = jnp.zeros_like(shared), shared.shape[0] - 1  # none if there are two levels
    if learn_shared and gaps:
        matrix = reduced.matrix + _RIDGE * jnp.eye(step.shape[0], dtype=step.dtype)
        # The shared noise, the last, is the unit.
        solved = jnp.linalg.solve(matrix[:-1, :-1], reduced.right[:-1])
        step = jnp.append(_limited(solved), 0.0)
    shared = shared + step
    if learn_spread and gaps:
        # About the shared parameters after their step: where these are wrong, users do not differ.
        pooled = _most_probable_spread(*_along_axes(every.theta - shared, spread[-1], every, axes))
        pooled = jnp.minimum(pooled, _GROWTH * jnp.maximum(spread[0], _LEAST_TOP))
        # The noise's own is not learned: where users rate items once, much noise is as probable as
        # functions that vary from item to item, and the spread would grow for ever.
        spread = jnp.append(jnp.full_like(spread[:-1], pooled), spread[-1])
    pull = jnp.einsum("npq,nq->np", reduced.reach, every.information @ step)
    deviation = deviation + _SHARE * _limited(reduced.gain - pull)
    after = shared + jnp.where(spread > 0, deviation, 0.0)
    ends = np.cumsum([user.theta.shape[0] * user.theta.shape[1] for user in users])
    split = jnp.split(after, ends[:-1])
    return Theta(shared, spread), tuple(
        user._replace(theta=x.reshape(user.theta.shape))
        for user, x in zip(users, split, strict=True)
    )


class _Users(NamedTuple):
    """What is known of the users of all blocks, an entry each; see `UserState` and `UserSums`."""

    theta: Array
    score: Array
    information: Array
    curvature: Array
    known: Array


class _Axes(NamedTuple):
    """Axes of users' curvatures in the gaps (n, p, p), and the curvatures along them (n, p)."""

    widths: Array
    vectors: Array


def _decompose(users: _Users, noise_spread: Array) -> tuple[Array, _Axes]:
    """Information that is in no direction less than the curvature, and the curvature's axes.

    Both in one call: on CPUs, jaxlib 0.10's batches of decompositions wait on the threads that
    work on them, and two at a time in one program may wait for each other for ever.
    """
    reach, across = _noise_eliminated(users.curvature, noise_spread)
    inside = users.curvature[:, :-1, :-1]
    inside -= reach[:, None, None] * across[:, :, None] * across[:, None, :]
    both = [users.curvature - users.information, jnp.pad(inside, ((0, 0), (0, 1), (0, 1)))]
    (more, widths), (axes, vectors) = jnp.linalg.eigh(jnp.stack(both))
    added = jnp.einsum("npq,nq,nrq->npr", axes, jnp.maximum(more, 0.0), axes)
    return users.information + added, _Axes(widths, vectors)


def _noise_eliminated(curvature: Array, noise_spread: Array) -> tuple[Array, Array]:
    """Variance of the noise's deviation given the gaps', and the curvature across, (n, p - 1)."""
    variance = noise_spread**2
    reach = variance / (1.0 + variance * jnp.maximum(curvature[:, -1, -1], 0.0))
    return reach, curvature[:, :-1, -1]


def _together(parts: list[Array]) -> Array:
    return jnp.concatenate([x.reshape(-1, *x.shape[2:]) for x in parts])


def _along_axes(
    deviation: Array, noise_spread: Array, users: _Users, axes: _Axes
) -> tuple[Array, Array]:
    """Curvatures of users' evidence along their axes of the gaps' deviations, and squared slopes.

    Slopes are those where nobody differs. Two vectors; zeros for who is not there.
    """
    slope = jnp.einsum("npq,nq->np", users.curvature, deviation) + users.score
    reach, across = _noise_eliminated(users.curvature, noise_spread)
    slope = slope[:, :-1] - (reach * slope[:, -1])[:, None] * across
    squares = jnp.einsum("npq,np->nq", axes.vectors[:, :-1], slope) ** 2
    there = users.known[:, None]
    return jnp.where(there, jnp.maximum(axes.widths, 0.0), 0.0), jnp.where(there, squares, 0.0)


def _most_probable_spread(widths: Array, squares: Array) -> Array:
    """Maximise the evidence in the spread: the best of a few, then halving between neighbours."""

    def evidence(spread: Array) -> Array:
        inside = 1.0 + spread**2 * widths
        return jnp.sum(spread**2 * squares / inside - jnp.log(inside))

    def rises(spread: Array) -> Array:
        inside = 1.0 + spread**2 * widths
        return jnp.sum(squares / inside**2 - widths / inside) > 0

    grid = jnp.asarray(_SPREADS, widths.dtype)
    best = jnp.argmax(lax.map(evidence, grid))
    last = grid.shape[0] - 1

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        up = rises(middle)
        return jnp.where(up, middle, ends[0]), jnp.where(up, ends[1], middle)

    ends = grid[jnp.maximum(best - 1, 0)], grid[jnp.minimum(best + 1, last)]
    low, high = lax.fori_loop(0, _HALVINGS, halve, ends)
    return jnp.where(best == 0, 0.0, 0.5 * (low + high))


class _Reduced(NamedTuple):
    """The equations of the shared step, and what users' own steps need."""

    matrix: Array
    right: Array
    gain: Array
    reach: Array


def _reduce(deviation: Array, users: _Users, precision: Array, kept: Array) -> _Reduced:
    information, score = users.information, users.score
    identity = jnp.eye(kept.shape[0], dtype=kept.dtype)
    # (I + Lambda)^-1 on the free deviations, zero on the others.
    inside = kept @ information @ kept + precision + (identity - kept)
    reach = kept @ jnp.linalg.inv(inside + _RIDGE * identity) @ kept
    gain = jnp.einsum("npq,nq->np", reach, score - deviation @ precision)
    matrix = information - information @ reach @ information
    right = score - jnp.einsum("npq,nq->np", information, gain)
    return _Reduced(matrix.sum(0), right.sum(0), gain, reach)


def _limited(step: Array) -> Array:
    """Shorten steps that no quadratic model is good for."""
    longest = jnp.max(jnp.abs(step), axis=-1, keepdims=True)
    return step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(longest, 1e-300))
