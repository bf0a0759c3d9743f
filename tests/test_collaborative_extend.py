"""New users and new items: against the fit of the same users, SciPy's maximiser, and formulae."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from bayesrank.solvers.collaborative import EM

USERS, ITEMS = 20, 6
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
    mean, variance = (x[2] for x in new.functions())
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
    far = result.extend_items(np.zeros((ITEMS, 1)), np.ones((1, 1)))
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
