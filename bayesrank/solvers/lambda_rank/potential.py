"""Whether a field is the slope of a cost, and the cost convex.

The paper tests whether the Jacobian is symmetric, which is enough for a smooth field. A field of
ranks jumps where two scores change places: a Jacobian that is symmetric almost everywhere does not
see what the jumps add around a loop. So this tests the Jacobian and the circulation around loops,
integrated piece by piece between the places where scores cross.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesrank._sizes import next_size
from bayesrank.solvers.lambda_rank.lists import LambdaField


@dataclass(frozen=True)
class FieldVerdict:
    """Whether a test of a field found a counterexample.

    Attributes
    ----------
    holds
        Whether it found none.
    reason
        "" or what fails: "jacobian", "circulation", "curvature" or "monotonicity".
    value
        Size of the failure, or the largest value without one.
    witness
        Scores at which it fails: a point, or the corners of a loop or a segment.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.lambda_rank import Field, is_conservative
    >>> verdict = is_conservative(Field("ndcg"), np.zeros(3), np.array([2, 1, 0]))
    >>> verdict.holds, verdict.reason
    (False, 'circulation')
    """

    holds: bool
    reason: str
    value: float
    witness: NDArray[np.float64] | None

    def __bool__(self) -> bool:
        return self.holds


def circulation(
    field: LambdaField, corners: Any, labels: Any, *, tol: float = 1e-9, most_halvings: int = 40
) -> float:
    """Integral of lambda along a closed polygon through score space.

    It cuts each side into pieces, and halves a piece until its two halves together agree with it.
    So it finds jumps and kinks of the field wherever they are.

    Parameters
    ----------
    field
        Of one list.
    corners, labels
        Scores at the corners, shape (corners, n), and grades, shape (n,).
    tol, most_halvings
        How far a piece and its two halves may differ, and how often a piece is halved at most.
    """
    start = np.asarray(corners, np.float64)
    step = np.roll(start, -1, axis=0) - start
    cuts = start[:, None] + np.linspace(0.0, 1.0, 9)[:, None] * step[:, None]  # (corners, 9, n)
    pieces = np.stack([cuts[:, :-1], cuts[:, 1:]], axis=2).reshape(-1, 2, start.shape[1])
    whole = _line_integrals(field, pieces, labels)
    total = 0.0
    for _ in range(most_halvings):
        middle = pieces.mean(axis=1, keepdims=True)
        halves = np.concatenate([pieces[:, :1], middle, middle, pieces[:, 1:]], axis=1)
        halves = halves.reshape(-1, 2, start.shape[1])
        parts = _line_integrals(field, halves, labels)
        open_ = np.abs(parts.reshape(-1, 2).sum(axis=1) - whole) > tol
        total += float(parts.reshape(-1, 2)[~open_].sum())
        pieces, whole = halves[np.repeat(open_, 2)], parts[np.repeat(open_, 2)]
        if not len(pieces):
            break
    return total + float(whole.sum())


@cache
def _lobatto(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [0, 1]; the ends are nodes, so that no jump hides beside them."""
    legendre = np.polynomial.Legendre.basis(count - 1)
    inner = np.sort(np.real(legendre.deriv().roots()))
    nodes = np.concatenate([[-1.0], inner, [1.0]])
    return (nodes + 1) / 2, 1.0 / (count * (count - 1) * legendre(nodes) ** 2)


def _line_integrals(field: LambdaField, pieces: NDArray, labels: Any) -> NDArray[np.float64]:
    """Integral of lambda along each straight piece, shape (pieces,)."""
    start, step = pieces[:, 0], pieces[:, 1] - pieces[:, 0]
    nodes, weights = _lobatto(12)
    points = start[:, None] + nodes[:, None] * step[:, None]
    lam = _evaluate(field, points.reshape(-1, points.shape[-1]), labels).reshape(points.shape)
    return np.einsum("pqn,pn,q->p", lam, step, weights)


