"""EM against a literal transcription of the paper, direct maximisation, and EP on the program."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import multivariate_normal, norm
from rating_data import USERS_AND_ITEMS, draw_numbers
from scipy import stats
from scipy.optimize import minimize, minimize_scalar

from bayesrank import CollaborativeGP
from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import (
    collaborative_ordinal_gp,
    collaborative_preference_gp,
    collaborative_rating_gp,
)
from bayesrank.solvers.collaborative import EM, loop, predict

N, M = USERS_AND_ITEMS
PLAIN: Any = {"user_scales": 0, "strength": 0, "mean_strength": 0, "accelerate": False}
pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")


@pytest.fixture(scope="module")
def data():
    return draw_numbers()


def _prior(result):
    """What makes a program state the prior that EM has maximised."""
    return {"strength": result.kernel_prior, "mean_strength": result.setting.mean_strength}


def _evidence(users, items, ratings, h, kernel, variance):
    total = 0.0
    for user in np.unique(users):
        seen = items[users == user]
        covariance = kernel[np.ix_(seen, seen)] + variance * np.eye(len(seen))
        total += stats.multivariate_normal(h[seen], covariance).logpdf(ratings[users == user])
    return total


def _paper(users, items, ratings, h, kernel, variance, steps):
    """Sections 3 and 3.1 with an m x m covariance a user; noise summed over what is seen."""
    trace = []
    for _ in range(steps):
        trace.append(_evidence(users, items, ratings, h, kernel, variance))
        means, covariances, residual = [], [], 0.0
        for user in np.unique(users):
            seen, y = items[users == user], ratings[users == user]
            across = kernel[:, seen]
            weights = across @ np.linalg.inv(kernel[np.ix_(seen, seen)] + variance * np.eye(len(y)))
            means.append(h + weights @ (y - h[seen]))
            covariances.append(kernel - weights @ across.T)
            residual += ((y - means[-1][seen]) ** 2).sum() + np.trace(
                covariances[-1][np.ix_(seen, seen)]
            )
        h = np.mean(means, axis=0)
        centred = np.array(means) - h
        kernel = (centred.T @ centred + np.sum(covariances, axis=0)) / len(means)
        variance = residual / len(ratings)
    return h, kernel, variance, np.array(trace)


@pytest.fixture(scope="module")
def plain(data):
    """The paper's EM, without a prior."""
    engine = EM("gaussian", max_iterations=25, **PLAIN)
    return engine, engine.run(*data, progress_bar=False)


def test_iterations_are_the_papers(data, plain):
    users, items, ratings = data
    scale = 0.5 * np.var(ratings)
    mean, prior = np.full(M, ratings.mean()), scale * 0.5 * (np.eye(M) + 1.0)
    h, kernel, variance, trace = _paper(users, items, ratings, mean, prior, scale, 25)
    result = plain[1]
    np.testing.assert_allclose(result.trace, trace, rtol=1e-10)
    np.testing.assert_allclose(result.mean, h, rtol=1e-8)
    np.testing.assert_allclose(result.kernel, kernel, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.params["noise"] ** 2, variance, rtol=1e-8)
    assert np.diff(result.trace).min() > -1e-9 * abs(result.trace[0])


@pytest.fixture(scope="module")
def with_prior(data):
    # A base kernel in which items have little of their own leaves something to noise.
    kernel = 0.1 * np.eye(M) + 1.0
    engine = EM("gaussian", strength=6.0, mean_strength=2.0, tol=1e-9)
    return engine.run(*data, kernel=kernel, progress_bar=False)


def test_accelerated_and_with_a_prior_the_objective_never_falls(with_prior):
    assert with_prior.converged and with_prior.num_iterations < 80
    assert np.diff(with_prior.trace).min() > -1e-9 * abs(with_prior.trace[0])


