"""Every estimator publishes its fits whole, and answers from a file or a pickle as before."""

import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tinygp import kernels

from bayesrank import estimators, online, retrieval
from bayesrank._fitted import Fitted
from bayesrank.datasets import read_scores
from bayesrank.estimators import (
    CollaborativeGP,
    CollaborativeOrdinalGP,
    ConeRank,
    LabelRanker,
    LambdaRank,
    LinkLearn,
    OrdinalGP,
    PreferenceGP,
    Ranker,
    RankRLS,
)
from bayesrank.online import (
    OAPBPM,
    CalibratedPerceptron,
    OAPBagging,
    OAPVoted,
    OnlineBayesPoint,
    PRank,
    VotedPRank,
    WidrowHoff,
)
from bayesrank.retrieval import BM25

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.clip(np.round(X[:, 0] + 2), 1, 3).astype(int)
QUERY = np.repeat(np.arange(8), 5)
PAIRS = [
    (f"i{a}", f"i{b}") for a, b in (sorted(RNG.choice(6, 2, replace=False)) for _ in range(40))
]
TABLE = pd.DataFrame(RNG.normal(size=(6, 2)), index=[f"i{k}" for k in range(6)], columns=["a", "b"])
USERS, ITEMS = np.repeat([f"u{k}" for k in range(8)], 6), np.tile([f"m{k}" for k in range(6)], 8)
LEVELS = RNG.integers(1, 4, 48)
COUNTS = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1]])
WANTED = [["a", "b"] if x > 0 else ["b", "a"] for x in X[:10, 0]]
BOARD = {"system": ["x", "y", "z"], **{f"t{k}": [1, k % 2, int(k % 5 == 0)] for k in range(9)}}
PRIOR: Any = {"hyperparameters": "prior"}

Make = Callable[[], Any]
Answer = Callable[[Any], Any]


def _learned(learner: Any) -> Any:
    fresh: Any = clone(learner)
    return fresh.fit(X, Y)


def _search(engine: Any) -> Any:
    return engine.search(COUNTS[:2], k=2).scores


def _chances(ranker: Any) -> Any:
    return ranker.predict_proba([("i0", "i1"), ("i3", "i2")]), *ranker.predict()


QUICK: dict[str, tuple[Make, Answer]] = {
    "ConeRank": (lambda: ConeRank(num_atoms=2).fit(X, Y, QUERY), lambda it: it.predict(X)),
    "BM25": (lambda: BM25().index(COUNTS), _search),
    "RankRLS": (
        lambda: RankRLS(random_state=np.random.RandomState(3)).fit(X, Y, QUERY),
        lambda it: it.predict(X[:3], return_std=True),
    ),
    "Ranker by scores": (
        lambda: Ranker().fit(read_scores(BOARD)),
        lambda it: (it.samples(), *it.predict(["x", "z"])),
    ),
    "CalibratedPerceptron": (
        lambda: CalibratedPerceptron(3).fit(X, [[0]] * 40), lambda it: it.decision_function(X[:5]),
    ),
}  # fmt: skip
SLOW: dict[str, tuple[Make, Answer]] = {
    "Ranker": (lambda: Ranker().fit(PAIRS, judge=np.arange(len(PAIRS)) % 3), _chances),
    "Ranker by features": (lambda: Ranker(item_features=TABLE, **PRIOR).fit(PAIRS), _chances),
    "Ranker by orders": (lambda: Ranker(**PRIOR).fit([[a, b, "x"] for a, b in PAIRS]), _chances),
    "PreferenceGP": (
        lambda: PreferenceGP(**PRIOR).fit(X[:8], [(0, 1), (2, 1)]),
        lambda it: it.predict(X[8:10]),
    ),
    "OrdinalGP": (lambda: OrdinalGP(**PRIOR).fit(X, Y), lambda it: it.predict_proba(X[:3])),
    "LabelRanker": (
        lambda: LabelRanker(**PRIOR).fit(X[:10], WANTED), lambda it: it.decision_function(X[:3]),
    ),
    "RankRLS": (
        lambda: RankRLS(kernel="rbf").fit(X, Y, QUERY),
        lambda it: it.predict(X[:3], return_std=True),
    ),
    "LambdaRank": (
        lambda: LambdaRank(num_steps=5).fit(X, Y, QUERY), lambda it: it.predict(X[:3]),
    ),
    "LambdaRank by trees": (
        lambda: LambdaRank(
            model="trees", num_trees=3, tree_params={"min_data_in_leaf": 2, "min_data_in_bin": 1}
        ).fit(X, Y, QUERY),
        lambda it: it.predict(X[:3]),
    ),
    "CollaborativeOrdinalGP": (
        lambda: CollaborativeOrdinalGP(max_iterations=3).fit(USERS, ITEMS, LEVELS),
        lambda it: it.predict_proba(["u1", "u2"], ["m1", "m2"]),
    ),
    "CollaborativeGP": (
        lambda: CollaborativeGP(max_iterations=3).fit(
            USERS, ITEMS, LEVELS, item_features=dict(zip(ITEMS[:6], X[:6], strict=True))
        ),
        lambda it: it.predict(["u1", "u2"], ["m1", "m2"]),
    ),
    "LinkLearn": (
        lambda: LinkLearn(query_side="document", num_unlinked=2, num_epochs=1).fit(
            COUNTS, [(0, 1), (2, 3)]
        ),
        _search,
    ),
    **{
        type(it).__name__: (partial(_learned, it), lambda it: it.decision_function(X))
        for it in (
            PRank(3), OnlineBayesPoint(3), VotedPRank(3), WidrowHoff(3), OAPBPM(3, 4),
            OAPBagging(3, 4), OAPVoted(3, 4),
        )
    },
    "PRank by a kernel": (
        lambda: PRank(3, kernel=kernels.ExpSquared(), budget=9).fit(X, Y), lambda it: it.predict(X),
    ),
}  # fmt: skip
each_estimator = pytest.mark.parametrize(
    ("make", "answer"),
    [
        *(pytest.param(*each, id=name) for name, each in QUICK.items()),
        *(pytest.param(*each, id=name, marks=pytest.mark.slow) for name, each in SLOW.items()),
    ],
)
pytestmark = pytest.mark.filterwarnings("ignore:EM has not converged")