def is_conservative(
    field: LambdaField,
    scores: Any,
    labels: Any,
    *,
    num_loops: int = 50,
    spread: float = 1.0,
    seed: int = 0,
    tol: float = 1e-6,
) -> FieldVerdict:
    """Whether the field has a potential, by its Jacobian and its circulation around loops.

    It is true if there was no counterexample.

    Parameters
    ----------
    field
        Of one list.
    scores, labels
        Where to look, and the grades, shape (n,).
    num_loops, spread, seed
        Triangles with normal corners around the scores, and their standard deviation.
    tol
        What counts as zero.
    """
    rng = np.random.default_rng(seed)
    centre = np.asarray(scores, np.float64)
    worst = 0.0
    for point in centre + spread * rng.normal(size=(5, len(centre))):
        J = _jacobian(field, point, labels)
        worst = max(worst, float(np.abs(J - J.T).max()))
        if worst > tol:
            return FieldVerdict(False, "jacobian", worst, point)
    for _ in range(num_loops):
        corners = centre + spread * rng.normal(size=(3, len(centre)))
        value = abs(circulation(field, corners, labels))
        worst = max(worst, value)
        if value > tol:
            return FieldVerdict(False, "circulation", value, corners)
    return FieldVerdict(True, "", worst, None)


def is_convex(
    field: LambdaField,
    scores: Any,
    labels: Any,
    *,
    num_points: int = 50,
    spread: float = 1.0,
    seed: int = 0,
    tol: float = 1e-6,
) -> FieldVerdict:
    """Whether going along the field goes down a convex cost, as far as points show.

    Lambda is minus the slope, so *minus* its Jacobian has to be positive semidefinite. Between any
    two points ``(lambda(b) - lambda(a)) . (b - a)`` must not be positive, jumps included.

    Parameters
    ----------
    field, scores, labels, spread, seed, tol
        As for `is_conservative`.
    num_points
        Points, and pairs of points, to look at.
    """
    rng = np.random.default_rng(seed)
    centre = np.asarray(scores, np.float64)
    points = centre + spread * rng.normal(size=(num_points, 2, len(centre)))
    points = np.concatenate([points, _across(points[:, 0], rng)])
    worst = 0.0
    for a, b in points:
        J = _jacobian(field, a, labels)
        bend = float(np.linalg.eigvalsh((J + J.T) / 2)[-1])
        if bend > tol:
            return FieldVerdict(False, "curvature", bend, a)
        lam = _evaluate(field, np.stack([a, b]), labels)
        rise = float((lam[1] - lam[0]) @ (b - a))
        if rise > tol:
            return FieldVerdict(False, "monotonicity", rise, np.stack([a, b]))
        worst = max(worst, bend, rise)
    return FieldVerdict(True, "", worst, None)


def _across(points: Any, rng: np.random.Generator) -> Any:
    """Short segments across places where two scores are equal, where a field of ranks jumps."""
    middle = points.copy()
    for row in middle:
        i, j = rng.choice(len(row), 2, replace=False)
        row[i] = row[j]
    step = 1e-3 * rng.normal(size=middle.shape)
    return np.stack([middle - step, middle + step], axis=1)


def _evaluate(field: LambdaField, points: Any, labels: Any) -> NDArray[np.float64]:
    """Lambda at many points, padded to a power of two so that few shapes are compiled."""
    count = len(points)
    padded = np.resize(points, (next_size(count), np.shape(points)[1]))
    with jax.enable_x64(True):
        return np.asarray(_lambda_at(field, padded, np.asarray(labels, float)))[:count]


def _jacobian(field: LambdaField, point: Any, labels: Any) -> NDArray[np.float64]:
    with jax.enable_x64(True):
        return np.asarray(_slope_at(field, np.asarray(point), np.asarray(labels, float)))


@partial(jax.jit, static_argnums=0)
def _lambda_at(field: LambdaField, points: Array, labels: Array) -> Array:
    where = jnp.ones(labels.shape, bool)
    return jax.vmap(lambda s: field(s, labels, where)[0])(points)


@partial(jax.jit, static_argnums=0)
def _slope_at(field: LambdaField, point: Array, labels: Array) -> Array:
    where = jnp.ones(labels.shape, bool)
    return jax.jacfwd(lambda s: field(s, labels, where)[0])(point)
