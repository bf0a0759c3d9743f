"""Matrices near a sparse precision: against dense algebra."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesrank.infer.gaussian.preconditioners import Diagonal, Forest
from bayesrank.infer.gaussian.sparse import Linkage, ShortRows, SparseGaussian, SparsePattern

SIZE, SITES = 60, 150


def trees(rng):
    """Each latent given two earlier ones, on one of which it depends more; some given none."""
    parents = np.array([rng.integers(max(k, 1), size=2) for k in range(SIZE)])
    weights = rng.uniform(0.5, 1.0, (SIZE, 2)) * [1.0, 0.2]
    weights[::7] = 0.0
    weights[parents[:, 0] == parents[:, 1], 1] = 0.0
    columns = np.concatenate([np.arange(SIZE)[:, None], parents], axis=1)
    values = np.concatenate([np.ones((SIZE, 1)), -weights], axis=1)
    return ShortRows(values, columns, SIZE), rng.uniform(0.01, 0.1, SIZE)


def linked_gaussian():
    rng = np.random.default_rng(0)
    rows, spread = trees(rng)
    pairs = np.array([rng.choice(SIZE, 3, replace=False) for _ in range(SITES)])
    seen = np.concatenate([rows.values, rng.normal(size=(SITES, 3))])
    every = ShortRows(seen, np.concatenate([rows.columns, pairs]), SIZE)
    tau = np.concatenate([1 / spread, rng.uniform(0.1, 1.0, SITES)])
    made = SparsePattern(every), np.full(SIZE, np.inf), tau, np.zeros(tau.size)
    return SparseGaussian(*made, Linkage(rows, spread))


def test_a_forest_keeps_the_strongest_parent():
    rng = np.random.default_rng(0)
    rows, spread = trees(rng)
    order = rng.permutation(SIZE)
    diagonal = np.full(SIZE, 500.0)
    links, own = Linkage(rows, spread).strongest(order)
    kept = rows.values.copy()
    kept[:, 2] = 0.0
    expected = ShortRows(kept, rows.columns, SIZE).matrix().toarray()
    assert_allclose(links.toarray(), expected[order][:, order])
    near = Forest(links, own, diagonal)
    prior = links.toarray().T @ (links.toarray() / own[:, None])
    matrix = prior + np.diag(np.maximum(500.0 - np.diagonal(prior), 0.0))
    right: Any = rng.normal(size=(SIZE, 4))
    assert_allclose(near.solve(right), np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-12)
    assert near.solve(right.astype(np.float32)).dtype == np.float32
    assert_allclose(near.log_determinant(), np.linalg.slogdet(matrix)[1])
    assert_allclose(drawn_covariance(near), matrix, atol=20.0)


def drawn_covariance(near):
    drawn = near.rough(np.random.default_rng(1), 20_000)
    return drawn @ drawn.T / drawn.shape[1]


def test_a_diagonal():
    near = Diagonal(np.linspace(1.0, 2.0, SIZE))
    assert_allclose(near.solve(np.ones((SIZE, 2))) * near.diagonal[:, None], 1.0)
    assert_allclose(near.log_determinant(), np.sum(np.log(near.diagonal)))
    assert_allclose(drawn_covariance(near), np.diag(near.diagonal), atol=0.1)


@pytest.mark.parametrize("single", [False, True])
def test_solutions_near_a_forest(single):
    kept = linked_gaussian()
    right: Any = np.random.default_rng(2).normal(size=(SIZE, 3))
    right = right.astype("f4" if single else float)
    given, before = right.copy(), np.ones_like(right)
    found = kept.solve(right, before, tol=1e-4 if single else 1e-10)
    exact = np.linalg.solve(kept.precision.toarray(), right)
    assert_allclose(found, exact, rtol=1e-3 if single else 1e-8, atol=1e-4 if single else 1e-9)
    assert_allclose(right, given)
    assert_allclose(before, 1.0)


def test_few_steps_are_enough_in_a_long_walk(monkeypatch):
    """Of 2,000 small steps with little data, without what is near it, CG takes thousands."""
    monkeypatch.setattr("bayesrank.infer.gaussian.sparse._MOST_ITERATIONS", 20)
    size = 2000
    own = np.arange(size)
    values = np.stack([np.ones(size), np.where(own > 0, -1.0, 0.0)], axis=1)
    rows = ShortRows(values, np.stack([own, np.maximum(own - 1, 0)], axis=1), size)
    seen = np.arange(0, size, 100)
    sites = np.stack([np.ones(seen.size), np.zeros(seen.size)], 1), np.stack([seen, seen], 1)
    both = np.concatenate([values, sites[0]]), np.concatenate([rows.columns, sites[1]])
    every = ShortRows(*both, size)
    spread = np.where(own > 0, 1e-4, 1.0)
    tau, nothing = np.concatenate([1 / spread, np.ones(seen.size)]), np.full(size, np.inf)
    made = SparsePattern(every), nothing, tau, np.ones(tau.size)
    walk = SparseGaussian(*made, links=Linkage(rows, spread))
    covariance = 1.0 + np.cumsum(np.where(own > 0, 1e-4, 0.0))
    prior = np.minimum(covariance[:, None], covariance)[seen][:, seen]
    exact = prior - prior @ np.linalg.solve(prior + np.eye(seen.size), prior)
    first = ShortRows(sites[0][:1], sites[1][:1], size)
    assert_allclose(walk.quadratic(first), exact[0, 0], rtol=1e-5)
    with pytest.raises(ValueError, match="have not converged after 20 steps"):
        SparseGaussian(*made).quadratic(first)


def test_the_log_determinant_near_a_forest():
    kept = linked_gaussian()
    exact = np.linalg.slogdet(kept.precision.toarray())[1]
    found, error = kept.log_determinant(0, count=200)
    assert abs(found - exact) < 4 * error and error < 0.3
