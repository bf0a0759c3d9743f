"""Files that version 0.1 saved load, and answer as they did when they were saved."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayesrank.estimators import ArenaRanker, LabelRanker, LinkLearn, OrderRanker, PairwiseRanker
from bayesrank.online import (
    OAPBPM,
    CalibratedPerceptron,
    OnlineBayesPoint,
    PRank,
    VotedPRank,
    WidrowHoff,
)
from bayesrank.solvers.collaborative import EM, EMState

STATES = Path(__file__).parent / "data" / "states"
PAIRS = [("tea", "milk"), ("cocoa", "water"), ("water", "tea")]
ROWS = np.array([[0.2, -0.4], [0.9, 0.5], [-0.7, 0.1], [0.3, 0.8]])


def _ranked(ranker: Any) -> dict[str, Any]:
    ranking = ranker.rank()
    return {
        "names": ranker.names_,
        "skills": ranker.predict(),
        "chances": ranker.predict_proba(PAIRS),
        "ranking": [list(ranking.names), ranking.mean],
        "params": ranker.params_,
    }


def pairs(path: Path) -> dict[str, Any]:
    ranker = PairwiseRanker.load(path)
    asked: dict[str, Any] = {"unknown": "population"} | ({"time": 4.0} if ranker.time else {})
    new = "tea" if ranker.item_features is not None else "new"
    chances = ranker.predict_proba([("milk", "tea"), ("tea", new)], **asked)
    found = _ranked(ranker) | {"asked": chances, "evidence": ranker.log_evidence_}
    return found | ({"query": ranker.suggest(again=False)} if not ranker.time else {})


def orders(path: Path) -> dict[str, Any]:
    ranker = OrderRanker.load(path)
    return _ranked(ranker) | {"evidence": ranker.log_evidence_}


def arena(path: Path) -> dict[str, Any]:
    ranker = ArenaRanker.load(path)
    asked: dict[str, Any] = {"position": 1, "category": "hot", "outcome": "tie"}
    asked |= {"judge": "Dan"} if ranker.judge_names_ else {}
    return _ranked(ranker) | {
        "tie": ranker.predict_proba(PAIRS, **asked),
        "judges": ranker.judges().to_numpy(float),
        "effects": [[each.mean, each.percent] for each in ranker.effects()],
        "notes": ranker.notes(),
    }


def labels(path: Path) -> dict[str, Any]:
    ranker = LabelRanker.load(path)
    X = pd.DataFrame(ROWS, columns=["warmth", "rain"])
    return {
        "order": ranker.predict(X),
        "relevant": ranker.predict_proba(X),
        "params": ranker.params_,
    }


def links(path: Path) -> dict[str, Any]:
    engine = LinkLearn.load(path)
    counts = np.array([[0, 1, 0, 2, 0, 1], [1, 0, 0, 0, 3, 0]])
    hits = engine.search(counts, k=2)
    return {"documents": hits.documents, "scores": hits.scores}


def online(learner: Any) -> Callable[[Path], dict[str, Any]]:
    def answers(path: Path) -> dict[str, Any]:
        model = learner.load(path)
        asked: dict[str, Any] = {"rounded": False}
        y: Any = [1, 3, 2, 3]
        if isinstance(model, CalibratedPerceptron):
            asked, y = {}, [[0], [1, 2], [], [2]]
        found = {"notes": model.notes_, "before": model.predict(ROWS, **asked)}
        model.partial_fit(ROWS, y)
        return found | {"after": model.predict(ROWS, **asked), "seen": model.n_seen_}

    return answers


def em(path: Path) -> dict[str, Any]:
    state = EMState.load(path)
    engine = EM("gaussian", max_iterations=1, accelerate=False)
    users, items = np.divmod(np.arange(12), 4)
    with pytest.warns(Warning, match="EM has not converged"):
        result = engine.run(users, items, np.sin(users + items**2), init_state=path,
                            progress_bar=False)  # fmt: skip
    kept = {name: getattr(state, name) for name in ("mean", "kernel", "scales", "tau", "theta")}
    return kept | {"model": str(state.model), "continued": result.functions([0, 2])}


FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    **dict.fromkeys(("pairs", "features", "graph", "times", "factorised", "low_rank"), pairs),
    "orders": orders,
    **dict.fromkeys(("arena_averaged", "arena_learned"), arena),
    **dict.fromkeys(("labels_linear", "labels_rbf"), labels),
    "links": links,
    "PRank": online(PRank(3)),
    "VotedPRank": online(VotedPRank(3, budget=20)),
    "WidrowHoff": online(WidrowHoff(3, 0.05)),
    "OAPBPM": online(OAPBPM(3, 5, 0.5, 3)),
    "OnlineBayesPoint": online(OnlineBayesPoint(3, noise=(0.1, 0.5))),
    "CalibratedPerceptron": online(CalibratedPerceptron(3)),
    "em": em,
}


def plain(value: Any) -> Any:
    """Answers as JSON has them."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "shape"):
        return plain(np.asarray(value).tolist())
    return value


def _assert_same(found: Any, told: Any, where: str) -> None:
    if isinstance(told, dict):
        assert found.keys() == told.keys(), where
        for name in told:
            _assert_same(found[name], told[name], f"{where}.{name}")
    elif isinstance(told, list):
        assert len(found) == len(told), where
        for number, (one, other) in enumerate(zip(found, told, strict=True)):
            _assert_same(one, other, f"{where}[{number}]")
    elif isinstance(told, float):
        np.testing.assert_allclose(found, told, rtol=1e-7, atol=1e-9, err_msg=where)
    else:
        assert found == told, where


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_version_0_1_answers_as_it_did(name: str) -> None:
    told = json.loads((STATES / "answers.json").read_text("utf-8"))[name]
    _assert_same(plain(FILES[name](STATES / f"{name}.npz")), told, name)
