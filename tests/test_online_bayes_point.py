"""The online Bayes point against filtering in plain NumPy, quadrature and Monte Carlo."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from bayesrank.distributions.ordinal import threshold_prior
from bayesrank.infer import EP
from bayesrank.models import ordinal_version_space
from bayesrank.online import OAPBPM, OnlineBayesPoint, WidrowHoff, rank_loss
from bayesrank.online._adf import LAPSE

K, D, T = 4, 2, 400
RNG = np.random.default_rng(2)
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
W, C, NOISE = np.array([1.2, -0.7]), np.array([-1.0, 0.1, 0.8]), 0.2


def _draw(rng, n, w=W):
    rows = rng.normal(size=(n, D))
    return rows, 1 + ((rows @ w + NOISE * rng.normal(size=n))[:, None] > C).sum(1)


X, Y = _draw(RNG, T)


def _filter(rows, levels, noise, mean, prior, *, forgetting=0.0, diagonal=False, lapse=0.0):
    """Textbook filtering: one dense rank-one update for each factor, by SciPy's normal.

    The belief is a mixture of that with an example and that without, which tells nothing.
    """
    cov, log_weight = prior, 0.0
    for x, y in zip(rows, levels, strict=True):
        new, less, above = mean, cov, []
        for r, side in enumerate(np.where(y > np.arange(1, K), 1.0, -1.0)):
            a = np.concatenate([x, -np.eye(K - 1)[r]])
            above.append(stats.norm.cdf(a @ mean / np.sqrt(a @ cov @ a + noise**2)))
            v, s = a @ less @ a + noise**2, less @ a
            z = side * (a @ new) / np.sqrt(v)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            new = new + s * side * ratio / np.sqrt(v)
            less = less - np.outer(s, s) * ratio * (z + ratio) / v
        probs = -np.diff(np.concatenate([[1.0], np.minimum.accumulate(above), [0.0]]))
        prob = (1.0 - LAPSE) * probs[y - 1] + LAPSE / K
        found = (1.0 - lapse) * prob + lapse / K
        told, log_weight = (1.0 - lapse) * prob / found, log_weight + np.log(found)
        parts = (told, new, less), (1.0 - told, mean, cov)
        mean = sum(share * m for share, m, _ in parts)
        cov = sum(share * (c + np.outer(m - mean, m - mean)) for share, m, c in parts)
        cov = np.diag(np.diag(cov)) if diagonal else cov
        # Each by itself: precision (1 - forgetting) / variance + forgetting / prior variance.
        own = 1.0 / ((1.0 - forgetting) / np.diag(cov) + forgetting / np.diag(prior))
        mean = own * (1.0 - forgetting) * mean / np.diag(cov)
        cov = cov * np.sqrt(np.outer(own, own) / np.outer(np.diag(cov), np.diag(cov)))
    return mean, cov, log_weight


@pytest.mark.parametrize(
    ("covariance", "forgetting"), [("full", 0.0), ("full", 0.02), ("diagonal", 0.02)]
)
def test_filtering_is_the_textbook_update(covariance, forgetting):
    model = OnlineBayesPoint(
        K, noise=0.3, threshold_scale=2.0, covariance=covariance, forgetting=forgetting
    )
    model.partial_fit(X[:40], Y[:40])
    prior = np.diag(np.repeat([1.0, 4.0], [D, K - 1]))
    options = {"forgetting": forgetting, "diagonal": covariance == "diagonal"}
    mean, cov, _ = _filter(X[:40], Y[:40], 0.3, np.zeros(len(prior)), prior, **options)
    np.testing.assert_allclose(np.append(model.coef_, model.thresholds_), mean, rtol=1e-8)
    expected = cov if covariance == "full" else np.diag(cov)
    np.testing.assert_allclose(model.state_.covariance[0], expected, rtol=1e-7, atol=1e-12)
    assert model.skipped_ == 0


def test_one_factor_has_the_moments_of_the_exact_posterior():
    """Two levels and one feature: the posterior on a grid."""
    model = OnlineBayesPoint(2, noise=0.4, threshold_scale=1.0).partial_fit([[1.5]], [2])
    w, c = np.meshgrid(np.linspace(-7, 7, 801), np.linspace(-7, 7, 801), indexing="ij")
    density = stats.norm.pdf(w) * stats.norm.pdf(c) * stats.norm.cdf((1.5 * w - c) / 0.4)
    density /= density.sum()
    mean = np.array([(w * density).sum(), (c * density).sum()])
    cov = [[(a * b * density).sum() for b in (w, c)] for a in (w, c)] - np.outer(mean, mean)
    np.testing.assert_allclose(np.append(model.coef_, model.thresholds_), mean, atol=1e-8)
    np.testing.assert_allclose(model.state_.covariance[0], cov, atol=1e-8)


@pytest.mark.slow
def test_one_pass_comes_close_to_expectation_propagation():
    """EP visits every factor until nothing moves; filtering visits each once."""
    model = OnlineBayesPoint(K, noise=0.3).partial_fit(X, Y)
    batch = EP(ordinal_version_space).run(jax.random.key(0), X, Y, num_levels=K, noise=0.3)
    mean = np.append(model.coef_, model.thresholds_)
    expected = np.append(batch.mean["weights"], batch.mean["thresholds"])
    sd = np.append(batch.sd["weights"], batch.sd["thresholds"])
    assert np.abs(mean - expected).max() < 1.0 * sd.max()
    filtered = np.sqrt(np.diagonal(model.state_.covariance[0]))
    np.testing.assert_allclose(filtered, sd, rtol=0.25)
    cosine = mean @ expected / np.linalg.norm(mean) / np.linalg.norm(expected)
    assert cosine > 0.999


@pytest.mark.slow
def test_level_probabilities_are_those_of_draws_from_the_belief():
    model = OnlineBayesPoint(K, noise=(0.2, 0.6)).partial_fit(X[:60], Y[:60])
    rows = RNG.normal(size=(5, D))
    probs = model.predict_proba(rows)
    expected = np.zeros_like(probs)
    for share, noise, mean, cov in zip(
        model.noise_weights_, (0.2, 0.6), model.state_.mean, model.state_.covariance, strict=True
    ):
        draws = RNG.multivariate_normal(mean, cov, size=10_000)
        score = draws[:, :D] @ rows.T + noise * RNG.normal(size=(10_000, 5))
        above = (score[:, :, None] > draws[:, None, D:]).mean(0)
        ends = np.ones((5, 1)), np.zeros((5, 1))
        expected += share * -np.diff(np.hstack([ends[0], above, ends[1]]))
    np.testing.assert_allclose(probs, expected, atol=0.02)
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert (probs > 0.0).all()
    np.testing.assert_array_equal(model.predict(rows), 1 + (probs.cumsum(1) < 0.5).sum(1))
    np.testing.assert_allclose(model.predict(rows, rounded=False), probs @ [1, 2, 3, 4])


@pytest.mark.slow
def test_the_stream_decides_the_noise_by_what_was_foreseen():
    noises = (0.02, 0.2, 2.0)
    model = OnlineBayesPoint(K, noise=noises).partial_fit(X, Y)
    losses = []
    for noise in noises:
        probs = OnlineBayesPoint(K, noise=noise).prequential_proba(X, Y)
        losses.append(np.log(probs[np.arange(T), Y - 1]).sum())
    expected = np.exp(np.array(losses) - max(losses))
    np.testing.assert_allclose(model.noise_weights_, expected / expected.sum(), rtol=1e-6)
    assert model.noise_weights_.argmax() == 1
    assert min(losses) > T * np.log(LAPSE / K)


def test_the_default_mixture_is_that_of_its_components():
    """Noises in units of a score's sd, thresholds in their order, and two that are robust."""
    levels = np.where(RNG.random(30) < 0.2, RNG.integers(1, K + 1, 30), Y[:30])
    model = OnlineBayesPoint(K).partial_fit(X[:30], levels)
    relative = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 0.05, 0.3])
    units = np.array([0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 1.0, 1.0]) * np.hypot(1.0, relative)
    np.testing.assert_allclose(model.noises_, relative * np.sqrt(D))
    np.testing.assert_array_equal(model.lapses_, [0.0] * 7 + [0.25] * 2)
    first = np.log(relative / (1.0 + relative**2)) - np.log(2.0) * (model.lapses_ > 0)
    weights, (middle, spread) = [], threshold_prior(K)
    for g, options in enumerate(zip(model.noises_, units * np.sqrt(D), model.lapses_, strict=True)):
        noise, unit, lapse = options
        prior, start = np.eye(D + K - 1), np.append(np.zeros(D), unit * middle)
        prior[D:, D:] = unit**2 * spread
        mean, cov, log_weight = _filter(X[:30], levels, noise, start, prior, lapse=lapse)
        np.testing.assert_allclose(model.state_.mean[g], mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.state_.covariance[g], cov, rtol=1e-6, atol=1e-9)
        weights.append(first[g] + log_weight)
    expected = np.exp(np.array(weights) - max(weights))
    np.testing.assert_allclose(model.noise_weights_, expected / expected.sum(), rtol=1e-6)