@pytest.mark.slow
def test_em_ends_where_direct_maximisation_does(data, with_prior):
    """In mean, kernel, level and scale of the base, noise, and each user's noise and scale."""
    users, items, ratings = data
    base, state = jnp.asarray(with_prior.base_kernels), with_prior.state
    lower = np.tril_indices(M)
    sizes = np.cumsum([M, 1, 1, 1, N, N])

    def parts(x):
        factor = jnp.zeros((M, M)).at[lower].set(x[sizes[-1] :])
        return *jnp.split(x[: sizes[-1]], sizes[:-1]), factor @ factor.T

    def loss(x):
        h, level, log_base, log_noise, log_noises, log_scales, kernel = parts(x)
        ratio = jnp.linalg.solve(kernel, jnp.einsum("c,cij->ij", jnp.exp(log_base), base))
        density = -3.0 * (jnp.trace(ratio) - jnp.linalg.slogdet(ratio)[1] - M)
        density -= (h - level) @ jnp.linalg.solve(kernel, h - level)
        density += jnp.sum(norm.logpdf(log_noises, log_noise, state.spread[2]))
        density += jnp.sum(norm.logpdf(log_scales, 0.0, state.spread[1]))
        for user in range(N):
            seen = items[users == user]
            scale, noise = jnp.exp(log_scales[user]), jnp.exp(log_noises[user])
            mean = ratings.mean() + scale * (h[seen] - ratings.mean())
            covariance = scale**2 * kernel[np.ix_(seen, seen)] + noise**2 * jnp.eye(len(seen))
            density += multivariate_normal.logpdf(ratings[users == user], mean, covariance)
        return -density

    start = np.concatenate(
        [with_prior.mean + 0.1, [with_prior.mean.mean()], np.log(state.scales) + 0.3,
         state.shared_theta[-1:] - 0.2, np.full(N, state.shared_theta[-1]), np.zeros(N),
         np.linalg.cholesky(with_prior.kernel)[lower] * 1.1]
    )  # fmt: skip
    with jax.enable_x64(True):
        best = minimize(jax.jit(jax.value_and_grad(loss)), start, jac=True, options={"gtol": 1e-6})
    h, level, log_base, log_noise, log_noises, log_scales, kernel = parts(best.x)
    np.testing.assert_allclose(with_prior.trace[-1], -best.fun, atol=1e-5)
    np.testing.assert_allclose(with_prior.mean, h, atol=1e-3)
    np.testing.assert_allclose(with_prior.kernel, kernel, atol=1e-3)
    np.testing.assert_allclose(state.level, level[0], atol=1e-3)
    np.testing.assert_allclose(state.scales, np.exp(log_base), rtol=1e-3)
    np.testing.assert_allclose(state.shared_theta[-1], log_noise[0], atol=1e-3)
    np.testing.assert_allclose(state.theta[:, 1], log_scales, atol=1e-3)
    np.testing.assert_allclose(state.theta[:, 2], log_noises, atol=1e-3)


def test_numbers_to_come_are_the_gaussian_conditional_of_those_given(data, with_prior):
    """In the user's own scale, with noise; items that the user has and has not rated."""
    users, items, ratings = data
    user = int(np.argmax(np.bincount(users) == M - 1))
    seen, given = items[users == user], ratings[users == user]
    anchor, scale, noise = ratings.mean(), *np.exp(with_prior.state.theta[user, 1:])
    mean = anchor + scale * (with_prior.mean - anchor)
    covariance = scale**2 * with_prior.kernel
    told = covariance[np.ix_(seen, seen)] + noise**2 * np.eye(len(seen))
    weights = np.linalg.solve(told, covariance[seen]).T
    expected = mean + weights @ (given - mean[seen])
    variance = np.diag(covariance - weights @ covariance[seen]) + noise**2
    found = with_prior.predict_number(np.full(M, user), np.arange(M))
    np.testing.assert_allclose(found[0], expected, rtol=1e-7)
    np.testing.assert_allclose(found[1], variance, rtol=1e-7)


