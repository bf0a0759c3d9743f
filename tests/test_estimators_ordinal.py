"""`OrdinalGP` and its program: predictions by other routes, scikit-learn's manners, refusals."""

import copy
import pickle
import warnings
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy import stats
from scipy.integrate import quad
from sklearn.base import clone

from bayesrank import OrdinalGP
from bayesrank.estimators import log_score
from bayesrank.infer import EP, compiled
from bayesrank.models import ordinal_gp

PARAMS: dict[str, Any] = {
    "amplitude": 1.5, "lengthscale": 1.2, "stretch": np.array([0.8, 2.0]), "gaps": np.array([1.1])
}  # fmt: skip
EDGES = np.array([-np.inf, -0.55, 0.55, np.inf])
NAMES = ["poor", "fair", "good"]


def _simulate(n, seed):
    """Items whose first feature matters, at the scale of prices, and their levels by name."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    latent = 1.5 * X[:, 0] + rng.normal(size=n)
    return X * [30.0, 0.1] + [100.0, 5.0], np.searchsorted([-1.0, 1.0], latent)


def _like(model: OrdinalGP, **options: Any) -> OrdinalGP:
    """Return an unfitted copy with other options, sharing what is compiled."""
    copied: Any = clone(model)
    return copied.set_params(**options)


def _copy(model: OrdinalGP, **options: Any) -> OrdinalGP:
    """Return a fitted copy that predicts with other options."""
    copied: Any = copy.deepcopy(model)
    return copied.set_params(**options)


@pytest.fixture(scope="module")
def data():
    return _simulate(40, seed=0)


@pytest.fixture(scope="module")
def learned(data):
    return OrdinalGP(hyperparameters="map").fit(*data)


@pytest.fixture(scope="module")
def integrated(data):
    return OrdinalGP().fit(*data)


@pytest.fixture(scope="module")
def fixed(data, learned):
    return _like(learned, hyperparameters=PARAMS).fit(*data)


def _kernel(A, B, params):
    scaled = params["lengthscale"] * params["stretch"]
    gap = A[:, None] / scaled - B[None] / scaled
    return params["amplitude"] ** 2 * np.exp(-0.5 * (gap**2).sum(-1)) + 4.0


def test_density_of_the_program_is_the_one_computed_by_hand():
    rng = np.random.default_rng(1)
    X, f, levels = rng.normal(size=(5, 2)), rng.normal(size=5), np.array([0, 2, 1, 1, 0])
    values = {**PARAMS, "f": f}
    computed = jax.jit(lambda v: log_density(ordinal_gp, (X, levels), {}, v)[0])(values)
    normal: Any = stats.multivariate_normal
    K = _kernel(X, X, PARAMS)
    expected = normal.logpdf(f, np.zeros(5), K + 1e-6 * np.diag(np.diagonal(K)))
    expected += np.log(np.diff(stats.norm.cdf(EDGES - f[:, None]), axis=1)[range(5), levels]).sum()

    def log_normal(x, location, scale):
        return stats.lognorm.logpdf(x, scale, scale=np.exp(location)).sum()

    expected += log_normal(1.5, 0.0, 1.0) + log_normal(1.2, 0.5 * np.log(2.0) + 0.5, 1.0)
    expected += log_normal(PARAMS["stretch"], 0.25, 0.5) + log_normal(PARAMS["gaps"], 0.0, 1.0)
    np.testing.assert_allclose(computed, expected, rtol=1e-9)


def test_levels_of_new_items_by_importance_sampling(data, fixed):
    # Draws of the function from its prior at old and new items, weighted by the old levels' density
    # under a proposal: EP's own posterior, corrected.
    X, levels = data
    X_new = np.array([[60.0, 5.1], [100.0, 4.9], [180.0, 5.0]])
    old, new = ((x - X.mean(0)) / X.std(0) for x in (X, X_new))
    K, across = _kernel(old, old, PARAMS), _kernel(old, new, PARAMS)
    K = K + 1e-6 * np.diag(np.diagonal(K))
    rng = np.random.default_rng(2)
    mean, covariance = fixed.result.mean["f"], fixed.result.covariance["f"]
    draws = rng.multivariate_normal(mean, covariance, size=40_000, method="cholesky")
    normal: Any = stats.multivariate_normal
    weight = normal.logpdf(draws, np.zeros(len(X)), K) - normal.logpdf(draws, mean, covariance)
    upper, lower = (stats.norm.cdf(EDGES[levels + i] - draws) for i in (1, 0))
    weight += np.log(upper - lower).sum(axis=1)
    weight = np.exp(weight - weight.max())
    weights = np.linalg.solve(K, across)
    rest = np.diagonal(_kernel(new, new, PARAMS) - across.T @ weights)
    centre = (draws @ weights)[..., None]
    inside = np.diff(stats.norm.cdf((EDGES - centre) / np.sqrt(1.0 + rest)[:, None]), axis=-1)
    expected = np.einsum("s,smr->mr", weight / weight.sum(), inside)
    np.testing.assert_allclose(fixed.predict_proba(X_new), expected, atol=0.01)


def test_new_items_of_the_program_are_the_conditional_normal():
    rng = np.random.default_rng(4)
    X, new, f = rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), rng.normal(size=4)
    values: dict[str, Any] = {**PARAMS, "f": f}

    def law_of_new_items():
        program = handlers.substitute(handlers.seed(ordinal_gp, 0), data=values)
        return handlers.trace(program).get_trace(X, X_new=new)["f_new"]["fn"]

    law: Any = jax.jit(law_of_new_items)()
    K, across = _kernel(X, X, PARAMS), _kernel(X, new, PARAMS)
    weights = np.linalg.solve(K + 1e-6 * np.diag(np.diagonal(K)), across)
    np.testing.assert_allclose(law.mean, weights.T @ f, rtol=1e-9)
    expected = _kernel(new, new, PARAMS) - across.T @ weights
    np.testing.assert_allclose(law.covariance_matrix, expected, atol=1e-4)


@pytest.mark.slow
def test_logistic_probabilities_are_the_integral(data, fixed):
    model = _like(fixed, likelihood="logit").fit(*data)
    X_new = data[0][:2] + [5.0, 0.0]
    probability = model.predict_proba(X_new)
    for row, (m, s) in enumerate(zip(*model.predict_latent(X_new), strict=True)):

        def middle(f, m=m, s=s):
            inside = stats.logistic.cdf(0.55 - f) - stats.logistic.cdf(-0.55 - f)
            return stats.norm.pdf(f, m, s) * inside

        expected = quad(middle, m - 9 * s, m + 9 * s)[0]
        np.testing.assert_allclose(probability[row, 1], expected, rtol=1e-6)


def test_learning_finds_thresholds_and_the_feature_that_matters(data, learned):
    X_new, levels = _simulate(400, seed=1)
    probability = learned.predict_proba(X_new)
    loss = -np.log(probability[np.arange(400), levels]).mean()
    frequency = np.bincount(data[1], minlength=3) / len(data[1])
    assert loss < -np.log(frequency[levels]).mean() - 0.15
    relative = learned.lengthscales_ / data[0].std(axis=0)
    assert relative[0] < relative[1]
    assert np.all(np.diff(learned.thresholds_) > 0)
    assert abs(learned.thresholds_.mean()) < 1e-12
    assert learned.score(X_new, levels) > 0.5


def test_median_and_mode_are_of_the_probabilities(data, fixed):
    X = data[0]
    probability = fixed.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-12)
    median = [np.searchsorted(np.cumsum(row)[:-1], 0.5) for row in probability]
    np.testing.assert_array_equal(fixed.predict(X), median)
    modal = _copy(fixed, predict_as="mode")
    np.testing.assert_array_equal(modal.predict(X), probability.argmax(axis=1))


def test_names_ordered_categories_and_objects_give_their_order(data, fixed):
    X, levels = data
    names, kinds = np.array(NAMES)[levels], pd.CategoricalDtype(NAMES, ordered=True)
    listed = _like(fixed, levels=NAMES).fit(X, names)
    np.testing.assert_array_equal(listed.predict(X), np.array(NAMES)[fixed.predict(X)])
    named = _like(fixed).fit(X, pd.Series(names, dtype=kinds))
    assert list(named.classes_) == list(listed.classes_) == NAMES
    numbered = _like(fixed).fit(X, levels.astype(object))
    np.testing.assert_array_equal(numbered.classes_, fixed.classes_)
    for model in (named, numbered):
        np.testing.assert_array_equal(model.predict_proba(X), fixed.predict_proba(X))


@pytest.mark.slow
def test_two_levels_have_one_threshold():
    X, levels = _simulate(12, seed=3)
    model = OrdinalGP(levels=[1, 2], hyperparameters="prior").fit(X, np.where(levels > 1, 2, 1))
    assert model.thresholds_.tolist() == [0.0]


def test_a_clone_compiles_nothing(data, learned, monkeypatch):
    _like(learned).fit(*data)  # what an earlier test compiled may have been forgotten since
    monkeypatch.setattr(compiled, "_compile", lambda *_: pytest.fail("compiled again"))
    X, levels = data
    other = _like(learned).fit(X[::-1], levels[::-1])
    np.testing.assert_allclose(other.log_evidence_, learned.log_evidence_, rtol=1e-4)


def test_copies_and_pickles_keep_the_fit(data, fixed):
    for other in (copy.deepcopy(fixed), pickle.loads(pickle.dumps(fixed))):
        np.testing.assert_array_equal(other.predict_proba(data[0]), fixed.predict_proba(data[0]))


@pytest.mark.slow
def test_integrates_hyperparameters_by_default(data, integrated, learned):
    """Predictions are those of the program with new items in it, integrated as a whole."""
    X, levels = data
    X_new = np.array([[60.0, 5.1], [100.0, 4.9], [180.0, 5.0]])
    old, new = ((x - X.mean(0)) / X.std(0) for x in (X, X_new))
    whole = EP(ordinal_gp).run(jax.random.key(3), old, levels, num_levels=3, X_new=new)
    mean, sd = integrated.predict_latent(X_new)
    np.testing.assert_allclose((mean - whole.mean["f_new"]) / sd, 0.0, atol=0.2)
    np.testing.assert_allclose(sd, whole.sd["f_new"], rtol=0.2)
    assert integrated.log_evidence_ == integrated.result.log_evidence
    assert set(integrated.params_) == set(integrated.result.mixture.points)
    probability = integrated.predict_proba(X_new)
    np.testing.assert_allclose(probability.sum(1), 1.0)
    expected = np.zeros((3, 3))
    for part in integrated.result.components():
        one = _like(learned, hyperparameters=part.params).fit(X, levels)
        expected += part.weight * one.predict_proba(X_new)
        if part.weight == max(integrated.result.mixture.weights):
            np.testing.assert_allclose(one.result.mean["f"], part.moments.mean["f"], atol=0.02)
    np.testing.assert_allclose(probability, expected, atol=0.01)


def test_refusals(data):
    X, levels = data
    many = np.arange(120) / 2.0
    cases: list[tuple[dict[str, Any], Any, Any, str]] = [
        ({"predict_as": "mean"}, X, levels, "predict_as is 'mean'"),
        ({"likelihood": "cauchit"}, X, levels, "likelihood"),
        ({"hyperparameters": {"noise": 1.0}}, X, levels, "names 'noise'"),
        ({"levels": [0, 1]}, X, levels, "which is not among levels"),
        ({"levels": [0, 0, 1, 2]}, X, levels, "name each once"),
        ({}, X, levels[:-1], "a level for each row"),
        ({}, X, np.array(NAMES)[levels], "name the levels from the lowest"),
        ({}, X, np.zeros(len(X), int), "has one level"),
        ({}, X, np.r_[levels[:-1].astype(float), np.nan], "no level in row 39"),
        ({}, X, np.r_[np.inf, levels[1:]], "no level in row 0"),
        ({}, X, np.ma.masked_array(levels, np.arange(40) == 2), "no level in row 2"),
        ({}, np.ma.masked_array(X, X == X.max()), levels, "X contains NaN"),
        ({}, X, pd.Series([*levels[:-1], pd.NA], dtype=object), "no level in row 39"),
        ({}, np.stack([many, many**2], axis=1), many, "120 different values"),
    ]
    for options, features, y, message in cases:
        with pytest.raises(ValueError, match=message), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            OrdinalGP(**options).fit(features, y)


def test_scorers_go_by_the_order_of_levels(data):
    X, levels = data
    names = np.array(["poor", "fair", "good"])[levels]  # not in the order of the alphabet
    model = OrdinalGP(levels=["poor", "fair", "good"], hyperparameters=PARAMS).fit(X, names)
    probability = model.predict_proba(X)[np.arange(len(X)), levels]
    assert log_score(model, X, names) == pytest.approx(np.log(probability).mean())
    with pytest.raises(ValueError, match="y has the level 'bad', which is none of"):
        log_score(model, X[:1], ["bad"])
