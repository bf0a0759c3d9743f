"""`Ranker`: names in every form, held-out comparisons, weights, files, and refusals."""

from typing import Any, cast

import jax
import numpy as np
import pandas as pd
import pytest
from compilations import compilations
from refusals import refused
from scipy.stats import norm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from bayesrank import PreferenceGP, Ranker
from bayesrank.infer import EP, EPResult
from bayesrank.models import thurstone

NAMES = np.array(["ash", "elm", "fir", "oak", "yew"], object)
ROWS = np.array([(0, 1), (1, 2), (0, 2), (3, 4), (4, 2), (0, 3), (1, 4), (3, 1)])
WINS = NAMES[ROWS]
X = np.random.default_rng(0).normal(size=(5, 2))
FEATURES = pd.DataFrame(X, index=NAMES, columns=["height", "width"])


def _like(ranker: Ranker, **options: Any) -> Ranker:
    return cast(Ranker, clone(ranker)).set_params(**options)


@pytest.fixture(scope="module")
def alone():
    """Skills of items without features."""
    return Ranker(hyperparameters={"scale": 1.3}).fit(WINS)


@pytest.fixture(scope="module")
def featured():
    return Ranker(item_features=FEATURES, hyperparameters="prior").fit(WINS)


def test_a_second_fit_of_the_same_shape_compiles_nothing(alone):
    # What an earlier test compiled may have been forgotten since.
    Ranker(hyperparameters={"scale": 1.3}).fit(WINS)
    with compilations() as events:
        again = Ranker(hyperparameters={"scale": 1.3}).fit(WINS[:, ::-1])
        assert events == []
        jax.jit(lambda x: x + 1.0)(np.ones(len(WINS) + 1))
    assert events != []  # the listener hears
    np.testing.assert_allclose(again.predict()[0], -alone.predict()[0], atol=1e-3)


def test_without_features_it_is_the_program_of_independent_skills(alone):
    result = EP(thurstone).run(jax.random.key(0), 5, ROWS, params={"scale": 1.3})
    skill, sd = alone.predict()
    np.testing.assert_allclose(skill, result.mean["f"], atol=1e-6)
    np.testing.assert_allclose(sd, result.sd["f"], atol=1e-6)
    spread = np.sqrt(np.array([1, 0, -1, 0, 0]) @ result.covariance["f"] @ [1, 0, -1, 0, 0] + 2.0)
    expected = norm.cdf((skill[0] - skill[2]) / spread)
    np.testing.assert_allclose(alone.predict_proba([("ash", "fir")]), expected, rtol=1e-6)
    assert alone.rank().names[0] == "ash"
    np.testing.assert_array_equal(alone.predict(["yew", "ash"])[0], skill[[4, 0]])


@pytest.mark.slow
def test_with_features_alone_it_is_preference_gp():
    given = {"amplitude": 1.0, "lengthscale": 2.0**0.5, "noise": 1.0, "item_share": 1e-12}
    featured = Ranker(item_features=FEATURES, hyperparameters=given).fit(WINS)
    rows = PreferenceGP(hyperparameters="prior").fit(X, ROWS)
    named = PreferenceGP(hyperparameters="prior").fit(FEATURES, WINS)
    np.testing.assert_allclose(featured.predict(), rows.predict(), atol=1e-6)
    np.testing.assert_array_equal(named.predict(), rows.predict())
    assert named.rank().names == featured.rank().names
    expected = rows.predict_proba([(0, 4)])
    np.testing.assert_allclose(featured.predict_proba([("ash", "yew")]), expected, atol=1e-6)
    np.testing.assert_allclose(named.score(FEATURES, WINS), featured.score(WINS), atol=1e-3)
    np.testing.assert_allclose(rows.score(X, ROWS), featured.score(WINS), atol=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        WINS.tolist(),
        [tuple(pair) for pair in WINS],
        pd.DataFrame(WINS, columns=["winner", "loser"]),
        pd.DataFrame({"Loser": WINS[:, 1], "Winner": WINS[:, 0], "weight": 1.0, "tie": 0}),
        pd.DataFrame(WINS),
    ],
    ids=["lists", "tuples", "table", "other order", "table without names"],
)
def test_comparisons_in_every_form(alone, given):
    other = _like(alone).fit(given)
    np.testing.assert_allclose(other.predict(), alone.predict(), atol=2e-3)
    assert other.names_ == alone.names_ == NAMES.tolist()


@pytest.mark.parametrize(
    ("features", "items"),
    [(dict(zip(NAMES, X, strict=True)), None), (X, NAMES), (FEATURES[::-1], NAMES)],
    ids=["mapping", "array and names", "table in another order"],
)
def test_features_in_every_form(featured, features, items):
    other = _like(featured, item_features=features, items=items).fit(WINS)
    np.testing.assert_allclose(other.predict(), featured.predict(), atol=1e-9)


