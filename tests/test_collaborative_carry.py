"""A kernel learned for some of the items: against dense algebra, and by its own gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import multivariate_normal
from scipy import stats

from bayesrank.solvers.collaborative import EM

N, M, CORE = 14, 6, 3
STRENGTH, MEAN_STRENGTH = 5.0, 3.0
SETTINGS: dict[str, Any] = {
    "likelihood": "gaussian",
    "user_scales": 0,
    "strength": STRENGTH,
    "mean_strength": MEAN_STRENGTH,
    "num_kernel_items": CORE,
    "learn_base": False,
}
pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")


@pytest.fixture(scope="module")
def data():
    """Ratings, most of items 1, 3 and 4; and a base kernel of items on a line."""
    rng = np.random.default_rng(1)
    kernel = np.exp(-0.5 * np.subtract.outer(np.arange(M), np.arange(M)) ** 2 / 1.5**2)
    kernel += 0.2 * np.eye(M)
    functions = 3 + rng.normal(size=M) + rng.normal(size=(N, M)) @ np.linalg.cholesky(kernel).T
    seen = rng.random((N, M)) < np.where(np.isin(np.arange(M), [1, 3, 4]), 0.9, 0.4)
    users, items = np.nonzero(seen)
    return (users, items, functions[users, items] + 0.5 * rng.normal(size=len(users))), kernel


def _joint(kernel, base, core, rest):
    """Kernel of all items, the others' weights on the core, and what they have of their own."""
    weights = np.linalg.solve(base[np.ix_(core, core)], base[np.ix_(core, rest)])
    own = np.diagonal(base)[rest] - np.sum(base[np.ix_(core, rest)] * weights, axis=0)
    whole = np.empty((M, M))
    whole[np.ix_(core, core)] = kernel
    whole[np.ix_(core, rest)] = kernel @ weights
    whole[np.ix_(rest, core)] = (kernel @ weights).T
    whole[np.ix_(rest, rest)] = weights.T @ kernel @ weights + np.diag(own)
    return whole


def _transcription(users, items, ratings, base, core, steps):
    """EM with an m x m posterior for each user; one noise for all."""
    rest = np.setdiff1d(np.arange(M), core)
    psi = base[np.ix_(core, core)]
    h, kernel, level = np.full(M, ratings.mean()), psi, ratings.mean()
    variance, trace = 0.5 * np.var(ratings), []
    for _ in range(steps):
        sigma = _joint(kernel, base, core, rest)
        gap = h - level
        ratio = np.linalg.solve(kernel, psi)
        trace.append(
            -0.5 * STRENGTH * (np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(core))
            - 0.5 * MEAN_STRENGTH * gap @ np.linalg.solve(sigma, gap)
        )
        means, covariances, residual = [], [], 0.0
        for user in range(N):
            seen, y = items[users == user], ratings[users == user]
            covariance = sigma[np.ix_(seen, seen)] + variance * np.eye(len(y))
            trace[-1] += stats.multivariate_normal(h[seen], covariance).logpdf(y)
            weights = sigma[:, seen] @ np.linalg.inv(covariance)
            means.append(h + weights @ (y - h[seen]))
            covariances.append(sigma - weights @ sigma[seen])
            residual += ((y - means[-1][seen]) ** 2).sum()
            residual += np.trace(covariances[-1][np.ix_(seen, seen)])
        average = np.mean(means, axis=0)
        inverse = np.linalg.inv(sigma)
        level = inverse.sum(axis=0) @ average / inverse.sum()
        h = (N * average + MEAN_STRENGTH * level) / (N + MEAN_STRENGTH)
        centred, gap = np.array(means) - average, average - level
        moments = centred.T @ centred + np.sum(covariances, axis=0)
        moments += N * MEAN_STRENGTH / (N + MEAN_STRENGTH) * np.outer(gap, gap)
        kernel = (moments[np.ix_(core, core)] + STRENGTH * psi) / (N + STRENGTH)
        variance = residual / len(ratings)
    return h, _joint(kernel, base, core, rest), variance, np.array(trace)


@pytest.mark.slow
def test_iterations_are_those_of_dense_algebra(data):
    observations, kernel = data
    engine = EM(**SETTINGS, accelerate=False, max_iterations=15)
    result = engine.run(*observations, kernel=kernel, progress_bar=False)
    scale = 0.5 * np.var(observations[2]) / np.diagonal(kernel).mean()
    h, sigma, variance, trace = _transcription(
        *observations, base=scale * kernel, core=np.array([1, 3, 4]), steps=15
    )
    np.testing.assert_allclose(result.trace, trace, rtol=1e-10)
    np.testing.assert_allclose(result.mean, h, rtol=1e-8)
    np.testing.assert_allclose(result.kernel, sigma, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.params["noise"] ** 2, variance, rtol=1e-8)
    assert np.diff(trace).min() > 0


