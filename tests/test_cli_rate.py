"""`python -m bayesrank rate`: the files it writes, and what it refuses."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_run import run, said

from bayesrank.datasets import DataError, read_ratings

RATED = "user,item,rating\na,x,1\na,y,3\nb,x,2\n"


@pytest.mark.parametrize(
    ("text", "levels", "hint", "then"),
    [
        (RATED, 2, "change --levels", 3),
        (RATED, 4, "leave --levels out", None),
        (RATED.replace("2", "1"), 4, "number the levels in use without gaps", 2),
    ],
)
def test_hints_on_levels_lead_to_an_answer(tmp_path, text, levels, hint, then):
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_ratings(path, num_levels=levels)
    assert caught.value.fix.endswith(hint)
    path.write_text(text.replace("3", "2") if then == 2 else text)
    assert len(read_ratings(path, num_levels=then).levels) == 3


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
    files = (folder / "ratings.csv", "--items", folder / "items.csv", "--out", folder / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return folder, *said("rate", *files, "--quiet", "--top", 1, "--iterations", 3)


def test_two_levels_are_told_by_a_probability(tmp_path):
    rows = [f"u{u},i{i},{int((u + i) % 3 == 0)}" for u in range(6) for i in range(6) if u != i]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rows]))
    files = (tmp_path / "r.csv", "--out", tmp_path / "out", "--iterations", 3, "--quiet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out, _ = said("rate", *files)
    assert out.splitlines()[0].split() == ["User", "Best", "unseen", "P(1)"]
    best = pd.read_csv(tmp_path / "out" / "rankings.csv")
    assert out.splitlines()[1].split()[-1] == f"{100 * best['P(1)'][0]:.0f}%"


def test_files_hold_a_prediction_for_every_pair_not_rated(results):
    folder = results[0]
    predictions = pd.read_csv(folder / "out" / "predictions.csv")
    assert len(predictions) == 13 * 5 - 37
    probability = predictions[["P(1)", "P(2)", "P(3)"]].to_numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-3)
    rankings = pd.read_csv(folder / "out" / "rankings.csv")
    assert list(rankings["rank"]) == [1] * 13
    items = pd.read_csv(folder / "out" / "items.csv")
    assert items.disagreement.is_monotonic_decreasing
    assert items.set_index("item").ratings["item 4"] == 0
    for picture in ("items.png", "similarity.png"):
        assert (folder / "out" / picture).stat().st_size > 10_000


def test_the_best_unseen_items_are_printed_with_intervals(results):
    folder, printed, _ = results
    predictions = pd.read_csv(folder / "out" / "predictions.csv")
    for name, share in (("lower", 0.05), ("level", 0.5), ("upper", 0.95)):
        above = predictions[["P(1)", "P(2)", "P(3)"]].to_numpy().cumsum(axis=1)
        quantile = 1 + (above < share).sum(axis=1)
        clear = (abs(above - share) > 1e-3).all(axis=1)  # probabilities have four digits
        assert clear.sum() > 20 and (predictions[name] == quantile)[clear].all()
    lines = printed.splitlines()
    assert lines[0].split() == ["User", "Best", "unseen", "Rating", "90%", "interval"]
    ranking: Any = pd.read_csv(folder / "out" / "rankings.csv")
    for line, (_, row) in zip(lines[1:11], ranking.iterrows(), strict=False):
        ends = "–".join(dict.fromkeys((str(row["lower"]), str(row["upper"]))))
        assert line.split() == [row["user"], *row["item"].split(), str(row["level"]), ends]


def test_what_is_to_be_known_is_said(results):
    _, printed, warned = results
    assert "13 users, 5 items, 37 ratings from 1 to 3." in printed
    assert "1 user gave only one rating: their predictions are close to" in printed
    assert "Without ratings, predicted from features only: 1 item." in printed
    assert "Columns not used: when." in printed
    assert warned.startswith("Warning: the fit did not converge in 3 iterations;")
    assert "increase --iterations" in warned and warned.count("\n") == 1


@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_predictions_that_are_left_out_are_missed(results, tmp_path, monkeypatch, capsys):
    folder = results[0]
    monkeypatch.setattr("bayesrank.cli.rate._MOST_PREDICTIONS", 5)
    files = (folder / "ratings.csv", "--items", folder / "items.csv", "--out", tmp_path / "out")
    assert run("rate", *files, "--quiet", "--iterations", 3) == 0
    assert "28 unrated pairs are too many for predictions.csv" in capsys.readouterr().out
    assert not (tmp_path / "out" / "predictions.csv").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_columns_are_the_same_where_all_is_rated(tmp_path):
    rows = [f"u{user},{item},{1 + (user + item) % 2}" for user in range(4) for item in range(3)]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rows]))
    assert run("rate", tmp_path / "r.csv", "--out", tmp_path / "out", "--iterations", 3) == 0
    predictions = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert (
        list(predictions) == ["user", "item", "level", "lower", "upper", "P(1)", "P(2)"]
        and predictions.empty
    )
