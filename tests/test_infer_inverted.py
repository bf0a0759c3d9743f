"""A prior that is inverted once gives what the prior itself gives, or leaves it to it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose

from bayesrank.infer import EP
from bayesrank.infer.gaussian import dense
from bayesrank.infer.gaussian.dense import DensePrior, InvertedPrior, inverse_and_pivots
from bayesrank.infer.gaussian.protocol import SiteTerm
from bayesrank.infer.gaussian.rows import Rows

SIZE = 11


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def small_blocks(monkeypatch):
    """Few latents are inverted too, and by halves."""
    monkeypatch.setattr(dense, "LARGEST_BLOCK", 6)


def smooth(jitter=1e-3, scale=2.0):
    place = jnp.linspace(0.0, 3.0, SIZE)
    squares = (place[:, None] - place) ** 2
    return scale * (jnp.exp(-0.5 * squares) + jitter * jnp.eye(SIZE))


def comparisons(tau):
    rng = np.random.default_rng(0)
    first = rng.integers(SIZE, size=30)
    second = (first + 1 + rng.integers(SIZE - 1, size=30)) % SIZE
    values = jnp.tile(jnp.array([1.0, -1.0]), (30, 1))
    rows = Rows(values, jnp.asarray(np.stack([first, second], axis=1)), SIZE)
    return [SiteTerm(rows, tau * jnp.ones(30).at[3].set(-0.02), jnp.asarray(rng.normal(size=30)))]


def inverted_prior(covariance):
    prior = DensePrior(covariance).prepared()
    assert isinstance(prior, InvertedPrior)
    return prior


@pytest.mark.slow
def test_the_inverse_by_halves_and_its_determinant(small_blocks):
    root = np.random.default_rng(1).normal(size=(SIZE, SIZE))
    matrix = root @ root.T + np.eye(SIZE)
    found, pivots = jax.jit(inverse_and_pivots)(jnp.asarray(matrix))
    assert_allclose(found, np.linalg.inv(matrix), atol=1e-12)
    assert_allclose(np.log(pivots).sum(), np.linalg.slogdet(matrix)[1], rtol=1e-12)
    assert np.isnan(inverse_and_pivots(jnp.asarray(matrix - 20 * np.eye(SIZE)))[1]).any()


# One site has a negative precision, as where a likelihood is not log-concave.
@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.3, 50.0])
def test_it_gives_what_the_solution_by_lu_gives(small_blocks, tau):
    prior = inverted_prior(smooth())
    assert prior.trusted
    told, known = prior.times(comparisons(tau)), prior.prior.times(comparisons(tau))
    for name, value in known._asdict().items():
        assert_allclose(getattr(told, name), value, rtol=1e-9, atol=1e-11, err_msg=name)
    assert told.valid


@pytest.mark.slow
def test_sites_that_make_no_proper_posterior_are_told(small_blocks):
    terms = [comparisons(0.3)[0]._replace(tau=jnp.full(30, -1.0))]
    assert not inverted_prior(smooth()).times(terms).valid


@pytest.mark.slow
def test_a_prior_too_near_singular_is_left_to_lu(small_blocks):
    third = jnp.eye(SIZE).at[:, 2].set(0.0)  # the third latent is the sum of the first two
    third = third.at[2, :2].set(1.0)
    for near in (0.0, 1e-12):
        covariance = third @ smooth() @ third.T
        prior = inverted_prior(covariance.at[2, 2].add(near))
        assert not prior.trusted
        told, known = prior.times(comparisons(0.3)), prior.prior.times(comparisons(0.3))
        assert_allclose(told.covariance, known.covariance, rtol=1e-12, atol=1e-12)
        assert told.valid


def program(scale, pairs):
    covariance = smooth(scale=scale)
    f: Any = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(SIZE), covariance))
    logits = f[pairs[:, 0]] - f[pairs[:, 1]]
    numpyro.sample("win", dist.Bernoulli(logits=logits), obs=1)


PAIRS = np.stack([np.arange(30) % 5, 5 + np.arange(30) % 6], axis=1)


def evidence_and_slope(scale):
    """From an engine of its own, so that code is compiled as things stand."""
    engine = EP(program, tol=1e-9)
    return jax.value_and_grad(lambda scale: engine.log_evidence({}, scale, PAIRS))(scale)


@pytest.mark.slow
def test_ep_its_derivative_and_batches_are_those_of_lu(request):
    scales = jnp.array([0.5, 2.0])
    by_lu = jax.jit(evidence_and_slope)(scales[1])
    request.getfixturevalue("small_blocks")
    assert_allclose(jax.jit(lambda scale: evidence_and_slope(scale))(scales[1]), by_lu, rtol=1e-9)
    batch = jax.jit(jax.vmap(evidence_and_slope))(scales)
    assert_allclose([each[1] for each in batch], by_lu, rtol=1e-9)


def test_none_of_a_batch_is_inverted(small_blocks):
    priors = jax.vmap(lambda scale: DensePrior(smooth(scale=scale)).prepared())(jnp.ones(2))
    assert isinstance(priors, InvertedPrior)
    assert not priors.trusted.any()


def with_level(variance, dtype, size=420):
    """Latents that share a level of some variance, and pairs of them."""
    first = np.arange(4 * size) % size
    second = (first + 1 + np.arange(4 * size) // size * 17) % size
    values = jnp.tile(jnp.array([1.0, -1.0], dtype), (4 * size, 1))
    rows = Rows(values, jnp.asarray(np.stack([first, second], axis=1)), size)
    return jnp.asarray(variance + np.eye(size), dtype), rows


def of_differences(variance, precision, dtype):
    """By the prior inverted, and in doubles by what the data leave of the prior's differences."""
    covariance, rows = with_level(variance, dtype)
    taus = jnp.full(rows.values.shape[0], precision, dtype)
    prior = DensePrior(covariance).prepared()
    assert isinstance(prior, InvertedPrior)
    told = prior.times([SiteTerm(rows, taus, jnp.zeros_like(taus))])
    # With no shift of the level, ``I`` and the sites have a posterior of their own beside it.
    size = prior.size
    dense = np.zeros((taus.size, size))
    dense[np.arange(taus.size)[:, None], rows.columns] = rows.values
    spread = dense.T @ dense * precision
    known = np.linalg.inv(np.eye(size) + spread) + variance
    log_normaliser = -0.5 * np.linalg.slogdet(np.eye(size) + spread)[1]
    return told, known, log_normaliser, rows


@pytest.mark.slow
def test_digits_are_not_lost_twice():
    told, known, log_normaliser, rows = of_differences(1e5, 1.0, jnp.float64)
    expected = rows.quadratic(jnp.asarray(known - 1e5))
    assert_allclose(rows.quadratic(told.covariance), expected, rtol=1e-8)
    assert_allclose(told.log_normaliser, log_normaliser, rtol=1e-8)


# The data say nothing of the level, and far more of differences than the prior says of it.
@pytest.mark.slow
@pytest.mark.parametrize(("variance", "precision"), [(1.0, 30.0), (20.0, 30.0), (40.0, 0.1)])
def test_what_the_data_do_not_tell_is_left_as_it_was_in_single_precision(variance, precision):
    told, known, log_normaliser, _ = of_differences(variance, precision, jnp.float32)
    assert told.valid
    assert_allclose(jnp.diagonal(told.covariance), np.diagonal(known), rtol=2e-3)
    assert_allclose(told.log_normaliser, log_normaliser, rtol=1e-4)
