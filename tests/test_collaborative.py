"""EM against a literal transcription of the paper, direct maximisation, and EP on the program."""

import inspect
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import multivariate_normal, norm
from rating_data import USERS_AND_ITEMS, divergence, draw_numbers
from scipy import stats
from scipy.optimize import minimize_scalar

from bayesrank import CollaborativeGP
from bayesrank.gp import KernelPrior, Tier
from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import (
    collaborative_ordinal_gp,
    collaborative_preference_gp,
    collaborative_rating_gp,
)
from bayesrank.solvers.collaborative import EM, em, likelihoods
from bayesrank.solvers.collaborative.loop import Anderson

N, M = USERS_AND_ITEMS
PLAIN: Any = {"user_scales": 0, "strength": 0}
pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")


@pytest.fixture(scope="module")
def data():
    return draw_numbers()


def _joint(kernel, base, core):
    """Kernel of all items: the others follow the core as the base kernel has it."""
    rest = np.setdiff1d(np.arange(len(base)), core)
    weights = np.linalg.solve(base[np.ix_(core, core)], base[np.ix_(core, rest)])
    own = np.diagonal(base)[rest] - np.sum(base[np.ix_(core, rest)] * weights, axis=0)
    whole = np.empty_like(base)
    whole[np.ix_(core, core)] = kernel
    whole[np.ix_(core, rest)] = kernel @ weights
    whole[np.ix_(rest, core)] = (kernel @ weights).T
    whole[np.ix_(rest, rest)] = weights.T @ kernel @ weights + np.diag(own)
    return whole


def _paper(data, base, core, strength, mean_strength, steps):
    """Sections 3 and 3.1 with an m x m covariance a user; noise summed over what is seen."""
    (users, items, ratings), psi = data, base[np.ix_(core, core)]
    h, kernel, level = np.full(len(base), ratings.mean()), psi, ratings.mean()
    variance, trace = 0.5 * np.var(ratings), []
    for _ in range(steps):
        sigma, gap, ratio = _joint(kernel, base, core), h - level, np.linalg.solve(kernel, psi)
        trace.append(
            -0.5 * strength * (np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(core))
            - 0.5 * mean_strength * gap @ np.linalg.solve(sigma, gap)
        )
        means, covariances, residual = [], [], 0.0
        for user in np.unique(users):
            seen, y = items[users == user], ratings[users == user]
            covariance = sigma[np.ix_(seen, seen)] + variance * np.eye(len(y))
            trace[-1] += stats.multivariate_normal(h[seen], covariance).logpdf(y)
            weights = sigma[:, seen] @ np.linalg.inv(covariance)
            means.append(h + weights @ (y - h[seen]))
            covariances.append(sigma - weights @ sigma[seen])
            residual += ((y - means[-1][seen]) ** 2).sum()
            residual += np.trace(covariances[-1][np.ix_(seen, seen)])
        n, average, inverse = len(means), np.mean(means, axis=0), np.linalg.inv(sigma)
        level = inverse.sum(axis=0) @ average / inverse.sum()
        h = (n * average + mean_strength * level) / (n + mean_strength)
        centred, gap = np.array(means) - average, average - level
        moments = centred.T @ centred + np.sum(covariances, axis=0)
        moments += n * mean_strength / (n + mean_strength) * np.outer(gap, gap)
        kernel = (moments[np.ix_(core, core)] + strength * psi) / (n + strength)
        variance = residual / len(ratings)
    return h, _joint(kernel, base, core), variance, np.array(trace)


def _run(engine, *args, core=None, mean_strength=None, accelerates=True, learns=True, **options):
    """Run with other numbers than those that are constants of the engine."""
    with pytest.MonkeyPatch.context() as patch:
        if core is not None:
            patch.setattr(em, "_MOST_CORE_ITEMS", core)
        if mean_strength is not None:
            patch.setattr(em, "_MEAN_STRENGTH", mean_strength)
        if not accelerates:
            patch.setattr(em, "Anderson", partial(Anderson, plain_steps=10_000))
        if not learns:
            shared = em.SharedProcess
            patch.setattr(em, "SharedProcess", lambda *a, **k: shared(*a, **k | {"learns": False}))
        return engine.run(*args, progress_bar=False, **options)


