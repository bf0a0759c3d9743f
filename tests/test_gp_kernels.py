"""Kernels and conditioning against closed forms, tinygp and the joint covariance."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from tinygp import GaussianProcess

from bayesrank import gp

RNG = np.random.default_rng(3)
X = jnp.asarray(RNG.normal(size=(7, 3)))
X_NEW = jnp.asarray(RNG.normal(size=(4, 3)))
ARD = np.array([0.5, 1.0, 4.0])


def _closed_form(a, b, amplitude, lengthscale):
    return amplitude**2 * np.exp(-0.5 * cdist(a / lengthscale, b / lengthscale) ** 2)


@pytest.mark.parametrize("lengthscale", [0.7, ARD], ids=["shared", "per feature"])
def test_rbf_is_the_closed_form(lengthscale):
    kernel = gp.rbf(1.5, lengthscale)
    expected = _closed_form(X, X_NEW, 1.5, lengthscale)
    np.testing.assert_allclose(kernel(X, X_NEW), expected, rtol=1e-12)


def test_an_endless_lengthscale_switches_its_feature_off():
    kernel = gp.rbf(1.0, jnp.array([0.5, 1.0, 1e12]))
    np.testing.assert_allclose(kernel(X, X), gp.rbf(1.0, ARD[:2])(X[:, :2], X[:, :2]), rtol=1e-12)


@pytest.mark.parametrize(("jitter", "fraction"), [(None, 1e-6), (0.0, 0.0), (0.1, 0.1)])
def test_jitter_is_a_fraction_of_the_prior_variance(jitter, fraction):
    covariance = gp.gram(gp.rbf(3.0, ARD), X, jitter=jitter)
    expected = _closed_form(X, X, 3.0, ARD) + fraction * 9.0 * np.eye(7)
    np.testing.assert_allclose(covariance, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengthscale", [0.3, 3.0, 100.0])
def test_default_jitter_makes_the_covariance_factorise(dtype, lengthscale):
    items = RNG.normal(size=(200, 2)).astype(dtype)
    items[1] = items[0]

    @jax.jit
    def factorise(items, amplitude, lengthscale):
        covariance = gp.gram(gp.rbf(amplitude, lengthscale), items)
        return covariance, jnp.linalg.cholesky(covariance)

    covariance, root = factorise(items, dtype(2.0), dtype(lengthscale))
    assert covariance.dtype == dtype
    assert np.all(np.isfinite(root))


def test_gradient_in_the_hyperparameters_agrees_with_finite_differences():
    weights = RNG.normal(size=(7, 7))

    @jax.jit
    def total(parameters):
        return jnp.sum(weights * gp.gram(gp.rbf(parameters[0], parameters[1:]), X))

    at = np.array([1.5, *ARD])
    steps = 1e-6 * np.eye(4)
    slopes = [(total(at + h) - total(at - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(jax.grad(total)(at), slopes, rtol=1e-6)


def test_conditional_agrees_with_the_joint_covariance_and_with_tinygp():
    f = jnp.asarray(RNG.normal(size=7))

    @jax.jit
    def conditionals():
        kernel = gp.rbf(1.5, ARD)
        scale_tril = jnp.linalg.cholesky(gp.gram(kernel, X, jitter=1e-3))
        process = GaussianProcess(kernel, X, diag=jnp.asarray(1e-3 * 1.5**2))
        conditioned = process.condition(f, X_NEW, diag=jnp.asarray(1e-5 * 1.5**2)).gp
        given = gp.conditional(kernel, X, scale_tril, f, X_NEW, jitter=1e-5)
        return given, conditioned.loc, conditioned.covariance

    given: Any
    given, *of_tinygp = conditionals()

    both = np.vstack([X, X_NEW])
    joint = _closed_form(both, both, 1.5, ARD)
    joint[np.diag_indices(11)] += 1.5**2 * np.array([1e-3] * 7 + [1e-5] * 4)
    covariance = np.linalg.inv(np.linalg.inv(joint)[7:, 7:])
    mean = joint[7:, :7] @ np.linalg.solve(joint[:7, :7], f)
    np.testing.assert_allclose(given.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(given.covariance_matrix, covariance, rtol=1e-8, atol=1e-12)

    np.testing.assert_allclose(given.mean, of_tinygp[0], rtol=1e-9)
    np.testing.assert_allclose(given.covariance_matrix, of_tinygp[1], rtol=1e-8, atol=1e-12)


def test_conditional_at_the_items_themselves_returns_their_values():
    f = jnp.asarray(RNG.normal(size=7))

    @jax.jit
    def conditional():
        kernel = gp.rbf(1.5, ARD)
        return gp.conditional(kernel, X, jnp.linalg.cholesky(gp.gram(kernel, X)), f, X)

    given: Any = conditional()
    np.testing.assert_allclose(given.mean, f, atol=1e-4)
    assert np.max(given.variance) < 1e-5 * 1.5**2


FEATURES = RNG.normal(size=(9, 4))
KERNEL = FEATURES @ FEATURES.T


@pytest.mark.parametrize("cuts", [[], [1], [2, 5], (1, 2, 3)])
def test_pieces_add_up_and_do_not_overlap(cuts):
    pieces = gp.spectral_components(KERNEL, cuts)
    assert pieces.shape == (len(cuts) + 1, 9, 9)
    np.testing.assert_allclose(pieces.sum(axis=0), KERNEL, atol=1e-12)
    for a, one in enumerate(pieces):
        for other in pieces[a + 1 :]:
            np.testing.assert_allclose(one @ other, 0.0, atol=1e-10)


def test_the_first_piece_is_the_best_approximation_of_its_rank():
    # By the singular value decomposition of the features, and Eckart and Young.
    left, sizes, _ = np.linalg.svd(FEATURES, full_matrices=False)
    expected = (left[:, :2] * sizes[:2] ** 2) @ left[:, :2].T
    np.testing.assert_allclose(gp.spectral_components(KERNEL, [2])[0], expected, atol=1e-12)


def test_pieces_of_a_kernel_without_full_rank_are_covariances():
    for piece in gp.spectral_components(KERNEL, [2, 6]):
        np.testing.assert_array_equal(piece, piece.T)
        assert np.linalg.eigvalsh(piece)[0] > -1e-12