def _flat(answer: Any) -> list[Any]:
    return [np.asarray(each) for each in (answer if isinstance(answer, tuple) else (answer,))]


def _assert_same(found: Any, told: Any) -> None:
    for one, other in zip(_flat(found), _flat(told), strict=True):
        np.testing.assert_array_equal(one, other)


def _public_classes() -> set[type]:
    packages = estimators, online, retrieval
    found = {getattr(package, name) for package in packages for name in package.__all__}
    return {each for each in found if isinstance(each, type) and hasattr(each, "get_params")}


def test_every_estimator_is_tried_here():
    tried = {name.partition(" ")[0] for name in QUICK | SLOW}
    assert tried == {each.__name__ for each in _public_classes()} - {"SearchEngine"}
    assert all(issubclass(each, Fitted) for each in _public_classes())


@each_estimator
def test_an_estimator_answers_from_a_file_and_a_pickle_as_before(make, answer, tmp_path):
    fitted = make()
    told, path = answer(fitted), tmp_path / "state.npz"
    fitted.save(path)
    for again in (type(fitted).load(path), pickle.loads(pickle.dumps(fitted))):
        _assert_same(answer(again), told)
        again.save(path)
    again = type(fitted).load(path)
    _assert_same(answer(again), told)
    for name, value in fitted.get_params(deep=False).items():
        kept = again.get_params(deep=False)[name]
        generator = isinstance(value, np.random.RandomState)
        assert str(kept).replace("(numpy)", "") == str(value) or generator


@each_estimator
def test_an_answer_changes_nothing_of_what_was_published(make, answer):
    fitted = make()
    answer(fitted)
    before, published = dict(vars(fitted)), dict(vars(fitted._published))
    answer(fitted)
    assert vars(fitted) == before or list(vars(fitted)) == list(before)
    now = vars(fitted._published)
    assert list(now) == list(published)
    assert all(now[name] is published[name] for name in now if name != "_last_unit")


def test_a_fit_that_fails_publishes_nothing_and_options_count_from_the_next_fit():
    model = RankRLS().fit(X, Y, QUERY)
    told = model.predict(X)
    model.set_params(regularization=-1.0)
    np.testing.assert_array_equal(model.predict(X), told)
    with pytest.raises(ValueError, match="regularization"):
        model.fit(X, -Y, QUERY)
    np.testing.assert_array_equal(model.predict(X), told)
    assert model.regularization == -1.0


def _whole(model: Any, learn: Callable[[int], Any], ask: Callable[[], Any], reads: int) -> None:
    """Refit in one thread while four ask; each answer is that of one fit."""
    told = []
    for number in range(2):
        learn(number)
        told.append(ask())
    assert not np.array_equal(*told)
    wrong, done = [], threading.Event()

    def read() -> None:
        for _ in range(reads // 4):
            found = ask()
            if not any(np.array_equal(found, each) for each in told):
                wrong.append(found)

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            learn(number % 2)

    threads = [threading.Thread(target=read) for _ in range(4)]
    writer = threading.Thread(target=write)
    for thread in (writer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    writer.join()
    assert not wrong, f"{len(wrong)} of {reads} answers are of no fit"


def _mixed(reads: int) -> None:
    """A standardised score: scales of one fit and weights of another make a third answer."""
    model = RankRLS(kernel="linear")
    sides = (X, Y), (np.hstack([5.0 * X[:, ::-1], X[:, :1]])[:, :3], Y[::-1])
    _whole(model, lambda k: model.fit(*sides[k], QUERY), lambda: model.predict(X[:5]), reads)
    engine, other = BM25(), np.vstack([COUNTS, 3 * COUNTS[::-1], COUNTS[:, ::-1]])

    def index(number: int) -> None:
        engine.index((COUNTS, other)[number])

    _whole(engine, index, lambda: engine.search(COUNTS[:2], k=2).scores, reads)


def test_answers_while_another_thread_fits_are_those_of_one_fit():
    _mixed(400)


@pytest.mark.slow
def test_20_000_answers_while_another_thread_fits_are_those_of_one_fit():
    _mixed(10_000)
    ranker = Ranker(hyperparameters={"scale": 1.0})
    order = [f"i{k}" for k in range(6)]
    logs = PAIRS, [(b, a) for a, b in PAIRS]

    def learn(number: int) -> None:
        ranker.set_params(items=order[:: 1 - 2 * number]).fit(logs[number])

    def ask() -> Any:
        mean = dict(zip(order, ranker.predict(order)[0], strict=True))
        return np.array([*mean.values(), ranker.predict_proba([("i0", "i5")])[0] * 0])

    _whole(ranker, learn, ask, 20_000)
