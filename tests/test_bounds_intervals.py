"""Intervals of the expected error: standard errors, resampling, posteriors, side by side."""

import itertools

import numpy as np
import pytest
from bounds_worlds import GaussianRatings
from scipy.special import softmax

from bayesrank import bounds
from bayesrank.metrics import auc, k_partite_error, ndcg

PROBLEM = GaussianRatings(means=np.array([[0.0], [0.7], [1.0]]), chances=np.array([0.3, 0.4, 0.3]))


def delong(scores, labels):
    """Variance of the AUC by DeLong et al., from the matrix of all pairs."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    kernel = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    return kernel.mean(axis=1).var(ddof=1) / len(positive) + kernel.mean(axis=0).var(ddof=1) / len(
        negative
    )


def test_standard_error_of_two_levels_is_delongs():
    rng = np.random.default_rng(0)
    for decimals in (1, 8):
        labels = rng.integers(0, 2, 80)
        scores = np.round(labels + rng.normal(size=80), decimals)
        error, standard_error = bounds.normal_error(scores, labels)
        assert error == pytest.approx(1 - auc(scores, labels).mean)
        assert standard_error == pytest.approx(np.sqrt(delong(scores, labels)))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_standard_error_is_the_spread_over_samples(alpha):
    """Levels held fixed, features drawn anew: the spread of 2,000 errors, to 10 per cent."""
    rng = np.random.default_rng(1)
    labels = np.repeat([1, 2, 3], [60, 80, 60])
    draws = PROBLEM.means[labels - 1, 0] + rng.normal(size=(2000, 200))
    spread = k_partite_error(draws, labels, alpha).mean.std()
    told = [bounds.normal_error(draw, labels, alpha)[1] for draw in draws[:50]]
    assert np.mean(told) == pytest.approx(spread, rel=0.1)


def test_bootstrap_spreads_as_the_standard_error_says():
    rng = np.random.default_rng(2)
    features, labels = PROBLEM.sample(400, rng)
    scores = features[:, 0]
    error, standard_error = bounds.normal_error(scores, labels, 1.0)
    resampled = bounds.bootstrap_error(scores, labels, 1.0, num_samples=2000)
    assert resampled.std() == pytest.approx(standard_error, rel=0.08)
    assert resampled.mean() == pytest.approx(error, abs=0.01)


def test_stratified_bootstrap_keeps_the_skew():
    """One example of the second level: its score stays, so the error takes few values."""
    scores, labels = np.array([1.0, 2.0, 3.0, 2.5]), np.array([1, 1, 1, 2])
    kept = bounds.bootstrap_error(scores, labels, num_samples=500)
    assert set(np.round(kept * 3).astype(int)) <= {0, 1, 2, 3}
    assert not np.isnan(kept).any()
    loose = bounds.bootstrap_error(scores, labels, num_samples=500, stratified=False)
    assert np.isnan(loose).any()


@pytest.mark.slow
def test_intervals_cover_and_the_free_one_is_widest():
    """Over 150 held-out samples of 120: 90 per cent intervals, error known exactly."""
    rng = np.random.default_rng(3)
    hits, width = {}, {}
    for _ in range(150):
        features, labels = PROBLEM.sample(120, rng)
        rho = bounds.skew_vector(labels, 3)
        truth = PROBLEM.expected_error(np.ones(1), rho)
        for item in bounds.error_intervals(features[:, 0], labels, num_samples=200, rng=rng):
            hits.setdefault(item.method, []).append(item.low <= truth <= item.high)
            width.setdefault(item.method, []).append(item.high - item.low)
    assert np.mean(hits["bound"]) >= 0.99
    for method in ("normal", "bootstrap"):
        assert 0.83 <= np.mean(hits[method]) <= 0.96  # 0.9 give or take three standard errors
        assert np.mean(width[method]) < np.mean(width["bound"]) / 2


def expected_error(scores, chances, alpha):
    """Definition 2 over all ordered pairs of different inputs."""
    wrong, pairs = 0.0, 0.0
    levels = range(chances.shape[1])
    for i, j in itertools.permutations(range(len(scores)), 2):
        for low, high in itertools.combinations(levels, 2):
            both = chances[i, low] * chances[j, high]
            pairs += both
            loss = 1.0 if scores[i] > scores[j] else 0.5 * (scores[i] == scores[j])
            wrong += both * (high - low) ** alpha * loss
    return wrong / pairs


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_posterior_error_against_all_pairs(alpha):
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 5, 12)
    chances = softmax(rng.normal(size=(3, 12, 4)), axis=-1)
    fast = bounds.posterior_error(scores, chances, alpha)
    np.testing.assert_allclose(fast, [expected_error(scores, c, alpha) for c in chances])


def test_posterior_is_taken_up_beside_the_others():
    rng = np.random.default_rng(6)
    features, labels = PROBLEM.sample(100, rng)
    draws = rng.normal(0.35, 0.01, size=4000)
    intervals = bounds.error_intervals(features[:, 0], labels, posterior=draws)
    assert [item.method for item in intervals] == ["bound", "normal", "bootstrap", "posterior"]
    assert intervals[-1].low == pytest.approx(0.35 - 1.645 * 0.01, abs=2e-3)
    assert intervals[-1].estimate == pytest.approx(0.35, abs=1e-3)


def test_bootstrap_of_queries():
    rng = np.random.default_rng(7)
    query = np.repeat(np.arange(60), 5)
    labels = rng.integers(0, 3, 300)
    labels[:5] = 0
    result = ndcg(rng.normal(size=300), labels, query=query)
    known = result.values[~np.isnan(result.values)]
    means = bounds.bootstrap_queries(result, num_samples=4000)
    assert means.mean() == pytest.approx(result.mean, abs=0.005)
    assert means.std() == pytest.approx(known.std() / np.sqrt(len(known)), rel=0.05)
