"""New users, whose own parameters are found, and new items: against the fit, and formulae."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from bayesrank.infer import EP, ConvergenceWarning
from bayesrank.models import collaborative_ordinal_gp
from bayesrank.solvers.collaborative import EM, new_data

USERS, ITEMS = 20, 6  # who say numbers
pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")


@pytest.fixture(scope="module")
def data():
    """Numbers, of users who differ in scale, and the items in which some are missing."""
    rng = np.random.default_rng(3)
    functions = rng.normal(size=(USERS, 1)) + rng.normal(size=(USERS, ITEMS)) + np.arange(ITEMS) / 2
    scale = np.exp(0.4 * rng.normal(size=(USERS, 1)))
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.8)
    said = scale * functions + 0.5 * rng.normal(size=(USERS, ITEMS))
    return users, items, said[users, items]


@pytest.fixture(scope="module")
def numbers(data):
    kernel = 0.1 * np.eye(ITEMS) + 1.0  # leaves something to noise
    return EM("gaussian", strength=6.0, tol=1e-9).run(*data, kernel=kernel, progress_bar=False)


@pytest.mark.slow
def test_users_of_the_fit_would_get_the_same_as_new_ones(data, numbers):
    """Their own parameters, found together with what is shared, and now given that."""
    new = numbers.condition(*data)
    own = numbers.state.theta[:, 1:]
    assert new.converged and np.all(own.std(axis=0) > 0.02)
    np.testing.assert_allclose(new.state.theta[:, 1:], own, atol=2e-3)
    for found, expected in zip(new.functions(), numbers.functions(), strict=True):
        np.testing.assert_allclose(found, expected, atol=5e-3)
    np.testing.assert_allclose(new.log_evidence, numbers.log_evidence, atol=1e-2)


def test_scale_and_noise_of_a_new_user_maximise_the_density(data, numbers):
    """Against SciPy's minimiser, for one rating and for numbers far from all that were seen."""
    anchor, centre, spread = data[2].mean(), numbers.state.shared_theta[2], numbers.state.spread
    users = [[0], [0, 2, 5], np.arange(ITEMS)]
    said = [np.array([9.0]), np.array([3.0, -1.0, 8.0]), 5.0 * np.cos(np.arange(ITEMS))]
    new = numbers.condition(np.repeat([0, 1, 2], [1, 3, 6]), np.concatenate(users),
                            np.concatenate(said))  # fmt: skip
    total = 0.0
    for user, (seen, ratings) in enumerate(zip(users, said, strict=True)):

        def loss(x, seen=seen, ratings=ratings):
            scale, noise = np.exp(x)
            mean = anchor + scale * (numbers.mean[seen] - anchor)
            covariance = scale**2 * numbers.kernel[np.ix_(seen, seen)]
            law = stats.multivariate_normal(mean, covariance + noise**2 * np.eye(len(seen)))
            density = stats.norm.logpdf(x, [0.0, centre], spread[1:]).sum()
            return -law.logpdf(ratings) - density

        best = minimize(loss, [0.0, centre])
        np.testing.assert_allclose(new.state.theta[user, 1:], best.x, atol=1e-4)
        total -= best.fun
    assert new.converged
    np.testing.assert_allclose(new.log_evidence + new.log_prior, total, atol=1e-6)


@pytest.mark.slow
def test_new_users_are_the_gaussian_conditional_where_nobody_differs(data):
    engine = EM("gaussian", user_scales=0, max_iterations=3)
    result = engine.run(*data, progress_bar=False)
    new = result.condition(*data)
    assert new.converged and new.log_prior == 0
    np.testing.assert_allclose(new.state.theta, np.tile(result.state.shared_theta, (USERS, 1)))
    seen, y = data[1][data[0] == 2], data[2][data[0] == 2]
    mean, variance = (x[2] for x in replace(new, num_fitted=None).functions())
    across = result.kernel[:, seen]
    weights = across @ np.linalg.inv(across[seen] + result.params["noise"] ** 2 * np.eye(len(y)))
    np.testing.assert_allclose(mean, result.mean + weights @ (y - result.mean[seen]))
    np.testing.assert_allclose(variance, np.diagonal(result.kernel - weights @ across.T))


@pytest.mark.slow
def test_a_new_item_equal_to_a_known_one_is_rated_like_it(data):
    X = np.random.default_rng(1).normal(size=(ITEMS, 2))
    kernel = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1)) + 1e-9 * np.eye(ITEMS)
    result = EM("gaussian", max_iterations=3).run(*data, kernel=kernel, progress_bar=False)
    extended = result.extend_items(kernel[:, [1]], kernel[:1, :1])
    mean, variance = extended.functions()
    np.testing.assert_allclose(mean[:, ITEMS], mean[:, 1], atol=1e-4)
    np.testing.assert_allclose(variance[:, ITEMS], variance[:, 1], atol=1e-4)
    known = replace(result, num_fitted=None)
    far = known.extend_items(np.zeros((ITEMS, 1)), np.ones((1, 1)))
    np.testing.assert_allclose(far.functions()[0][:, ITEMS], result.state.level)
    np.testing.assert_allclose(far.functions()[1][:, ITEMS], result.state.scales[0])