def _from_the_program(rng, n, num_features, num_levels):
    """Examples of `ordinal_version_space`; sides that are no level are drawn again."""
    noise = np.abs(rng.standard_cauchy()) * np.sqrt(num_features)
    middle, spread = threshold_prior(num_levels)
    edges = np.sqrt(noise**2 + num_features) * rng.multivariate_normal(middle, spread)
    rows, weights = rng.normal(size=(n, num_features)), rng.normal(size=num_features)
    levels = np.zeros(n, int)
    while not levels.all():
        score = (rows @ weights)[:, None] + noise * rng.normal(size=(n, num_levels - 1))
        above = score > edges
        sound = (np.diff(above.astype(int)) <= 0).all(1) & (levels == 0)
        levels[sound] = 1 + above[sound].sum(1)
    return rows, levels


def _slope(probs, levels):
    """The power of the probabilities that makes the levels most probable."""
    log_p = np.log(probs)

    def loss(power):
        scaled = power * log_p
        chosen = scaled[np.arange(len(levels)), levels - 1]
        return (np.logaddexp.reduce(scaled, axis=1) - chosen).mean()

    found: Any = minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded")
    return found.x


def test_the_first_hundred_forecasts_are_calibrated():
    """On streams from the program; with thresholds about zero the power was .55."""
    rng = np.random.default_rng(21)
    streams = [_from_the_program(rng, 100, 5, 5) for _ in range(40)]
    probs = np.concatenate([OnlineBayesPoint(5).prequential_proba(*stream) for stream in streams])
    levels = np.concatenate([stream[1] for stream in streams])
    assert 0.85 < _slope(probs, levels) < 1.15
    loss = -np.log(probs[np.arange(len(levels)), levels - 1])
    own = stats.entropy(probs, axis=1)
    spread = (loss - own).reshape(40, 100).mean(1).std() / np.sqrt(40)
    assert abs((loss - own).mean()) < 3.5 * spread + 0.02


