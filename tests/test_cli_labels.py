"""`python -m bayesrank labels`: what it reads, what it writes, what it refuses."""

import numpy as np
import pandas as pd
import pytest
from cli_run import run
from numpy.testing import assert_allclose

from bayesrank import LabelRanker


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    warmth, rain = rng.normal(18, 6, 20), rng.uniform(size=20)
    sea, hills = warmth - 18 + rng.normal(size=20), 10 * (rain - 0.5) + rng.normal(size=20)
    table = pd.DataFrame({"warmth": warmth, "rain": rain})
    first = np.where(sea > hills, 1.0, 2.0)
    table["rank:sea"], table["rank:hills"] = first, 3 - first
    table["relevant:sea"], table["relevant:hills"] = (sea > 0).astype(float), np.nan
    table.loc[3, ["rank:sea", "rank:hills"]] = np.nan
    table.to_csv(tmp_path / "train.csv", index=False)
    new = table.head(3).filter(["rain", "warmth", "rank:sea"])
    new.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_forecasts_are_those_of_the_estimator(folder, capsys):
    out = folder / "out"
    files = (folder / "train.csv", "--predict", folder / "new.csv", "--out", out)
    assert run("labels", *files, "--quiet") == 0
    said = "Learned 2 labels from 20 examples (linear kernel), and predicted 3."
    assert said in capsys.readouterr().out
    train, new = pd.read_csv(folder / "train.csv"), pd.read_csv(folder / "new.csv")
    names = ["sea", "hills"]
    orders = [
        None if np.isnan(row["rank:sea"]) else sorted(names, key=lambda n: row[f"rank:{n}"])
        for _, row in train.iterrows()
    ]
    relevant = [(["sea"], []) if flag else ([], ["sea"]) for flag in train["relevant:sea"]]
    model = LabelRanker(labels=names).fit(train[["warmth", "rain"]], orders, relevant)
    X = new[["warmth", "rain"]]
    found = pd.read_csv(out / "forecasts.csv")
    assert found["label"].tolist() == names * 3 and found["example"].tolist() == [1, 1, 2, 2, 3, 3]
    assert_allclose(found["relevant"].to_numpy().reshape(3, 2), model.predict_proba(X), atol=1e-6)
    assert_allclose(found["utility"].to_numpy().reshape(3, 2), model.decision_function(X))
    best = found[found["rank"] == 1]["label"].tolist()
    assert best == model.predict(X)[:, 0].tolist()
    ranks = pd.read_csv(out / "ranks.csv")
    assert_allclose(ranks[["rank 1", "rank 2"]].sum(axis=1), 1.0)
    assert_allclose(ranks["rank 1"], found["best"])
    read = LabelRanker.load(out / "model.npz")
    assert_allclose(read.predict_proba(X.to_numpy()), model.predict_proba(X))