@pytest.fixture(scope="module")
def plain(data):
    """The paper's EM, without a prior."""
    engine = EM("gaussian", max_iterations=25, **PLAIN)
    return engine, _run(engine, *data, accelerates=False)


@pytest.fixture(scope="module")
def few():
    """Ratings of six items, most of items 1, 3 and 4; and a base kernel of items on a line."""
    rng = np.random.default_rng(1)
    kernel = np.exp(-0.5 * np.subtract.outer(np.arange(6), np.arange(6)) ** 2 / 1.5**2)
    kernel += 0.2 * np.eye(6)
    functions = 3 + rng.normal(size=6) + rng.normal(size=(14, 6)) @ np.linalg.cholesky(kernel).T
    seen = rng.random((14, 6)) < np.where(np.isin(np.arange(6), [1, 3, 4]), 0.9, 0.4)
    users, items = np.nonzero(seen)
    return (users, items, functions[users, items] + 0.5 * rng.normal(size=len(users))), kernel


def _assert_the_papers(result, data, base, core, strength, mean_strength):
    scale = 0.5 * np.var(data[2]) / np.diagonal(base).mean()
    h, kernel, variance, trace = _paper(
        data, scale * base, core, strength, mean_strength, len(result.trace)
    )
    np.testing.assert_allclose(result.trace, trace, rtol=1e-10)
    np.testing.assert_allclose(result.mean, h, rtol=1e-8)
    np.testing.assert_allclose(result.kernel, kernel, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.params["noise"] ** 2, variance, rtol=1e-8)
    assert np.diff(result.trace).min() > -1e-9 * abs(result.trace[0])


def test_iterations_are_the_papers(data, plain):
    base = 0.5 * (np.eye(M) + 1.0)
    _assert_the_papers(plain[1], data, base, np.arange(M), 0.0, 0.0)


CORE: Any = {"user_scales": 0, "strength": 5.0}
SMALL: Any = {"core": 3, "mean_strength": 3.0}


@pytest.mark.slow
def test_iterations_with_a_prior_and_a_core_are_those_of_dense_algebra(few):
    engine = EM("gaussian", **CORE, max_iterations=15)
    result = _run(engine, *few[0], kernel=few[1], **SMALL, accelerates=False, learns=False)
    _assert_the_papers(result, few[0], few[1], np.array([1, 3, 4]), 5.0, 3.0)


@pytest.fixture(scope="module")
def with_prior(data):
    # A base kernel in which items have little of their own leaves something to noise.
    kernel = 0.1 * np.eye(M) + 1.0
    engine = EM("gaussian", strength=6.0, tol=1e-9)
    return _run(engine, *data, kernel=kernel, mean_strength=2.0)


def _with_core(few, constants, **options):
    data, kernel = few
    kernels = np.stack([kernel - 0.19 * np.eye(6), np.eye(6)])
    return _run(EM("gaussian", **options, tol=1e-11), *data, kernel=kernels, **constants)


@pytest.fixture(scope="module")
def with_core(few):
    return _with_core(few, SMALL, **CORE)


