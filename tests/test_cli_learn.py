"""`python -m bayesrank learn`: formats that it reads, files that it writes, what it refuses."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from cli_run import run
from list_data import graded_lists

from bayesrank import _memory
from bayesrank._states import read_arrays
from bayesrank.datasets import DataError, align, read_lists
from bayesrank.estimators import ConeRank, LambdaRank, RankRLS
from bayesrank.plots import plot_metrics


def _lines(X, y, query=None):
    names = [""] * len(y) if query is None else [f" qid:{q}" for q in query]
    features = [" ".join(f"{k + 1}:{v}" for k, v in enumerate(row) if v) for row in X]
    rows = zip(y, names, features, strict=True)
    return "".join(f"{grade:.0f}{name} {row} # doc\n" for grade, name, row in rows)


@pytest.fixture
def data():
    X, y, query = graded_lists(sizes=(5,) * 12)
    order = np.argsort(query, kind="stable")
    return X[order].round(3), y[order], query[order]


def _formats(folder, data):
    X, y, query = data
    (folder / "letor.svm").write_text(_lines(X, y, query))
    (folder / "rank.train").write_text(_lines(X, y))
    (folder / "rank.train.query").write_text("5\n" * 12)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(query=query, label=y.astype(int))
    table.assign(item=range(len(y))).to_csv(folder / "lists.csv", index=False)
    table.to_csv(folder / "excel.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    return [folder / name for name in ("letor.svm", "rank.train", "lists.csv", "excel.csv")]


@pytest.mark.filterwarnings("ignore:The columns of excel.csv are separated by semicolons")
def test_all_formats_hold_the_same(tmp_path, data):
    X, y, query = data
    for path in _formats(tmp_path, data):
        found = read_lists(path)
        np.testing.assert_allclose(found.X.toarray(), X)
        np.testing.assert_array_equal(found.y, y)
        _, codes = np.unique(found.query, return_inverse=True)
        assert [len(set(codes[query == name])) for name in set(query)] == [1] * 12


@pytest.mark.parametrize("method", ["rank-rls", "cone-rank", "lambda-rank"])
def test_learns_judges_and_writes(tmp_path, data, method, capsys):
    path = _formats(tmp_path, data)[0]
    out = tmp_path / "out"
    args = ["learn", path, "--test", path, "--method", method, "--out", out, "-k", 3]
    assert run(*args) == 0
    printed = capsys.readouterr().out
    assert "NDCG@3" in printed and "90% interval" in printed
    written = {"run.csv", "metrics.csv", "model.npz", "metrics.png", "queries.png"}
    assert {p.name for p in out.iterdir()} == written
    kind = {"rank-rls": RankRLS, "cone-rank": ConeRank, "lambda-rank": LambdaRank}[method]
    model = kind().fit(*data)
    scored = pd.read_csv(out / "run.csv")
    np.testing.assert_allclose(scored["score"], model.predict(data[0]), rtol=1e-6)
    with np.load(out / "model.npz") as kept:
        np.testing.assert_allclose(data[0] @ kept["coef"] + kept["intercept"], scored["score"])
    metrics = pd.read_csv(out / "metrics.csv").set_index("metric")
    error = 1 - model.score(*data)
    assert metrics.loc["Pairwise error", "mean"] == pytest.approx(error)


def test_holds_a_fifth_of_the_queries_out_without_a_test_file(tmp_path, data, capsys):
    path = _formats(tmp_path, data)[2]
    assert run("learn", path, "--out", tmp_path / "out", "--quiet") == 0
    printed = capsys.readouterr().out
    assert "2 judged queries" in printed and "Learned from 10 queries." in printed
    # Items keep the names that the file has.
    scored = pd.read_csv(tmp_path / "out" / "run.csv")
    assert scored.merge(pd.read_csv(path), on=["query", "item"]).shape[0] == len(scored) == 10
    kept = read_arrays(tmp_path / "out" / "model.npz", "learn")
    header = json.loads(kept["header"].tobytes())
    assert header["method"] == "rank-rls" and header["names"] == ["a", "b", "c"]
    assert kept["coef"].shape == (3,)


def test_two_files_have_the_same_features_in_the_same_columns(tmp_path):
    """Also where only one of them has a feature 0, or a table has its columns in another order."""
    train, test = tmp_path / "train", tmp_path / "test"
    train.write_text("1 qid:a 0:1 1:2\n0 qid:a 1:3\n")
    test.write_text("1 qid:a 1:5\n0 qid:a 3:7\n")
    judged, learned = align(test, read_lists(test), read_lists(train))
    np.testing.assert_array_equal(judged.X.toarray(), [[0, 5, 0, 0], [0, 0, 0, 7]])
    np.testing.assert_array_equal(learned.X.toarray(), [[1, 2, 0, 0], [0, 3, 0, 0]])
    learned, judged = align(train, read_lists(train), read_lists(test))
    np.testing.assert_array_equal(judged.X.toarray(), [[0, 5, 0, 0], [0, 0, 0, 7]])
    assert learned.first == judged.first == 0
    numbered = read_lists(test)
    train.write_text("query,label,a,b\nq,1,2,3\n")
    test.write_text("b,query,label,a\n7,q,1,5\n")
    judged, _ = align(test, read_lists(test), read_lists(train))
    np.testing.assert_array_equal(judged.X.toarray(), [[5, 7]])
    assert judged.names == ("a", "b")
    for pair in ((numbered, judged), (judged, numbered)):
        with pytest.raises(DataError, match="one of the two files names its features"):
            align(test, *pair)
    test.write_text("b,query,label,c\n7,q,1,5\n")
    with pytest.raises(DataError, match="test: the feature 'a' is in one of the two files only"):
        align(test, read_lists(test), read_lists(train))


def test_names_of_queries_do_not_command_and_are_quoted(tmp_path, capsys):
    train, out = tmp_path / "train.csv", tmp_path / "o\x1b[2J"
    rows = [f'"q\r{q}",{i % 2},{i + q}\n' for q in range(6) for i in range(4)]
    train.write_text("query,label,a\n" + "".join(rows), newline="")
    assert run("learn", train, "--out", out, "--quiet", "--test", train) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    lines = (out / "run.csv").read_bytes().decode().split("\n")
    assert lines[1].startswith('"q\r0",1,') and len(lines) == 26
    scores = pd.read_csv(out / "run.csv")
    assert list(scores["query"])[0] == "q\r0"


def test_scores_that_overflow_are_refused(tmp_path, data, monkeypatch, capsys):
    path = _formats(tmp_path, data)[0]
    monkeypatch.setattr(RankRLS, "predict", lambda model, X: np.full(X.shape[0], np.inf))
    assert run("learn", path, "--test", path, "--out", tmp_path / "out", "--quiet") == 2
    assert "letor.svm: scores overflow; bring the features to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "text", "said"),
    [
        ("rank-rls", "1 qid:a 2147483647:1\n0 qid:a 1:1\n", "2 items with features up to number "
         "2,147,483,647 take 48 GiB of memory, and 20 GiB are free; number the features"),
        ("rank-rls", "1 qid:a 99999999:1\n" * 5001, "5,001 items with .* take 39.5 GiB"),
        ("lambda-rank", "1 qid:a 999999999:1\n0 qid:a 1:1\n", "take 67.1 GiB of memory"),
        ("cone-rank", "1 qid:a 999999:1\n0 qid:a 1:1\n" * 40, "1,600 pairs of .* take 35.8 GiB"),
    ],
)  # fmt: skip
def test_what_will_not_fit_is_refused_once_it_is_read(
    tmp_path, method, text, said, monkeypatch, capsys
):
    monkeypatch.setattr(_memory, "available", lambda: 20 * 2**30)
    path = tmp_path / "train.svm"
    path.write_text(text)
    args = ["learn", path, "--test", path, "--method", method, "--out", tmp_path / "out"]
    assert run(*args) == 2
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert not (tmp_path / "out").exists()


def test_lengths_that_do_not_fit(tmp_path):
    path = tmp_path / "rank.train"
    path.write_text("1 1:2\n0 1:1\n")
    beside = tmp_path / "rank.train.query"
    beside.write_text("3\n")
    with pytest.raises(DataError, match="its lengths sum to 3"):
        read_lists(path)
    for cell in ("two", "²", "9" * 5000):
        beside.write_text(f"{cell}\n")
        with pytest.raises(DataError, match=f"'{cell[:40]}.*' is not a length"):
            read_lists(path)


def test_picture_of_metrics():
    ax = plot_metrics(["a", "b"], [0.5, 0.7], [0.4, np.nan], [0.6, np.nan])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