def test_the_program_at_ems_estimate_has_its_evidence_and_posterior(data, plain):
    users, items, ratings = data
    params = {**plain[1].params}
    with jax.enable_x64(True):
        ep = EP(collaborative_rating_gp).run(
            jax.random.key(0), users, items, ratings, N, M, params=params, num_samples=1
        )
    np.testing.assert_allclose(ep.log_evidence, plain[1].log_evidence, rtol=1e-8)
    mean, variance = plain[1].functions()
    np.testing.assert_allclose(ep.mean["f"], mean, atol=1e-6)
    np.testing.assert_allclose(ep.stddev["f"] ** 2, variance, atol=1e-6)


@pytest.fixture(scope="module")
def ordinal(data):
    users, items, ratings = data
    levels = np.digitize(ratings, np.quantile(ratings, [0.3, 0.7]))
    engine = EM("probit", strength=8.0, max_iterations=60, tol=1e-6)
    return levels, engine, engine.run(users, items, levels, progress_bar=False)


def _evidence_of_the_program(result):
    """EM's objective without the density of users' own parameters, which are held fixed there."""
    factors = [
        result.params[name] for name in ("gap_factor", "noise_factor") if name in result.params
    ]
    deviations = sum(stats.norm.logpdf(np.log(x), scale=0.3).sum() for x in factors)
    return result.log_evidence + result.log_prior - deviations


@pytest.mark.slow
def test_ordinal_em_is_ep_on_the_program(data, ordinal):
    users, items, _ = data
    levels, _, result = ordinal
    ep = EP(collaborative_ordinal_gp, tol=1e-6).run(
        jax.random.key(0), users, items, levels, N, M,
        params=result.params, num_samples=1, user_thresholds=0.3, **_prior(result),
    )  # fmt: skip
    np.testing.assert_allclose(ep.log_evidence, _evidence_of_the_program(result), atol=1e-3)
    mean, variance = result.functions()
    np.testing.assert_allclose(ep.mean["f"], mean, atol=5e-3)
    np.testing.assert_allclose(ep.stddev["f"] ** 2, variance, rtol=1e-2)


def test_probabilities_of_levels_are_those_of_the_programs_posterior(data, ordinal):
    """EP's mean and variance of a function, the user's thresholds and noise, and SciPy's normal."""
    users, items, _ = data
    result = ordinal[2]
    mean, variance = result.predict_latent(users, items)
    edges = np.pad(result.thresholds[users], ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))
    sd = np.sqrt(variance + result.noise[users] ** 2)
    expected = np.diff(stats.norm.cdf((edges - mean[:, None]) / sd[:, None]), axis=1)
    np.testing.assert_allclose(result.predict_proba(users, items), expected, atol=1e-9)
    with pytest.raises(ValueError, match="observations are probit, not numbers; use predict_proba"):
        result.predict_number(users, items)


def test_em_settles_where_users_with_few_ratings_differ(data, ordinal):
    """Every other user hardly uses the middle level; the gradients of one rating may be tiny."""
    users, items, ratings = data
    centred, edge = ratings - ratings.mean(), np.where(users % 2, 0.2, 1.5)
    levels = (centred > edge).astype(int) + (centred > -edge)
    result = ordinal[1].run(users, items, levels, progress_bar=False)
    assert result.converged and result.state.theta[:, 0].std() > 0.1


@pytest.mark.slow
def test_two_levels_have_one_threshold(data):
    users, items, ratings = data
    levels = (ratings > np.median(ratings)).astype(int)
    result = EM("probit", max_iterations=3).run(users, items, levels, progress_bar=False)
    ep = EP(collaborative_ordinal_gp, tol=1e-6).run(
        jax.random.key(0), users, items, levels, N, M,
        params=result.params, num_samples=1, user_thresholds=0.3, **_prior(result),
    )  # fmt: skip
    np.testing.assert_allclose(ep.log_evidence, _evidence_of_the_program(result), atol=1e-3)
    mean, variance = result.predict_latent(users, items)
    chance = norm.cdf(mean / np.sqrt(variance + result.noise[users] ** 2))
    np.testing.assert_allclose(result.predict_proba(users, items)[:, 1], chance, rtol=1e-9)


