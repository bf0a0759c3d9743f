"""The online Bayes point of any kernel against a dense Gaussian process in plain NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tinygp.kernels import DotProduct, Matern32, Polynomial
from tinygp.kernels.distance import L2Distance

from bayesrank.online import OnlineBayesPoint, rank_loss
from bayesrank.online._adf import LAPSE
from bayesrank.online._basis import NEW, features

K, NOISE, SCALE = 4, 0.3, 2.0
RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 2))
Y = 1 + (np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=60) > [[-1.0], [0.1], [0.8]]).sum(0)
FRESH = RNG.normal(size=(20, 2))
MATERN = 2.5 * Matern32(0.9, distance=L2Distance())


def _matern(a, b):
    r = np.sqrt(3.0 * ((a[:, None] - b[None]) ** 2).sum(2)) / 0.9
    return 2.5 * (1 + r) * np.exp(-r)


class LiteralProcess:
    """Scores at the stored examples and thresholds, jointly Gaussian, by dense linear algebra.

    A new example's score is added by the prior's conditional law; one that leaves is integrated
    out.
    """

    def __init__(self, budget):
        self.points, self.budget = np.zeros((0, 2)), budget
        self.mean, self.cov = np.zeros(K - 1), SCALE**2 * np.eye(K - 1)

    def extend(self, x):
        """Mean and covariance of the scores at the points and at x, and of the thresholds."""
        n = len(self.points)
        cross = _matern(self.points, x[None])[:, 0]
        share = np.linalg.solve(_matern(self.points, self.points), cross) if n else np.zeros(0)
        lift = np.zeros((n + K, n + K - 1))
        lift[:n, :n], lift[n, :n], lift[n + 1 :, n:] = np.eye(n), share, np.eye(K - 1)
        cov = lift @ self.cov @ lift.T
        cov[n, n] += _matern(x[None], x[None])[0, 0] - share @ cross
        return lift @ self.mean, cov

    def learn(self, x, y):
        n = len(self.points)
        mean, cov = self.extend(x)
        for r in range(K - 1):
            side, a = (1.0 if y > r + 1 else -1.0), np.zeros(n + K)
            a[n], a[n + 1 + r] = 1.0, -1.0
            v, s = a @ cov @ a + NOISE**2, cov @ a
            z = side * (a @ mean) / np.sqrt(v)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            mean, cov = (
                mean + s * side * ratio / np.sqrt(v),
                cov - np.outer(s, s) * ratio * (z + ratio) / v,
            )
        self.mean, self.cov, self.points = mean, cov, np.vstack([self.points, x])
        if n + 1 > self.budget:
            precision = np.linalg.inv(_matern(self.points, self.points))
            gone = np.argmin(np.abs(precision @ mean[: n + 1]) / np.diag(precision))
            left = np.delete(np.arange(n + K), gone)
            self.mean, self.cov = mean[left], cov[np.ix_(left, left)]
            self.points = np.delete(self.points, gone, axis=0)

    def foresee(self, x):
        """Mean of the score, and probabilities of the levels."""
        n = len(self.points)
        mean, cov = self.extend(x)
        margin = np.hstack([np.zeros((K - 1, n)), np.ones((K - 1, 1)), -np.eye(K - 1)])
        spread = np.sqrt(np.diag(margin @ cov @ margin.T) + NOISE**2)
        above = np.minimum.accumulate(stats.norm.cdf(margin @ mean / spread))
        probs = -np.diff(np.concatenate([[1.0], above, [0.0]]))
        return mean[n], (1 - LAPSE) * probs + LAPSE / K


@pytest.mark.slow
@pytest.mark.parametrize("budget", [60, 25])
def test_it_is_the_dense_process_that_stores_all_or_integrates_one_out(budget):
    literal, expected = LiteralProcess(budget), []
    for x, y in zip(X, Y, strict=True):
        expected.append(literal.foresee(x)[1])
        literal.learn(x, y)
    model = OnlineBayesPoint(K, noise=NOISE, threshold_scale=SCALE, kernel=MATERN, budget=budget)
    np.testing.assert_allclose(model.prequential_proba(X, Y), expected, rtol=1e-7)
    scores, probs = zip(*[literal.foresee(x) for x in FRESH], strict=True)
    np.testing.assert_allclose(model.decision_function(FRESH), scores, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(FRESH), probs, rtol=1e-7)
    np.testing.assert_allclose(model.thresholds_, literal.mean[len(literal.points) :], rtol=1e-8)
    stamps = np.asarray(model.state_.stamps)
    order = np.argsort(stamps[stamps > 0])
    np.testing.assert_array_equal(model.support_[order], literal.points)
    rows = _matern(FRESH, model.support_)
    np.testing.assert_allclose(rows @ model.coef_, scores, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_a_polynomial_kernel_needs_no_more_examples_than_it_has_monomials():
    kernel = Polynomial(order=2, sigma=1.0)
    explicit = OnlineBayesPoint(K, kernel=kernel).partial_fit(X, Y)
    stored = OnlineBayesPoint(K, kernel=1.0 * kernel, budget=20).partial_fit(X, Y)
    assert explicit.coef_.shape == stored.coef_.shape == (6,)
    assert not len(explicit.support_)
    np.testing.assert_array_equal(stored.support_, X[:6])
    np.testing.assert_allclose(explicit.noise_weights_, stored.noise_weights_, rtol=1e-9)
    np.testing.assert_allclose(
        explicit.predict_proba(FRESH), stored.predict_proba(FRESH), rtol=1e-9
    )
    many = OnlineBayesPoint(K, kernel=Polynomial(order=2, sigma=1.0), budget=20)
    assert many._explicit(50) is None and many._explicit(40) is not None
    assert many.set_params(covariance="diagonal")._explicit(50) is not None


@pytest.mark.slow
def test_the_features_stay_orthonormal_while_examples_come_and_go():
    """2,000 examples, of which nearly each takes the place of another."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(2000, 2))
    levels = 1 + (rows[:, 0] * rows[:, 1] > [[-0.5], [0.0], [0.5]]).sum(0)
    model = OnlineBayesPoint(K, noise=NOISE, kernel=MATERN, budget=25)
    model.partial_fit(rows, levels)
    basis = model.state_.basis
    used = np.asarray(basis.stamps) > 0
    assert used.sum() == 25 and np.asarray(basis.stamps).max() > 1000
    whitening = np.asarray(basis.whitening)[np.ix_(used, used)]
    gram = whitening @ _matern(model.support_, model.support_) @ whitening.T
    np.testing.assert_allclose(gram, np.eye(25), atol=1e-9)
    assert np.linalg.eigvalsh(np.asarray(model.state_.covariance)).min() > 0.0
    assert model.skipped_ == 0


