"""The ordinal version space: its density, and EP and the ensemble on it."""

from typing import Any

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy import stats

from bayesrank.distributions.ordinal import threshold_prior
from bayesrank.infer import EP
from bayesrank.models import ordinal_version_space
from bayesrank.online import OAPBPM, rank_loss

K, D, T, NOISE = 3, 2, 80, 0.3
RNG = np.random.default_rng(3)
W, C = np.array([1.0, -1.4]), np.array([-0.6, 0.7])


def _draw(n):
    rows = RNG.normal(size=(n, D))
    return rows, 1 + ((rows @ W + NOISE * RNG.normal(size=n))[:, None] > C).sum(1)


X, Y = _draw(T)
FRESH, TRUTH = _draw(2000)


@pytest.fixture(scope="module")
def posterior():
    return EP(ordinal_version_space).run(jax.random.key(0), X, Y, num_levels=K, noise=NOISE)


@pytest.fixture(scope="module")
def rules(posterior):
    """Rules of the posterior, by importance sampling in NumPy from a wider Gaussian about EP's."""
    proposal = stats.multivariate_t(
        posterior.joint_mean, posterior.joint_covariance * 1.2, df=8, seed=5
    )
    draws = proposal.rvs(60_000)
    side = np.where(Y[:, None] > np.arange(1, K), 1.0, -1.0)
    middle, spread = threshold_prior(K)
    unit = np.hypot(np.sqrt(D), NOISE)
    log_p = stats.multivariate_normal(unit * middle, unit**2 * spread).logpdf(draws[:, D:])
    log_p -= 0.5 * (draws[:, :D] ** 2).sum(1)
    for x, s in zip(X, side, strict=True):
        margin = (draws[:, :D] @ x)[:, None] - draws[:, D:]
        log_p += stats.norm.logcdf(s * margin / NOISE).sum(1)
    log_p -= proposal.logpdf(draws)
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    assert 1.0 / (weights**2).sum() > 10_000
    return draws, weights


def _predict(rule):
    return 1 + ((FRESH @ rule[:D])[:, None] >= rule[D:]).sum(1)


def _angle(rule, other):
    return np.arccos(rule @ other / np.linalg.norm(rule) / np.linalg.norm(other))


def _density(args, kwargs, values):
    """Log joint density; compiled whole, not each operation by itself."""
    return float(jax.jit(lambda v: log_density(ordinal_version_space, args, kwargs, v)[0])(values))


def _sites(*args, **kwargs) -> Any:
    return handlers.trace(handlers.seed(ordinal_version_space, 0)).get_trace(*args, **kwargs)


@pytest.fixture(scope="module")
def sites():
    return _sites(X, Y, num_levels=K, weight_scale=2.0)


def test_sites_shapes_and_priors(sites):
    shapes = {name: np.shape(s["value"]) for name, s in sites.items() if s["type"] == "sample"}
    assert shapes == {"noise": (), "weights": (D,), "thresholds": (K - 1,), "above": (T, K - 1)}
    size = 2.0 * np.sqrt(D)
    assert float(sites["noise"]["fn"].icdf(0.5)) == pytest.approx(size)
    assert float(sites["weights"]["fn"].variance[0]) == pytest.approx(4.0)
    unit = np.hypot(size, float(sites["noise"]["value"]))
    edges, law = stats.norm.ppf([1 / 3, 2 / 3]), sites["thresholds"]["fn"]
    np.testing.assert_allclose(law.mean, unit * edges, rtol=1e-6)
    spread = 1.0 + 0.25 * np.outer(edges, edges) + np.eye(2) / 16.0
    np.testing.assert_allclose(law.covariance_matrix, unit**2 * spread, rtol=1e-5)
    about_zero = _sites(X, Y, num_levels=K, threshold_scale=10.0)["thresholds"]["fn"]
    assert float(about_zero.variance[0]) == pytest.approx(100.0)
    np.testing.assert_array_equal(sites["above"]["value"].sum(1) + 1, Y)
    assert set(_sites(X, num_levels=K, noise=1.0)) == {"weights", "thresholds"}