@pytest.mark.slow
def test_the_estimate_is_stationary_in_the_thresholds(data, ordinal):
    """Finite differences of EP's evidence of the program, thresholds of all users alike."""
    users, items, _ = data
    levels = ordinal[0]
    engine = EM("probit", strength=8.0, user_thresholds=0, max_iterations=150, tol=1e-9)
    result = engine.run(users, items, levels, progress_bar=False)
    run = EP(collaborative_ordinal_gp, tol=1e-8)

    def evidence(gaps):
        params = {**result.params, "gaps": gaps}
        return run.run(jax.random.key(0), users, items, levels, N, M, params=params,
                       num_samples=1, **_prior(result)).log_evidence  # fmt: skip

    gaps = result.params["gaps"]
    slope = (evidence(gaps * 1.001) - evidence(gaps * 0.999)) / 0.002
    assert abs(slope) < 0.02


def test_engines_share_what_is_compiled(data, plain):
    step: Any = loop._expect
    compiled = step._cache_size()
    EM("gaussian", max_iterations=1, **PLAIN).run(*data, progress_bar=False)
    assert step._cache_size() == compiled > 0


def test_users_may_be_looked_up_in_any_order_and_twice(plain, monkeypatch):
    """Also where the functions of no more than two of them fit into memory."""
    result, users = plain[1], [3, 0, 3, 7]
    everything = result.functions()
    monkeypatch.setattr(predict, "_NUMBERS_IN_PIECE", 2 * M)
    for found, single, all_users in zip(
        result.functions(users), result.predict_latent(users, [1, 2, 0, 3]), everything, strict=True
    ):
        np.testing.assert_allclose(found, all_users[users], rtol=1e-12)
        np.testing.assert_allclose(single, all_users[users, [1, 2, 0, 3]], rtol=1e-12)
    nobody = np.zeros(0, int)
    assert result.functions(nobody)[0].shape == (0, M)
    assert result.draw(nobody, 5).shape == (5, 0, M)


def test_draws_have_the_posteriors_moments(plain):
    mean, variance = plain[1].functions([3])
    draws = plain[1].draw([3], 20_000)[:, 0]
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(variance / 20_000))
    np.testing.assert_allclose(draws.var(axis=0), variance[0], rtol=0.05)


def test_individual_models_are_those_of_one_user_at_a_time(data):
    """Their level, scale and noise maximise the evidence of the user's own ratings."""
    users, items, ratings = data
    most = int(np.bincount(users).argmax())
    mine = users == most
    engine = EM("gaussian", collaborative=False, max_iterations=600, tol=1e-8)
    result = engine.run(users, items, ratings, progress_bar=False)
    base = np.einsum("c,cij->ij", result.state.scales, result.base_kernels)
    seen = items[mine]

    def evidence(level, scale, noise):
        covariance = scale * base[np.ix_(seen, seen)] + noise**2 * np.eye(len(seen))
        law = stats.multivariate_normal(np.full(len(seen), level), covariance)
        return law.logpdf(ratings[mine])

    state, level = result.state, result.mean[0] + result.state.user_level[most]
    at = [level, state.user_scale[most], result.noise[most]]
    for k in range(3):
        for factor in (0.9, 1.1):
            other = [v * (factor if i == k else 1) for i, v in enumerate(at)]
            assert evidence(*other) < evidence(*at) + 1e-3


