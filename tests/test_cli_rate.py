"""`python -m bayesrank rate`: the files it writes, and what it refuses."""

import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_run import run

from bayesrank.cli import rate as _rate
from bayesrank.datasets import RatingData


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rate")
    rng = np.random.default_rng(0)
    lines = ["user,item,rating,when"]
    for user in range(12):
        for item in rng.permutation(4)[:3]:
            level = np.clip(item + (user % 2) * 2 - 1 + rng.integers(-1, 2), 0, 2) + 1
            lines.append(f"u{user},item {item},{level},1999")
    lines.append("loner,item 0,1,2000")
    (folder / "ratings.csv").write_text("\n".join(lines))
    items = ["item,size"] + [f"item {k},{k}" for k in range(5)]
    (folder / "items.csv").write_text("\n".join(items))
    args = [
        "rate",
        folder / "ratings.csv",
        "--items",
        folder / "items.csv",
        "--out",
        folder / "out",
    ]
    with (
        redirect_stdout(StringIO()) as said,
        redirect_stderr(StringIO()) as warned,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        code = run(*[*args, "--quiet", "--top", 1, "--iterations", 3])
    return folder, code, said.getvalue(), warned.getvalue()


def test_files_hold_a_prediction_for_every_pair_not_rated(results):
    folder, code, *_ = results
    assert code == 0
    predictions = pd.read_csv(folder / "out" / "predictions.csv")
    assert len(predictions) == 13 * 5 - 37
    probability = predictions[["P(1)", "P(2)", "P(3)"]].to_numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-3)
    rankings = pd.read_csv(folder / "out" / "rankings.csv")
    assert list(rankings["rank"]) == [1] * 13
    items = pd.read_csv(folder / "out" / "items.csv")
    assert items.disagreement.is_monotonic_decreasing
    assert items.set_index("item").ratings["item 4"] == 0
    for picture in ("tastes.png", "similar.png"):
        assert (folder / "out" / picture).stat().st_size > 10_000


def test_what_is_to_be_known_is_said(results):
    *_, said, warned = results
    assert "13 users, 5 items, 37 ratings on levels 1 to 3." in said
    assert "1 user gave one rating only: much the same is predicted" in said
    assert "1 item nobody has rated: features say all there is." in said
    assert "Columns not used: when." in said
    assert warned.startswith("Warning: what users share has not settled after 3 iterations;")
    assert "give it more --iterations" in warned and warned.count("\n") == 1


def test_predictions_that_are_left_out_are_missed(monkeypatch):
    monkeypatch.setattr(_rate, "_MOST_PREDICTIONS", 5)
    data = RatingData(("a", "b"), ("x", "y", "z"), np.zeros((1, 2), int), np.ones(1, int))
    model: Any = SimpleNamespace(items_=data.items, levels_=[1, 2])
    notes = _rate._notes(data, model, np.zeros((2, 3), bool))
    assert "6 pairs are not rated, too many for predictions.csv" in " ".join(notes)


def test_columns_are_the_same_where_all_is_rated():
    engine = SimpleNamespace(predict_proba=lambda users, items: np.full((len(users), 2), 0.5))
    model: Any = SimpleNamespace(
        users_=["a"], items_=["x"], levels_=np.array([1, 2]), result=engine
    )
    for pairs in ([], [(0, 0)]):
        assert list(_rate._rows(model, pairs)) == ["user", "item", "level", "P(1)", "P(2)"]