@pytest.mark.slow
def test_ties_are_a_third_outcome(alone):
    table = pd.DataFrame(WINS, columns=["winner", "loser"])
    tied = np.arange(len(WINS)) % 3 == 0
    by_column = Ranker(hyperparameters="prior").fit(table.assign(tie=tied))
    by_argument = Ranker(hyperparameters="prior").fit(WINS, ties=tied)
    np.testing.assert_array_equal(by_column.predict(), by_argument.predict())
    pair = [("ash", "elm")]
    shares = [by_column.predict_proba(pair, outcome=each) for each in ("win", "tie", "loss")]
    np.testing.assert_allclose(sum(shares), 1.0, rtol=1e-9)
    assert by_column.score(pair, ties=[True]) == pytest.approx(np.log(shares[1][0]))
    refused("some comparisons are tied, but none", alone.score, pair, ties=[True])


@pytest.mark.slow
def test_a_weight_counts_as_so_many_rows(alone):
    weights = np.array([2, 1, 0, 1, 3, 1, 1, 1])
    weighted = _like(alone).fit(WINS, sample_weight=weights)
    repeated = _like(alone).fit(np.repeat(WINS, weights, axis=0))
    # One site of a weight of two is not quite two sites.
    np.testing.assert_allclose(weighted.predict(), repeated.predict(), atol=0.01)
    np.testing.assert_allclose(weighted.log_evidence_, repeated.log_evidence_, atol=0.02)
    share = np.log(weighted.predict_proba(WINS))
    score = weighted.score(WINS, sample_weight=weights)
    np.testing.assert_allclose(score, np.average(share, weights=weights))


def test_the_mean_log_probability_of_held_out_wins_chooses(alone):
    options = {"hyperparameters": [{"scale": 1e-3}, {"scale": 1.5}]}
    search = GridSearchCV(alone, options, cv=2).fit(np.tile(WINS, (3, 1)))
    assert search.best_params_ == {"hyperparameters": {"scale": 1.5}}
    worst = search.cv_results_["mean_test_score"][0]
    np.testing.assert_allclose(worst, np.log(0.5), atol=1e-3)  # all items alike: a coin


def test_unknown_items_are_drawn_from_the_population(alone):
    with pytest.raises(ValueError, match="item 'gum' in row 1 is not known; pass unknown="):
        alone.predict_proba([("ash", "elm"), ("ash", "gum")])
    pairs = [("gum", "ivy"), ("ash", "gum"), ("gum", "ash")]
    guess = alone.predict_proba(pairs, unknown="population")
    skill, sd = alone.predict(["ash"])
    expected = norm.cdf(skill / np.sqrt(2.0 + sd**2 + 1.3**2))[0]
    np.testing.assert_allclose(guess, [0.5, expected, 1.0 - expected], rtol=1e-6)
    assert alone.score(pairs[:1]) == pytest.approx(np.log(0.5))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"item_features": FEATURES}], ids=["alone", "featured"])
def test_integrated_answers_are_averages_over_the_hyperparameters(options):
    ranker = Ranker(hyperparameters="integrate", **options).fit(WINS)
    result = ranker.result
    assert isinstance(result, EPResult)
    points = list(result.components())
    parts = [_like(ranker, hyperparameters=point.params).fit(WINS) for point in points[:3]]
    weights, whole = result.weighted_points[1], [point.moments.mean["f"] for point in points]
    np.testing.assert_allclose(ranker.predict()[0], weights @ whole, atol=1e-10)
    for part, mean in zip(parts, whole, strict=False):
        np.testing.assert_allclose(part.predict()[0], mean, rtol=1e-3, atol=0.01)
    # Draws of a mixture's parts: their share of wins, against the mixture of probabilities.
    draws = result.get_samples()
    noise = np.asarray(draws.get("noise", 1.0)) * np.sqrt(2.0)
    share = norm.cdf((draws["f"][:, 0] - draws["f"][:, 4]) / noise)
    probability = ranker.predict_proba([("ash", "yew")])[0]
    assert abs(share.mean() - probability) < 4.5 * share.std() / np.sqrt(len(share)) + 0.003


def test_questions_by_name(alone):
    [pair] = alone.suggest(again=False)
    assert set(pair) <= set(NAMES)
    assert set(pair) not in [set(row) for row in WINS]
    candidates = [("ash", "yew"), ("elm", "ash")]
    new = alone.suggest(3, candidates=candidates, again=False)
    assert [set(pair) for pair in new] == [{"ash", "yew"}]


def test_items_of_the_same_evidence_come_out_alike():
    """A, C and E win twice each against B, D and F: chance in the draws does not order them."""
    games = [("A", "B"), ("C", "D"), ("E", "F"), ("A", "D"), ("C", "F"), ("E", "B")]
    for place in (None, [0] * 6):
        ranker = Ranker(hyperparameters="prior", num_samples=50).fit(games, position=place)
        ranked = ranker.rank()
        assert ranked.names == list("ACEBDF")
        means = ranker.predict()[0]
        np.testing.assert_allclose(ranker.samples().mean(axis=0), means, atol=1e-9)
        np.testing.assert_allclose(ranked.mean, np.repeat([means[0], means[1]], 3), atol=1e-4)