@pytest.mark.slow
def test_comparisons_are_ep_on_the_program():
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(4), 5)
    pairs = np.array([rng.permutation(M)[:2] for _ in users])
    result = EM("pairwise", strength=5.0, max_iterations=3).run(users, pairs, progress_bar=False)
    ep = EP(collaborative_preference_gp, tol=1e-6).run(
        jax.random.key(0), users, pairs[:, 0], pairs[:, 1], 4, M,
        params=result.params, num_samples=1, **_prior(result),
    )  # fmt: skip
    expected = result.log_evidence + result.log_prior
    np.testing.assert_allclose(ep.log_evidence, expected, atol=1e-3)
    np.testing.assert_allclose(ep.mean["f"], result.functions()[0], atol=5e-3)


@pytest.mark.slow
def test_comparisons_say_nothing_of_a_users_level():
    pairs = np.array([[0, 1], [2, 1], [1, 2], [2, 0]])
    engine = EM("pairwise", collaborative=False, max_iterations=3)
    result = engine.run([0, 0, 1, 1], pairs, progress_bar=False)
    np.testing.assert_allclose(result.functions()[0].mean(axis=1), 0.0, atol=1e-9)
    assert np.all(result.state.user_scale != 1)
    with pytest.raises(ValueError, match="users who compare do not differ in noise"):
        _ = result.noise


@pytest.mark.slow
def test_stopping_early_is_said(data):
    with pytest.warns(ConvergenceWarning, match="EM has not converged after 2 iterations") as said:
        EM("gaussian", max_iterations=2).run(*data, progress_bar=False)
        CollaborativeGP(max_iterations=2).fit(*data)
    lines, first = inspect.getsourcelines(test_stopping_early_is_said)
    runs = [first + row for row, line in enumerate(lines) if "max_iterations=2" in line][:2]
    assert [(w.filename, w.lineno) for w in said] == [(__file__, row) for row in runs]


def test_unknown_numbers_are_refused(plain):
    result = plain[1]
    with pytest.raises(ValueError, match="user 12 is not known; there are 12"):
        result.predict_latent([12], [0])
    with pytest.raises(ValueError, match="item -1 is not known"):
        result.predict_latent([0], [-1])
    with pytest.raises(ValueError, match="gaussian observations have no levels"):
        result.predict_proba([0], [0])
    with pytest.raises(ValueError, match=r"users has shape \(\); pass one shape"):
        result.draw(3)
    with pytest.raises(ValueError, match="num_samples is 2.5; pass a whole number from 0"):
        result.draw([3], 2.5)


@pytest.mark.slow
def test_few_users_are_predicted_with_the_doubt_that_is_due():
    """30 users of 12 items, half of them told; with a prior worth 12 users the power was .65."""
    probs, levels = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        tastes = 0.8 * rng.normal(size=(12, 3))
        kernel = tastes @ tastes.T + 0.5 + 0.25 * np.eye(12)
        f = 0.7 * rng.normal(size=12) + rng.normal(size=(30, 12)) @ np.linalg.cholesky(kernel).T
        said = np.digitize(f + rng.normal(size=f.shape), [-2.0, -0.7, 0.7, 2.0])
        told = np.argsort(rng.random((30, 12)), axis=1) < 6
        users, items = np.nonzero(told)
        result = EM("probit", tol=1e-3).run(users, items, said[told], progress_bar=False)
        assert [tier.strength for tier in result.kernel_prior.tiers] == [42.0]
        others = np.nonzero(~told)
        probs.append(result.predict_proba(*others))
        levels.append(said[others])
    log_p, chosen = np.log(np.concatenate(probs)), np.concatenate(levels)

    def loss(power):
        scaled = power * log_p
        return (np.logaddexp.reduce(scaled, 1) - scaled[np.arange(len(chosen)), chosen]).mean()

    assert 0.8 < minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded").x < 1.25
    frequencies = np.bincount(chosen) / len(chosen)
    assert loss(1.0) < stats.entropy(frequencies) - 0.03