def test_kernels_of_new_items_fit_together(numbers):
    with pytest.raises(ValueError, match="across has shape"):
        numbers.extend_items(np.zeros((1, 1)), np.zeros((1, 1)))
    across, own = numbers.base_kernels[0][:, [1, 1]], np.full((2, 2), 1.1)
    extended = numbers.extend_items(across, own)  # the same item, twice
    np.testing.assert_allclose(extended.mean[-2:], numbers.mean[1], rtol=1e-9)
    single = numbers.extend_items(*(x.astype(np.float32) for x in (across, own)))
    np.testing.assert_allclose(single.kernel, extended.kernel, atol=1e-5)
    with pytest.raises(ValueError, match="own is too small for across: .* variance of -"):
        numbers.extend_items(across, own - 0.01)
    with pytest.raises(ValueError, match="own is too small for across"):
        numbers.extend_items(across, np.array([[1.1, 0.3], [0.3, 1.1]]))
    with pytest.raises(ValueError, match="own is not symmetric, or not finite"):
        numbers.extend_items(across, np.array([[1.1, 0.3], [0.8, 1.1]]))
    with pytest.raises(ValueError, match="across is not finite"):
        numbers.extend_items(across * np.nan, own)
    with pytest.raises(ValueError, match="own has dtype <U1; pass numbers"):
        numbers.extend_items(across, [["a", "b"], ["c", "d"]])


# ---------------------------------------------------------------- levels

MANY, FILMS = 200, 10  # who say levels
NOISE_SPREAD = 0.3  # what EM takes it to be


def _levels(spread):
    """Three levels, log gaps of users scattered about 0.4; where they are, log noises about 0."""
    rng = np.random.default_rng(5)
    functions = rng.normal(size=(MANY, 1)) + rng.normal(size=(MANY, FILMS)) / 2
    noise = np.exp((spread > 0) * NOISE_SPREAD * rng.normal(size=(MANY, 1)))
    heard = functions + noise * rng.normal(size=(MANY, FILMS))
    edge = np.exp(0.4 + spread * rng.normal(size=(MANY, 1))) / 2
    return (heard > edge).astype(int) + (heard > -edge)


@pytest.fixture(scope="module")
def fits():
    """Levels and results, by how much users differ."""

    engine = EM("probit", strength=20.0, max_iterations=60, tol=5e-4)

    @cache
    def fit(true):
        levels = _levels(true)
        users, items = np.indices(levels.shape).reshape(2, -1)
        return levels, engine.run(users, items, levels.ravel(), progress_bar=False)

    return fit


@pytest.mark.slow
def test_what_users_differ_in_is_found(fits):
    """Users' own gaps, drawn to the shared one as ten ratings deserve, rise with the true ones."""
    for true in (0.5, 0.0):
        result = fits(true)[1]
        assert result.converged and result.num_iterations < 40
    own = np.log(np.diff(result.thresholds)[:, 0])
    assert own.std() < 0.15  # where nobody differs, three tenths are much too wide
    rng = np.random.default_rng(5)
    for shape in ((MANY, 1), (MANY, FILMS), (MANY, 1), (MANY, FILMS)):
        rng.normal(size=shape)
    gaps = rng.normal(size=MANY)
    assert np.corrcoef(np.log(np.diff(fits(0.5)[1].thresholds)[:, 0]), gaps)[0, 1] > 0.5


@pytest.fixture(scope="module")
def new(fits):
    """Five users of the fit, as new ones."""
    levels, result = fits(0.5)
    who, what = np.indices((5, FILMS)).reshape(2, -1)
    return levels[:5].ravel(), who, what, result.condition(who, what, levels[:5].ravel())


@pytest.mark.slow
def test_new_users_get_thresholds_and_noise_as_those_of_the_fit(fits, new, monkeypatch):
    """Their own parameters, found together with what is shared, and now given that."""
    result, (levels, who, what, again) = fits(0.5)[1], new
    own = result.state.theta[:5]
    assert again.converged and np.all(own.std(axis=0) > 0.02)
    np.testing.assert_allclose(again.state.theta, own, atol=5e-3)
    expected = result.predict_proba(who, what)
    np.testing.assert_allclose(again.predict_proba(who, what), expected, atol=2e-3)
    few, more = (result.condition(who[:n], what[:n], levels[:n]) for n in (1, 8))
    far = [np.linalg.norm(x.state.theta[0] - result.state.shared_theta) for x in (few, more, again)]
    assert far[0] < far[1] and far[0] < far[2]
    monkeypatch.setattr(new_data, "_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="parameters of the new users have not converged"):
        assert not result.condition(who, what, levels).converged


def test_their_thresholds_and_noise_are_stationary(fits, new):
    """Differences of EP's evidence of the program, and the density of the deviations."""
    state, (levels, _, what, again) = fits(0.5)[1].state, new
    levels, what = levels[:FILMS], what[:FILMS]
    deviation = again.state.theta[:1] - state.shared_theta
    assert np.all(abs(deviation) > 0.01)
    ep = EP(collaborative_ordinal_gp, tol=1e-8)

    def density(change):
        params = {
            **again.params,
            "gap_factor": np.exp(deviation + change)[:, :-1],
            "noise_factor": np.exp(deviation + change)[:, -1],
        }
        result = ep.run(
            jax.random.key(0), np.zeros(FILMS, int), what, levels, 1, FILMS,
            num_levels=3, params=params, num_samples=1, user_thresholds=0.3,
            strength=again.kernel_prior, mean_strength=12.0,
        )  # fmt: skip
        return result.log_evidence + stats.norm.logpdf(deviation + change, scale=state.spread).sum()

    for change in 1e-3 * np.eye(2):
        slope = (density(change) - density(-change)) / 2e-3
        assert abs(slope) < 2e-3
