"""Learning the cone: alternating minimisation, and the paper's two gradient methods.

Minimise ``sum_j a_j |z_j - w_j U|^2 + penalty |U|^2`` over atoms U (rows, no longer than a bound)
and weights w_j on the simplex: the paper's relaxation (18). In its original form (9), atoms have
the length of the bound. A difference's weights are not negative there, with a sum in a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls

from bayesrank.datasets import QueryLists
from bayesrank.solvers.cone_rank.fold_in import (
    SumRange,
    eg_fold_in,
    linear_eg_fold_in,
    printed_fold_in,
    projection_fold_in,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Differences of items that one grade sets above another.

    Attributes
    ----------
    z
        Shape (J, N): features of the better item minus those of the other, normalised.
    phi, lists
        Shape (J,): difference of grade, and number of the list, of each pair; lists stand together.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.datasets import group_queries
    >>> from bayesrank.solvers.cone_rank import ordered_pairs
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> lists = group_queries(["q1", "q1", "q1"], 3)
    >>> ordered_pairs(X, np.array([2, 1, 0]), lists, rho=1.0, alpha=1.0).z.shape
    (3, 2)
    """

    z: Array
    phi: Array
    lists: NDArray[np.intp]

    @property
    def weight(self) -> Array:
        """Weight of each pair in the empirical risk, ``phi / (P n_q)``, shape (J,)."""
        _, place, count = np.unique(self.lists, return_inverse=True, return_counts=True)
        return self.phi / (len(count) * count[place])

    def of_lists(self, kept: Any) -> Pairs:
        """Return the pairs of some lists."""
        rows = np.isin(self.lists, kept)
        return Pairs(self.z[rows], self.phi[rows], self.lists[rows])


def normalised(differences: Array, rho: float, alpha: float) -> Array:
    """Equation (5): ``rho z / (alpha + |z|)``, which is shorter than rho.

    Parameters
    ----------
    differences
        Of features, shape (J, N).
    rho, alpha
        Limit of the length, and the length that becomes half of it; both positive.
    """
    norm = np.linalg.norm(differences, axis=1, keepdims=True)
    return rho * differences / (alpha + norm)


def ordered_pairs(X: Any, y: Array, lists: QueryLists, rho: float, alpha: float) -> Pairs:
    """All pairs of rows of one list with different grades.

    Parameters
    ----------
    X, y
        Features (m, N) and grades (m,), list after list.
    lists
        The lists, by `bayesrank.datasets.group_queries`.
    rho, alpha
        As for `normalised`.

    Returns
    -------
    Pairs
        Differences of the better item's features and the other's.

    Raises
    ------
    ValueError
        If there is none.
    """
    found, numbers = [], []
    for q, (start, size) in enumerate(zip(lists.starts, lists.sizes, strict=True)):
        mine = y[start : start + size]
        pairs = np.argwhere(mine[:, None] > mine) + start
        found.append(pairs)
        numbers.append(np.full(len(pairs), q))
    rows = np.concatenate(found)
    if not len(rows):
        raise ValueError("y is the same within every list; give lists with two different grades")
    difference = X[rows[:, 0]] - X[rows[:, 1]]
    dense = difference.toarray() if sparse.issparse(difference) else difference
    phi = y[rows[:, 0]] - y[rows[:, 1]]
    return Pairs(normalised(dense, rho, alpha), phi, np.concatenate(numbers))


_INNER = 40  # steps of folding in between two updates of the atoms


class Cone(NamedTuple):
    """A learned cone: atoms, shape (K, N); weights, shape (J, K); the objective.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank.solvers.cone_rank import Cone
    >>> Cone(jnp.eye(2), jnp.array([[0.5, 0.5]]), 0.1).atoms.shape
    (2, 2)
    """

    atoms: Array
    weights: Array
    objective: float


