"""`fit` of rankers of comparisons on `ComparisonData`: as by names, or refused by the column."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from bayesrank import PreferenceGP, Ranker
from bayesrank.datasets import ComparisonData, OrderEvents, ReadingNote
from bayesrank.estimators.columns import read_columns

NAMES = ("tea", "coffee", "milk")
PAIRS = np.array([[0, 1], [1, 2], [0, 2], [2, 1]])
DATA = ComparisonData(NAMES, PAIRS, np.array([False, False, True, False]))
ORDERS = OrderEvents((((0,), (1,), (2,)), ((1,), (0, 2))), np.array([2, 1]))
JUDGED = replace(DATA, judges=np.array([0, 1, 0, 1]), judge_names=("u", "v"))
LINES = np.arange(3.0)[:, None]


@pytest.mark.slow
def test_data_are_fitted_as_by_names():
    given = Ranker(hyperparameters="prior").fit(DATA)
    named = Ranker(hyperparameters="prior", items=NAMES)
    named.fit(np.array(NAMES, object)[PAIRS], ties=DATA.tied)
    np.testing.assert_allclose(given.predict(), named.predict(), rtol=1e-9)
    assert given.names_ == list(NAMES) and str(given.rank()) == str(named.rank())


@pytest.mark.slow
def test_orders_are_fitted_as_by_names():
    given = Ranker(hyperparameters="prior").fit(replace(DATA, orders=ORDERS))
    said = [["tea", "coffee", "milk"], ["coffee", ["tea", "milk"]]]
    named = Ranker(hyperparameters="prior", items=NAMES).fit(said, sample_weight=[2, 1])
    np.testing.assert_allclose(given.predict(), named.predict(), rtol=1e-9)


REFUSED = [
    (Ranker(likelihood="logit"), JUDGED, {}, "has judges, which do not go with likelihood='logit'"),
    (Ranker(), replace(JUDGED, features=LINES), {}, "judges, which do not go with item_features"),
    (Ranker(), replace(JUDGED, times=np.arange(4.0)), {}, "has judges, which do not go with times"),
    (Ranker(), replace(DATA, features=LINES, times=np.arange(4.0)), {}, "leave item_features out"),
    (Ranker(), DATA, {"ties": DATA.tied}, "comparisons has its columns"),
    (Ranker(items=["tea"]), DATA, {}, "items names others"),
    (Ranker(item_features=LINES), DATA, {}, "leave item_features out"),
]


@pytest.mark.parametrize(("ranker", "data", "options", "message"), REFUSED)
def test_columns_that_a_ranker_does_not_take_are_refused(ranker, data, options, message):
    refused(message, ranker.fit, data, **options)


@pytest.mark.slow
def test_items_that_nothing_links_are_ranked_apart(tmp_path):
    ranker = Ranker(hyperparameters="prior").fit([("a", "b"), ("b", "c"), ("x", "y")])
    summary = ranker.rank()
    assert summary.num_components == 2 and summary.names == ["a", "b", "c", "x", "y"]
    assert summary.records is not None and ranker.hyperparameters_ == "prior"
    ranker.save(tmp_path / "r.npz")
    again = Ranker.load(tmp_path / "r.npz")
    assert str(again.rank()) == str(summary) and again.hyperparameters_ == "prior"
    orders = Ranker(hyperparameters="prior").fit([["a", ["b"]], ["x", "y"]]).rank()
    assert orders.num_components == 2


def test_a_number_and_its_text_are_two_names():
    table = pd.DataFrame({"winner": [1, 2], "loser": ["1", "a"]})
    ranker = Ranker(hyperparameters="prior").fit(table)
    assert set(ranker.names_) == {1, 2, "1", "a"}


def test_a_table_in_any_layout_is_fitted_and_told():
    table = pd.DataFrame(
        {"model_a": [3, 1], "model_b": [1, 2], "winner": ["model_a", "tie"], "x": 0}
    )
    told = r"read as model_a,model_b,winner\..* Not used here: position \(being shown first\);.* x"
    with pytest.warns(ReadingNote, match=told):
        data = read_columns(table, None, {"ties": None})
    assert data.names == (3, 1, 2) and data.position is None
    with pytest.warns(ReadingNote):
        assert read_columns(table, [1, 2, 3], {"position": None}).names == (1, 2, 3)
    with (
        pytest.warns(ReadingNote),
        pytest.raises(ValueError, match="item 3 .* not known; say it"),
    ):
        read_columns(table, [1, 2], {"ties": None}, "say it")
    with pytest.warns(ReadingNote), pytest.raises(ValueError, match="has orders, .* use Ranker"):
        PreferenceGP().fit(
            pd.DataFrame(np.eye(3), index=list("abc")), pd.DataFrame({"order": ["a > b", "b > c"]})
        )


def test_pairs_in_the_place_of_items_are_told_where_to_go():
    ranker = Ranker(hyperparameters="prior").fit([("a", "b"), ("b", "c")])
    asked: Any = [("a", "b")], np.array([["a", "b"]]), pd.DataFrame({"x": ["a"], "y": ["b"]})
    for pairs in asked:
        refused("predict_proba gives the chances of pairs", ranker.predict, pairs)


@pytest.mark.slow
def test_data_go_by_the_names_of_their_items_wherever_they_are_given():
    turned = replace(DATA, names=NAMES[::-1], comparisons=2 - PAIRS)
    rows = pd.DataFrame(np.array(NAMES, object)[PAIRS], columns=["winner", "loser"])
    rows = rows.assign(tie=DATA.tied)
    ranker = Ranker(hyperparameters="prior").fit(rows)
    assert ranker.score(turned) == ranker.score(DATA) == ranker.score(rows)
    X = pd.DataFrame({"x": [1.0, 0.0, 2.0]}, index=["coffee", "tea", "milk"])
    fits = [PreferenceGP(hyperparameters="prior").fit(X, each) for each in (turned, rows)]
    np.testing.assert_allclose(fits[0].predict(), fits[1].predict(), rtol=1e-9)
    assert fits[0].score(X, turned) == pytest.approx(fits[1].score(X, rows))
    judge, orders = "fit was given no column of that name", "and these are none"
    for data, message in ((JUDGED, judge), (replace(DATA, orders=ORDERS), orders)):
        refused(message, ranker.score, data)
        refused("comparisons has", PreferenceGP().fit, X, data)
    refused("names 3 items, and there are 2", PreferenceGP().fit, X.to_numpy()[:2], DATA)


@pytest.mark.slow
def test_nothing_of_an_earlier_fit_stays(tmp_path):
    wins = np.array(NAMES, object)[PAIRS]
    features = dict(zip(NAMES, LINES, strict=True))
    ranker = Ranker(item_features=features, laplacian=1, hyperparameters="prior")
    ranker.fit(wins).set_params(item_features=None, laplacian=None)
    for time in (None, "walk"):
        times = None if time is None else np.arange(4.0)
        ranker.set_params(time=time).fit(wins, time=times).save(tmp_path / "r.npz")
        again = Ranker.load(tmp_path / "r.npz")
        np.testing.assert_array_equal(again.predict(), ranker.predict())
        assert ranker.predict_proba([("tea", "water")], unknown="population") > 0.0


@pytest.mark.slow
def test_a_fit_that_fails_leaves_the_one_before():
    gp = PreferenceGP(hyperparameters="prior").fit(LINES, PAIRS)
    before = gp.predict([[0.5]])
    with pytest.raises(ValueError, match="hyperparameters is 'none'"):
        gp.set_params(hyperparameters="none").fit(9.0 * LINES, PAIRS)
    np.testing.assert_array_equal(gp.predict([[0.5]]), before)
