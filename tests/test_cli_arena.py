"""`rank` on logs with judges, positions and categories, and its options that name columns."""

import numpy as np
import pandas as pd
import pytest
from cli_run import run

from bayesrank import Ranker


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


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    write_log(path)
    return path


@pytest.mark.slow
def test_a_log_is_ranked_with_its_effects_in_sentences(log, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("rank", log, "--out", out, "--quiet", "--save", "all") == 0
    printed = capsys.readouterr()
    assert pd.read_csv(out / "ranking.csv")["item"].tolist() == ["x", "y", "z", "w"]
    assert "Being shown first wins " in printed.out and "Equal items tie in " in printed.out
    assert "2 judges: " in printed.out and "Skills in 2 categories differ" in printed.out
    # Also under --quiet:
    assert "Warning: Column 'annotator' looks like judges and is not used" in printed.err
    assert (out / "posterior.nc").stat().st_size > 0
    notes = " ".join(printed.out.split())
    assert "triads in which every pair was compared" in notes  # four items have four triads
    assert "Hyperparameters" not in notes


@pytest.mark.slow
def test_covariates_may_be_left_out(log, tmp_path, capsys):
    args = ("rank", log, "--crosscheck", "none", "--quiet", "--hyperparameters", "prior")
    leave = ("--no-home", "--ignore", "judge", "--ignore", "category", "--ignore", "annotator")
    assert run(*args, *leave, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr()
    assert printed.err == "" and "shown first wins" not in printed.out


def write_reversed(path):
    """A log in which mathematics turns the order of code round; the names need quoting."""
    rng = np.random.default_rng(1)
    items = np.array(["x", "y", "<z>"])
    first = rng.integers(0, 3, 150)
    second = (first + rng.integers(1, 3, 150)) % 3
    task = rng.choice(["code", "m & m"], 150)
    margin = np.where(task == "code", 1.0, -1.0) * (second - first) + rng.normal(size=150)
    winner, loser = np.where(margin > 0, first, second), np.where(margin > 0, second, first)
    pd.DataFrame({"winner": items[winner], "loser": items[loser], "Task": task}).to_csv(
        path, index=False
    )


def test_by_ranks_each_category_under_the_overall_ranking(tmp_path, capsys):
    log, out = tmp_path / "log.csv", tmp_path / "out"
    write_reversed(log)
    options = ("--crosscheck", "none", "--quiet", "--hyperparameters", "prior")
    assert run("rank", log, "--category", "Task", "--by-category", *options, "--out", out) == 0
    table = pd.read_csv(out / "ranking.csv", keep_default_na=False)
    order = {name: rows["item"].tolist() for name, rows in table.groupby("category", sort=False)}
    assert order["code"] == ["x", "y", "<z>"] and order["m & m"] == ["<z>", "y", "x"]
    assert list(order)[0] == "" and table["rank"].tolist() == 3 * [1, 2, 3]
    # The posterior that was saved says the same, and records are those of the category.
    ranker, data = Ranker.load(out / "ranker.npz"), pd.read_csv(log)
    for name, rows in table.groupby("category"):
        ranked = ranker.rank(category=name or None).to_dataframe()
        for column in ("skill_mean", "skill_lower", "skill_upper", "prob_best"):
            np.testing.assert_allclose(rows[column].astype(float), ranked[column])
        counted = data if not name else data[data["Task"] == name]
        winners = list(counted["winner"])
        assert rows["wins"].tolist() == [winners.count(item) for item in rows["item"]]
    printed, page = capsys.readouterr().out, (out / "report.html").read_text()
    categories = [f"Category {name}: " for name in dict.fromkeys(data["Task"])]
    places = [printed.index(said) for said in ("Rank ", *categories)]
    assert places == sorted(places) and printed.count("P(best)") == 3
    assert "<h2>Category m &amp; m</h2>" in page and page.count("<svg") == 3 * 3


@pytest.mark.slow
def test_with_features_judges_are_not_used_and_that_is_told(log, tmp_path, capsys):
    items = tmp_path / "items.csv"
    items.write_text("item,size\nx,1\ny,2\nz,3\nw,4\n")
    args = ("rank", log, "--items", items, "--crosscheck", "none", "--quiet")
    assert run(*args, "--hyperparameters", "prior", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().err
    assert said.count("with --items, judges in the file are not used yet") == 1
