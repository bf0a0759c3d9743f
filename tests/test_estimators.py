"""`PreferenceGP`: predictions by other routes, scikit-learn's manners, and refusals."""

import copy
import pickle
from functools import partial
from typing import Any, Literal, cast

import jax
import numpy as np
import pandas as pd
import pytest
from preference_data import simulate, true_skill, with_units
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import clone

from bayesrank import PreferenceGP
from bayesrank.active import Beliefs, bald
from bayesrank.infer import EP
from bayesrank.models import preference_gp
from bayesrank.solvers.comparisons.posterior import chances_of_margins

PARAMS: dict[str, Any] = {"amplitude": 1.7, "lengthscale": [0.9, 2.0], "noise": 0.8}
N_ITEMS, N_COMPARISONS = 20, 150


@pytest.fixture(scope="module")
def simulated():
    """Items, comparisons to fit to, and as many more to be predicted."""
    X, comparisons = simulate(N_ITEMS, 2 * N_COMPARISONS, seed=1)
    return with_units(X), comparisons[:N_COMPARISONS], comparisons[N_COMPARISONS:]


@pytest.fixture(scope="module")
def data(simulated):
    return simulated[:2]


@pytest.fixture(scope="module")
def fitted(data):
    """Fitted at fixed hyperparameters; its clones share what it has compiled."""
    return PreferenceGP(ard=True, hyperparameters=PARAMS).fit(*data)


@pytest.fixture(scope="module")
def learned(data, fitted):
    return _like(fitted, hyperparameters="map").fit(*data)


def _like(estimator: PreferenceGP, **options: Any) -> PreferenceGP:
    """Clone with other options; what was compiled is shared."""
    return cast(PreferenceGP, clone(estimator)).set_params(**options)


# ---------------------------------------------------------------- predictions


@pytest.mark.slow
def test_new_items_against_the_program_with_new_items(data, fitted):
    X, comparisons = data
    X_new = with_units(np.array([[0.3, -0.2], [1.4, 0.9], [-0.6, 0.1]]))
    scaled = [(x - X.mean(axis=0)) / X.std(axis=0) for x in (X, X_new)]
    result = EP(preference_gp).run(
        jax.random.key(0), scaled[0], comparisons, X_new=scaled[1], ard=True, params=fitted.params_
    )
    skill, sd = fitted.predict(X_new)
    np.testing.assert_allclose(skill, result.mean["f_new"], atol=1e-4)
    np.testing.assert_allclose(sd, result.sd["f_new"], atol=1e-4)
    pairs = np.array([[0, 1], [1, 2], [2, 0]])
    contrast = np.eye(3)[pairs[:, 0]] - np.eye(3)[pairs[:, 1]]
    variance = np.diagonal(contrast @ result.covariance["f_new"] @ contrast.T)
    expected = norm.cdf(contrast @ result.mean["f_new"] / np.sqrt(2.0 * 0.8**2 + variance))
    np.testing.assert_allclose(fitted.predict_proba(pairs, X_new), expected, atol=1e-4)


def test_the_items_of_fit_are_predicted_alike_by_row_and_by_features(data, fitted):
    for own, carried in zip(fitted.predict(), fitted.predict(data[0]), strict=True):
        np.testing.assert_allclose(own, carried, atol=3e-3)  # the jitter: a thousandth of 1.7
    np.testing.assert_array_equal(fitted.predict(return_std=False), fitted.predict()[0])


def test_far_from_all_items_the_prior_returns(fitted):
    skill, sd = fitted.predict(with_units(np.array([[40.0, 90.0]])))
    np.testing.assert_allclose(skill, 0.0, atol=1e-8)
    np.testing.assert_allclose(sd, PARAMS["amplitude"], rtol=1e-5)


def _played(estimator, pairs, seed=0, num_draws=100_000):
    """Margins of pairs between performances of the items of fit, by simulation."""
    rng = np.random.default_rng(seed)
    result = estimator.result_
    skills = rng.multivariate_normal(result.mean["f"], result.covariance["f"], size=num_draws)
    noise = result.params["noise"] * rng.standard_normal((2, num_draws, len(pairs)))
    return skills[:, pairs[:, 0]] + noise[0] - skills[:, pairs[:, 1]] - noise[1]


def _assert_frequency(probability, happened):
    error = np.sqrt(probability * (1.0 - probability) / len(happened))
    assert np.all(np.abs(happened.mean(axis=0) - probability) < 4.5 * error)


