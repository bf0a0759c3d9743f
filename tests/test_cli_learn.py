"""`python -m bayesrank learn`: formats that it reads, files that it writes, what it refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
from list_data import graded_lists

from bayesrank import RankRLS
from bayesrank.cli import main
from bayesrank.datasets import DataError, read_lists
from bayesrank.plots import plot_figures


def _run(args):
    with pytest.raises(SystemExit) as end:
        main([str(arg) for arg in args])
    return end.value.code


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
    return [folder / name for name in ("letor.svm", "rank.train", "lists.csv")]


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
    assert _run(args) == 0
    printed = capsys.readouterr().out
    assert "NDCG@3" in printed and "90% interval" in printed
    written = {"run.csv", "figures.csv", "model.pickle", "figures.png", "queries.png"}
    assert {p.name for p in out.iterdir()} == written
    model = pickle.loads((out / "model.pickle").read_bytes())
    run = pd.read_csv(out / "run.csv")
    np.testing.assert_allclose(run["score"], model.predict(data[0]), rtol=1e-6)
    figures = pd.read_csv(out / "figures.csv").set_index("figure")
    error = 1 - model.score(*data)
    assert figures.loc["Pairwise error", "mean"] == pytest.approx(error)


def test_holds_a_fifth_of_the_queries_out_without_a_test_file(tmp_path, data, capsys):
    path = _formats(tmp_path, data)[2]
    assert _run(["learn", path, "--out", tmp_path / "out", "--quiet"]) == 0
    assert "2 queries judged, 10 learned from" in capsys.readouterr().out
    model = pickle.loads((tmp_path / "out" / "model.pickle").read_bytes())
    assert isinstance(model, RankRLS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x qid:1 1:2\n", "row 1: the grade 'x' is no whole number"),
        ("-1 qid:1 1:2\n", "the grade '-1' is no whole number"),
        ("1 qid:1 1:2\n1 qid:1 a:2\n", "row 2: 'a:2' is no feature"),
        ("1 qid:1 1:nan\n", "'1:nan' is no feature"),
        ("1 qid:1 1:2 1:3\n", "the feature 1 is there twice"),
        ("1 qid:1\n", "no item has a feature"),
        ("1 1:2\n", "1 of its 1 lines have no qid"),
        ("query,label\nq,1\n", "there is no column of features"),
        ("query,label,a\nq,1,x\n", "row 2, column 'a': 'x' is not a finite number"),
        ("query,label,a\nq,0.5,1\n", "the grade '0.5' is no whole number"),
        ("query,label,a\n,1,1\n", "the query is empty"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, text, message):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_lists(path)
    assert message in str(error.value)


def test_lengths_that_do_not_fit(tmp_path, capsys):
    path = tmp_path / "rank.train"
    path.write_text("1 1:2\n0 1:1\n")
    beside = tmp_path / "rank.train.query"
    beside.write_text("3\n")
    with pytest.raises(DataError, match="its lengths sum to 3"):
        read_lists(path)
    beside.write_text("two\n")
    with pytest.raises(DataError, match="'two' is no length"):
        read_lists(path)
    beside.write_text("2\n")
    assert _run(["learn", path, "--out", tmp_path / "out"]) == 2
    assert "there is one query only" in capsys.readouterr().err
    path.write_text("1 1:2\n1 1:1\n")
    assert _run(["learn", path, "--test", path, "--out", tmp_path / "out"]) == 2
    assert "y is the same within every list" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_picture_of_figures():
    ax = plot_figures(["a", "b"], [0.5, 0.7], [0.4, np.nan], [0.6, np.nan])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
