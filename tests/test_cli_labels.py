"""`python -m bayesrank labels`: what it reads, what it writes, what it refuses."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from bayesrank import LabelRanker
from bayesrank.cli import main


def run(*args):
    with pytest.raises(SystemExit) as end:
        main([str(arg) for arg in args])
    return end.value.code


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
    assert "20 examples learned from, 3 forecast, 2 labels." in capsys.readouterr().out
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


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("x,rank:a", ["1,1"], "row 1: there are columns of 1 labels; name two or more"),
        ("rank:a,rank:b", ["1,2"], "row 1: there is no column of features"),
        ("x,rank:a,rank:b", ["one,1,2"], "row 2, column 'x': 'one' is not a finite number"),
        ("x,rank:a,rank:b", ["1,1,inf"], "row 2, column 'rank:b': 'inf' is not a finite number"),
        ("x,rank:a,rank:b", ["1,1,2", "1,0,1"], "row 3, column 'rank:a': 0 is no rank among 2"),
        ("x,rank:a,rank:b", ["1,80,95"], "row 2, column 'rank:a': 80 is no rank among 2 labels"),
        ("x,rank:a,rank:", ["1,1,2"], "row 1: a column names no label"),
        ("x,relevant:a,relevant:b", ["1,1,2"], "column 'relevant:b': 2 says nothing of relevance"),
        ("x,rank:a,rank:b", ["1,,"], "rankings and relevant are missing"),
        (
            "x,rank:a,rank:b,relevant:a,relevant:b",
            ["1,1,2,0,1"],
            "example 0 contradicts itself",
        ),
        ("y,rank:a,rank:b", ["1,1,2"], "new.csv, row 1: there is no column 'y'; add that feature"),
    ],
)
def test_refuses_in_one_line_and_writes_nothing(tmp_path, capsys, header, rows, message):
    (tmp_path / "train.csv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "new.csv").write_text("x\n1\n")
    files = (tmp_path / "train.csv", "--predict", tmp_path / "new.csv", "--out", tmp_path / "out")
    assert run("labels", *files, "--quiet") == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()