def objective(atoms: Array, weights: Array, z: Array, a: Array, penalty: float = 0.0) -> float:
    """Value of ``sum_j a_j |z_j - w_j U|^2 + penalty |U|^2``.

    Parameters
    ----------
    atoms, weights, z
        U, w and z: shapes (K, N), (J, K) and (J, N).
    a
        Weights of the differences, shape (J,).
    penalty
        Factor of the atoms' squares.
    """
    residual = z - weights @ atoms
    return float(a @ (residual**2).sum(axis=1) + penalty * (atoms**2).sum())


def direction(atoms: Array, ridge: float = 0.0) -> Array:
    """Direction ``U (U'U + ridge I)^-1 1`` of the score, shape (N,), whatever the atoms' order.

    Parameters
    ----------
    atoms
        Shape (K, N).
    ridge
        Not negative; with 0 the score is the sum of the unconstrained coefficients.

    Raises
    ------
    ValueError
        If the atoms are linearly dependent and `ridge` is 0.
    """
    gram = atoms @ atoms.T
    values = np.linalg.eigvalsh(gram)
    if ridge == 0.0 and values[0] <= len(gram) * 1e-12 * values[-1]:
        raise ValueError(
            "ridge is 0 and the atoms are linearly dependent; pass a positive ridge, or fewer atoms"
        )
    return atoms.T @ np.linalg.solve(gram + ridge * np.eye(len(gram)), np.ones(len(gram)))


def from_origin(atoms: Array) -> float:
    """Distance of the simplex of atoms (K, N) from the origin, as a share of their usual length.

    It is 0 where the atoms surround the origin, so that their cone is a whole space.
    """
    unit = atoms / np.sqrt(np.mean(np.sum(atoms**2, axis=1)))
    # Weights of sum s at distance D have the residual s^2 D^2 + (1 - s)^2, at best D^2 / (1 + D^2).
    system = np.vstack([unit.T, np.ones(len(unit))])
    _, residual = nnls(system, np.append(np.zeros(len(system) - 1), 1.0), maxiter=1000 * len(unit))
    return float(residual / np.sqrt(1.0 - residual**2))


def random_atoms(
    num_atoms: int, num_features: int, bound: float, rng: np.random.Generator
) -> Array:
    """Atoms of normal entries to start from, shape (K, N).

    Parameters
    ----------
    num_atoms, num_features
        K and N.
    bound
        Length to which longer atoms are shortened.
    rng
        Source of the entries.
    """
    atoms = rng.normal(size=(num_atoms, num_features)) * bound / np.sqrt(num_features)
    return _within(atoms, bound)


def fit_exact(
    pairs: Pairs,
    atoms: Array,
    bound: float,
    *,
    penalty: float = 0.0,
    num_iterations: int = 100,
    tol: float = 1e-6,
    sums: SumRange | None = None,
) -> Cone:
    """Alternate between the weights, by projected gradients, and the atoms, one after the other.

    In one atom the objective is a quadratic of equal curvature in all directions. Its minimum
    within the bound is the unbounded one, shortened, so each update is exact.

    Parameters
    ----------
    pairs
        The differences.
    atoms, bound
        Atoms to start from, shape (K, N), and the largest length of an atom, which may be infinite.
    penalty
        Factor of the atoms' squares.
    num_iterations, tol
        Iterations, and the relative gain of one below which to stop.
    sums
        Least and largest sum of a difference's weights, for the original form (9). From 0 to
        infinity, the weights are those of the cone's projection (1).
    """
    a, z = pairs.weight, pairs.z
    if sums is not None:
        atoms = _on_sphere(atoms, bound)
    weights = np.full((len(z), len(atoms)), (1.0 if sums is None else sums[0]) / len(atoms))
    best = np.inf
    for _ in range(num_iterations):
        products = (atoms @ atoms.T, z @ atoms.T)
        weights = projection_fold_in(*products, weights, _INNER, sums=sums or (1.0, 1.0))
        moments, target = (weights * a[:, None]).T @ weights, (weights * a[:, None]).T @ z
        for _ in range(3):
            atoms = _update_atoms(atoms, moments, target, bound, penalty, sums is not None)
        value = objective(atoms, weights, z, a, penalty)
        if value > best * (1.0 - tol):
            best = value
            break
        best = value
    return Cone(atoms, weights, best)


