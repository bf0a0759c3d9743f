"""Rankers of more items than a joint covariance is kept of, against those of fewer."""

import pickle
import re
from collections import OrderedDict
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from cli_run import run
from scipy.stats import norm

from bayesrank import PreferenceGP, Ranker
from bayesrank._states import read_state, write_state
from bayesrank.infer import EP, EPResult
from bayesrank.models import preference_gp, thurstone
from bayesrank.solvers.comparisons.skills import with_new_items

ITEMS, KEY = 60, jax.random.key(0)


def wins():
    rng = np.random.default_rng(0)
    skill = rng.normal(size=ITEMS)
    first, second = rng.integers(ITEMS - 1, size=(2, 500))
    apart = first != second
    pairs = np.stack([first, second], axis=1)[apart]
    won = np.diff(skill[pairs], axis=1)[:, 0] < np.sqrt(2.0) * rng.normal(size=len(pairs))
    pairs[~won] = pairs[~won, ::-1]
    return [(f"i{a:02}", f"i{b:02}") for a, b in pairs]


@contextmanager
def few_kept():
    """Let more than 30 items count as too many for a covariance matrix."""
    with pytest.MonkeyPatch.context() as patch:
        for place in ("infer.reader.structure", "solvers.comparisons.skills"):
            patch.setattr(f"bayesrank.{place}.MOST_DENSE", 30)
        # Code that is kept knows the usual limit.
        patch.setattr("bayesrank.infer.compiled._ENTRIES", OrderedDict())
        yield


@pytest.fixture(scope="module")
def rankers():
    options = {"items": [f"i{k:02}" for k in range(ITEMS)], "num_samples": 500}
    dense = Ranker(hyperparameters="map", **options).fit(wins())
    with few_kept():
        return dense, Ranker(**options).fit(wins())


def test_a_fit_of_many_minutes_says_what_it_costs_and_what_to_do(monkeypatch):
    class Begun(Exception):
        pass

    def fit(*args, **options):
        raise Begun

    monkeypatch.setattr("bayesrank.estimators.skills.fit_arena", fit)
    names = np.arange(200).astype(str)
    pairs, category = np.stack([names, np.roll(names, 1)], axis=1), np.arange(200) % 80
    said = (
        r"200 items, each overall and in 80 categories, take about 34 minutes .* leave the column"
    )
    with pytest.warns(UserWarning, match=said), pytest.raises(Begun):
        Ranker().fit(pairs, category=category)
    with pytest.raises(Begun):
        Ranker().fit(pairs, category=category % 20)


def test_answers_as_with_covariances(rankers):
    dense, large = rankers
    assert dense.result_.structure == "dense" and large.result_.structure != "dense"
    assert abs(large.params_["scale"] / dense.params_["scale"] - 1) < 0.02
    (mean, sd), (true_mean, true) = large.predict(), dense.predict()
    assert np.max(np.abs(mean - true_mean) / true) < 0.1
    assert np.max(np.abs(sd / true - 1)) < 0.3 and abs(np.mean(sd / true) - 1) < 0.03
    pairs = [("i00", "i01"), ("i05", "i30"), ("i59", "i02"), ("i03", "i03")]
    np.testing.assert_allclose(large.predict_proba(pairs), dense.predict_proba(pairs), atol=0.01)
    unknown = [("i00", "nobody"), ("nobody", "somebody")]
    told = (r.predict_proba(unknown, unknown="population") for r in (large, dense))
    np.testing.assert_allclose(*told, atol=0.01)
    assert abs(large.score(wins()) - dense.score(wins())) < 0.01
    ranked, true_ranked = large.rank(), dense.rank()
    place, true_place = (
        dict(zip(r.names, r.expected_rank, strict=True)) for r in (ranked, true_ranked)
    )
    assert max(abs(place[name] - true_place[name]) for name in place) < 3


@pytest.mark.slow
def test_asks_a_question_as_good(rankers):
    dense, large = rankers
    [(first, second)] = large.suggest(again=False)
    assert {first, second} <= set(large.names_) and first != second
    numbers = [large.names_.index(first), large.names_.index(second)]
    [(best_first, best_second)] = dense.suggest(again=False)
    best = [dense.names_.index(best_first), dense.names_.index(best_second)]
    (_, [told]), (_, [most]) = (dense.result_.difference([a], [b]) for a, b in (numbers, best))
    assert told > 0.85 * most
    asked = large.suggest(3, again=False)
    assert asked[0] == (first, second) and len({frozenset(pair) for pair in asked}) == 3