def test_density_is_the_product_of_the_sides():
    values = {"weights": np.array([0.4, -1.1]), "thresholds": np.array([-0.5, 0.9])}
    args, kwargs = (X, Y), {"num_levels": K, "noise": NOISE, "threshold_scale": 2.0}
    side = np.where(Y[:, None] > np.arange(1, K), 1.0, -1.0)
    margin = (X @ values["weights"])[:, None] - values["thresholds"]
    expected = stats.norm.logcdf(side * margin / NOISE).sum()
    expected += stats.norm.logpdf(values["weights"]).sum()
    expected += stats.norm.logpdf(values["thresholds"], scale=2.0).sum()
    assert _density(args, kwargs, values) == pytest.approx(expected)


def test_no_noise_is_the_version_space():
    """Towards zero noise, a rule has its prior's density if it fits the data, and none if not."""
    rows, levels = X, 1 + ((X @ W)[:, None] > C).sum(1)
    kwargs = {"num_levels": K, "noise": 1e-9}
    fits, other = ({"weights": w, "thresholds": C} for w in (W, -W))
    prior = _density((rows,), kwargs, fits)
    assert _density((rows, levels), kwargs, fits) == pytest.approx(prior)
    assert _density((rows, levels), kwargs, other) < -1e10


def test_ep_gives_the_moments_of_the_posterior(posterior, rules):
    draws, weights = rules
    exact = weights @ draws
    sd = np.sqrt(weights @ (draws - exact) ** 2)
    assert np.abs((posterior.joint_mean - exact) / sd).max() < 0.04
    # The posterior leans towards larger rules, which a Gaussian cannot: its sd is 7% too small.
    np.testing.assert_allclose(np.sqrt(np.diagonal(posterior.joint_covariance)), sd, rtol=0.1)
    assert posterior.converged


def test_the_ensemble_comes_closer_to_the_bayes_point_as_it_grows(posterior):
    """Its rule and EP's: the angle between them, agreement, and rank loss on fresh examples."""
    point = np.append(posterior.mean["weights"], posterior.mean["thresholds"])
    rows, levels = np.tile(X, (10, 1)), np.tile(Y, 10)

    def learn(num_members, seed):
        model = OAPBPM(K, num_members, 0.3, seed).partial_fit(rows, levels)
        return np.append(model.coef_, model.thresholds_)

    large = learn(100, 0)
    alone = [_angle(learn(1, seed), point) for seed in range(20)]
    assert _angle(large, point) < 0.6 * np.mean(alone)
    assert _angle(large, point) < 0.2
    assert (_predict(large) == _predict(point)).mean() > 0.9
    ideal = 1 + ((FRESH @ W)[:, None] > C).sum(1)
    losses = [rank_loss(TRUTH, levels) for levels in (_predict(point), _predict(large), ideal)]
    assert losses[0] < losses[1] + 0.01
    assert losses[0] < losses[2] + 0.04


def test_ep_and_the_ensemble_find_the_bayes_point(posterior, rules):
    """Angles, agreement and rank loss."""
    draws, weights = rules
    point, exact = posterior.joint_mean, weights @ draws
    ensemble = OAPBPM(K, 300, 0.3).partial_fit(np.tile(X, (20, 1)), np.tile(Y, 20))
    average = np.append(ensemble.coef_, ensemble.thresholds_)
    some = np.random.default_rng(0).choice(draws, 2000, p=weights)
    typical = np.median([_angle(rule, exact) for rule in some])
    assert _angle(point, exact) < 0.1 * typical
    assert _angle(average, exact) < 0.5 * typical
    levels = [_predict(rule) for rule in (exact, point, average)]
    losses = [rank_loss(TRUTH, predicted) for predicted in levels]
    for i, agreement in ((1, 0.99), (2, 0.95)):
        assert (levels[i] == levels[0]).mean() > agreement
        difference = np.abs(levels[i] - TRUTH) - np.abs(levels[0] - TRUTH)
        assert losses[i] - losses[0] < 3.0 * difference.std() / np.sqrt(len(TRUTH)) + 1e-12
