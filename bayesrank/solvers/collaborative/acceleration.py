r"""Anderson's acceleration of EM, in coordinates where every point is a state.

An iteration of EM takes a state :math:`x` to :math:`g(x)`. Of the last few iterations the
combination is taken whose residuals :math:`g(x) - x` nearly cancel, and the same combination of
the :math:`g(x)` is the proposal. What is combined is the mean, the Cholesky factor of the kernel
with the logarithm of its diagonal, so that the kernel stays positive definite, the level and the
log scales of the base, the likelihood's parameters, and the sites with the logarithm of their
precisions. The residuals of mean, factor and shared parameters choose the weights.

A proposal may be worse than EM's own step. The caller compares, goes back if it is, and says so;
then a few of EM's own steps are made before the next proposal.

References
----------
.. [1] Walker, H. F. and Ni, P. (2011). Anderson acceleration for fixed-point iterations. SIAM
   Journal on Numerical Analysis, 49(4), 1715-1735.
.. [2] Henderson, N. C. and Varadhan, R. (2019). Damped Anderson acceleration with restarts and
   monotonicity control for accelerating EM and EM-like algorithms. Journal of Computational and
   Graphical Statistics, 28(4), 834-846.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from bayesrank.infer.compiled import jit
from bayesrank.solvers.collaborative.iterate import State
from bayesrank.solvers.collaborative.m_step import Base
from bayesrank.solvers.collaborative.posterior import UserState

__all__ = ["Anderson", "Point", "from_point", "to_point"]

Tree = TypeVar("Tree")

_DEPTH = 6
_PLAIN_STEPS = 4
# Relative to the residuals' squares: keeps the weights finite where residuals are parallel.
_RIDGE = 1e-8


class Point(NamedTuple):
    """Coordinates of a state.

    Attributes
    ----------
    mean
        ``h``, shape (m,).
    factor
        Lower Cholesky factor of ``Sigma``, the diagonal in logarithms, shape (m, m).
    level, scales
        Of the base process; the scales in logarithms.
    theta
        Shared parameters, shape (p,).
    users
        With the logarithms of site precisions.
    """

    mean: Array
    factor: Array
    level: Array
    scales: Array
    theta: Array
    users: tuple[UserState, ...]


@jit
def to_point(state: State) -> Point:
    """Coordinates of a state."""
    factor = jnp.linalg.cholesky(state.prior.kernel)
    diagonal = jnp.diagonal(factor)
    return Point(
        state.prior.mean,
        factor + jnp.diag(jnp.log(diagonal) - diagonal),
        state.base.level,
        jnp.log(state.base.scales),
        state.theta.shared,
        tuple(user._replace(tau=_log(user.tau)) for user in state.users),
    )


@jit
def from_point(point: Point, state: State) -> State:
    """Undo `to_point`; what is no coordinate, and what has no logarithm, is as in `state`.

    How much users differ is none: it is found outright in each iteration, and may be zero.
    """
    diagonal = jnp.diagonal(point.factor)
    factor = point.factor + jnp.diag(jnp.exp(diagonal) - diagonal)
    differ = state.theta.spread > 0
    users = tuple(
        new._replace(
            tau=_exp(new.tau, old.tau),
            theta=jnp.where(differ, new.theta, point.theta),
        )
        for new, old in zip(point.users, state.users, strict=True)
    )
    return State(
        state.prior._replace(mean=point.mean, kernel=factor @ factor.T),
        Base(point.level, jnp.exp(point.scales)),
        state.theta._replace(shared=point.theta),
        users,
    )


def _log(values: Array) -> Array:
    return jnp.where(values > 0, jnp.log(jnp.where(values > 0, values, 1.0)), 0.0)


def _exp(logs: Array, old: Array) -> Array:
    return jnp.where(old > 0, jnp.exp(logs), old)


class _Residual(NamedTuple):
    """What chooses the weights: differences of mean, factor and shared parameters."""

    mean: Array
    factor: Array
    theta: Array


@jit
def _residual(before: Point, after: Point, unit: ArrayLike) -> _Residual:
    factor = after.factor - before.factor
    logs = jnp.diag(jnp.diagonal(factor))
    mean = (after.mean - before.mean) / unit
    return _Residual(mean, logs + (factor - logs) / unit, after.theta - before.theta)


@jit
def _inner(a: _Residual, b: _Residual) -> Array:
    return sum((jnp.vdot(x, y) for x, y in zip(a, b, strict=True)), jnp.zeros(()))


@jit
def _subtract(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.subtract, a, b)


@jit
def _add(a: Tree, factor: ArrayLike, b: Tree) -> Tree:
    return jax.tree.map(lambda x, y: x + factor * y, a, b)


class Anderson:
    """The last iterations of a run, and what they propose.

    Parameters
    ----------
    unit
        How large a step in the mean counts as much as a step of one in the logarithm of a variance.
    """

    def __init__(self, unit: float = 1.0) -> None:
        self._unit = unit
        self._at: Point | None = None
        self._forget()

    def _forget(self) -> None:
        self._last: tuple[_Residual, Point] | None = None
        self._residuals: list[_Residual] = []
        self._images: list[Point] = []
        self._wait = _PLAIN_STEPS

    def propose(self, old: State, new: State) -> State | None:
        """Return a state further on than `new`, which EM has made of `old`; or None to go there.

        Parameters
        ----------
        old
            What was returned last, or where it was None or has been rejected, the `new` of that
            call.
        new
            EM's own next state.
        """
        before = to_point(old) if self._at is None else self._at
        image = to_point(new)
        residual = _residual(before, image, self._unit)
        if self._last is not None:
            self._residuals = [*self._residuals, _subtract(residual, self._last[0])][-_DEPTH:]
            self._images = [*self._images, _subtract(image, self._last[1])][-_DEPTH:]
        self._last, self._at = (residual, image), image
        self._wait -= 1
        if self._wait > 0 or not self._residuals:
            return None
        for weight, difference in zip(self._weights(residual), self._images, strict=True):
            self._at = _add(self._at, -weight, difference)
        return from_point(self._at, new)

    def reject(self) -> None:
        """Say that the last proposal was worse, and that EM's own step was taken instead."""
        if self._last is not None:
            self._at = self._last[1]
        self._forget()

    def _weights(self, residual: _Residual) -> np.ndarray:
        """Least-squares weights of the differences that best make up the residual."""
        columns = [*self._residuals, residual]
        products = np.array([[float(_inner(a, b)) for b in columns] for a in columns[:-1]])
        size = np.sqrt(np.diagonal(products))
        if not np.isfinite(products).all() or not size.all():
            return np.zeros(len(size))  # no covariance, or nothing has changed
        gram = products[:, :-1] / np.outer(size, size) + _RIDGE * np.eye(len(size))
        return np.linalg.solve(gram, products[:, -1] / size) / size
