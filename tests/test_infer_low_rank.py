"""Priors of low rank plus diagonal without a joint covariance, against the dense posterior."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import keep_covariances_up_to
from numpy.testing import assert_allclose

from bayesrank import gp, to_arviz
from bayesrank._memory import TooLargeError
from bayesrank.distributions import Thurstone
from bayesrank.infer import EP, IntegratedEP, maximize_evidence
from bayesrank.infer.gaussian.low_rank import LowRankGaussian
from bayesrank.infer.gaussian.sparse import ShortRows, SparsePattern

KEY = jax.random.key(0)
ITEMS, RANK = 200, 15


def field(seed=0):
    """Features of items, and comparisons (winner, loser) by a smooth skill."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(ITEMS, 3))
    skill = 2 * np.sin(6 * X).sum(axis=1)
    pairs = rng.integers(ITEMS, size=(800, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    margin = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 1.4 * rng.normal(size=len(pairs))
    return X, np.where(margin[:, None] > 0, pairs, pairs[:, ::-1])


def smooth_skills(X, pairs, rank, levels=None):
    """Skills of a process on features; the first of a pair plays at one of some homes."""
    home = jnp.asarray(numpyro.sample("home", dist.Normal(0.2, 0.5).expand([4])))
    f = jnp.asarray(numpyro.sample("f", gp.features(gp.rbf(2.0, 0.4), X, rank)))
    margin = f[pairs[:, 0]] - f[pairs[:, 1]] + home[pairs[:, 0] % 4]
    numpyro.sample("win", Thurstone(margin), obs=1)
    if levels is not None:
        numpyro.sample("level", dist.Poisson(jnp.exp(0.4 * f[:50])), obs=levels)


@pytest.fixture(scope="module")
def results():
    X, pairs = field()
    levels = np.random.default_rng(1).poisson(1.0, 50)
    return {
        structure: EP(smooth_skills, structure=structure).run(KEY, X, pairs, RANK, levels)
        for structure in ("dense", "low_rank")
    }


@pytest.mark.slow
def test_ep_is_the_dense_posterior(results):
    dense, low_rank = results["dense"], results["low_rank"]
    assert dense.structure == "dense" and low_rank.structure != "dense" and low_rank.converged
    assert low_rank.posterior.structure == "low_rank"
    first, second = np.random.default_rng(2).integers(ITEMS, size=(2, 500))
    first, second = first[first != second], second[first != second]
    mean, stddev = dense.difference(first, second, site="f")
    told_mean, told = low_rank.difference(first, second, site="f")
    assert np.max(np.abs(told_mean - mean) / stddev) < 0.005
    assert_allclose(told, stddev, rtol=1e-3)
    rough = low_rank.difference(first, second, site="f", exact=False)[1] / stddev
    assert abs(rough.mean() - 1) < 0.002 and rough.std() < 0.01
    for name in ("f", "home"):
        assert_allclose(low_rank.stddev[name], dense.stddev[name], rtol=0.02)
        assert np.max(np.abs(low_rank.mean[name] - dense.mean[name])) < 0.01
    assert_allclose(low_rank.joint_covariance, dense.joint_covariance, atol=2e-3)
    assert abs(low_rank.log_evidence - dense.log_evidence) < 4 * low_rank.log_evidence_error + 0.05
    # Residuals matter here: without them, the process is another one.
    prior = gp.features(gp.rbf(2.0, 0.4), jnp.asarray(field()[0]), RANK)
    shares = np.asarray(prior.cov_diag) / np.asarray(prior.variance)
    assert np.mean(shares) > 0.05


@pytest.mark.slow
def test_what_a_result_of_low_rank_tells(results):
    dense, low_rank = results["dense"], results["low_rank"]
    draws = low_rank.get_samples()["f"]
    off = (draws.mean(0) - dense.mean["f"]) / dense.stddev["f"]
    assert np.max(np.abs(off)) < 5 / 1000**0.5
    moved = draws[:, :100] - draws[:, 100:]
    stddev = dense.difference(np.arange(100), np.arange(100, 200), site="f")[1]
    assert abs(np.mean(moved.std(0) / stddev) - 1) < 0.01
    assert low_rank.approximation.error < 0.02
    assert str(low_rank.approximation).startswith("low_rank. Standard deviations")
    assert f"rank {RANK}; the data tell" in low_rank.approximation.sentence
    assert to_arviz(low_rank).posterior["home"].shape == (1, 1000, 4)
    factor, diagonal = low_rank.posterior.factors()
    covariance = factor @ factor.T + np.diag(diagonal)
    assert np.sqrt(np.mean((covariance - dense.joint_covariance) ** 2)) < 0.01


def test_algebra_against_matrices():
    rng = np.random.default_rng(0)
    columns = np.array([rng.choice(50, 3, replace=False) for _ in range(150)])
    rows = ShortRows(rng.normal(size=(150, 3)), columns, 50)
    factor, variances = rng.normal(size=(50, 6)), rng.uniform(0.01, 2.0, 50)
    tau, nu, matrix = rng.uniform(0.0, 2.0, 150), rng.normal(size=150), rows.matrix().toarray()
    pattern = SparsePattern(rows)
    near = LowRankGaussian(pattern, factor, variances, 0.9 * tau, nu).explained
    kept = LowRankGaussian(pattern, factor, variances, tau, nu, near, 1e-10)
    prior = factor @ factor.T + np.diag(variances)
    precision = (matrix.T * tau) @ matrix
    covariance = np.linalg.inv(np.linalg.inv(prior) + precision)
    assert_allclose(kept.mean(), covariance @ matrix.T @ nu, atol=1e-6)
    assert_allclose(kept.solve(np.eye(50), tol=1e-10), covariance, atol=1e-6)
    shares = np.einsum("gi,ij,gj->g", matrix, covariance, matrix)
    assert_allclose(kept.quadratic(rows), shares, rtol=1e-6)
    probes = kept.probes(0, 4000)
    assert_allclose(kept.margin_variances(probes), shares, rtol=0.05)
    assert_allclose(kept.latent_variances(probes), np.diagonal(covariance), rtol=0.05)
    drawn = np.cov(kept.sample(np.random.default_rng(1), 20_000).T)
    assert_allclose(drawn, covariance, atol=0.04)
    found, error = kept.log_determinant(0)
    true = np.linalg.slogdet(np.eye(50) + precision @ prior)[1] - np.sum(np.log(variances))
    assert abs(found - true) < 4 * error and error < 1
    told = np.diagonal(precision) * variances
    assert_allclose(kept.residuals_seen, np.mean(told / (1 + told)))


@pytest.mark.slow
def test_features_are_the_process_where_inducing_points_are_all_items():
    X, pairs = field()
    kernel = gp.rbf(2.0, 0.4)
    with jax.enable_x64(True):
        true = np.asarray(gp.gram(kernel, jnp.asarray(X)))
        whole = gp.features(kernel, jnp.asarray(X), ITEMS)
        assert_allclose(np.asarray(whole.covariance_matrix), true, atol=2e-5)
        errors = []
        for rank in (10, 40):
            prior = gp.features(kernel, jnp.asarray(X), rank)
            assert_allclose(np.asarray(prior.variance), 4.0, rtol=1e-4)
            errors.append(np.abs(np.asarray(prior.covariance_matrix) - true).mean())
    assert errors[0] > 3 * errors[1]
    with pytest.raises(ValueError, match="rank is 0"):
        gp.features(kernel, jnp.asarray(X), 0)


@pytest.mark.slow
def test_enough_rank_leaves_little_to_be_seen():
    X, _ = field()
    kernel, precision = gp.rbf(2.0, 0.35), np.linspace(0.0, 2.0, ITEMS)

    def seen(rank):
        left = np.asarray(gp.features(kernel, jnp.asarray(X), rank).cov_diag) * precision
        return np.mean(left / (1 + left))

    with jax.enable_x64(True):
        rank = gp.enough_rank(kernel, X, precision)
        assert rank == 100 and seen(100) < 0.01 < seen(50)
        assert gp.enough_rank(kernel, X, 1e-6) == 50
        with pytest.raises(ValueError, match="precision has entries that are negative"):
            gp.enough_rank(kernel, X, -precision)
        with pytest.raises(ValueError, match="negative or not finite"):
            gp.enough_rank(kernel, X, np.inf)
        with pytest.raises(ValueError, match=r"precision has shape \(3,\)"):
            gp.enough_rank(kernel, X, np.ones(3))
    with pytest.raises(TypeError, match="call it before the program"):
        jax.eval_shape(lambda x: gp.enough_rank(kernel, x, 1.0), jnp.asarray(X))
    with pytest.raises(ValueError, match=r"say gp.enough_rank\(kernel, X, precision\)"):
        EP(smooth_skills).run(KEY, *field(), rank="auto")


@pytest.mark.slow
def test_the_structure_is_found(monkeypatch):
    X, pairs = field()
    keep_covariances_up_to(100, monkeypatch)
    result = EP(smooth_skills, max_sweeps=4, tol=10.0).run(KEY, X, pairs, RANK)
    assert result.structure == "low_rank"
    with pytest.raises(ValueError, match="only EP.run and maximize_evidence do without"):
        EP(smooth_skills).solve({}, X, pairs, RANK)


@pytest.mark.slow
def test_slopes_are_those_of_the_dense_integral():
    rng = np.random.default_rng(0)
    seen = np.array([rng.choice(30, 3, replace=False) for _ in range(60)])
    values, tau, nu = rng.normal(size=(60, 3)), rng.uniform(0.0, 1.0, 60), rng.normal(size=60)
    factor, variances = rng.normal(size=(30, 4)), rng.uniform(0.0, 0.3, 30)

    def integral(factor, variances, values):
        rows = jnp.zeros((60, 30)).at[np.arange(60)[:, None], seen].add(values)
        prior = factor @ factor.T + jnp.diag(variances)
        precision, shift = rows.T @ (tau[:, None] * rows), rows.T @ nu
        changed = jnp.eye(30) + prior @ precision
        quadratic = shift @ jnp.linalg.solve(changed, prior @ shift)
        return 0.5 * (quadratic - jnp.linalg.slogdet(changed)[1])

    pattern = SparsePattern(ShortRows(values, seen, 30))
    gaussian = LowRankGaussian(pattern, factor, variances, tau, nu, tol=1e-10)
    told = gaussian.slopes(gaussian.mean(tol=1e-12))
    with jax.enable_x64(True):
        by_factor, by_variances, by_rows = jax.grad(integral, (0, 1, 2))(factor, variances, values)
    assert_allclose(told.prior[0], by_factor, atol=1e-7)
    assert_allclose(told.prior[1], by_variances, atol=0.03)
    assert_allclose(told.rows, by_rows, atol=0.03)


def learned(X, pairs, scores):
    """Kernel, the scale of what the likelihood sees, and the noise of scores are learned."""
    positive = dist.constraints.positive
    amplitude: Any = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
    lengthscale: Any = numpyro.param("lengthscale", 0.6, constraint=positive)
    share: Any = numpyro.param("share", 0.7, constraint=positive)
    noise: Any = numpyro.param("noise", 0.7, constraint=positive)
    f: Any = numpyro.sample("f", gp.features(gp.rbf(amplitude, lengthscale), X, 8))
    numpyro.sample("win", Thurstone(share * (f[pairs[:, 0]] - f[pairs[:, 1]])), obs=1)
    numpyro.sample("score", dist.Normal(f[: len(scores)], noise), obs=scores)


@pytest.mark.slow
def test_hyperparameters_are_learned_as_with_all_covariances():
    X, pairs = field()
    scores = 2 * np.sin(6 * X[:40]).sum(axis=1) + 0.5 * np.random.default_rng(3).normal(size=40)
    dense, low_rank = (
        maximize_evidence(EP(learned, structure=how), X, pairs, scores)
        for how in ("dense", "low_rank")
    )
    assert low_rank.converged and low_rank.num_evaluations < 30
    for name, value in dense.params.items():
        assert_allclose(low_rank.params[name], value, rtol=0.02)
    off = low_rank.log_evidence - dense.log_evidence
    assert abs(off) < 4 * low_rank.log_evidence_error < 4


@pytest.mark.slow
def test_an_integral_over_hyperparameters_is_refused():
    X, pairs = field()
    with pytest.raises(ValueError, match="only EP.run and maximize_evidence do without"):
        IntegratedEP(learned, structure="low_rank").run(KEY, X, pairs, np.zeros(4))


@pytest.mark.slow
def test_what_has_no_such_structure_or_no_room_is_refused(monkeypatch):
    X, pairs = field()
    with pytest.raises(ValueError, match="structure='low_rank' needs a Gaussian prior of low rank"):
        EP(independent, structure="low_rank").run(KEY, pairs)
    with pytest.raises(ValueError, match="structure='probes' needs independent"):
        EP(smooth_skills, structure="probes").run(KEY, X, pairs, RANK)
    with pytest.raises(ValueError, match="needs power=1 and a Gaussian prior of low rank"):
        EP(smooth_skills, structure="low_rank", power=0.5).run(KEY, X, pairs, RANK)
    with pytest.raises(ValueError, match="'low_rank' need sites of positive precision"):
        EP(heavy_tails, structure="low_rank").run(KEY, X[:9], 9.0 * (np.arange(9) > 7))
    monkeypatch.setattr("bayesrank._memory.available", lambda: 10_000)
    monkeypatch.setattr("bayesrank.infer.compiled.check_compiled", lambda *_: None)
    monkeypatch.setattr("bayesrank.infer.compiled.check_trace", lambda *_: None)
    with pytest.raises(TooLargeError, match="the 15 features of 204 latents take 120 KiB"):
        EP(smooth_skills, structure="low_rank").run(KEY, X, pairs, RANK)


def heavy_tails(X, y):
    f = jnp.asarray(numpyro.sample("f", gp.features(gp.rbf(3.0, 0.3), X, 5)))
    numpyro.sample("y", dist.StudentT(2.0, f[np.zeros(9, int)], 0.3), obs=y)


def independent(pairs):
    f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, 1.0).expand([ITEMS])))
    numpyro.sample("win", Thurstone(f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)