def same_result(result, other):
    """Whether two large results answer alike, what is solved anew included."""
    assert type(other) is type(result) and other.shapes == result.shapes
    np.testing.assert_array_equal(other.mean["f"], result.mean["f"])
    np.testing.assert_allclose(other.sd["f"], result.sd["f"], rtol=1e-6)
    some = np.arange(20), np.arange(20)[::-1]
    for exact in (True, False):
        told, known = (x.difference(*some, exact=exact)[1] for x in (other, result))
        np.testing.assert_allclose(told, known, rtol=1e-5)
    told, known = (x.get_samples()["f"] for x in (other, result))
    np.testing.assert_allclose(told, known, atol=1e-3)
    assert str(other.approximation) == str(result.approximation)


@pytest.mark.parametrize("structure", ["factorised", "probes", "low_rank"])
def test_a_large_result_survives_pickle_and_a_file(structure, tmp_path):
    program: Any = thurstone
    items: Any = ITEMS
    options: dict[str, Any] = {}
    if structure == "low_rank":
        program, items, options["rank"] = preference_gp, with_features()[0], 6
    params = {"scale": 1.0, "amplitude": 1.0, "lengthscale": 0.6, "noise": 0.8}
    names = ("scale",) if program is thurstone else ("amplitude", "lengthscale", "noise")
    result: Any = EP(program, structure=structure).run(
        KEY, items, _pairs(), num_samples=20, params={k: params[k] for k in names}, **options
    )
    same_result(result, pickle.loads(pickle.dumps(result)))
    write_state(tmp_path / "x", result, "EPResult")
    same_result(result, read_state(tmp_path / "x", "EP", (EPResult,)))


def _pairs():
    numbers = {f"i{k:02}": k for k in range(ITEMS)}
    return np.array([[numbers[a], numbers[b]] for a, b in wins()])


def test_a_saved_ranker_answers_as_before(rankers, tmp_path):
    _, large = rankers
    large.save(tmp_path / "x")
    again = Ranker.load(tmp_path / "x")
    same_result(large.result_, again.result_)
    pairs = [("i00", "i01"), ("i59", "i02")]
    np.testing.assert_allclose(again.predict_proba(pairs), large.predict_proba(pairs), rtol=1e-9)
    assert again.suggest(2) == large.suggest(2) and again.random_state == 0
    assert again.rank().names == large.rank().names


@pytest.mark.slow
def test_predict_at_the_terminal_knows_new_items_by_their_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, pairs = with_features()
    new = np.random.default_rng(2).normal(size=(3, 2))
    for name, rows in (("items", X), ("new", new)):
        text = (f"{name}{k},{a},{b}\n" for k, (a, b) in enumerate(rows))
        (tmp_path / f"{name}.csv").write_text("item,a,b\n" + "".join(text))
    text = (f"items{i},items{j}\n" for i, j in pairs)
    (tmp_path / "c.csv").write_text("winner,loser\n" + "".join(text))
    (tmp_path / "p.csv").write_text("a,b\nnew0,items3\nnew1,new2\nitems5,items8\n")
    options: Any = {"items": range(ITEMS), "item_features": X, "ard": True, "num_samples": 2}
    dense = Ranker(hyperparameters="prior", **options).fit(pairs)
    scaled = (np.asarray(new) - dense.feature_mean_) / dense.feature_scale_
    [part] = with_new_items(dense.posterior_, scaled)  # pyright: ignore[reportArgumentType]
    mean, covariance = part.mean, np.asarray(part.covariance)
    asked = np.array([(ITEMS, 3), (ITEMS + 1, ITEMS + 2), (5, 8)])
    contrast = np.eye(ITEMS + 3)[asked[:, 0]] - np.eye(ITEMS + 3)[asked[:, 1]]
    spread = np.sqrt(2.0 + np.diag(contrast @ covariance @ contrast.T))
    known = norm.cdf(contrast @ mean / spread)
    fit = "rank c.csv --items items.csv --out large --hyperparameters prior"
    ask = "predict large p.csv --items new.csv --out chances.csv --skills skills.csv"
    with few_kept():
        assert run(*fit.split()) == 0
        told = capsys.readouterr().out
        assert run(*ask.split()) == 0
    said = "NUTS takes too long for so many items. Standard deviations of differ"
    assert said in " ".join(told.split())
    told = np.loadtxt("chances.csv", delimiter=",", skiprows=1, usecols=2)
    np.testing.assert_allclose(told, known, atol=0.01)
    told, sd = np.loadtxt("skills.csv", delimiter=",", skiprows=1, usecols=(1, 2)).T
    np.testing.assert_allclose(told, mean[ITEMS:] - mean[:ITEMS].mean(), atol=0.02)
    contrast = np.eye(3, ITEMS + 3, ITEMS) - np.repeat([1 / ITEMS, 0], [ITEMS, 3])
    true = np.sqrt(np.diag(contrast @ covariance @ contrast.T))
    np.testing.assert_allclose(sd, true, rtol=0.05)


