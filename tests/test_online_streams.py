"""What every online learner promises: chunks, state, refusals."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy import sparse
from sklearn import base
from tinygp.kernels import ExpSquared, Polynomial

from bayesrank.online import (
    OAPBPM,
    OAPBagging,
    OAPVoted,
    OnlineBayesPoint,
    PRank,
    VotedPRank,
    WidrowHoff,
    rank_loss,
    round_levels,
)

clone: Callable[[Any], Any] = base.clone  # what scikit-learn says of its result is too wide


K, T = 3, 1200
RNG = np.random.default_rng(1)
X = RNG.uniform(-1.0, 1.0, (T, 2))
Y = 1 + (X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=T) > [[-0.2], [0.2]]).sum(0)
QUADRATIC = Polynomial(order=2, sigma=1.0)

LEARNERS = {
    "PRank": PRank(K, kernel=QUADRATIC),
    "OAPBPM": OAPBPM(K, 7, 0.5, 3, kernel=QUADRATIC),
    "OAPVoted, stored": OAPVoted(K, 3, 0.5, 3, kernel=ExpSquared(0.5), budget=20),
    "VotedPRank": VotedPRank(K, kernel=QUADRATIC, budget=50),
    "WidrowHoff": WidrowHoff(K, 0.05, kernel=QUADRATIC),
    "WidrowHoff, stored": WidrowHoff(K, 0.3, kernel=ExpSquared(0.5), budget=20),
    "OnlineBayesPoint": OnlineBayesPoint(K, kernel=QUADRATIC, noise=(0.1, 0.5), forgetting=1e-3),
    "OnlineBayesPoint, stored": OnlineBayesPoint(
        K, kernel=ExpSquared(0.5), noise=(0.1, 0.5), forgetting=1e-3, budget=12
    ),
}
each_learner = pytest.mark.parametrize("name", LEARNERS)


def _same(first, second):
    for name, value in first.state_._asdict().items():
        other = np.asarray(getattr(second.state_, name))
        assert np.asarray(value).tobytes() == other.tobytes(), name


@pytest.mark.slow
@each_learner
def test_the_answer_does_not_depend_on_how_the_stream_is_cut(name):
    """Bit for bit, over chunks of one example, of odd sizes, and larger than any block."""
    whole = clone(LEARNERS[name]).partial_fit(X, Y)
    for cuts in ([1, 2, 3, 19, 20, 37, 1100], [1060, 1077, 1200], [0, 16, 32, 49, 500]):
        parts = clone(LEARNERS[name])
        for rows, levels in zip(np.split(X, cuts), np.split(Y, cuts), strict=True):
            parts.partial_fit(rows, levels)
        _same(whole, parts)
    assert whole.n_seen_ == T


@each_learner
def test_prequential_predicts_first_and_learns_the_same(name):
    model, asked = clone(LEARNERS[name]), clone(LEARNERS[name])
    predicted = asked.prequential(X[:40], Y[:40], rounded=False)
    for i in range(40):
        if i:
            before = model.predict(X[i : i + 1], rounded=False)
            np.testing.assert_allclose(predicted[i], before[0], rtol=1e-9)
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    _same(model, asked)
    levels = asked.prequential(X[:5], Y[:5])
    assert levels.dtype == np.int64 and set(levels) <= set(range(1, K + 1))


@each_learner
def test_a_saved_state_is_continued_exactly(name, tmp_path):
    model = clone(LEARNERS[name]).partial_fit(X[:100], Y[:100])
    model.save(tmp_path / "state.npz")
    loaded = type(model).load(tmp_path / "state.npz")
    assert str(loaded.get_params()).replace("(numpy)", "") == str(model.get_params())
    pickled = pickle.loads(pickle.dumps(model))
    for other in (loaded, pickled):
        _same(model, other)
        np.testing.assert_array_equal(model.predict(X[:9]), other.predict(X[:9]))
    rest = X[100:150], Y[100:150]
    model.partial_fit(*rest)
    _same(model, loaded.partial_fit(*rest))
    _same(model, pickled.partial_fit(*rest))
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


@each_learner
def test_a_chunk_that_cannot_be_used_changes_nothing(name):
    model = clone(LEARNERS[name]).partial_fit(X[:50], Y[:50])
    before = pickle.dumps([np.asarray(value) for value in model.state_])
    rows, levels = X[50:60].copy(), Y[50:60].copy()
    bad_rows = {"nan": rows.copy(), "inf": rows.copy(), "huge": rows.copy()}
    bad_rows["nan"][3, 1], bad_rows["inf"][3, 1], bad_rows["huge"][3, 1] = np.nan, -np.inf, 1e31
    for text, bad in bad_rows.items():
        refused(r"X is .* in row 3, column 1", model.partial_fit, bad, levels)
        assert text
    for level in (0, K + 1):
        with pytest.raises(ValueError, match=rf"y is {level} in row 9; pass levels 1 to"):
            model.partial_fit(rows, [*levels[:9], level])
    refused("1 columns, but the examples before had 2", model.partial_fit, rows[:, :1], levels)
    refused("a level for each row", model.partial_fit, rows, levels[:9])
    assert pickle.dumps([np.asarray(value) for value in model.state_]) == before


def test_rows_and_levels_that_are_none():
    model = PRank(K)
    for rows, message in (
        ([["a"]], "dtype"),
        ([1.0], r"shape \(1,\)"),
        (np.zeros((1, 0)), r"shape \(1, 0\)"),
    ):
        refused(message, model.partial_fit, rows, [1])
    refused("y is 1.5 in row 0", model.partial_fit, [[1.0]], [1.5])
    refused("y is nan in row 0", model.partial_fit, [[1.0]], [np.nan])
    refused("y has shape .1,. and dtype <U1; pass .1,., a level", model.partial_fit, [[1.0]], ["1"])
    with pytest.raises(ValueError, match=r"X is sparse; pass X.toarray\(\)"):
        model.partial_fit(sparse.csr_array([[1.0]]), [1])  # pyright: ignore
    assert model.partial_fit(np.zeros((0, 2)), []).n_seen_ == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PRank(1), "num_levels is 1; pass a whole number from 2 on"),
        (PRank(K, budget=0), "budget is 0"),
        (OAPBPM(K, 0), "num_members is 0"),
        (OAPBPM(K, tau=0.0), "tau is 0.0; pass a number above 0 and at most 1"),
        (OAPBPM(K).set_params(tau=None), "tau is None; pass a number above"),
        (OAPBPM(K, seed=-1), "seed is -1"),
        (OAPBPM(K).set_params(kernel="rbf"), "kernel is 'rbf'; pass a kernel of tinygp"),
        (VotedPRank(K, budget=0), "budget is 0"),
        (
            VotedPRank(K, kernel=ExpSquared()),
            "kernel has no finite features, which VotedPRank needs",
        ),
        (PRank(K, kernel=ExpSquared()).set_params(budget=None), "budget is None .* say how many"),
        (WidrowHoff(K, eta=0.0), "eta is 0.0; pass a positive number"),
        (WidrowHoff(K).set_params(eta="fast"), "eta is 'fast'; pass a positive number"),
        (WidrowHoff(K, kernel=ExpSquared(), budget=0), "budget is 0"),
        (OnlineBayesPoint(K, noise=()), "noise is"),
        (OnlineBayesPoint(K, noise=(0.1, -1.0)), "pass one or more positive numbers"),
        (OnlineBayesPoint(K, weight_scale=0.0), "weight_scale is 0.0"),
        (OnlineBayesPoint(K, threshold_scale=np.inf), "threshold_scale is inf"),
        (OnlineBayesPoint(K, forgetting=1.0), "forgetting is 1.0; pass a number at least"),
        (OnlineBayesPoint(K).set_params(covariance="low"), "choose 'full' or 'diagonal'"),
        (OnlineBayesPoint(K, kernel=ExpSquared(), budget=0), "budget is 0; pass a whole number"),
        (OnlineBayesPoint(K).set_params(budget=None), "budget is None; pass a whole number from"),
        (
            OnlineBayesPoint(K, kernel=ExpSquared(), covariance="diagonal"),
            "choose 'full', or a polynomial kernel",
        ),
    ],
)
def test_options_that_cannot_be_used_are_named(model, message):
    refused(message, model.partial_fit, X[:5], Y[:5])
    assert not hasattr(model, "state_")


def test_a_learner_of_some_levels_does_not_learn_others():
    model = clone(LEARNERS["PRank"]).partial_fit(X[:20], Y[:20]).set_params(num_levels=K + 2)
    with pytest.raises(ValueError, match=f"num_levels is {K + 2}, but {K} levels have been"):
        model.partial_fit(X[:5], Y[:5])
    assert model.predict(X[:5]).max() <= K  # by what was learned
    assert model.n_seen_ == 20
    assert model.fit(X[:5], Y[:5]).n_seen_ == 5


def test_weights_that_overflow_are_refused_and_forgotten():
    model = WidrowHoff(K, eta=0.1).partial_fit(X[:20], Y[:20])
    weights = model.coef_.copy()
    refused("makes the weights overflow", model.partial_fit, 1e20 * X[:20], Y[:20])
    np.testing.assert_array_equal(model.coef_, weights)


def test_states_of_other_learners_are_refused(tmp_path):
    path = tmp_path / "state.npz"
    clone(LEARNERS["WidrowHoff"]).partial_fit(X[:20], Y[:20]).save(path)
    with pytest.raises(ValueError, match="saved by a PRank .it is of the class WidrowHoff.; load"):
        PRank.load(path)
    assert isinstance(WidrowHoff.load(path), WidrowHoff)


def test_fit_starts_afresh_and_a_refused_fit_forgets_nothing():
    model = clone(LEARNERS["WidrowHoff"]).partial_fit(X[:100], Y[:100])
    refused("row 0", model.fit, [[np.nan, 0.0]], [1])
    assert model.n_seen_ == 100
    _same(model.fit(X[:30], Y[:30]), clone(model).partial_fit(X[:30], Y[:30]))


def test_bagged_ranks_are_real_numbers_and_rounding_is_another_loss():
    model = OAPBagging(K, 7, 0.5, 3, kernel=QUADRATIC).partial_fit(X, Y)
    values, levels = model.predict(X, rounded=False), model.predict(X)
    assert (values != np.round(values)).any()
    np.testing.assert_array_equal(levels, round_levels(values, K))
    assert rank_loss(Y, values) == pytest.approx(np.abs(values - Y).mean())
    refused("a prediction is NaN", rank_loss, [1], [np.nan], rounded=True)
    assert rank_loss(Y, values, rounded=True) == pytest.approx(np.abs(levels - Y).mean())
    np.testing.assert_array_equal(round_levels([0.2, 1.5, 2.49, 9.0], 3), [1, 2, 2, 3])
    for value in (np.nan, np.inf):
        refused("a prediction is NaN or infinite", round_levels, [1.0, value])
    refused("num_levels is 0", round_levels, [1.0], 0)
    for pair in (([1, 2], [1]), ([], [])):
        refused("one prediction for each", rank_loss, *pair)
