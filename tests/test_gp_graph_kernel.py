"""Warped priors and kernels against inverses, weight space, each other and tinygp."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import sparse, stats
from tinygp import GaussianProcess
from tinygp.kernels import DotProduct

from bayesrank import gp

RNG = np.random.default_rng(8)
X = RNG.normal(size=(9, 2))
X_NEW = RNG.normal(size=(4, 2))
LAPLACIAN = gp.laplacian(gp.knn_graph(X, 3))
L = LAPLACIAN.toarray()
SHARP = gp.rbf(1.3, 0.4)  # a Gram matrix that can be inverted

# Kernels are trees of arrays, so that one compilation serves all of a kind.
graph_kernel = jax.jit(gp.graph_kernel, static_argnames="jitter")
matrix = jax.jit(lambda kernel, a, b: kernel(a, b))


@partial(jax.jit, static_argnames="jitter")
def _factor(kernel, items=X, jitter=None):
    return jnp.linalg.cholesky(gp.gram(kernel, jnp.asarray(items), jitter=jitter))


@jax.jit
def _warped(factor, weight):
    """Covariance and root of the prior."""
    prior = gp.graph_prior(factor, LAPLACIAN, weight=weight)
    return prior.covariance_matrix, prior.scale_tril


def _log_density(y, covariance: Any):
    return stats.multivariate_normal.logpdf(y, cov=covariance)


def _by_inverses(kernel, weight, jitter=1e-6):
    """Equation (5) of the paper and the kernel, with every inverse taken, to sixty digits."""
    both = np.concatenate([X, X_NEW])
    joint = np.asarray(matrix(kernel, both, both))
    sigma = joint[:9, :9] + jitter * joint[0, 0] * np.eye(9)
    across, new = joint[:9, 9:], joint[9:, 9:]
    with mpmath.workdps(60):
        sigma, across, new, graph = (mpmath.matrix(a.tolist()) for a in (sigma, across, new, L))
        warped = (sigma**-1 + weight * graph) ** -1
        weights = sigma**-1 * across
        kernel_new = new - across.T * weights + weights.T * warped * weights
        return [np.array(m.tolist(), float) for m in (warped, kernel_new)]


CASES = [(0.4, 1.0, 1e-12), (3.0, 1.0, 1e-12), (3.0, 1e3, 1e-10), (30.0, 1e6, 1e-5)]


@pytest.mark.parametrize(("lengthscale", "weight", "tolerance"), CASES)
def test_prior_and_kernel_are_those_with_all_inverses_taken(lengthscale, weight, tolerance):
    kernel = gp.rbf(1.3, lengthscale)
    prior, between = _by_inverses(kernel, weight)
    covariance, _ = _warped(_factor(kernel), weight)
    np.testing.assert_allclose(covariance, prior, rtol=0, atol=tolerance)
    warped = graph_kernel(kernel, X, L, weight=weight)
    np.testing.assert_allclose(matrix(warped, X_NEW, X_NEW), between, rtol=0, atol=tolerance)


def test_prior_is_a_distribution_with_a_triangular_root():
    covariance, root = (np.asarray(a) for a in _warped(_factor(SHARP), 0.7))
    np.testing.assert_array_equal(root, np.tril(root))
    assert np.all(np.diag(root) > 0)
    f = RNG.normal(size=9)
    expected = _log_density(f, covariance)
    prior = gp.graph_prior(_factor(SHARP), L, weight=0.7)
    np.testing.assert_allclose(prior.log_prob(f), expected, rtol=1e-10)


def test_a_singular_prior_is_warped_in_weight_space():
    """A linear kernel has rank two: nothing could have been inverted, and weights tell."""
    kernel = graph_kernel(DotProduct(), X, L, weight=0.7, jitter=0.0)
    weights = np.linalg.inv(np.eye(2) + 0.7 * X.T @ L @ X)
    np.testing.assert_allclose(matrix(kernel, X_NEW, X_NEW), X_NEW @ weights @ X_NEW.T, rtol=1e-10)


def test_without_weight_nothing_changes_and_with_endless_weight_all_joined_are_equal():
    none = graph_kernel(SHARP, X, L, weight=0.0)
    np.testing.assert_allclose(matrix(none, X_NEW, X_NEW), matrix(SHARP, X_NEW, X_NEW), rtol=1e-12)
    factor = np.asarray(_factor(SHARP))
    stiff, *_ = _warped(factor, 1e9)
    common = 1.0 / np.linalg.inv(factor @ factor.T).sum()
    np.testing.assert_allclose(stiff, np.full((9, 9), common), rtol=1e-5)


def test_given_the_items_skills_elsewhere_are_as_without_the_graph():
    """The joint law of the warped process, conditioned, against `gp.conditional`."""
    kernel = graph_kernel(SHARP, X, L, weight=2.0, jitter=0.0)
    both = np.concatenate([X, X_NEW])
    joint = np.asarray(matrix(kernel, both, both))
    f = jnp.asarray(RNG.normal(size=9))
    factor = _factor(SHARP, jitter=0.0)

    @jax.jit
    def without_graph(f):
        plain: Any = gp.conditional(
            SHARP, jnp.asarray(X), factor, f, jnp.asarray(X_NEW), jitter=0.0
        )
        return plain.mean, plain.covariance_matrix

    mean, plain = without_graph(f)
    across = np.linalg.solve(joint[:9, :9], joint[:9, 9:])
    np.testing.assert_allclose(across.T @ f, mean, rtol=1e-7)
    covariance = joint[9:, 9:] - joint[9:, :9] @ across
    np.testing.assert_allclose(covariance, plain, rtol=1e-7)


def test_two_graphs_one_after_the_other_are_their_sum():
    other = gp.laplacian(gp.knn_graph(X, 2, weights="heat"), normalized=True)
    other = other.toarray()
    twice = graph_kernel(graph_kernel(SHARP, X, L, jitter=0.0), X, other, weight=3.0, jitter=0.0)
    once = graph_kernel(SHARP, X, L + 3.0 * other, weight=1.0, jitter=0.0)
    at = X_NEW, X_NEW
    np.testing.assert_allclose(matrix(twice, *at), matrix(once, *at), rtol=1e-10)


def test_it_adds_and_multiplies_like_any_kernel():
    warped, plain = graph_kernel(SHARP, X, L, weight=1.0), gp.rbf(0.5, 2.0)
    alone, other = matrix(warped, X, X_NEW), matrix(plain, X, X_NEW)
    for kernel, expected in (
        (warped + plain, alone + other),
        (2.0 * warped, 2.0 * alone),
        (plain * warped + 0.3, alone * other + 0.3),
    ):
        np.testing.assert_allclose(matrix(kernel, X, X_NEW), expected, rtol=1e-12)

    @jax.jit
    def log_probability(kernel, y):
        return GaussianProcess(kernel, jnp.asarray(X_NEW), diag=jnp.asarray(0.1)).log_probability(y)

    y, both = RNG.normal(size=4), warped + plain
    covariance = np.asarray(matrix(both, X_NEW, X_NEW)) + 0.1 * np.eye(4)
    expected = _log_density(y, covariance)
    np.testing.assert_allclose(log_probability(both, y), expected, rtol=1e-10)


def test_a_matrix_is_made_of_pairs_and_its_diagonal_of_variances():
    warped = graph_kernel(SHARP, X, L, weight=1.0)
    whole = np.asarray(matrix(warped, X, X_NEW))
    pair = jax.jit(lambda kernel, a, b: kernel.evaluate(a, b))
    by_pairs = [[pair(warped, a, b) for b in X_NEW] for a in X]
    np.testing.assert_allclose(whole, by_pairs, rtol=1e-12)
    variances = jax.jit(lambda kernel, a: kernel(a))(warped, X_NEW)
    np.testing.assert_allclose(variances, np.diag(matrix(warped, X_NEW, X_NEW)), rtol=1e-10)


def test_sparse_and_dense_laplacians_are_the_same():
    dense = graph_kernel(SHARP, X, L, weight=0.5)
    sparse_too = jax.jit(
        lambda items: gp.graph_kernel(SHARP, items, sparse.csr_matrix(L), weight=0.5)
    )(X)
    np.testing.assert_allclose(sparse_too.gain, dense.gain, rtol=1e-12)


def test_a_whole_matrix_takes_products_of_matrices_only():
    """No array of the computation is larger than the items times the larger set."""
    warped, many = graph_kernel(SHARP, X, L, weight=1.0), jnp.zeros((50, 2))
    jaxpr = jax.make_jaxpr(lambda a, b: warped(a, b))(many, many)

    def sizes(inner):
        for equation in inner.eqns:
            yield from (np.prod(v.aval.shape, dtype=int) for v in equation.outvars)
            for value in equation.params.values():
                if hasattr(value, "jaxpr"):
                    yield from sizes(value.jaxpr)

    assert max(sizes(jaxpr.jaxpr)) <= 2 * 50 * 50


def _total(parameters, items, laplacian):
    """A number made of everything that depends on amplitude, lengthscale and weight."""
    amplitude, lengthscale, weight = jnp.exp(parameters)
    kernel = gp.rbf(amplitude, lengthscale)
    factor = jnp.linalg.cholesky(gp.gram(kernel, items))
    prior = gp.graph_prior(factor, laplacian, weight=weight)
    between = graph_kernel(kernel, items, laplacian, weight=weight)(
        items[:2] + 0.1, items[:2] + 0.1
    )
    return jnp.sum(jnp.asarray(prior.scale_tril)) + jnp.sum(between)


@pytest.mark.slow
def test_derivatives_in_the_hyperparameters_are_right_and_finite():
    value, slope = jax.jit(_total), jax.jit(jax.grad(_total))
    at = jnp.log(jnp.array([1.3, 0.6, 2.0]))
    numeric = [(value(at + h, X, L) - value(at - h, X, L)) / 2e-5 for h in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(slope(at, X, L), numeric, rtol=1e-5)

    doubled = np.where(np.arange(9)[:, None] == 1, X[0], X)
    extreme = jnp.log(jnp.array([20.0, 50.0, 1e5]))
    assert bool(jnp.all(jnp.isfinite(slope(extreme, doubled, L))))


def test_single_precision_is_kept_and_enough():
    kernel, items = gp.rbf(np.float32(1.3), np.float32(0.8)), X.astype(np.float32)
    covariance, *_ = _warped(_factor(kernel, items), np.float32(1.0))
    warped = graph_kernel(kernel, items, L, weight=np.float32(1.0))
    new = X_NEW.astype(np.float32)
    between = matrix(warped, new, new)
    assert covariance.dtype == between.dtype == jnp.float32
    expected, expected_between = _by_inverses(gp.rbf(1.3, 0.8), 1.0, jitter=1e-4)
    np.testing.assert_allclose(covariance, expected, atol=1e-4)
    np.testing.assert_allclose(between, expected_between, atol=1e-4)