def _objective(data, base_kernels, order, tiers, mean_strength, spread):
    """EM's objective of numbers, written down with dense matrices, of all that is estimated.

    Of tiers of items in an order, whose last is the end of the core; users differ by a spread.
    """
    users, items, ratings = data
    m, core, place = len(order), order[: tiers[-1].end], np.argsort(order)
    rated, said = np.zeros((2, int(users.max()) + 1, m))
    rated[users, items], said[users, items] = 1.0, ratings
    anchor, varied = ratings.mean(), spread[1] > 0

    def value(h, level, log_base, factor, log_noise, log_scales, log_noises):
        base = jnp.einsum("c,cij->ij", jnp.exp(log_base), base_kernels)[order][:, order]
        c, learned = len(core), factor @ factor.T
        weights = jnp.linalg.solve(base[:c, :c], base[:c, c:])
        own = jnp.diagonal(base)[c:] - jnp.sum(base[:c, c:] * weights, axis=0)
        across = learned @ weights
        sigma = jnp.block([[learned, across], [across.T, weights.T @ across + jnp.diag(own)]])
        sigma = sigma[place][:, place]
        total = -0.5 * mean_strength * (h - level) @ jnp.linalg.solve(sigma, h - level)
        total -= 0.5 * divergence(learned, base[:c, :c], tiers, jnp)
        if varied:
            total += jnp.sum(norm.logpdf(log_noises, log_noise, spread[2]))
            total += jnp.sum(norm.logpdf(log_scales, 0.0, spread[1]))
        else:
            log_scales, log_noises = 0.0 * log_scales, log_noise + 0.0 * log_noises
        scales = jnp.exp(log_scales)
        # What a user has not rated counts as standard normal, and zero: all are of one shape.
        noisy = scales[:, None, None] ** 2 * sigma
        noisy = noisy + jnp.exp(2.0 * log_noises)[:, None, None] * jnp.eye(m)
        both = rated[:, :, None] * rated[:, None]
        covariances = both * noisy + jnp.eye(m) * (1.0 - rated[:, None])
        left = rated * (said - anchor - scales[:, None] * (h - anchor))
        total += jnp.sum(
            jax.vmap(multivariate_normal.logpdf, (0, None, 0))(left, jnp.zeros(m), covariances)
        )
        return total + 0.5 * np.log(2.0 * np.pi) * np.sum(rated == 0)

    return value


TIERS = (Tier(0, 2, 2.0), Tier(2, 4, 9.0), Tier(4, 6, 40.0))