TABLE = pd.DataFrame(WINS, columns=["winner", "loser"])
BAD_FITS = {
    "none": ({}, [], {}, "has no rows"),
    "itself": ({}, [("a", "b"), ("c", "c")], {}, "item 'c' with itself in row 1"),
    "missing": ({}, [("a", "b"), ("a", None)], {}, "comparisons has no id in row 1"),
    "masked": ({}, np.ma.masked_equal(ROWS, ROWS[1, 0]), {}, "comparisons has no id in row"),
    "tie": ({}, TABLE.replace("oak", "Tie"), {}, "'Tie', which may be a tie; name both items"),
    "n.a.": ({}, TABLE.replace("oak", "n.a."), {}, "'n.a.', which stands for a missing name"),
    "texts": ({}, ["ab", "bc"], {}, "no pair in row 0"),
    "other names": ({}, pd.DataFrame(WINS, columns=["x", "y"]), {}, "'x', 'y' are not recognised"),
    "no outcome": ({}, pd.DataFrame(WINS, columns=["home", "away"]), {}, "none of the columns"),
    "others, weights": (
        {},
        pd.DataFrame(WINS, columns=["chosen", "rejected"]),
        {"sample_weight": [1] * 8},
        "name those of the items winner and loser",
    ),
    "weights in rows": ({}, [("a", "b", 2)], {}, "mixes texts and numbers, .* sample_weight"),
    "a choice or a name": ({}, [("a", ("b", "c"))], {}, "a choice or a pair; write a group of"),
    "order and text": ({}, [["a", "b", "c"], "abc"], {}, "orders have 'abc' in row 1; pass a list"),
    "ties of orders": ({}, [["a", "b", "c"]], {"ties": [0]}, "ties goes with comparisons of two"),
    "three columns": ({}, ROWS[:, [0, 1, 0]], {}, r"has shape \(8, 3\)"),
    "a column": ({}, TABLE.assign(weights=1.0), {"ties": [0] * 8}, "column 'weights' that is not"),
    "no winner": ({}, TABLE.assign(tie=0)[["loser", "tie", "tie"]], {}, "column is there twice"),
    "two ties": ({}, TABLE.assign(tie=0), {"ties": [False] * 8}, "'tie' and ties is given"),
    "two weights": ({}, TABLE.assign(weight=1), {"sample_weight": [1] * 8}, "sample_weight is giv"),
    "weights": ({}, WINS, {"sample_weight": [1.0]}, r"shape \(1,\) and dtype float64; pass \(8"),
    "negative": ({}, WINS, {"sample_weight": [-1] + [1] * 7}, "sample_weight is -1 in row 0"),
    "zero": ({}, WINS, {"sample_weight": [0] * 8}, "sample_weight is zero in all rows"),
    "unknown": (
        {"items": ["ash", "elm"]},
        WINS,
        {},
        "'oak' in row 3 is not known; add it to items",
    ),
    "no features": ({"item_features": FEATURES[:4]}, WINS, {}, "'yew' .* add it to item_features"),
    "twice": ({"items": ["ash", "ash"]}, WINS, {}, "items names 'ash' twice"),
    "too few names": ({"items": ["ash"], "item_features": X}, WINS, {}, "items names 1, but"),
    "one item": ({"items": ["ash"]}, WINS, {}, "there is one item, 'ash'"),
    "scale": ({"hyperparameters": {"noise": 1.0}}, WINS, {}, "names 'noise'; there are"),
}


@pytest.mark.parametrize(("options", "given", "named", "message"), BAD_FITS.values(), ids=BAD_FITS)
def test_what_fit_refuses(options, given, named, message):
    refused(message, Ranker(**{"hyperparameters": "prior"} | options).fit, given, **named)


def test_what_questions_are_refused(alone, featured):
    refused("unknown is 'prior'; choose", alone.predict_proba, WINS, unknown="prior")
    with pytest.raises(ValueError, match="item 'gum' in row 0 is not known; fit the ranker with"):
        featured.predict_proba([("gum", "ash")], unknown="population")
    refused("item 'gum' in row 0 is not known", alone.predict, ["gum"])
    refused("outcome is 'draw'", alone.predict_proba, WINS, outcome="draw")
    with pytest.raises(ValueError, match="item 'gum' in row 0 is not known; choose among names_"):
        alone.suggest(candidates=[("gum", "ash")])


@pytest.mark.slow
def test_a_constant_feature_is_scaled_by_one_and_said():
    constant = FEATURES.assign(width=2.0)
    with pytest.warns(UserWarning, match="same value for every item in column 1, which is scaled"):
        ranker = Ranker(item_features=constant, hyperparameters="prior").fit(WINS)
    assert ranker.feature_scale_[1] == 1.0
    alone = Ranker(item_features=FEATURES[["height"]], hyperparameters={"lengthscale": 1.4})
    assert np.isfinite(alone.fit(WINS).score(WINS))