@pytest.mark.slow
def test_labels_that_tell_nothing_do_no_harm():
    """A third of the labels at random: what is learned is as good as from the others alone."""
    rng = np.random.default_rng(22)
    (rows, levels), (fresh, truth) = _draw(rng, 400), _draw(rng, 2000)
    told = rng.random(400) > 1 / 3
    labels = np.where(told, levels, rng.integers(1, K + 1, 400))
    robust = OnlineBayesPoint(K).partial_fit(rows, labels)
    plain = OnlineBayesPoint(K, noise=NOISES).partial_fit(rows, labels)
    known = OnlineBayesPoint(K).partial_fit(rows[told], levels[told])
    assert robust.noise_weights_[robust.lapses_ > 0].sum() > 0.99
    loss = rank_loss(truth, robust.predict(fresh))
    assert loss < rank_loss(truth, plain.predict(fresh))
    assert loss < rank_loss(truth, known.predict(fresh)) + 0.03


@pytest.mark.slow
def test_where_no_line_tells_anything_it_is_as_good_as_least_squares():
    """Levels rise on both sides of zero; least squares has a constant and its best step."""
    gains = []
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(size=(300, 3))
        height = np.abs(rows[:, 0])
        levels = 1 + (height[:, None] > np.quantile(height, [0.25, 0.5, 0.75])).sum(1)
        ours = OnlineBayesPoint(K).prequential(rows, levels)
        constant = np.hstack([np.ones((300, 1)), rows])
        theirs = [WidrowHoff(K, eta).prequential(constant, levels) for eta in (0.01, 0.03)]
        gains.append(min(rank_loss(levels, t) for t in theirs) - rank_loss(levels, ours))
    assert np.mean(gains) > -np.std(gains) / np.sqrt(12)


def test_query_score_is_the_mutual_information():
    """One uncertain weight: by Monte Carlo over weights, and zero where all is known."""
    model = OnlineBayesPoint(2, noise=0.5, threshold_scale=1e-6).partial_fit([[0.3]], [1])
    rows = np.array([[0.0], [0.4], [2.0], [5.0]])
    mean, sd = model.coef_[0], np.sqrt(model.state_.covariance[0, 0, 0])
    p = stats.norm.cdf(rows * RNG.normal(mean, sd, size=50_000) / 0.5)
    expected = stats.entropy([p.mean(1), 1 - p.mean(1)]) - stats.entropy([p, 1 - p]).mean(1)
    np.testing.assert_allclose(model.query_score(rows), expected, atol=4e-3)
    assert model.query_score(rows[:1]) == pytest.approx(0.0, abs=1e-6)
    taught = OnlineBayesPoint(K, noise=0.2).partial_fit(X, Y)
    before = OnlineBayesPoint(K, noise=0.2).partial_fit(X[:10], Y[:10])
    assert (taught.query_score(X[:16]) < before.query_score(X[:16])).all()
    assert (taught.query_score(X[:16]) > -1e-9).all()


