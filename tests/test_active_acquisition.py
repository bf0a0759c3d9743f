"""Acquisition functions against EP itself, quadrature in high precision, and brute force."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr

from bayesrank.active import (
    Beliefs,
    anticipate,
    bald,
    entropy_gain,
    margin_variance,
    margins,
    pool_variance,
    random_gain,
    top_gain,
)
from bayesrank.active.acquisition.pairs import answer_entropy
from bayesrank.distributions import Thurstone
from bayesrank.infer import EP

N = 5
PAIRS = np.array([[0, 1], [1, 4], [3, 2], [4, 0]])
# Compiled as a whole: eager JAX would compile each operation by itself.
BALD, ENTROPY_GAIN, VARIANCE = map(jax.jit, (bald, entropy_gain, margin_variance))
ALONE = [BALD, ENTROPY_GAIN, VARIANCE]
POOLED = [jax.jit(acquisition) for acquisition in (pool_variance, top_gain(2))]


def make_beliefs(seed=0, scale=1.0, noise=0.6):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N, N))
    mean, covariance = scale * rng.normal(size=N), root @ root.T / N + 0.05 * np.eye(N)
    return Beliefs(jnp.asarray(mean), jnp.asarray(covariance), noise)


def in_single(beliefs):
    return jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), beliefs)


def of_margin(mean, variance, noise):
    """Beliefs about two independent items, with a margin of this mean and variance."""
    mean, variance = float(mean), float(variance)
    return Beliefs(jnp.array([mean, 0.0]), 0.5 * variance * jnp.eye(2), noise)


def after_answer(winner, loser, mean, covariance, noise):
    """One comparison, for EP: its first sweep is the moment matching of the paper."""
    f = jnp.asarray(numpyro.sample("f", dist.MultivariateNormal(mean, covariance)))
    numpyro.sample("win", Thurstone(f[winner] - f[loser], noise), obs=1)


@pytest.fixture(scope="module")
def answered():
    """Of each of ``PAIRS``, probability, mean and covariance of the skills after either answer."""
    beliefs, engine = make_beliefs(), EP(after_answer)
    key = jax.random.key(0)

    def update(*pair):
        # As arrays: one program for all pairs.
        result = engine.run(key, *np.array(pair)[:, None], *beliefs[:3], num_samples=1)
        return np.exp(result.log_evidence), result.mean["f"], result.covariance["f"]

    return beliefs, [(update(i, j), update(j, i)) for i, j in PAIRS]


def test_entropy_gain_is_the_change_of_the_whole_log_determinant(answered):
    beliefs, updates = answered
    before = np.linalg.slogdet(beliefs.covariance)[1]
    expected = [
        sum(-0.5 * p * (np.linalg.slogdet(covariance)[1] - before) for p, _, covariance in both)
        for both in updates
    ]
    np.testing.assert_allclose(ENTROPY_GAIN(beliefs, PAIRS), expected, rtol=1e-6)


def test_anticipated_beliefs_are_averages_over_the_answers(answered):
    beliefs, updates = answered
    for pair, both in zip(PAIRS, updates, strict=True):
        assert sum(p for p, _, _ in both) == pytest.approx(1)
        expected = jax.jit(anticipate)(beliefs, pair)
        np.testing.assert_allclose(expected.mean, sum(p * m for p, m, _ in both), atol=1e-7)
        np.testing.assert_allclose(expected.covariance, sum(p * c for p, _, c in both), atol=1e-7)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_gain_is_what_the_best_set_loses_less_if_the_margin_is_known(k):
    beliefs = make_beliefs(3, scale=0.3)
    mean, covariance = np.asarray(beliefs.mean), np.asarray(beliefs.covariance)
    nodes, weights = np.polynomial.hermite.hermgauss(7)
    sets = [list(each) for each in itertools.combinations(range(N), k)]
    expected = []
    for i, j in PAIRS:
        row = covariance[i] - covariance[j]
        variance = row[i] - row[j]
        after = [
            max((mean + np.sqrt(2) * x * row / np.sqrt(variance))[each].sum() for each in sets)
            for x in nodes
        ]
        expected.append(after @ weights / np.sqrt(np.pi) - max(mean[each].sum() for each in sets))
    np.testing.assert_allclose(top_gain(k)(beliefs, PAIRS), expected, atol=1e-12)
    assert max(expected) > 0.01
    sure = beliefs._replace(mean=jnp.arange(N) * 100.0)
    np.testing.assert_allclose(top_gain(k)(sure, PAIRS), 0.0, atol=1e-9)


def test_pool_variance_is_what_is_taken_off_all_margins(answered):
    beliefs, updates = answered
    first, second = np.triu_indices(N, 1)

    def spread(covariance):
        own = np.diag(covariance)
        return np.mean(own[first] + own[second] - 2 * covariance[first, second])

    now = spread(np.asarray(beliefs.covariance))
    expected = [now - sum(p * spread(covariance) for p, _, covariance in both) for both in updates]
    np.testing.assert_allclose(POOLED[0](beliefs, PAIRS), expected, atol=1e-7)


def test_entropy_of_an_answer_is_right_to_its_bound():
    x = np.linspace(-12, 12, 4_001)
    exact = -ndtr(x) * log_ndtr(x) - ndtr(-x) * log_ndtr(-x)
    error = np.abs(np.asarray(answer_entropy(jnp.asarray(x**2))) - exact)
    assert error.max() < 8.1e-8


@pytest.mark.parametrize("spread", [1e-4, 0.3, 5.0, 1e4])
def test_bald_agrees_with_quadrature_in_high_precision(spread):
    noise = 0.25
    for shift in (0.0, 0.7, 3.0):
        scale = mpmath.sqrt(spread)
        centre = shift * mpmath.sqrt(1 + spread)

        def entropy(x):
            p, q = mpmath.ncdf(x), mpmath.ncdf(-x)
            return -p * mpmath.log(p) - q * mpmath.log(q)

        def integrand(x, entropy=entropy, centre=centre, scale=scale):
            return entropy(x) * mpmath.npdf(x, centre, scale)

        cuts = sorted([-14, 0, 14, *(centre + k * scale for k in (-8, -2, 0, 2, 8))])
        cuts = [x for x in cuts if -14 <= x <= 14]
        exact = entropy(centre / mpmath.sqrt(1 + spread)) - mpmath.quad(integrand, cuts)
        unit = np.sqrt(2) * noise
        beliefs = of_margin(float(centre) * unit, spread * unit**2, noise)
        assert abs(float(BALD(beliefs, [0, 1])) - float(exact)) < 1.7e-7


def test_margins_are_those_of_differences():
    beliefs = make_beliefs()
    rows = np.eye(N)[PAIRS[:, 0]] - np.eye(N)[PAIRS[:, 1]]
    mean, variance = margins(beliefs, PAIRS)
    np.testing.assert_allclose(mean, rows @ beliefs.mean)
    np.testing.assert_allclose(variance, np.diag(rows @ beliefs.covariance @ rows.T))
    np.testing.assert_allclose(VARIANCE(beliefs, PAIRS), variance)


def test_margin_of_near_duplicates_has_no_negative_variance():
    single = jnp.float32
    covariance = jnp.full((2, 2), 1 + 2e-7, single).at[0, 0].set(1.0)
    beliefs = Beliefs(jnp.zeros(2, single), covariance, single(1.0))
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert variance < 0 < margins(beliefs, np.array([0, 1]))[1]


@pytest.mark.parametrize("acquisition", [*ALONE, *POOLED, jax.jit(random_gain(jax.random.key(1)))])
def test_scores_have_shapes_no_order_of_the_two_and_hardly_a_precision(acquisition):
    beliefs, random = make_beliefs(), acquisition not in (*ALONE, *POOLED)
    scores = acquisition(beliefs, PAIRS)
    assert scores.shape == (4,)
    assert jax.eval_shape(acquisition, beliefs, PAIRS[0]).shape == ()
    assert jax.eval_shape(acquisition, beliefs, PAIRS.reshape(2, 2, 2)).shape == (2, 2)
    np.testing.assert_allclose(acquisition(beliefs, PAIRS[:, ::-1]), scores, atol=1e-12)
    if not random:
        single = acquisition(in_single(beliefs), PAIRS)
        assert single.dtype == jnp.float32
        np.testing.assert_allclose(single, scores, atol=3e-6, rtol=3e-6)
    # Where an answer is certain scores are finite, and zero if they are information.
    for scale in (1e2, 1e4):
        certain = make_beliefs(scale=scale)
        for each in (certain, in_single(certain)):
            scores = np.asarray(acquisition(each, PAIRS))
            assert np.all(np.isfinite(scores))
            if acquisition in (BALD, ENTROPY_GAIN):
                np.testing.assert_allclose(scores, 0, atol=1e-6)


def test_random_scores_are_uniform_and_belong_to_pairs():
    n = 60
    beliefs = Beliefs(jnp.zeros(n), jnp.eye(n), 1.0)
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    acquisition = random_gain(jax.random.key(2))
    scores = np.asarray(acquisition(beliefs, pairs))
    assert stats.kstest(scores, "uniform").pvalue > 0.01
    assert len(np.unique(scores)) == len(scores)
    np.testing.assert_array_equal(acquisition(beliefs, pairs[7:9]), scores[7:9])
    other = np.asarray(random_gain(jax.random.key(3))(beliefs, pairs))
    assert abs(np.corrcoef(scores, other)[0, 1]) < 4 / np.sqrt(len(scores))
