"""`compare` and `suggest` answer as the fitted ranker and a search through all pairs do."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_run import run
from scipy.special import ndtr, xlogy

from bayesrank import Ranker

GAMES = """winner,loser,tie
ada,bob,0
ada,cy,0
bob,cy,1
cy,dot,0
dot,eve,0
ada,eve,0
bob,eve,1
eve,cy,0
"""
LOG = """model_a,model_b,winner,judge
x,y,model_a,j
y,x,model_a,k
y,z,tie,j
z,x,model_b,k
x,z,model_a,j
z,y,model_a,j
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of games with ties, and of a log with judges."""
    folder = tmp_path_factory.mktemp("results")
    for name, text in (("games", GAMES), ("log", LOG)):
        (folder / f"{name}.csv").write_text(text)
        options = ("--out", folder / name, "--crosscheck", "none", "--quiet")
        assert run("rank", folder / f"{name}.csv", *options, "--hyperparameters", "prior") == 0
    return folder


@pytest.fixture
def at(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    capsys.readouterr()


@pytest.mark.parametrize("results, first, second", [("games", "ada", "bob"), ("log", "z", "x")])
def test_two_items_compare_as_the_ranker_says(at, capsys, results, first, second):
    assert run("compare", results, first, second, "--level", "0.5") == 0
    better, outcomes, gap = capsys.readouterr().out.splitlines()
    ranker: Any = Ranker.load(f"{results}/ranker.npz")
    if results == "games":  # fitted again, with nothing of the file
        rows = [line.split(",") for line in GAMES.splitlines()[1:]]
        ranker = Ranker(hyperparameters="prior", random_state=0)
        ranker.fit([row[:2] for row in rows], ties=[row[2] == "1" for row in rows])
    for word, outcome in (("wins", "win"), ("ties", "tie"), ("loses", "loss")):
        [chance] = ranker.predict_proba([(first, second)], outcome=outcome)
        assert f"{word} {100 * chance:.1f}%" in outcomes
    draws = ranker.samples()[:, [list(ranker.names_).index(name) for name in (first, second)]]
    [share] = ranker.prob_better([(first, second)])
    assert share == pytest.approx((draws[:, 0] > draws[:, 1]).mean(), abs=0.03)
    assert better == f"{first} is better than {second} with probability {100 * share:.1f}%."
    low, high = np.quantile(draws[:, 0] - draws[:, 1], [0.25, 0.75])
    assert gap.endswith(f"(50% interval {low:+.2f} to {high:+.2f}).")


def information(mean, variance, noise, width):
    """Nats that an answer tells of its margin: outcomes summed over a fine grid of margins."""
    margin = mean + np.sqrt(variance) * np.linspace(-8, 8, 4001)
    weight = np.exp(-0.5 * np.linspace(-8, 8, 4001) ** 2)
    weight /= weight.sum()
    win, loss = (ndtr((side * margin - width) / (np.sqrt(2) * noise)) for side in (1, -1))
    chances = np.stack([win, 1 - win - loss, loss])
    mixed = chances @ weight
    return -xlogy(mixed, mixed).sum() + (xlogy(chances, chances).sum(axis=0) @ weight)


@pytest.mark.slow
def test_the_first_pair_is_the_best_of_all(at, capsys):
    assert run("suggest", "games", "-n", "3") == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["first", "second"] and len(rows) == 4
    ranker = Ranker.load("games/ranker.npz")
    mean, covariance = ranker.result.mean["f"], ranker.result.covariance["f"]
    noise, width = float(ranker.params_.get("noise", 1.0)), float(ranker.params_["tie_width"])
    gains = {}
    for i in range(5):
        for j in range(i):
            variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
            pair = frozenset((ranker.names_[i], ranker.names_[j]))
            gains[pair] = information(mean[i] - mean[j], variance, noise, width)
    assert frozenset(rows[1]) == max(gains, key=gains.__getitem__)
    assert len({frozenset(row) for row in rows[1:]}) == 3  # what was just asked tells less


@pytest.mark.slow
def test_pairs_of_a_log_with_judges_go_to_a_file(at, capsys):
    assert run("suggest", "log", "--out", "pairs.csv") == 0
    rows = Path("pairs.csv").read_text().splitlines()[1:]
    assert capsys.readouterr().out == "" and len(rows) >= 3
    assert {name for row in rows for name in row.split(",")} == {"x", "y", "z"}
    assert run("predict", "log", "pairs.csv") == 0  # which reads it
    predicted = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    ranker: Any = Ranker.load("log/ranker.npz")
    pairs = [row.split(",") for row in rows]
    for outcome in ("win", "tie", "loss"):
        truth = ranker.predict_proba(pairs, outcome=outcome)
        np.testing.assert_allclose([float(row[outcome]) for row in predicted], truth, rtol=1e-4)
    assert run("suggest", "log", "--out", "log/ranker.npz") == 2


@pytest.mark.parametrize("name, points", [("ada", 1000.0), ("eve", 2000.5)])
def test_one_level_and_an_anchor_that_has_its_points(at, tmp_path, capsys, name, points):
    options = ("--out", tmp_path, "--crosscheck", "none", "-q", "--hyperparameters", "prior")
    anchor = ("--anchor", f"{name}={points}", "--level", "0.5")
    assert run("rank", "games.csv", *options, *anchor, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["level"] == 0.5
    items = {item["item"]: item for item in found["rankings"][0]["items"]}
    assert items[name]["elo"] == pytest.approx(points)
    ranker = Ranker.load(tmp_path / "ranker.npz")
    draws = ranker.samples() - ranker.samples()[:, [ranker.names_.index(name)]]
    per_skill = 400 / np.log(10) * 1.702 / np.sqrt(2)  # at noise 1
    for k, other in enumerate(map(str, ranker.names_)):
        item = items[other]
        gap = item["elo"] - points
        assert gap == pytest.approx(per_skill * (item["skill_mean"] - items[name]["skill_mean"]))
        low, high = np.quantile(draws[:, k], [0.25, 0.75])
        np.testing.assert_allclose(
            [item["skill_lower"], item["skill_upper"]], [low, high], atol=0.03
        )
        assert item["elo_lower"] == pytest.approx(points + per_skill * item["skill_lower"])
    assert items[name]["elo_lower"] == items[name]["elo_upper"] == pytest.approx(points)
    both = "--anchor", "ada=1000", "--anchor", f"eve={900}+-30"
    assert run("rank", "games.csv", *options, *both, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    expected = ranker.rank(anchor={"ada": 1000, "eve": (900, 30)}).to_dataframe()
    items = found["rankings"][0]["items"]
    assert [item["elo"] for item in items] == pytest.approx(expected["elo"].tolist())
    assert [item["elo_upper"] for item in items] == pytest.approx(expected["elo_upper"].tolist())
    pairs = [[items[0]["item"], items[1]["item"]]]
    better = ranker.prob_better(pairs, anchor={"ada": 1000, "eve": (900, 30)})[0]
    assert found["pairs"][0][1] == pytest.approx(better)
    assert run("rank", "games.csv", *options, "--anchor", "ada=1", "--anchor", "ada=2") == 2
    assert "'ada' is given twice; leave one of them" in capsys.readouterr().err
    assert run("rank", "games.csv", *options, "--anchor", "adda=1") == 2
    assert "--anchor: unknown item 'adda'; did you mean 'ada'?" in capsys.readouterr().err
