"""`rank` on logs with judges, positions and categories, and its options that name columns."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from bayesrank.cli import main


def write_log(path, size=400):
    rng = np.random.default_rng(0)
    items = np.array(["x", "y", "z", "w"])
    first = rng.integers(0, 4, size)
    second = (first + rng.integers(1, 4, size)) % 4
    margin = 0.7 * (second - first) + 0.5 + 1.4 * rng.normal(size=size)
    pd.DataFrame(
        {
            "model_a": items[first],
            "model_b": items[second],
            "winner": np.where(margin > 0.3, "model_a", np.where(margin < -0.3, "model_b", "tie")),
            "judge": rng.choice(["Eve", "Dan"], size),
            "category": rng.choice(["code", "maths"], size),
            "annotator": "me",
        }
    ).to_csv(path, index=False)


def run(*args):
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    return ended.value.code


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    write_log(path)
    return path


def test_a_log_is_ranked_with_its_effects_in_sentences(log, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("rank", log, "--out", out, "--quiet") == 0
    printed = capsys.readouterr()
    assert pd.read_csv(out / "ranking.csv")["item"].tolist() == ["x", "y", "z", "w"]
    assert "Being shown first is worth " in printed.out and "Equals tie in " in printed.out
    assert "2 judges: " in printed.out and "in each of 2 categories" in printed.out
    # Also under --quiet:
    assert "Warning: Column 'annotator' looks like judges and is not used" in printed.err
    assert (out / "posterior.nc").stat().st_size > 0
    notes = " ".join(printed.out.split())
    assert "they make circles of their own, and this check supposes that skills alone" in notes
    assert "scales of the priors are taken as known: scale " in notes and "hold 84%" in notes
    assert "tie_width" not in notes


def test_covariates_may_be_left_out(log, tmp_path, capsys):
    args = ("rank", log, "--no-crosscheck", "--quiet", "--hyperparameters", "prior")
    leave = ("--no-home", "--ignore", "judge", "--ignore", "category", "--ignore", "annotator")
    assert run(*args, *leave, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr()
    assert printed.err == "" and "shown first is worth" not in printed.out


REFUSED = {
    "hyperparameters": (
        ("--hyperparameters", "amplitude=1"),
        "--hyperparameters: hyperparameters names 'amplitude'; there are ('scale', ",
    ),
    "not there": (("--judge", "who"), "there is no column 'who'"),
    "no such side": (
        ("--winner", "model_a", "--loser", "model_b", "--home"),
        "--home needs a file",
    ),
    "judge and time": (("--judge", "judge", "--time", "t"), "--judge does not go with --time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_together_is_refused_and_nothing_written(name, tmp_path, capsys):
    path, out = tmp_path / "log.csv", tmp_path / "out"
    write_log(path, 20)
    frame = pd.read_csv(path).assign(t=np.arange(20))
    frame.to_csv(path, index=False)
    options, message = REFUSED[name]
    assert run("rank", path, "--out", out, *options) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_with_features_judges_are_not_used_and_that_is_told(log, tmp_path, capsys):
    items = tmp_path / "items.csv"
    items.write_text("item,size\nx,1\ny,2\nz,3\nw,4\n")
    args = ("rank", log, "--items", items, "--no-crosscheck", "--quiet")
    assert run(*args, "--hyperparameters", "prior", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().err
    assert said.count("with --items") == 3


GAMES = {
    "winner": "winner,loser\na,b\nb,c\na,c\n",
    "scores": "home,away,home_score,away_score\na,b,2,1\nb,c,1,1\nc,a,0,3\n",
    "likert": "item_a,item_b,preference\na,b,A is much better\nb,c,about the same\n",
    "orders": "order\na > b > c\na > c = b\n",
}


@pytest.mark.parametrize("name", GAMES)
def test_small_files_of_every_layout_are_ranked(name, tmp_path, capsys):
    path = tmp_path / "games.csv"
    path.write_text(GAMES[name])
    open_before = plt.get_fignums()
    assert run("rank", path, "--no-crosscheck", "--quiet", "--out", tmp_path / "out") == 0
    assert pd.read_csv(tmp_path / "out" / "ranking.csv")["item"].tolist()[0] == "a"
    assert plt.get_fignums() == open_before
