"""The cross-check of the command line: equal rows as one, within its budget, and what is said."""

import time
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

from bayesrank import Ranker
from bayesrank.cli.trust import trust_checks
from bayesrank.datasets import ComparisonData
from bayesrank.diagnostics import CrossCheck, quick
from bayesrank.diagnostics.quick import (
    Crosschecked,
    crosschecked,
    crosschecked_skills,
    heaviest,
    result_of_log,
    skills_of_log,
    skills_of_result,
    with_distinct_rows,
)
from bayesrank.diagnostics.verdict import Verdict
from bayesrank.infer import EP
from bayesrank.infer.whitening.accuracy import ImportanceCheck
from bayesrank.infer.whitening.program import white_posterior
from bayesrank.ranking import summarize


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(120)])
    return pairs, rng.random(120) < 0.3


@pytest.fixture(scope="module")
def fitted(data):
    pairs, tied = data
    return Ranker(hyperparameters="prior").fit(pairs, ties=tied)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weighted", "features"), [(True, None), (False, np.arange(8.0).reshape(4, 2))]
)
def test_equal_rows_as_one_are_the_same_posterior(data, weighted, features):
    pairs, tied = data
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 120) if weighted else None
    ranker = Ranker(item_features=features, hyperparameters="prior")
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
    result: Any = Ranker().fit(pairs, ties=tied, position=position).result
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
    result = Ranker(hyperparameters="prior").fit([("a", "b"), ("b", "a")]).result
    assert with_distinct_rows(result) is result


@pytest.mark.slow
def test_the_heaviest_component_is_one_of_the_mixture(data):
    result: Any = Ranker(num_samples=50).fit(data[0]).result
    mixture = result.mixture
    found, number = heaviest(result), int(np.argmax(mixture.weights))
    np.testing.assert_array_equal(found.joint_mean, mixture.means[number])
    assert found.params["scale"] == mixture.points["scale"][number]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["quick", "full"])
@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_LATENTS"])
def test_sizes_alone_say_whether_nuts_runs(fitted, monkeypatch, how, limit):
    """Importance sampling is always done; NUTS of what is too large only if asked for."""
    monkeypatch.setattr(quick, limit, 3)
    monkeypatch.setattr(quick, "NUTS", {"num_warmup": 50, "num_samples": 50})
    shares = []
    found = crosschecked(fitted.result, how, 0, shares.append)
    assert found.importance is not None
    assert (found.check is None) == (how == "quick")
    assert how == "quick" or shares[-1] == 1.0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_verdict(fitted, monkeypatch):
    """However long it takes: nothing here looks at a clock."""
    monkeypatch.setattr(quick, "NUTS", {"num_warmup": 50, "num_samples": 50})

    def wait(share):
        time.sleep(0.05)

    one = crosschecked(fitted.result, "quick", 0, wait)
    other = crosschecked(fitted.result, "quick", 0, lambda share: None)
    assert one.importance == other.importance
    assert one.check is not None and other.check is not None
    assert one.check.verdict == other.check.verdict


def judged_log():
    """Five items, 200 comparisons by three judges, in an order, some of them tied."""
    rng = np.random.default_rng(0)
    skill = rng.normal(size=5)
    pairs = np.array([rng.choice(5, 2, replace=False) for _ in range(200)])
    first = rng.choice([-1.0, 1.0], 200)
    gap = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 0.3 * first
    won = rng.random(200) < 1.0 / (1.0 + np.exp(-1.7 * gap))
    return ComparisonData(
        tuple("abcde"),
        np.where(won[:, None], pairs, pairs[:, ::-1]),
        rng.random(200) < 0.1,
        position=np.where(won, first, -first),
        judges=rng.integers(0, 3, 200),
        judge_names=tuple("xyz"),
    )


@pytest.mark.slow
def test_a_log_with_judges_is_checked_and_a_wrong_answer_is_found():
    data = judged_log()
    found: Any = Ranker(hyperparameters="prior").fit(data).result
    fit = skills_of_log(data, found)
    assert "tie_width" in fit.called[3] and "reliability" in fit.hidden
    right = crosschecked_skills(fit, "quick", 0, lambda share: None)
    assert right.check is not None and right.check.verdict.status in ("agrees", "close")
    moved = fit._replace(mean=fit.mean + np.arange(5.0) * np.sqrt(np.diagonal(fit.covariance)))
    wrong = crosschecked_skills(moved, "quick", 0, lambda share: None)
    assert wrong.check is not None and wrong.check.verdict.status == "differs"
    (name, status, _), *_ = [
        check
        for check in trust_checks(data, SUMMARY, np.zeros((5, 5)), {}, wrong, found)
        if check.name == "EP vs NUTS"
    ]
    assert (name, status) == ("EP vs NUTS", "warning")