def _update_atoms(
    atoms: Array, moments: Array, target: Array, bound: float, penalty: float, sphere: bool
) -> Array:
    """One exact update of each atom in turn."""
    atoms, keep = atoms.copy(), _on_sphere if sphere else _within
    for k in range(len(atoms)):
        curvature = moments[k, k] + penalty
        if curvature <= 0.0:
            continue  # no difference uses it
        rest = target[k] - moments[k] @ atoms + moments[k, k] * atoms[k]
        atoms[k] = keep((rest / curvature)[None], bound)[0]
    return atoms


def fit_gradient(
    pairs: Pairs,
    atoms: Array,
    bound: float,
    rng: np.random.Generator,
    *,
    method: str = "sg",
    fold_in: str = "projection",
    rate: float = 1e-3,
    num_epochs: int = 20,
    num_inner: int = 20,
    sums: SumRange | None = None,
) -> Cone:
    """Algorithm 1: stochastic steps, one list at a time; EG if `method` says so.

    The gradients are those of the list's own loss, the mean over its pairs.

    Parameters
    ----------
    pairs, atoms, bound, sums
        As for `fit_exact`; `sums` is for fold-in by projection.
    rng
        Source of the order of lists.
    method
        "sg", stochastic gradients, or "eg", exponentiated ones.
    fold_in
        "projection" or "printed" for "sg"; "linear" for "eg" without the exponential.
    rate
        Step size.
    num_epochs, num_inner
        Passes over the lists, and steps of the weights at each list.

    Returns
    -------
    Cone
        Atoms, weights and objective.
    """
    starts = np.flatnonzero(np.r_[True, np.diff(pairs.lists) != 0])
    blocks = np.split(np.arange(len(pairs.z)), starts[1:])
    keep = _within if sums is None else _on_sphere
    for _ in range(num_epochs):
        for number in rng.permutation(len(blocks)):
            rows = blocks[number]
            z, phi = pairs.z[rows], pairs.phi[rows]
            weights = rng.dirichlet(np.ones(len(atoms)), len(rows))
            weights = _fold(atoms, z, phi, weights, method, fold_in, rate, num_inner, sums)
            residual = (z - weights @ atoms) * (phi / len(rows))[:, None]
            atoms = keep(atoms + 2.0 * rate * weights.T @ residual, bound)
    uniform = np.full((len(pairs.z), len(atoms)), 1.0 / len(atoms))
    products = (atoms @ atoms.T, pairs.z @ atoms.T)
    weights = projection_fold_in(*products, uniform, 200, sums=sums or (1.0, 1.0))
    return Cone(atoms, weights, objective(atoms, weights, pairs.z, pairs.weight))


def _fold(
    atoms: Array,
    z: Array,
    phi: Array,
    weights: Array,
    method: str,
    fold_in: str,
    rate: float,
    num_inner: int,
    sums: SumRange | None,
) -> Array:
    G, B = atoms @ atoms.T, z @ atoms.T
    if fold_in == "linear":
        return linear_eg_fold_in(G, B, weights, rate * phi, num_inner)
    if method == "eg":
        return eg_fold_in(G, B, weights, rate * phi, num_inner)
    if fold_in == "printed":
        return printed_fold_in(G, B, weights, rate * phi, num_inner)
    return projection_fold_in(G, B, weights, num_inner, sums=sums or (1.0, 1.0))


def _within(atoms: Array, bound: float) -> Array:
    """Shorten what is longer than the bound."""
    norm = np.linalg.norm(atoms, axis=1, keepdims=True)
    return atoms * np.where(norm > bound, bound / np.maximum(norm, 1e-300), 1.0)


def _on_sphere(atoms: Array, bound: float) -> Array:
    """Give every atom the length of the bound; one without a direction gets the first axis."""
    norm = np.linalg.norm(atoms, axis=1, keepdims=True)
    return (
        bound
        * np.where(norm > 0.0, atoms, np.eye(1, atoms.shape[1]))
        / np.where(norm > 0.0, norm, 1.0)
    )
