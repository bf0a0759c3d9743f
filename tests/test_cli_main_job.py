"""The main job for real: what is learned, checked, written and said, on small data."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
from cli_run import said as run
from matplotlib.image import imread
from scipy.special import ndtr

from bayesrank import Ranker
from bayesrank.cli import pipeline
from bayesrank.cli.words import unit
from bayesrank.datasets import load_modechoice, read_comparisons

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Nine drinks whose strength decides, and a price that does not; every fifth game is a tie."""
    folder = tmp_path_factory.mktemp("drinks")
    rng = np.random.default_rng(0)
    names = [f"drink {i}" for i in range(9)]
    strength, price = rng.permutation(9.0 * np.arange(9)), rng.uniform(1.0, 500.0, 9)
    rows = ["item,price,strength"]
    rows += [f"{n},{p:.2f},{s}" for n, p, s in zip(names, price, strength, strict=True)]
    (folder / "items.csv").write_text("\n".join(rows))
    games = ["winner,loser,tie"]
    for k in range(70):
        i, j = rng.choice(9, 2, replace=False)
        better = rng.random() < ndtr((strength[i] - strength[j]) / 20.0)
        winner, loser = (i, j) if better else (j, i)
        games.append(f"{names[winner]},{names[loser]},{int(k % 5 == 0)}")
    (folder / "games.csv").write_text("\n".join(games))
    return folder, dict(zip(names, strength, strict=True))


@pytest.fixture(scope="module")
def job(files, tmp_path_factory):
    """The command with what takes long left out."""
    folder, strength = files
    out = tmp_path_factory.mktemp("out") / "results"
    games, items = str(folder / "games.csv"), str(folder / "items.csv")
    short = ("--hyperparameters", "prior", "--crosscheck", "none", "--save", "all")
    return *run("rank", games, "--items", items, "--out", str(out), *short), out, strength


def check_table(text, out, strength):
    table = pd.read_csv(out / "ranking.csv")
    truth = table["item"].map(strength)
    assert np.corrcoef(truth, table["skill_mean"])[0, 1] > 0.9
    np.testing.assert_allclose(table["prob_best"].sum(), 1.0, atol=1e-9)
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("Rank  90% ranks  Item"))
    rows = lines[head + 1 : head + 10]
    assert [line.split()[0] for line in rows] == [str(i) for i in range(1, 10)]
    assert (np.diff(table["skill_mean"]) <= 0).all()  # the order is that of what is printed
    for line, (_, row) in zip(rows, table.iterrows(), strict=True):
        assert f"{row['item']} " in line
        assert f"{row['skill_mean']:+.2f} ± {row['skill_sd']:.2f}" in line
        assert line.endswith(f"  {row['wins']}-{row['losses']}-{row['ties']}")
    assert table[["comparisons", "ties"]].to_numpy().sum(axis=0).tolist() == [140, 28]


def check_pictures(out, names):
    assert {path.suffix for path in out.iterdir()} == {
        ".csv",
        ".html",
        ".json",
        ".nc",
        ".npz",
        ".png",
    }
    assert {path.name for path in out.glob("*.png")} == {"card.png", *names}
    for name in names:
        picture = imread(out / name)
        assert min(picture.shape[:2]) > 300
        assert len(np.unique(picture[::7, ::7].reshape(-1, picture.shape[2]), axis=0)) > 20


STEPS = [
    "9 items, 70 comparisons (14 ties), 2 features; read as winner,loser",
    "Loading JAX and NumPyro",
    "Fitting the skills (EP)",
    "Ranking",
    "Looking for cycles",
    "Drawing",
    "Writing the results",
]


def test_the_best_drinks_come_first_and_what_is_said_below(job):
    text, error, out, strength = job
    check_table(text, out, strength)
    check_pictures(out, pipeline.FIGURES[:2])
    for said in (
        "Features, strongest effect first: ",
        "not checked  EP vs NUTS        skipped (--crosscheck none)",
        "ok           Ties              14 in 70 comparisons, modelled as a third outcome",
        "triads are cycles (A > B > C > A), ",
        f"Saved to {out}: report.html, card.png, ranking.csv, ranking.json, ranker.npz, ",
    ):
        assert said in text
    assert [line.split(":")[0] for line in error.splitlines()] == STEPS