def test_probabilities_of_wins_against_simulation(fitted):
    pairs = np.array([[0, 1], [1, 0], [2, 9], [5, 11], [13, 3]])
    probability = fitted.predict_proba(pairs)
    _assert_frequency(probability, _played(fitted, pairs) > 0.0)
    np.testing.assert_allclose(probability[0] + probability[1], 1.0, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(pairs, outcome="loss"), 1.0 - probability)
    np.testing.assert_allclose(fitted.predict_proba([(4, 4)]), 0.5)


@pytest.mark.slow
def test_ties_are_a_third_outcome(data):
    X, comparisons = data
    ties = np.arange(len(comparisons)) % 4 == 0
    hyperparameters = PARAMS | {"tie_width": 0.6}
    estimator = PreferenceGP(ard=True, hyperparameters=hyperparameters)
    estimator.fit(X, comparisons, ties=ties)
    pairs = np.array([[0, 1], [2, 9], [13, 3]])
    margin = _played(estimator, pairs)
    outcomes: dict[Literal["win", "tie", "loss"], Any] = {
        "win": margin > 0.6,
        "tie": np.abs(margin) <= 0.6,
        "loss": margin < -0.6,
    }
    total = 0.0
    for outcome, happened in outcomes.items():
        probability = estimator.predict_proba(pairs, outcome=outcome)
        _assert_frequency(probability, happened)
        total = total + probability
    np.testing.assert_allclose(total, 1.0, rtol=1e-10)
    # In which order the two items of a tie are listed means nothing.
    swapped = np.where(ties[:, None], comparisons[:, ::-1], comparisons)
    again = _like(estimator).fit(X, swapped, ties=ties)
    np.testing.assert_allclose(again.predict()[0], estimator.predict()[0], atol=1e-3)


def test_logistic_wins_against_quadrature():
    mean, sd = np.array([-2.0, 0.3, 5.0]), np.array([0.1, 1.5, 9.0])
    params = {"noise": np.array(0.8)}
    expected = [
        quad(lambda z, m, s: expit((m + s * z) / 0.8) * norm.pdf(z), -9.0, 9.0, (m, s))[0]
        for m, s in zip(mean, sd, strict=True)
    ]
    probability = chances_of_margins("logit", params, mean, sd**2)[:, 2]
    np.testing.assert_allclose(probability, expected, rtol=1e-6)


def test_ranking_is_that_of_the_draws(fitted):
    summary = fitted.rank([f"item {i}" for i in range(N_ITEMS)], k=2, level=0.8)
    assert summary.level == 0.8
    assert summary.k == 2
    draws = fitted.samples()
    assert draws.shape == (2000, N_ITEMS)
    np.testing.assert_allclose(draws.mean(axis=0), fitted.result.mean["f"], atol=1e-9)
    own = fitted.result.get_samples()["f"]
    np.testing.assert_allclose(draws - draws.mean(axis=0), own - own.mean(axis=0), atol=1e-9)
    best = np.bincount(draws.argmax(axis=1), minlength=N_ITEMS) / 2000
    np.testing.assert_allclose(summary.prob_best, best[summary.indices], atol=1e-12)
    assert summary.names[0] == f"item {summary.indices[0]}"


@pytest.mark.parametrize(
    ("likelihood", "factor"),
    # A logistic variable of scale s has the variance (pi s)**2 / 3, two normal ones 2 sigma**2.
    [("probit", 1.0), ("logit", np.sqrt(np.pi**2 / 6.0))],
)
@pytest.mark.slow
def test_the_best_questions_of_pairs_that_were_not_compared(data, likelihood, factor):
    asked = PreferenceGP(likelihood=likelihood, ard=True, hyperparameters=PARAMS).fit(*data)
    result, pairs = asked.result, np.stack(np.triu_indices(N_ITEMS, 1), axis=1)
    beliefs = Beliefs(result.mean["f"], result.covariance["f"], factor * result.params["noise"])
    compared = {frozenset(pair) for pair in data[1].tolist()}
    order = [p for p in pairs[np.argsort(-bald(beliefs, pairs))].tolist()]
    new = [pair for pair in order if frozenset(pair) not in compared]
    ask = partial(asked.suggest, again=False)
    assert ask().tolist() == ask(candidates=pairs[::-1]).tolist() == new[:1]
    assert asked.suggest().tolist() == order[:1]
    few = ask(5, candidates=[data[1][0], new[0], new[0][::-1], new[1]])
    assert {frozenset(pair) for pair in few.tolist()} == set(map(frozenset, new[:2]))
    assert ask(candidates=[]).shape == (0, 2)