@pytest.mark.slow
def test_skills_that_move_are_checked_and_a_large_log_is_not(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(60)])
    ranker = Ranker(time="matern12", hyperparameters="prior")
    fit = skills_of_result(ranker.fit(pairs, time=np.arange(60.0) // 5).result)
    assert fit.hidden == ("past",) and fit.mean.shape == (4,)
    found = crosschecked_skills(fit, "quick", 0, lambda share: None)
    assert found.check is not None and found.check.verdict.status in ("agrees", "close")
    for limit, size in (
        ("MOST_ROWS", 30),
        ("MOST_WITH_FURTHER", 47),
    ):  # of some 50 rows, 48 latents
        with monkeypatch.context() as patch:
            patch.setattr(quick, limit, size)
            assert crosschecked_skills(fit, "quick", 0, lambda share: None).check is None


SUMMARY = summarize(np.random.default_rng(0).normal(size=(50, 3)))
TRIANGLE = ComparisonData(tuple("abc"), np.array([[0, 1], [1, 2]]), np.zeros(2, bool))


@pytest.mark.parametrize(
    ("trust", "answer"),
    [
        (ImportanceCheck(0.3, 1900.0, 0.02, 0.03, "f", 2000), "ok"),
        (ImportanceCheck(0.3, 1900.0, 0.50, 0.03, "f", 2000), "warning"),
        (ImportanceCheck(0.5, 300.0, 0.17, 0.16, "f", 2000), "not checked"),  # by chance, it may be
        (ImportanceCheck(0.9, 20.0, 0.9, 0.9, "f", 2000), "not checked"),
        (ImportanceCheck(0.3, 1900.0, 0.02, 0.03, "f", 2000, mass_outside=0.01), "ok"),
        (ImportanceCheck(0.3, 1900.0, 0.02, 0.03, "f", 2000, mass_outside=0.3), "warning"),
    ],
)
def test_without_nuts_importance_sampling_answers(trust, answer):
    checks = trust_checks(TRIANGLE, SUMMARY, np.zeros((5, 3)), {}, Crosschecked(trust, None))
    (right,) = [check for check in checks if "NUTS" in check.name]
    assert right.status == answer
    assert right.sentence.startswith("importance sampling: ") and len(right.sentence) < 200
    assert right.sentence.endswith("; NUTS takes minutes (--crosscheck full)")


def test_skills_are_called_by_the_names_of_items():
    said = "EP differs from NUTS: the mean of f[0] - f[2] is off, that of off[1] is not."
    check = CrossCheck({}, (), (), {"ep": Verdict("ep", "differs", said)}, {}, 0.1, None, None)
    named = Crosschecked(None, check).named(["Ada", "Bob", "C\\1"]).check
    assert named is not None and named.verdict.sentence == (
        "EP differs from NUTS: the mean of the skill of Ada - the skill of C\\1 is off, that of "
        "off[1] is not."
    )


@pytest.mark.parametrize("advice", ["run again with num_samples=1000", "run it with power=0.5"])
def test_a_person_who_ranks_is_not_told_of_arguments_of_python(advice):
    check = CrossCheck(
        {}, (), (), {"ep": Verdict("ep", "unclear", f"So: {advice}.")}, {}, 0.1, None, None
    )
    named = Crosschecked(None, check).named([]).check
    assert named is not None and named.verdict.sentence == "So."


def test_everything_is_checked_and_warnings_come_first():
    summary = summarize(np.random.default_rng(0).normal(size=(50, 3)), prior_sd=1.0)
    checks = trust_checks(TRIANGLE, summary, np.zeros((5, 3)), {}, "skipped")
    assert {check.name: check.status for check in checks} == {
        "Data": "warning",
        "Connected": "ok",
        "EP vs NUTS": "not checked",
        "One ranking": "not checked",
        "Ties": "n/a",
        "Position": "n/a",
        "Independent rows": "n/a",
        "Other traits": "n/a",
        "Prior": "n/a",
    }
    order = ["warning", "ok", "not checked", "n/a"]
    statuses = [order.index(check.status) for check in checks]
    assert statuses == sorted(statuses)


@pytest.mark.slow
@pytest.mark.parametrize("ties", [True, False])
def test_the_fit_of_a_log_is_that_of_ep_at_its_scales(data, ties):
    pairs, tied = data
    tied = tied & ties
    position = np.where(np.arange(120) % 3 == 0, -1, 1)
    log = ComparisonData(tuple("abcd"), pairs, tied, position=position)
    fit: Any = Ranker(hyperparameters="map").fit(log).result
    found = result_of_log(log, fit)
    known: Any = EP(found.model).run(
        jax.random.key(0), *found.model_args, params=found.params, **found.model_kwargs
    )
    assert found.shapes == known.shapes
    sd = np.sqrt(known.posterior.variances)
    np.testing.assert_allclose((found.joint_mean - known.joint_mean) / sd, 0.0, atol=0.02)
    np.testing.assert_allclose(np.sqrt(found.posterior.variances) / sd, 1.0, atol=0.01)
    assert found.accuracy.is_good