@pytest.mark.parametrize(
    ("options", "mean_strength"),
    [
        pytest.param({}, 2.0, id="users differ"),
        pytest.param(CORE, 3.0, id="core"),
        *(
            pytest.param(
                {"strength": KernelPrior(tiers), "user_scales": 0, "max_iterations": 600},
                2.0,
                id=f"{len(tiers)} tiers", marks=pytest.mark.slow,
            )
            for tiers in (TIERS, TIERS[:2])
        ),
    ],
)  # fmt: skip
def test_em_ends_at_a_maximum(data, with_prior, few, with_core, options, mean_strength):
    """In mean, kernel, level, scales of the base, noise, and each user's noise and scale."""
    result = with_prior
    if "user_scales" in options:
        data, constants = few[0], {"mean_strength": mean_strength}
        result = with_core if options is CORE else _with_core(few, constants, **options)
    state, tiers = result.state, result.kernel_prior.tiers
    assert result.converged and np.diff(result.trace).min() > -1e-9 * abs(result.trace[0])
    counts = np.bincount(data[1])
    order = np.array(result.kernel_prior.items or range(len(counts)))
    assert counts[order[: tiers[-1].end]].min() >= counts[order[tiers[-1].end :]].max(initial=0)
    core, users = order[: tiers[-1].end], len(state.theta)
    with jax.enable_x64(True):
        value = _objective(data, result.base_kernels, order, tiers, mean_strength, state.spread)
        at = (
            *(jnp.asarray(x) for x in (result.mean, state.level, jnp.log(state.scales))),
            jnp.linalg.cholesky(jnp.asarray(result.kernel[np.ix_(core, core)])),
            jnp.asarray(state.shared_theta[-1]),
            *jnp.asarray(state.theta[:users, 1:]).T,
        )
        both = jax.jit(jax.value_and_grad(value, argnums=tuple(range(7))))
        best, slopes = both(*at)
        np.testing.assert_allclose(result.trace[-1], best, atol=1e-6)
        for slope in slopes:
            free = np.tril(slope) if slope.ndim == 2 else slope
            np.testing.assert_allclose(free, 0.0, atol=2e-3)
        rng = np.random.default_rng(4)
        for _ in range(12):
            there = [x + 0.02 * rng.normal(size=x.shape) for x in at]
            there[3] = jnp.tril(there[3])
            assert both(*there)[0] < best


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
    known = replace(with_prior, num_fitted=None)
    found = known.predict_number(np.full(M, user), np.arange(M))
    np.testing.assert_allclose(found[0], expected, rtol=1e-7)
    np.testing.assert_allclose(found[1], variance, rtol=1e-7)


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


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("numbers", 1e-6),
        *(
            pytest.param(kind, error, marks=pytest.mark.slow)
            for kind, error in (
                ("tiers", 1e-6), ("levels", 5e-3), ("two levels", 5e-3), ("pairs", 5e-3)
            )
        ),
    ],
)  # fmt: skip
def test_the_program_at_ems_estimate_has_its_evidence_and_posterior(
    data, plain, ordinal, few, kind, error
):
    """Where the evidence is EP's, at the fixed point that EM has come near."""
    (users, items, ratings), program, options = data, collaborative_rating_gp, {}
    args: Any = (users, items, ratings, N, M)
    result = plain[1]
    if kind == "tiers":
        args, kernel = (*few[0], 14, 6), np.stack([few[1], np.eye(6)])
        engine = EM("gaussian", strength=KernelPrior(TIERS[:2]), user_scales=0)
        result = engine.run(*few[0], kernel=kernel, progress_bar=False)
        options["kernel"] = kernel
    elif kind == "pairs":
        users = np.repeat(np.arange(4), 5)
        pairs = np.array([np.random.default_rng(k).permutation(M)[:2] for k in range(20)])
        engine = EM("pairwise", strength=5.0, max_iterations=3)
        result = engine.run(users, pairs, progress_bar=False)
        args, program = (users, *pairs.T, 4, M), collaborative_preference_gp
    elif kind != "numbers":
        levels, _, result = ordinal
        if kind == "two levels":
            levels = (ratings > np.median(ratings)).astype(int)
            engine = EM("probit", max_iterations=3)
            result = engine.run(users, items, levels, progress_bar=False)
            mean, variance = result.predict_latent(users, items)
            chance = stats.norm.cdf(mean / np.sqrt(variance + result.noise[users] ** 2))
            np.testing.assert_allclose(result.predict_proba(users, items)[:, 1], chance, rtol=1e-9)
        args, program = (users, items, levels, N, M), collaborative_ordinal_gp
        options["user_thresholds"] = 0.3
    if kind != "numbers":
        options |= {
            "strength": result.kernel_prior, "mean_strength": result.mean_strength
        }  # fmt: skip
    with jax.enable_x64(error < 1e-5 or jax.config.read("jax_enable_x64")):
        ep = EP(program, tol=1e-6).run(
            jax.random.key(0), *args, params={**result.params}, num_samples=1, **options
        )
    expected = _evidence_of_the_program(result)
    np.testing.assert_allclose(ep.log_evidence, expected, atol=max(0.2 * error, 1e-5))
    mean, variance = replace(result, num_fitted=None).functions()
    np.testing.assert_allclose(ep.mean["f"], mean, atol=error)
    np.testing.assert_allclose(ep.sd["f"] ** 2, variance, rtol=2 * error, atol=error)


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
def test_the_estimate_is_stationary_in_the_thresholds(data, ordinal):
    """Finite differences of EP's evidence of the program, thresholds of all users alike."""
    users, items, _ = data
    levels = ordinal[0]
    engine = EM("probit", strength=8.0, user_thresholds=0, max_iterations=150, tol=1e-9)
    result = engine.run(users, items, levels, progress_bar=False)
    run = EP(collaborative_ordinal_gp, tol=1e-8)

    def evidence(gaps):
        params = {**result.params, "gaps": gaps}
        return run.run(
            jax.random.key(0), users, items, levels, N, M, params=params, num_samples=1,
            strength=result.kernel_prior, mean_strength=result.mean_strength,
        ).log_evidence  # fmt: skip

    gaps = result.params["gaps"]
    slope = (evidence(gaps * 1.001) - evidence(gaps * 0.999)) / 0.002
    assert abs(slope) < 0.02


def test_what_is_compiled_serves_other_sizes(data, ordinal):
    """Of up to 32 observations, and so up to 64, in every engine."""
    users, items, _ = data
    levels, engine, _ = ordinal
    tilt: Any = likelihoods._tilt
    compiled = tilt._cache_size()
    EM("probit", max_iterations=1).run(users[1:], items[1:], levels[1:], progress_bar=False)
    assert tilt._cache_size() == compiled > 0