def test_draws_for_arviz_are_those_of_the_table(job):
    _, _, out, strength = job
    skill = az.from_netcdf(out / "posterior.nc")["posterior"]["f"]
    assert skill.dims == ("chain", "draw", "item") and skill.shape == (1, 2000, 9)
    assert set(skill["item"].values) == set(strength)
    table = pd.read_csv(out / "ranking.csv").set_index("item")
    # The table measures skills from their average, and has their moments without chance.
    skill = skill - skill.mean("item")
    means = skill.mean(("chain", "draw"))
    table = table.loc[means["item"].values]
    np.testing.assert_allclose(skill.std(("chain", "draw")), table["skill_sd"], rtol=0.07)
    errors = (means.to_numpy() - table["skill_mean"]) / (table["skill_sd"] / np.sqrt(2000))
    assert np.abs(errors).max() < 4.0


@pytest.mark.slow
def test_the_whole_job_as_a_process(files, tmp_path):
    """Scales averaged over, and the cross-check, NUTS kept short, on a pipe."""
    folder, strength = files
    out = tmp_path / "results"
    code = (
        "import sys; from bayesrank.cli import main; from bayesrank.diagnostics import quick; "
        "quick.NUTS |= {'num_warmup': 100, 'num_samples': 100, 'num_chains': 2}; "
        "main(sys.argv[1:])"
    )
    args = ["rank", "games.csv", "--items", "items.csv", "--out", str(out)]
    args += ["--crosscheck", "full", "--save", "all", "-v"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_ENABLE_X64": "0"}
    environment.pop("MPLBACKEND", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    check_table(done.stdout, out, strength)
    check_pictures(out, pipeline.FIGURES[:3])  # skills stand still
    assert "strongest effect first: strength, price." in done.stdout
    assert "EP vs NUTS" in done.stdout and "importance sampling: " in done.stdout
    assert "Hyperparameters (mean, 90% interval): " in done.stdout
    assert "length scale price " in done.stdout and "tie width " in done.stdout
    steps = [*STEPS[:4], "Checking the fit", *STEPS[4:]]
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == steps
    data = az.from_netcdf(out / "posterior.nc")
    lengthscale = data["posterior"]["lengthscale"]
    assert list(lengthscale["feature"].values) == ["price", "strength"]
    assert float(lengthscale.std()) > 0.0
    outcomes = data["observed_data"]["comparison"].values
    np.testing.assert_array_equal(outcomes == 1, np.arange(70) % 5 == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the tails of importance weights
        elpd = az.loo(data)
    assert float(getattr(elpd, "elpd_loo", getattr(elpd, "elpd", np.nan))) < 0.0


@pytest.mark.slow
def test_items_without_features_and_without_a_cross_check(files, tmp_path):
    folder, strength = files
    games, out = str(folder / "games.csv"), str(tmp_path / "o")
    text, _ = run("rank", games, "--crosscheck", "none", "--quiet", "--out", out, "--save", "all")
    written = {path.name for path in (tmp_path / "o").iterdir()}
    assert written == set(pipeline.FILES) - {"crosscheck.png", "over-time.png"}
    table = pd.read_csv(tmp_path / "o" / "ranking.csv")
    assert np.corrcoef(table["item"].map(strength), table["skill_mean"])[0, 1] > 0.8
    assert "EP vs NUTS        skipped (--crosscheck none)" in text
    assert "Hyperparameters" not in text and "skill SD " in (tmp_path / "o/report.html").read_text()
    skill = az.from_netcdf(tmp_path / "o" / "posterior.nc")["posterior"]["f"]
    assert set(skill["item"].values) == set(strength)


ORDERS = """# ALTERNATIVE NAME 1: Ada
# ALTERNATIVE NAME 2: Bob
# ALTERNATIVE NAME 3: Cy
# ALTERNATIVE NAME 4: Dot
30: 1,2,3,4
15: 1,3,{2,4}
10: 4,1,2
"""


@pytest.mark.slow
def test_an_order_is_one_event(tmp_path, monkeypatch):
    """A PrefLib file gives what the estimator gives, and wider intervals than its pairs would."""
    monkeypatch.chdir(tmp_path)
    Path("x.toi").write_text(ORDERS)
    chosen = ("--crosscheck", "none", "--quiet", "--hyperparameters", "scale=1.2")
    assert "4 items" not in run("rank", "x.toi", *chosen)[0]
    table = pd.read_csv("bayesrank-out/ranking.csv").set_index("item")
    orders = [["Ada", "Bob", "Cy", "Dot"], ["Ada", "Cy", ["Bob", "Dot"]], ["Dot", "Ada", "Bob"]]
    ranker = Ranker(hyperparameters={"scale": 1.2}).fit(orders, sample_weight=[30, 15, 10])
    summary = ranker.rank()
    for name, mean, sd in zip(summary.names, summary.mean, summary.sd, strict=True):
        np.testing.assert_allclose(table.loc[name, ["skill_mean", "skill_sd"]], [mean, sd])
    data = read_comparisons("x.toi")
    pairs = Ranker(items=data.names, hyperparameters={"scale": 1.2})
    fitted = pairs.fit(np.array(data.names)[data.comparisons], sample_weight=data.weights)
    alone = fitted.rank()
    assert (table.loc[alone.names, "skill_sd"] > 1.1 * alone.sd).all()


def test_the_unit_of_skill_in_words():
    said = unit({"noise": np.array(0.5), "tie_width": np.array(0.3)})
    noise = np.random.default_rng(0).normal(0.0, 0.5, (2, 200_000))
    margin = 1.0 + noise[0] - noise[1]
    win, tie = 100 * (margin > 0.3).mean(), 100 * (np.abs(margin) < 0.3).mean()
    numbers = [float(number) for number in re.findall(r"\d+", said)]
    np.testing.assert_allclose(numbers, [1, win, tie], atol=0.7)


@pytest.mark.slow
def test_components_that_no_comparison_links_are_ranked_each_by_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    games = Path("games.csv")
    games.write_text("winner,loser\nAda,Bob\nBob,Cy\nDot,Eve\n")
    arguments = ["rank", "games.csv", "--crosscheck", "none", "--quiet"]
    arguments += ["--hyperparameters", "prior"]
    run(*arguments)
    table = pd.read_csv("bayesrank-out/ranking.csv")
    assert table["component"].tolist() == [1, 1, 1, 2, 2]
    assert table["rank"].tolist() == [1, 2, 3, 1, 2]
    for _, part in table.groupby("component"):
        np.testing.assert_allclose(part["skill_mean"].mean(), 0.0, atol=1e-9)
        np.testing.assert_allclose(part["prob_best"].sum(), 1.0)
    games.write_text(games.read_text() + "Cy,Eve\n")
    text, _ = run(*arguments, "--elo")
    assert "no comparisons between" not in text and "ok           Connected" in text
    table = pd.read_csv("bayesrank-out/ranking.csv")
    assert set(table["component"]) == {1}
    np.testing.assert_allclose(table["elo"].mean(), 1500.0)
    lower, middle, upper = table[["elo_lower", "elo", "elo_upper"]].to_numpy().T
    assert (lower < middle).all() and (middle < upper).all()


@pytest.mark.slow
def test_all_results_of_139_items_take_thirteen_megabytes_at_most(tmp_path, capsys):
    out = tmp_path / "out"
    settings = pipeline.Settings(out, 5, 0, "none", quiet=True, save="all", title="Travel choices")
    pipeline.rank_and_write(load_modechoice(), settings)
    assert sum(path.stat().st_size for path in out.iterdir()) <= 13_000_000
    found = json.loads((out / "ranking.json").read_text(encoding="utf-8"))
    assert (found["counts"], found["num_comparisons"]) == (
        "139 items, 210 choices, 6 features",
        210,
    )
    assert "No clear winner" in capsys.readouterr().out