def with_features():
    """Features of items, and comparisons (winner, loser) by row numbers."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ITEMS, 2))
    pairs = rng.integers(ITEMS, size=(600, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    skill = 1.5 * np.sin(X).sum(axis=1)
    won = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 1.4 * rng.normal(size=len(pairs)) > 0
    return X, np.where(won[:, None], pairs, pairs[:, ::-1])


@pytest.fixture(scope="module")
def smooth():
    X, pairs = with_features()
    dense = PreferenceGP(hyperparameters="map", num_samples=500).fit(X, pairs)
    with few_kept():
        return dense, PreferenceGP(num_samples=500).fit(X, pairs)


def test_features_answer_as_with_covariances(smooth):
    dense, large = smooth
    assert large.result_.structure != "dense" and large.result_.converged
    assert large.result_.posterior.structure == "low_rank"
    for name in ("amplitude", "lengthscale", "noise"):
        assert abs(large.params_[name] / dense.params_[name] - 1) < 0.02
    (mean, sd), (true_mean, true) = large.predict(), dense.predict()
    assert np.max(np.abs(mean - true_mean) / true) < 0.1
    assert np.max(np.abs(sd / true - 1)) < 0.05
    pairs = np.array([[0, 1], [5, 30], [59, 2]])
    np.testing.assert_allclose(large.predict_proba(pairs), dense.predict_proba(pairs), atol=0.01)
    ranked, true_ranked = large.rank(), dense.rank()
    assert np.max(np.abs(np.subtract(ranked.expected_rank, true_ranked.expected_rank))) < 3


@pytest.mark.slow
def test_features_of_new_items_too(smooth):
    dense, large = smooth
    new = np.random.default_rng(2).normal(size=(40, 2))
    (mean, sd), (true_mean, true) = large.predict(new), dense.predict(new)
    assert np.max(np.abs(mean - true_mean) / true) < 0.1
    assert np.max(np.abs(sd / true - 1)) < 0.05
    pairs = np.random.default_rng(3).integers(40, size=(30, 2))
    told, known = (ranker.predict_proba(pairs, new) for ranker in (large, dense))
    np.testing.assert_allclose(told, known, atol=0.01)
    X, compared = with_features()
    assert abs(large.score(X, compared) - dense.score(X, compared)) < 0.002
    assert "The prior has rank" in str(large.result_.approximation)
    assert large.suggest(again=False).shape == (1, 2)


PAGE = Path(__file__).resolve().parents[1] / "docs" / "production.md"


@pytest.mark.slow
def test_each_league_is_as_it_is_by_itself():
    text = PAGE.read_text(encoding="utf-8")
    _, block = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, PAGE.name, "exec"), scope)
    for number in range(2):
        played = scope["played"][number]
        games = scope["games"][number][played]
        alone = scope["engine"].run(jax.random.key(0), games, np.ones(len(games), bool))
        np.testing.assert_allclose(scope["mean"][number], alone.mean["skill"], atol=1e-5)
        np.testing.assert_allclose(scope["sd"][number], alone.sd["skill"], atol=1e-5)