# ---------------------------------------------------------------- learning


def test_held_out_comparisons_are_predicted_nearly_as_well_as_can_be(simulated, learned):
    X, _, held_out = simulated
    margin = np.subtract(*true_skill(X / [30.0, 0.002] - [100.0 / 30.0, 2500.0])[held_out.T])
    of_truth = -norm.logcdf(margin / np.sqrt(2.0)).mean()
    loss = -np.log(learned.predict_proba(held_out)).mean()
    assert of_truth - 0.03 < loss < of_truth + 0.06 < np.log(2.0) - 0.1


def test_learned_hyperparameters_are_at_a_maximum(data, learned):
    centre = {"amplitude": 0.0, "lengthscale": np.log(np.sqrt(2.0)), "noise": 0.0}
    spread = {"amplitude": 1.0, "lengthscale": 1.0, "noise": 0.1}

    def objective(params):
        estimator = _like(learned, hyperparameters=params).fit(*data)
        prior = sum(
            np.sum(norm.logpdf(np.log(v), centre[k], spread[k]) - np.log(v))
            for k, v in params.items()
        )
        return estimator.log_evidence_ + prior

    best = objective(learned.params_)
    for name, at in [("amplitude", ()), ("lengthscale", 0), ("lengthscale", 1), ("noise", ())]:
        for factor in (0.9, 1.1):
            value = learned.params_[name].copy()
            value[at] *= factor
            assert objective(learned.params_ | {name: value}) < best


@pytest.mark.slow
def test_what_is_fixed_stays_and_the_rest_is_learned(data, fitted):
    known = {k: PARAMS[k] for k in ("lengthscale", "noise")}
    estimator = _like(fitted, hyperparameters=known).fit(*data)
    for name, value in known.items():
        np.testing.assert_array_equal(estimator.params_[name], value)
    assert abs(np.log(estimator.params_["amplitude"])) > 0.01  # not at the median, which is one


def test_prior_medians(data, fitted):
    estimator = _like(fitted, hyperparameters="prior").fit(*data)
    assert estimator.params_.keys() == PARAMS.keys()
    np.testing.assert_allclose(estimator.params_["amplitude"], 1.0, rtol=1e-12)
    np.testing.assert_allclose(estimator.params_["noise"], 1.0, rtol=1e-12)
    # The median of a vector's prior may come from draws of it.
    np.testing.assert_allclose(estimator.params_["lengthscale"], [np.sqrt(2.0)] * 2, rtol=0.1)


def test_units_of_features_do_not_matter_unless_asked(data, fitted):
    X, comparisons = data
    other = _like(fitted).fit(X / 1000.0 - 3.0, comparisons)
    np.testing.assert_allclose(other.predict()[0], fitted.predict()[0], atol=1e-4)
    np.testing.assert_allclose(other.log_evidence_, fitted.log_evidence_, atol=1e-5)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    raw = _like(fitted, standardize=False).fit(Z, comparisons)
    np.testing.assert_allclose(raw.predict()[0], fitted.predict()[0], atol=1e-4)
    assert not np.allclose(raw.set_params(standardize=False).fit(X, comparisons).predict()[0],
                           fitted.predict()[0], atol=0.05)  # fmt: skip


# ---------------------------------------------------------------- scikit-learn's manners


def test_pickle_and_copy_keep_the_fit(fitted):
    X_new = with_units(np.array([[0.3, -0.2], [1.4, 0.9]]))
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict(X_new), fitted.predict(X_new))
        np.testing.assert_array_equal(other.rank().prob_best, fitted.rank().prob_best)


def test_same_seed_same_draws_and_no_global_one(data, fitted):
    np.random.seed(7)
    before = np.random.random()
    np.random.seed(7)
    draws = fitted.result.get_samples()["f"]
    again = _like(fitted).fit(*data).result.get_samples()["f"]
    np.testing.assert_allclose(draws, again, atol=1e-12)
    assert np.random.random() == before
    other = _like(fitted, random_state=np.random.RandomState(3)).fit(*data)
    assert not np.allclose(draws, other.result.get_samples()["f"])


