"""`predict`: what it says of comparisons to come is what the estimators say."""

import csv
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_run import run

from bayesrank import Ranker
from bayesrank.estimators.skills import newcomers, outcome_chances

NAMES = ["ada", "bob", "cy", "dot", "eve"]
FEATURES = np.array([[0.0, 3.0], [1.0, 1.0], [2.0, 2.0], [3.0, 9.0], [4.0, 4.0]])
GAMES = [(0, 1, 0), (0, 2, 0), (1, 2, 1), (2, 3, 0), (3, 4, 0), (0, 4, 0), (1, 4, 1), (4, 2, 0)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Results with and without features, as `rank` leaves them."""
    folder = tmp_path_factory.mktemp("predict")
    rows = [f"{NAMES[i]},{NAMES[j]},{tie}" for i, j, tie in GAMES]
    (folder / "games.csv").write_text("\n".join(["winner,loser,tie", *rows]))
    rows = [f"{name},{x:g},{z:g}" for name, (x, z) in zip(NAMES, FEATURES, strict=True)]
    (folder / "items.csv").write_text("\n".join(["item,x,z", *rows]))
    common = ["--crosscheck", "none", "--quiet", "--hyperparameters"]
    games = str(folder / "games.csv")
    plain = ["rank", games, "--out", str(folder / "plain"), *common, "scale=1.3,tie_width=0.4"]
    assert run(*plain) == 0
    items = ["--items", str(folder / "items.csv"), "--out", str(folder / "features")]
    assert run("rank", games, *items, *common, "prior") == 0
    return folder


@pytest.fixture
def at(saved, monkeypatch):
    monkeypatch.chdir(saved)
    Path("pairs.csv").write_text("note,first,second\nx,ada,bob\ny,eve,cy\n")
    return saved


def _printed(capsys):
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_pairs_of_ranked_items(at, capsys):
    capsys.readouterr()
    assert run("predict", "plain", "pairs.csv") == 0
    rows = _printed(capsys)
    ranker = Ranker(hyperparameters={"scale": 1.3, "tie_width": 0.4}, items=NAMES)
    ranker.fit([(NAMES[i], NAMES[j]) for i, j, _ in GAMES], ties=[bool(tie) for *_, tie in GAMES])
    pairs = [("ada", "bob"), ("eve", "cy")]
    assert [(row["first"], row["second"]) for row in rows] == pairs
    for outcome in ("win", "tie", "loss"):
        got = [float(row[outcome]) for row in rows]
        np.testing.assert_allclose(got, ranker.predict_proba(pairs, outcome=outcome), rtol=1e-4)
    assert sum(float(rows[0][outcome]) for outcome in ("win", "tie", "loss")) == pytest.approx(1)


def test_a_terminal_gets_a_table_and_a_pipe_gets_csv(at, capsys, monkeypatch):
    assert run("predict", "plain", "pairs.csv") == 0
    printed = _printed(capsys)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("predict", "plain", "pairs.csv") == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[0].split() == ["first", "second", "win", "tie", "loss"] and "," not in lines[1]
    for line, row in zip(lines[1:], printed, strict=True):
        assert line.split() == [row["first"], row["second"]] + [
            f"{float(row[outcome]):.3g}" for outcome in ("win", "tie", "loss")
        ]


def test_new_items_by_their_features(at, capsys):
    Path("new.csv").write_text("item,x,z\nfay,2.5,5\n")
    Path("with_new.csv").write_text("a,b\nfay,ada\nbob,fay\nada,bob\n")
    assert (
        run(*"predict features with_new.csv --items new.csv --out p.csv --skills s.csv".split())
        == 0
    )
    got = pd.read_csv("p.csv")
    options: Any = {"ard": True, "hyperparameters": "prior", "items": range(len(FEATURES))}
    ranker = Ranker(item_features=FEATURES, **options)
    ranker.fit([game[:2] for game in GAMES], ties=[bool(tie) for *_, tie in GAMES])
    new = newcomers(ranker, np.array([[2.5, 5.0]]))
    truth = outcome_chances(ranker, np.array([(5, 0), (1, 5), (0, 1)]), new)
    for outcome in ("win", "tie", "loss"):
        np.testing.assert_allclose(got[outcome], truth[outcome], atol=2e-5)
    skills = pd.read_csv("s.csv")
    mean, sd = new.skills()
    assert skills["item"].tolist() == ["fay"]
    np.testing.assert_allclose(skills["skill_mean"], mean, atol=1e-4)
    np.testing.assert_allclose(skills["skill_sd"], sd, atol=1e-4)
    assert run("predict", "features", "--items", "new.csv") == 0
    assert _printed(capsys)[-1]["item"] == "fay"


def test_nothing_is_written_where_a_pair_is_unknown_or_a_file_is_in_use(at, capsys):
    Path("new.csv").write_text("item,x,z\nfay,2.5,5\n")
    Path("typo.csv").write_text("a,b\nfay,adda\n")
    asked = ("predict", "features", "typo.csv", "--items", "new.csv")
    capsys.readouterr()
    assert run(*asked, "--skills", "unwritten.csv") == 2
    assert not Path("unwritten.csv").exists()
    assert run(*asked) == 2
    assert capsys.readouterr().out == ""
    before = Path("pairs.csv").read_text()
    assert run("predict", "plain", "pairs.csv", "--out", "pairs.csv") == 2
    assert Path("pairs.csv").read_text() == before
    same = ("--out", "both.csv", "--skills", "both.csv")
    assert run("predict", "features", "pairs.csv", "--items", "new.csv", *same) == 2
    assert not Path("both.csv").exists()
    asked = ("predict", "features", "pairs.csv", "--items", "new.csv")
    assert run(*asked, "--skills", "first.csv", "--out", "no/second.csv") == 2
    assert not Path("first.csv").exists()
    assert run(*asked, "--skills", "first.csv", "--out", "second.csv") == 0
    assert Path("first.csv").exists() and Path("second.csv").exists()


BAD = {
    "no results": (("predict", ".", "pairs.csv"), "there is no ranker.npz in it"),
    "nothing asked": (("predict", "plain"), "Give a file of pairs, or --items"),
    "no skills": (("predict", "plain", "pairs.csv", "--skills", "s"), "--skills needs --items"),
    "unknown": (("predict", "plain", "typo.csv"), "typo.csv, row 2: unknown item 'adda'; did you"),
    "itself": (("predict", "plain", "same.csv"), "item 'ada' is paired with itself"),
    "one column": (("predict", "plain", "one.csv"), "there is one column"),
    "no features": (("predict", "plain", "--items", "items.csv"), "items without features"),
    "order": (("predict", "features", "--items", "swapped.csv"), "in this order: x, z"),
    "known": (("predict", "features", "--items", "items.csv"), "item 'ada' was ranked already"),
    "damaged": (("predict", "broken", "pairs.csv"), "ranker.npz"),
    "out": (("predict", "plain", "pairs.csv", "--out", "no/p.csv"), "cannot be written"),
}


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_used_is_refused_in_one_line(at, args, message, capsys):
    Path("typo.csv").write_text("a,b\nadda,bob\n")
    Path("same.csv").write_text("a,b\nada,ada\n")
    Path("one.csv").write_text("a\nada\n")
    Path("swapped.csv").write_text("item,z,x\nfay,1,2\n")
    Path("broken").mkdir(exist_ok=True)
    Path("broken/ranker.npz").write_bytes(b"nothing")
    capsys.readouterr()
    assert run(*args) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and message in printed.err and printed.err.count("\n") == 1