@pytest.mark.slow
def test_asking_where_it_is_worth_it_learns_more_from_as_many_labels():
    losses = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, levels = _draw(rng, 400)
        fresh = rng.normal(size=(4000, D))
        best = 1 + ((fresh @ W)[:, None] > C).sum(1)
        asked, random = (OnlineBayesPoint(K, noise=0.2) for _ in range(2))
        asked.partial_fit(rows[:4], levels[:4])
        random.partial_fit(rows[:40], levels[:40])
        left = np.arange(4, 400)
        for _ in range(36):  # the best of 16 at random
            pool = rng.choice(left, 16, replace=False)
            chosen = pool[asked.query_score(rows[pool]).argmax()]
            left = left[left != chosen]
            asked.partial_fit(rows[[chosen]], levels[[chosen]])
        volumes = [np.linalg.slogdet(model.state_.covariance[0])[1] for model in (asked, random)]
        assert volumes[0] < volumes[1] - 1.0
        losses.append([rank_loss(best, model.predict(fresh)) for model in (asked, random)])
    asked_loss, random_loss = np.mean(losses, axis=0)
    assert asked_loss < random_loss


@pytest.mark.slow
def test_forgetting_follows_a_stream_that_changes():
    rng = np.random.default_rng(9)
    first, then = _draw(rng, 1000), _draw(rng, 600, -W)
    losses = []
    for forgetting in (0.0, 0.005):
        model = OnlineBayesPoint(K, noise=0.2, forgetting=forgetting)
        model.partial_fit(*first)
        losses.append(rank_loss(then[1], model.prequential(*then)))
    assert losses[1] < 0.7 * losses[0]
    idle = OnlineBayesPoint(K, noise=0.2, forgetting=0.02).partial_fit(*first)
    idle.partial_fit(np.zeros((1000, D)), np.full(1000, 2))
    np.testing.assert_allclose(np.diagonal(idle.state_.covariance[0])[:D], 1.0, atol=1e-3)
    assert np.abs(idle.coef_).max() < 1e-3


@pytest.mark.slow
def test_much_forgetting_for_long_keeps_the_covariance_positive():
    """Rounding errors must not be blown up: three nearly collinear features, 4,000 examples."""
    rng = np.random.default_rng(12)
    rows = rng.normal(size=(4000, 1)) + 1e-3 * rng.normal(size=(4000, 3))
    levels = 1 + (rows[:, :1] > C).sum(1)
    model = OnlineBayesPoint(K, noise=(0.01, 0.1), forgetting=0.05).partial_fit(rows, levels)
    covariance = np.asarray(model.state_.covariance)
    assert np.abs(covariance - covariance.mT).max() < 1e-12
    assert np.linalg.eigvalsh(covariance).min() > 0.0
    assert model.skipped_ == 0


def test_it_beats_the_ensemble_on_a_stream_from_the_model():
    rows, levels = _draw(np.random.default_rng(10), 2000)
    fresh, truth = _draw(np.random.default_rng(11), 1000)
    point = OnlineBayesPoint(K, noise=(0.02, 0.2, 2.0)).partial_fit(rows, levels)
    ensemble = OAPBPM(K, 20, 0.3).partial_fit(rows, levels)
    best = 1 + ((fresh @ W)[:, None] > C).sum(1)
    loss, floor = rank_loss(truth, point.predict(fresh)), rank_loss(truth, best)
    assert loss < rank_loss(truth, ensemble.predict(fresh))
    assert loss < floor + 0.01


def test_extreme_examples_leave_a_usable_belief():
    model = OnlineBayesPoint(K, noise=0.2)
    rows = np.array([[1e30, 1e30], [1e30, 1e30], [1e-30, 0.0], [1e30, -1e30], [0.0, 0.0]] * 6)
    model.partial_fit(rows, np.tile([1, 4, 2, 3, 4], 6)).partial_fit(X[:50], Y[:50])
    probs = model.predict_proba(np.vstack([rows, X]))
    assert np.isfinite(probs).all() and np.isfinite(model.coef_).all()
    np.testing.assert_allclose(probs.sum(1), 1.0)
