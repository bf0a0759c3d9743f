"""The cross-check of the command line: equal rows as one, within its budget, and what is said."""

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

from bayesrank import ArenaRanker, PairwiseRanker
from bayesrank.cli.trust import trust_checks
from bayesrank.datasets import ComparisonData
from bayesrank.diagnostics import quick
from bayesrank.diagnostics.quick import Crosschecked, crosschecked, heaviest, with_distinct_rows
from bayesrank.infer.white.accuracy import ImportanceCheck
from bayesrank.infer.white.program import white_posterior
from bayesrank.ranking import summarize


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(120)])
    return pairs, rng.random(120) < 0.3


@pytest.fixture(scope="module")
def fitted(data):
    pairs, tied = data
    return PairwiseRanker(hyperparameters="prior").fit(pairs, ties=tied)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weighted", "features"), [(True, None), (False, np.arange(8.0).reshape(4, 2))]
)
def test_equal_rows_as_one_are_the_same_posterior(data, weighted, features):
    pairs, tied = data
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 120) if weighted else None
    ranker = PairwiseRanker(item_features=features, hyperparameters="prior")
    result: Any = ranker.fit(pairs, ties=tied, sample_weight=weights).result
    distinct: Any = with_distinct_rows(result)
    # Six pairs: a winner either way, or a tie, which is the same both ways round.
    assert len(distinct.model_args[1]) == 18
    assert distinct.model_kwargs["weights"].sum() == pytest.approx(
        120 if weights is None else weights.sum()
    )
    with jax.enable_x64(True):
        one, other = (white_posterior(each).log_joint for each in (result, distinct))
        for z in np.random.default_rng(2).normal(size=(5, 4)):
            np.testing.assert_allclose(one(z), other(z), rtol=1e-10)
    np.testing.assert_array_equal(distinct.joint_mean, result.joint_mean)


@pytest.mark.slow
def test_equal_rows_keep_their_positions(data):
    pairs, tied = data
    position = np.random.default_rng(3).choice([-1, 0, 1], len(pairs))
    result: Any = ArenaRanker().fit(pairs, ties=tied, position=position).result
    distinct: Any = with_distinct_rows(result)
    rows = [
        (*sorted(pair), 1, place if pair[0] < pair[1] else -place) if tie else (*pair, 2, place)
        for pair, tie, place in zip(pairs.tolist(), tied, position.tolist(), strict=True)
    ]
    counts = Counter(rows)
    kwargs = distinct.model_kwargs
    named = zip(
        *distinct.model_args[1].T.tolist(), kwargs["outcomes"], kwargs["position"], strict=True
    )
    assert dict(zip(named, kwargs["weights"], strict=True)) == counts


def test_distinct_rows_are_left_as_they_are():
    result = PairwiseRanker(hyperparameters="prior").fit([("a", "b"), ("b", "a")]).result
    assert with_distinct_rows(result) is result


@pytest.mark.slow
def test_the_heaviest_component_is_one_of_the_mixture(data):
    result: Any = PairwiseRanker(num_samples=50).fit(data[0]).result
    found, number = heaviest(result), int(np.argmax(result.weights))
    np.testing.assert_array_equal(found.joint_mean, result.component_means[number])
    assert found.params["scale"] == result.points["scale"][number]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["quick", "full"])
def test_nuts_has_its_time_or_runs_to_its_end(fitted, monkeypatch, how):
    monkeypatch.setattr(quick, "BUDGET", 0.0)
    monkeypatch.setattr(quick, "NUTS", {"num_warmup": 50, "num_samples": 50})
    shares = []
    found = crosschecked(fitted.result, how, 0, shares.append)
    assert (
        found.ran_out == (how == "quick") == (found.check is None) and found.importance is not None
    )
    assert how == "quick" or shares[-1] == 1.0


SUMMARY = summarize(np.random.default_rng(0).normal(size=(50, 3)))
TRIANGLE = ComparisonData(tuple("abc"), np.array([[0, 1], [1, 2]]), np.zeros(2, bool))


@pytest.mark.parametrize(
    ("trust", "answer"),
    [
        (ImportanceCheck(0.3, 1900.0, 0.02, 0.03, "f", 2000), "yes"),
        (ImportanceCheck(0.3, 1900.0, 0.50, 0.03, "f", 2000), "NO"),
        (ImportanceCheck(0.5, 300.0, 0.17, 0.16, "f", 2000), "unknown"),  # by chance, it may be
        (ImportanceCheck(0.9, 20.0, 0.9, 0.9, "f", 2000), "unknown"),
    ],
)
def test_without_nuts_importance_sampling_answers(trust, answer):
    checks = trust_checks(TRIANGLE, SUMMARY, np.zeros((5, 3)), {}, Crosschecked(trust, None, True))
    (right,) = [check for check in checks if "NUTS" in check.question]
    assert right.answer == answer
    assert "more than 20 s" in right.sentence and "By importance sampling" in right.sentence


def test_every_question_is_answered():
    checks = trust_checks(TRIANGLE, SUMMARY, np.zeros((5, 3)), {}, "It was not asked for.")
    answers = {check.question.split("(")[0].strip(): check.answer for check in checks}
    assert answers == {
        "Enough comparisons?": "NO",
        "Are all items linked by comparisons?": "yes",
        "Does the fast fit": "unknown",
        "Are ties allowed for?": "yes",
        "Is an advantage of position allowed for?": "NO",
        "Does one order fit": "unknown",
    }
