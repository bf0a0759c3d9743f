"""Rankers of more items than a joint covariance is kept of, against those of fewer."""

import jax
import numpy as np
import pytest

from bayesrank import PairwiseRanker, PreferenceGP
from bayesrank.cli import main
from bayesrank.infer import EP, EPResult, LargeEPResult
from bayesrank.models import preference_gp, preference_inducing

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


@pytest.fixture(scope="module")
def rankers():
    options = {"items": [f"i{k:02}" for k in range(ITEMS)], "num_samples": 500}
    dense = PairwiseRanker(hyperparameters="maximum", **options).fit(wins())
    with pytest.MonkeyPatch.context() as patch:
        for place in ("infer.reader.program", "estimators.skills"):
            patch.setattr(f"bayesrank.{place}.MOST_DENSE", 30)
        patch.setattr("bayesrank.estimators.skills.engine_of", engine_of_many)
        return dense, PairwiseRanker(**options).fit(wins())


def engine_of_many(program):
    """An engine of its own: compiled code of the one that all share knows the usual limit."""
    return EP(program)


def test_answers_as_with_covariances(rankers):
    dense, large = rankers
    assert type(dense.result_) is EPResult and isinstance(large.result_, LargeEPResult)
    assert abs(large.params_["scale"] / dense.params_["scale"] - 1) < 0.02
    (mean, stddev), (true_mean, true) = large.predict(), dense.predict()
    assert np.max(np.abs(mean - true_mean) / true) < 0.1
    assert np.max(np.abs(stddev / true - 1)) < 0.3 and abs(np.mean(stddev / true) - 1) < 0.03
    pairs = [("i00", "i01"), ("i05", "i30"), ("i59", "i02"), ("i03", "i03")]
    np.testing.assert_allclose(large.predict_proba(pairs), dense.predict_proba(pairs), atol=0.01)
    unknown = [("i00", "nobody"), ("nobody", "somebody")]
    told = (r.predict_proba(unknown, unknown="population") for r in (large, dense))
    np.testing.assert_allclose(*told, atol=0.01)
    assert abs(large.score(wins()) - dense.score(wins())) < 0.01
    ranked, true_ranked = large.rank(), dense.rank()
    place, true_place = (
        dict(zip(r.name, r.expected_rank, strict=True)) for r in (ranked, true_ranked)
    )
    assert max(abs(place[name] - true_place[name]) for name in place) < 3


def test_asks_a_question_as_good(rankers):
    dense, large = rankers
    [(first, second)] = large.query()
    assert {first, second} <= set(large.names_) and first != second
    numbers = [large.names_.index(first), large.names_.index(second)]
    [(best_first, best_second)] = dense.query()
    best = [dense.names_.index(best_first), dense.names_.index(best_second)]
    (_, [told]), (_, [most]) = (dense.result_.difference([a], [b]) for a, b in (numbers, best))
    assert told > 0.85 * most
    with pytest.raises(ValueError, match="pass n=1"):
        large.query(2)


def test_what_needs_covariances_says_so(rankers, tmp_path):
    with pytest.raises(ValueError, match="a ranking of 60 items.* cannot be written"):
        rankers[1].save(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_rank_at_the_terminal_says_how_good_it_is(tmp_path, monkeypatch, capsys):
    for place in ("infer.reader.program", "estimators.skills"):
        monkeypatch.setattr(f"bayesrank.{place}.MOST_DENSE", 30)
    monkeypatch.setattr("bayesrank.estimators.skills.engine_of", engine_of_many)
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{a},{b}\n" for a, b in wins())
    (tmp_path / "c.csv").write_text("winner,loser\n" + rows)
    with pytest.raises(SystemExit, match="0"):
        main(["rank", "c.csv"])
    told = capsys.readouterr().out
    assert "Of so many items, simulation takes very long. Standard deviations of differ" in told


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
    dense = PreferenceGP(hyperparameters="maximum", num_samples=500).fit(X, pairs)
    with pytest.MonkeyPatch.context() as patch:
        for place in ("infer.reader.program", "estimators.skills"):
            patch.setattr(f"bayesrank.{place}.MOST_DENSE", 30)
        patch.setattr("bayesrank.estimators.skills.engine_of", engine_of_many)
        return dense, PreferenceGP(num_samples=500).fit(X, pairs)


def test_features_answer_as_with_covariances(smooth):
    dense, large = smooth
    assert isinstance(large.result_, LargeEPResult) and large.result_.converged
    assert large.result_.posterior.structure == "low_rank"
    for name in ("amplitude", "lengthscale", "noise"):
        assert abs(large.params_[name] / dense.params_[name] - 1) < 0.02
    (mean, stddev), (true_mean, true) = large.predict(), dense.predict()
    assert np.max(np.abs(mean - true_mean) / true) < 0.1
    assert np.max(np.abs(stddev / true - 1)) < 0.05
    pairs = np.array([[0, 1], [5, 30], [59, 2]])
    np.testing.assert_allclose(large.predict_proba(pairs), dense.predict_proba(pairs), atol=0.01)
    ranked, true_ranked = large.rank(), dense.rank()
    assert np.max(np.abs(np.subtract(ranked.expected_rank, true_ranked.expected_rank))) < 3


def test_features_of_new_items_too(smooth):
    dense, large = smooth
    new = np.random.default_rng(2).normal(size=(40, 2))
    (mean, stddev), (true_mean, true) = large.predict(new), dense.predict(new)
    assert np.max(np.abs(mean - true_mean) / true) < 0.1
    assert np.max(np.abs(stddev / true - 1)) < 0.05
    pairs = np.random.default_rng(3).integers(40, size=(30, 2))
    told, known = (ranker.predict_proba(pairs, new) for ranker in (large, dense))
    np.testing.assert_allclose(told, known, atol=0.01)
    X, compared = with_features()
    assert abs(large.score(X, compared) - dense.score(X, compared)) < 0.002
    assert "The prior has rank" in str(large.result_.approximation)
    assert large.query().shape == (1, 2)


def test_the_program_of_inducing_points_has_the_evidence_where_items_play_once():
    X, _ = with_features()
    pairs = np.random.default_rng(4).permutation(ITEMS).reshape(-1, 2)
    params = {"amplitude": 1.3, "lengthscale": 0.6, "noise": 0.9}
    whole = EP(preference_gp).run(KEY, X, pairs, rank=6, params=params)
    few = EP(preference_inducing).run(KEY, X, pairs, 6, params=params)
    assert few.shapes == {"w": (6,)} and whole.shapes == {"f": (ITEMS,)}
    np.testing.assert_allclose(few.log_evidence, whole.log_evidence, atol=1e-4)