def test_users_may_be_looked_up_in_any_order_and_twice(plain):
    result, users = plain[1], [3, 0, 3, 7]
    everything = result.functions()
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


def test_variances_integrate_over_mean_and_kernel(with_prior, data):
    """Against draws of the regression on the items rated, and of these from their posterior."""
    known, rng = replace(with_prior, num_fitted=None), np.random.default_rng(0)
    user = int(np.argmin(np.bincount(data[0])))
    seen = data[1][data[0] == user]
    (item, *_) = np.setdiff1d(np.arange(M), seen)
    n, rows, s = N, N + 6.0, len(seen)
    sums = rows * with_prior.kernel
    inside, across = sums[np.ix_(seen, seen)], sums[seen, item]
    weights = np.linalg.solve(inside, across)
    left = sums[item, item] - weights @ across
    values = known.draw([user], 200_000)[:, 0, seen] - with_prior.mean[seen]
    sd = np.sqrt(left / rng.chisquare(rows - s, len(values)))
    square = np.einsum("ks,ks->k", values, np.linalg.solve(inside, values.T).T)
    # Weights and the mean are normal given the variance, and so is the value itself.
    spread = sd * np.sqrt(1.0 + square + 1.0 / (n + with_prior.mean_strength))
    drawn = values @ weights + spread * rng.normal(size=len(values))
    mean, variance = with_prior.predict_latent([user], [item])
    assert variance[0] > 1.05 * known.predict_latent([user], [item])[1][0]
    np.testing.assert_allclose(drawn.mean() + with_prior.mean[item], mean[0], atol=0.02)
    np.testing.assert_allclose(drawn.var(), variance[0], rtol=0.02)
    draws, variances = with_prior.draw([user], 20_000)[:, 0], with_prior.functions([user])[1][0]
    np.testing.assert_allclose(draws.var(axis=0), variances, rtol=0.06)
    everybody = with_prior.with_new_users(1)  # who has rated nothing
    factor = rows / (rows - 2.0) * (1.0 + 1.0 / (n + with_prior.mean_strength))
    variances = factor * np.diagonal(with_prior.kernel)
    np.testing.assert_allclose(everybody.functions([N])[1][0], variances)


def test_a_variance_that_does_not_exist_is_that_of_the_known_kernel(few):
    """Where a user rated more items than users and prior are worth."""
    engine = EM("gaussian", strength=0.5, max_iterations=2)
    result = engine.run([0, 0, 0, 1], [0, 1, 2, 0], [1.0, 2.0, 4.0, 2.0], progress_bar=False)
    known = replace(result, num_fitted=None)
    np.testing.assert_array_equal(result.functions([0])[1], known.functions([0])[1])


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
def test_comparisons_say_nothing_of_a_users_level():
    pairs = np.array([[0, 1], [2, 1], [1, 2], [2, 0]])
    engine = EM("pairwise", collaborative=False, max_iterations=3)
    result = engine.run([0, 0, 1, 1], pairs, progress_bar=False)
    np.testing.assert_allclose(result.functions()[0].mean(axis=1), 0.0, atol=1e-9)
    assert np.all(result.state.user_scale != 1)
    with pytest.raises(ValueError, match="noise is 1 for every user"):
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


@pytest.mark.slow
def test_levels_of_items_outside_of_the_core_are_learned_from(few):
    (users, items, ratings), kernel = few
    levels = np.digitize(ratings, np.quantile(ratings, [0.3, 0.7]))
    engine = EM("probit", tol=1e-4)
    core, whole = (_run(engine, users, items, levels, kernel=kernel, core=size) for size in (3, 6))
    assert core.converged and core.trace[-1] > core.trace[0] + 1
    rated = [levels[items == i].mean() for i in range(6)]
    assert np.corrcoef(rated, core.mean)[0, 1] > 0.8
    given = np.arange(len(levels))
    logs = [np.log(r.predict_proba(users, items)[given, levels]).mean() for r in (core, whole)]
    assert logs[0] > np.log(1 / 3) and abs(logs[0] - logs[1]) < 0.1