def test_data_frames_keep_their_names(data, fitted):
    X, comparisons = data
    frame = pd.DataFrame(X, columns=["price", "weight"])
    estimator = _like(fitted).fit(frame, comparisons)
    assert list(vars(estimator)["feature_names_in_"]) == ["price", "weight"]
    np.testing.assert_allclose(estimator.predict(frame)[0], fitted.predict(X)[0], atol=1e-10)
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(frame.rename(columns={"price": "cost"}))


# ---------------------------------------------------------------- refusals


BAD_QUESTIONS = {
    "columns": (lambda e: e.predict([[1.0, 2.0, 3.0]]), "X has 3 features, but PreferenceGP"),
    "nan": (lambda e: e.predict([[1.0, np.nan]]), "contains NaN"),
    "pairs of three": (lambda e: e.predict_proba([(0, 1, 2)]), "pairs has shape .1, 3."),
    "pairs of floats": (
        lambda e: e.predict_proba([(0.0, 1.0)]),
        "dtype float64; pass pairs of item numbers",
    ),
    "unknown item": (lambda e: e.predict_proba([(0, 1), (20, 0)]), "item 20 in row 1, but the 20"),
    "unknown row": (lambda e: e.predict_proba([(0, 1)], [[1.0, 2.0]]), "but the 1 items"),
    "outcome": (lambda e: e.predict_proba([(0, 1)], outcome="draw"), "outcome is 'draw'; choose"),
    "tie": (lambda e: e.predict_proba([(0, 1)], outcome="tie"), "no comparison given to fit was"),
    "candidates": (
        lambda e: e.suggest(candidates=[(20, 1)]),
        "candidates names item 20",
    ),
    "no question": (lambda e: e.suggest(0), "n is 0"),
    "names": (lambda e: e.rank(["a"]), "names must hold one name per item, 20 in all"),
}


@pytest.mark.parametrize(("ask", "message"), BAD_QUESTIONS.values(), ids=BAD_QUESTIONS)
def test_what_questions_are_refused(fitted, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(fitted)


BAD_FITS = {
    "one feature as a vector": ({"X": [1.0, 2.0]}, "Expected 2D array"),
    "nan": ({"X": [[0.0, np.nan], [1.0, 0.0]]}, "contains NaN"),
    "one item": ({"X": [[0.0, 1.0]]}, "minimum of 2 is required"),
    "unknown item": ({"comparisons": [(0, 3)]}, "names item 3 in row 0"),
    "itself": ({"comparisons": [(0, 1), (2, 2)]}, "compares item 2 with itself in row 1"),
    "three columns": ({"comparisons": [(0, 1, 2)]}, "shape .1, 3. .*; pass pairs of item numbers"),
    "no comparison": ({"comparisons": np.zeros((0, 2), int)}, "has no rows"),
    "an empty list": ({"comparisons": []}, "has no rows; pass one .winner, loser."),
    "names": ({"comparisons": [("ann", "bob")]}, "has 'ann' in row 0; pass the row numbers"),
    "no draws": ({"num_samples": 0}, "num_samples is 0; pass a whole number from 1 on"),
    "floats": ({"comparisons": [(0.0, 1.0)]}, "dtype float64; pass pairs of item numbers"),
    "ties too short": ({"ties": [True]}, "ties has shape .1,. and dtype bool; pass .2,."),
    "ties of another kind": ({"ties": [0, 2]}, "True or False for each row of comparisons"),
    "likelihood": ({"likelihood": "cloglog"}, "likelihood is 'cloglog'"),
    "choice": ({"hyperparameters": "best"}, "'best'; choose 'integrate', 'map', 'prior'"),
    "unknown name": ({"hyperparameters": {"scale": 1.0}}, "names 'scale'; there are"),
    "tie width without ties": ({"hyperparameters": {"tie_width": 1.0}}, "names 'tie_width'"),
    "negative": ({"hyperparameters": {"noise": -1.0}}, "'noise'. is -1.0; pass a positive"),
    "one lengthscale for two": (
        {"ard": True, "hyperparameters": {"lengthscale": 1.0}},
        "'lengthscale'. is 1.0; pass 2 positive numbers",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD_FITS.values(), ids=BAD_FITS)
def test_what_fit_refuses(changes, message):
    call: dict[str, Any] = {"X": [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], "ties": None}
    call["comparisons"] = [(0, 1), (1, 2)]
    options: dict[str, Any] = {"hyperparameters": "prior"}
    for name, value in changes.items():
        (call if name in call else options)[name] = value
    with pytest.raises(ValueError, match=message):
        PreferenceGP(**options).fit(**call)