@pytest.mark.slow
def test_what_is_not_new_is_not_stored():
    model = OnlineBayesPoint(K, noise=NOISE, kernel=MATERN, budget=25)
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [0.1 * NEW, 1.0], [3.0, 0.0]] * 5)
    model.partial_fit(rows, np.tile([1, 2, 1, 4], 5))
    np.testing.assert_array_equal(model.support_, rows[[0, 3]])
    assert not np.asarray(features(1.0 * DotProduct(), model.state_.basis, jnp.zeros(2))).any()


@pytest.mark.slow
def test_a_basis_of_few_learns_a_stream_of_many_and_follows_its_change():
    rng = np.random.default_rng(8)

    def draw(n, sign):
        rows = rng.uniform(-1.0, 1.0, (n, 2))
        score = sign * np.sin(4 * rows[:, 0]) * rows[:, 1] + 0.05 * rng.normal(size=n)
        return rows, 1 + (score[:, None] > [-0.3, 0.0, 0.3]).sum(1)

    before, fresh, after = draw(800, 1), draw(500, 1), draw(500, -1)
    model = OnlineBayesPoint(K, noise=NOISE, kernel=MATERN, budget=25, forgetting=0.005)
    model.partial_fit(*before)
    assert rank_loss(fresh[1], model.predict(fresh[0])) < 0.25
    losses = np.abs(model.prequential(*after) - after[1])
    assert losses[:50].mean() > 1.0 > 0.4 > losses[-200:].mean()
