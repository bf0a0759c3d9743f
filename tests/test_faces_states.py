"""Fitted rankers of every kind answer from a file, or a pickle, as they did before."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from worlds import DRINKS, ORDERS, RANKINGS, RELEVANT, TASTE, TIED, WEATHER, WINS

from bayesrank.datasets import load_modechoice
from bayesrank.estimators import LabelRanker, LinkLearn, PreferenceGP, Ranker

FRESH: dict[str, Any] = {
    "graph": lambda: Ranker(
        item_features=TASTE, laplacian=2, hyperparameters="prior"
    ).fit(WINS, ties=TIED, sample_weight=np.linspace(1, 2, 64)),
    "integrated": lambda: Ranker().fit(WINS),
    "integrated by features": lambda: Ranker(item_features=TASTE).fit(WINS),
    "orders by features": lambda: Ranker(
        item_features=TASTE, hyperparameters="prior"
    ).fit(ORDERS),
    "integrated orders": lambda: Ranker().fit(ORDERS),
    "correlated": lambda: LabelRanker(
        kernel="linear", correlated=True, hyperparameters="map", random_state=7
    ).fit(WEATHER, RANKINGS, RELEVANT),
}  # fmt: skip
SHARED = ("paired", "featured", "moving", "ordered", "logged", "labelled")
ALL = [*SHARED, *(pytest.param(name, marks=pytest.mark.slow) for name in ("averaged", *FRESH))]


@pytest.fixture
def unsaved():
    X = pd.DataFrame(np.eye(3), index=list("abc"))
    pairs: Any = [("a", "b"), ("b", "c")]
    return PreferenceGP(hyperparameters="prior").fit(X, pairs)


@pytest.fixture
def fitted(request):
    name = request.param
    return FRESH[name]() if name in FRESH else request.getfixturevalue(name)


def answers(ranker: Any) -> list[Any]:
    """All that a fitted ranker says, as plain values."""
    params = {name: np.asarray(value).tolist() for name, value in ranker.params_.items()}
    if isinstance(ranker, LabelRanker):
        said = ranker.predict(WEATHER), ranker.predict_proba(WEATHER), ranker.labels_
        return [params, ranker.log_evidence_, ranker.calibrated_, *(each.tolist() for each in said)]
    pairs = [("tea", "milk"), ("gin", "cola"), ("ale", "water")]
    ranking = ranker.rank()
    said = [params, ranker.names_, ranker.hyperparameters_, str(ranking), str(ranking.records)]
    said += [ranker.samples().tolist(), ranker.predict_proba(pairs).tolist()]
    if ranker.time_range_ is not None:
        later = {"time": "2025-01-01"}
        said += [ranker.time_range_, ranker.predict_proba(pairs, **later).tolist()]
    elif ranker.posterior_.effects().position_effect is not None:
        tie = {"position": 1, "outcome": "tie"}
        tie |= {"judge": "Dan", "category": "hot"} if ranker.judge_names_ else {}
        said += [ranker.predict_proba(pairs, **tie).tolist(), ranker.position_label_]
    said += [ranker.suggest(2), ranker.predict_proba(pairs, outcome="loss").tolist()]
    assert "f" in ranker.to_arviz()["posterior"]
    return [*said, ranker.judges().to_json(), ranker.notes(), ranker.effects()]


@pytest.mark.parametrize("fitted", ALL, indirect=True)
def test_a_ranker_answers_from_a_file_as_before(fitted, tmp_path):
    told = answers(fitted)
    assert answers(fitted) == told
    fitted.save(tmp_path / "ranker.npz")
    again = type(fitted).load(tmp_path / "ranker.npz")
    assert answers(again) == told
    assert again.random_state == fitted.random_state
    assert [path.name for path in tmp_path.iterdir()] == ["ranker.npz"]


SLOW = ("featured", "moving", "ordered", "logged", "labelled", "unsaved")


@pytest.mark.parametrize(
    "fitted", ["paired", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)], indirect=True
)
def test_draws_for_arviz_have_the_names_of_what_is_ranked(fitted):
    posterior = fitted.to_arviz()["posterior"]
    labels = isinstance(fitted, LabelRanker)
    axes = [posterior[axis].values.tolist() for axis in posterior.coords]
    assert list(map(str, fitted.labels_ if labels else fitted.names_)) in axes


@pytest.mark.parametrize("fitted", ["featured", "logged", "labelled"], indirect=True)
def test_a_ranker_answers_from_a_pickle_as_before(fitted):
    assert answers(pickle.loads(pickle.dumps(fitted))) == answers(fitted)


@pytest.mark.parametrize("fitted", ["paired", "featured"], indirect=True)
def test_a_ranker_from_a_file_is_fitted_again(fitted, tmp_path):
    fitted.save(tmp_path / "ranker.npz")
    again = Ranker.load(tmp_path / "ranker.npz").fit(WINS)
    np.testing.assert_allclose(again.predict(), fitted.predict(), atol=1e-9)
    assert again.names_ == list(DRINKS)


@pytest.mark.parametrize("fitted", ["paired", "logged", "labelled"], indirect=True)
@pytest.mark.parametrize(
    ("seed", "kept"), [(np.int64(7), 7), (None, None), (np.random.RandomState(0), None)]
)
def test_a_seed_is_kept_and_a_generator_is_not(fitted, seed, kept, tmp_path):
    other = pickle.loads(pickle.dumps(fitted)).set_params(random_state=seed)
    other.save(tmp_path / "ranker.npz")
    assert type(fitted).load(tmp_path / "ranker.npz").random_state == kept


def test_links_keep_their_seed(tmp_path):
    counts = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1]])
    links = np.array([(0, 1), (2, 3)])
    engine = LinkLearn(query_side="document", num_unlinked=2, num_epochs=1, random_state=5)
    engine.fit(counts, links).save(tmp_path / "links.npz")
    again = LinkLearn.load(tmp_path / "links.npz")
    assert again.get_params() == engine.get_params()
    assert str(again.search(counts[:2], k=2)) == str(engine.search(counts[:2], k=2))


def test_names_and_options_of_all_kinds_are_written_or_refused_by_name(tmp_path):
    path = tmp_path / "ranker.npz"
    for names in (
        [("a", 1), ("a", 2)],
        [0.5, np.float32(2.5)],
        [7, "7"],
        [np.int64(3), np.str_("x")],
        ["a" * 100_000, "b" * 100_000],
    ):
        ranker = Ranker(hyperparameters="prior").fit([(names[0], names[1])] * 2)
        ranker.save(path)
        again = Ranker.load(path)
        assert again.names_ == ranker.names_
        np.testing.assert_array_equal(again.predict(), ranker.predict())
    ranker: Any = Ranker(hyperparameters="prior").fit([("a", "b")])
    ranker.set_params(likelihood="logit").save(path)  # which counts from the next fit on
    assert Ranker.load(path).likelihood == "logit"
    np.testing.assert_array_equal(Ranker.load(path).predict(), ranker.predict())
    path.unlink()
    days = pd.date_range("2026-01-01", periods=2)
    ranker = Ranker(hyperparameters="prior").fit([(days[0], days[1])])
    with pytest.raises(ValueError, match=r"names_ holds a Timestamp, which a file cannot keep"):
        ranker.save(path)
    graph: Any = {"item_features": TASTE, "laplacian": lambda features: np.zeros((9, 9))}
    with pytest.raises(ValueError, match="laplacian holds a function, which a file cannot keep"):
        ranker.set_params(**graph).save(path)
    assert not list(tmp_path.iterdir())


def test_an_option_that_is_a_table_comes_back(tmp_path):
    table = pd.DataFrame({"sweet": [0.1, 0.5, 0.9], "dtype": [1, 2, 3]}, index=["a", "b", "c"])
    ranker = Ranker(item_features=table, hyperparameters="prior")
    ranker.fit([("a", "b"), ("c", "b")]).save(tmp_path / "ranker.npz")
    again = Ranker.load(tmp_path / "ranker.npz")
    pd.testing.assert_frame_equal(again.item_features, table)
    np.testing.assert_array_equal(again.fit([("a", "b"), ("c", "b")]).predict(), ranker.predict())


@pytest.mark.slow
def test_a_ranker_of_139_items_takes_less_than_eleven_megabytes(tmp_path):
    data = load_modechoice()
    ranker: Any = Ranker(ard=True, num_samples=2000).fit(data)
    path = tmp_path / "ranker.npz"
    ranker.save(path)
    assert path.stat().st_size < 10_700_000
    again: Any = Ranker.load(path)
    assert np.array_equal(again.samples(), ranker.samples())
    assert np.array_equal(again.result.drawn.log_proposals, ranker.result.drawn.log_proposals)
    kept, drawn = (each.result.hyperparameters for each in (again, ranker))
    assert all(np.array_equal(kept[name], drawn[name]) for name in drawn)