@pytest.fixture(scope="module")
def converged(data):
    """With the scales of two base kernels learned."""
    observations, kernel = data
    kernels = np.stack([kernel - 0.19 * np.eye(M), np.eye(M)])
    engine = EM(**{**SETTINGS, "learn_base": True}, tol=1e-10)
    return engine, kernels, engine.run(*observations, kernel=kernels, progress_bar=False)


def test_em_ends_at_a_maximum(data, converged):
    """The objective, written down with dense matrices, has no slope there."""
    users, items, ratings = data[0]
    _, kernels, result = converged
    core, rest = np.array([1, 3, 4]), np.array([0, 2, 5])
    assert result.converged and np.diff(result.trace).min() > -1e-9 * abs(result.trace[0])
    assert np.all(abs(result.state.scales / result.state.scales.sum() - 0.5) < 0.45)
    order = np.append(core, rest)
    place = np.argsort(order)

    def objective(h, level, log_scales, factor, log_noise):
        base = jnp.einsum("c,cij->ij", jnp.exp(log_scales), kernels)
        psi = base[np.ix_(core, core)]
        weights = jnp.linalg.solve(psi, base[np.ix_(core, rest)])
        own = jnp.diagonal(base)[rest] - jnp.sum(base[np.ix_(core, rest)] * weights, axis=0)
        learned = factor @ factor.T
        across = learned @ weights
        sigma = jnp.block([[learned, across], [across.T, weights.T @ across + jnp.diag(own)]])
        sigma = sigma[place][:, place]
        ratio = jnp.linalg.solve(learned, psi)
        value = -0.5 * STRENGTH * (jnp.trace(ratio) - jnp.linalg.slogdet(ratio)[1] - CORE)
        value -= 0.5 * MEAN_STRENGTH * (h - level) @ jnp.linalg.solve(sigma, h - level)
        # What a user has not rated counts as standard normal, and zero: all are of one shape.
        noisy = sigma + jnp.exp(2 * log_noise) * jnp.eye(M)
        covariances = jnp.where(rated[:, :, None] & rated[:, None], noisy, jnp.eye(M))
        density = jax.vmap(multivariate_normal.logpdf, (0, None, 0))
        value += jnp.sum(density(jnp.where(rated, said - h, 0.0), jnp.zeros(M), covariances))
        return value + 0.5 * np.log(2 * np.pi) * np.sum(~rated)

    rated, said = np.zeros((N, M), bool), np.zeros((N, M))
    rated[users, items], said[users, items] = True, ratings
    with jax.enable_x64(True):
        at = (
            jnp.asarray(result.mean),
            jnp.asarray(result.state.level),
            jnp.log(result.state.scales),
            jnp.linalg.cholesky(jnp.asarray(result.kernel[np.ix_(core, core)])),
            jnp.log(result.params["noise"]),
        )
        value, slopes = jax.jit(jax.value_and_grad(objective, argnums=(0, 1, 2, 3, 4)))(*at)
    np.testing.assert_allclose(result.trace[-1], value, atol=1e-7)
    for slope in slopes:
        free = np.tril(slope) if slope.ndim == 2 else slope
        np.testing.assert_allclose(free, 0.0, atol=2e-3)


@pytest.mark.slow
def test_levels_of_items_outside_of_the_core_are_learned_from(data):
    (users, items, ratings), kernel = data
    levels = np.digitize(ratings, np.quantile(ratings, [0.3, 0.7]))
    few, all_of_them = (
        EM("probit", num_kernel_items=size, tol=1e-4).run(
            users, items, levels, kernel=kernel, progress_bar=False
        )
        for size in (CORE, M)
    )
    assert few.converged and few.trace[-1] > few.trace[0] + 1
    rated = [levels[items == i].mean() for i in range(M)]
    assert np.corrcoef(rated, few.mean)[0, 1] > 0.8
    given = np.arange(len(levels))
    logs = [np.log(r.predict_proba(users, items)[given, levels]).mean() for r in (few, all_of_them)]
    assert logs[0] > np.log(1 / 3) and abs(logs[0] - logs[1]) < 0.1
