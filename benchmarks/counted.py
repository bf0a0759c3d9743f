"""Logs larger than memory: time and memory against rows, beside what a user would do instead.

DuckDB makes Parquet files of 300 items, with ties and the advantage of being shown first. Each case
runs once, in a process of its own, from the files to a ranking with intervals.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from bayesrank import Ranker
from bayesrank.datasets import ColumnNames, read_comparisons

ITEMS = 300
_FILE = 10_000_000  # rows of one file
_MOST = 10  # files that are made; further ones are copies
_SKILL = 150.0  # numbers of items whose odds are e to 1
_ROWS = f"""
    WITH shown AS (
        SELECT i, (hash(i) % {ITEMS})::INT AS a, (hash(i * 31 + 7) % {ITEMS - 1})::INT AS other,
            (hash(i * 17 + 3) % 1000000) / 1e6 AS chance, hash(i * 13 + 5) % 10 = 0 AS tied,
        FROM range($first, $last) t(i)
    ), pairs AS (SELECT *, other + (other >= a)::INT AS b FROM shown)
    SELECT printf('model-%03d', a) AS model_a, printf('model-%03d', b) AS model_b,
        CASE WHEN tied THEN 'tie' WHEN chance < 1 / (1 + exp((b - a) / {_SKILL} - 0.1))
        THEN 'model_a' ELSE 'model_b' END AS winner, i AS id FROM pairs"""


def make(folder: Path, rows: int, judges: int = 0) -> Path:
    """Write files of so many rows, and give the pattern of their names."""
    import duckdb

    folder.mkdir(parents=True)
    pattern = folder / "*.parquet"
    judge = f", printf('judge-%06d', hash(i * 7919) % {judges}) AS judge" if judges else ""
    for k, first in enumerate(range(0, rows, _FILE)):
        path = folder / f"{k:03}.parquet"
        if k >= _MOST:
            shutil.copyfile(folder / f"{k % _MOST:03}.parquet", path)
            continue
        limits = {"$first": str(first), "$last": str(min(first + _FILE, rows))}
        query = _ROWS
        for name, value in limits.items():
            query = query.replace(name, value)
        duckdb.sql(f"SELECT *{judge.replace('(i ', '(id ')} FROM ({query})").write_parquet(
            str(path)
        )
    return pattern


def _by_ranker(pattern: str) -> Any:
    from bayesrank import Ranker
    from bayesrank.datasets import read_comparisons

    start = time.perf_counter()
    data = read_comparisons(pattern)
    reading = time.perf_counter() - start
    ranker = Ranker().fit(data)
    leader = ranker.rank().names[0]
    return {"distinct": data.num_comparisons, "reading_s": reading, "first": leader}


def _by_evalica(pattern: str) -> Any:
    import evalica
    import pandas as pd

    log = pd.read_parquet(Path(pattern).parent, columns=["model_a", "model_b", "winner"])
    meant = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    scores = evalica.bradley_terry(log.model_a, log.model_b, log.winner.map(meant)).scores
    return {"first": str(scores.idxmax())}


def _by_spark(pattern: str) -> Any:
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import OneHotEncoder, StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g")
    spark = builder.config("spark.ui.enabled", False).getOrCreate()
    log = spark.read.parquet(str(Path(pattern).parent)).where("winner != 'tie'")
    log = log.selectExpr("model_a", "model_b", "double(winner = 'model_a') AS label")
    sides, numbers, marks = (["model_a", "model_b"], ["i", "j"], ["x", "y"])
    index = StringIndexer(inputCols=sides, outputCols=numbers, stringOrderType="alphabetAsc")
    steps = [
        index,
        OneHotEncoder(inputCols=numbers, outputCols=marks, dropLast=False),
        VectorAssembler(inputCols=marks, outputCol="features"),
        LogisticRegression(regParam=1e-6, maxIter=100),
    ]
    fitted = Pipeline(stages=steps).fit(log).stages
    first, second = np.split(fitted[-1].coefficients.toArray(), 2)
    leader = fitted[0].labelsArray[0][int(np.argmax(first - second))]
    return {"first": leader, "cpu_s": np.nan, "peak_mb": np.nan}  # the JVM's are not counted


HOW = {"ranker": _by_ranker, "evalica": _by_evalica, "spark": _by_spark}


def measure(name: str) -> dict[str, Any]:
    """One way for one pattern of files, as in ``ranker battles/*.parquet``."""
    how, pattern = name.split(" ", 1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = HOW[how](pattern)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cost = {"s": time.perf_counter() - start, "peak_mb": max(u.ru_maxrss for u in used) / 1024}
    return cost | {"cpu_s": sum(u.ru_utime + u.ru_stime for u in used)} | row


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.subplots()
    labels = {"ranker": "bayesrank, counted by DuckDB", "evalica": "pandas and evalica"}
    labels["spark"] = "Spark's logistic regression"
    for how, label in labels.items():
        mine = [row for row in rows if row["how"] == how and not row["judges"]]
        axes.loglog([r["rows"] for r in mine], [r["s"] for r in mine], "o-", label=label)
    axes.set(xlabel="comparisons of 300 items", ylabel="seconds, from files to scores")
    axes.legend()
    figure.savefig(path, dpi=130)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=False))
@click.option("--case", "cases", multiple=True, help="As in 'ranker 1e8', or 'ranker 1e7 1e5'.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def counted(folder: Path, cases: tuple[str, ...], path: Path | None) -> None:
    """Logs larger than memory: time and memory against rows; FOLDER is made, and removed."""
    usual = [f"{how} {rows}" for how in HOW for rows in ("1e6", "1e7")]
    usual += ["evalica 1e8", "ranker 1e8", "ranker 1e9"]
    found = []
    click.echo(
        f"{'how':8} {'rows':>14} {'judges':>8} {'s':>7} {'CPU s':>7} {'MB':>7} {'distinct':>11}"
    )
    for case in sorted(cases or usual, key=lambda case: case.split()[1:]):
        how, *numbers = case.split()
        rows, judges = (int(float(number)) for number in (*numbers, "0")[:2])
        place = folder / f"{rows}-{judges}"
        pattern = place / "*.parquet" if place.exists() else make(place, rows, judges)
        command = [sys.executable, "-m", "benchmarks", "one", "counted", f"{how} {pattern}"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = {"how": how, "rows": rows, "judges": judges} | json.loads(output.splitlines()[-1])
        found.append(row)
        click.echo(
            f"{how:8} {rows:14,} {judges:8,} {row['s']:7.1f} {row['cpu_s']:7.1f} "
            f"{row['peak_mb']:7.0f} {row.get('distinct', rows):11,} {row['first']}"
        )
    shutil.rmtree(folder)
    if path is not None:
        _plot(found, path)


_DAY = np.timedelta64(1, "D")


def _skills(log: pd.DataFrame, columns: ColumnNames) -> tuple[Any, np.ndarray, np.ndarray, float]:
    start = time.process_time()
    ranker = Ranker(hyperparameters="map").fit(read_comparisons(log, columns=columns))
    mean, sd = ranker.predict(sorted(ranker.names_))
    return ranker, mean - mean.mean(), sd, time.process_time() - start


def _battles(
    random: np.random.Generator, skills: np.ndarray, more: np.ndarray | float = 0.0, judges: Any = 1
) -> pd.DataFrame:
    """Who of two random items won, by skills (n,) or (K, n), an advantage and reliabilities."""
    count, n = len(np.atleast_1d(more)), skills.shape[-1]
    first, second = random.integers(0, n, count), random.integers(0, n - 1, count)
    second += second >= first
    at = np.atleast_2d(skills)
    rows = np.arange(count) if len(at) > 1 else np.zeros(count, int)
    margin = judges * (at[rows, first] - at[rows, second]) + more
    won = margin + np.sqrt(2.0) * random.normal(size=count) > 0
    names = np.array([f"i{i:02d}" for i in range(n)])
    words = np.where(won, "model_a", "model_b")
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": words})


def _bins_of_time(random: np.random.Generator) -> None:
    count, days, length = 6000, 1096, 300.0
    grid = np.arange(days)
    share = np.exp(-1.0 / length)
    skills = np.empty((days, 20))
    skills[0] = random.normal(size=20)
    for day in grid[1:]:
        skills[day] = share * skills[day - 1] + np.sqrt(1 - share**2) * random.normal(size=20)
    when = np.sort(random.uniform(0, days - 1, count))
    log = _battles(random, skills[when.astype(int)], np.zeros(count))
    starts = {"seconds": None, "days": 1.0, "weeks": 7.0, "months": 30.4, "quarters": 91.3}
    found = {}
    for name, width in starts.items():
        said = when if width is None else np.floor(when / width) * width
        found[name] = _skills(log.assign(day=said), ColumnNames(time="day"))
    _compare("bins of time", found)


def _bins_of_lengths(random: np.random.Generator) -> None:
    count = 6000
    lengths = random.lognormal(0.0, 0.5, (2, count))
    unit = float((lengths[0] - lengths[1]).std())
    log = _battles(random, random.normal(size=20), 0.5 * (lengths[0] - lengths[1]) / unit)
    found = {}
    for share in (0.0, 0.05, 0.2, 0.5, 1.0, 2.0):
        said = lengths if not share else np.round(lengths / (share * unit)) * share * unit
        columns = ColumnNames(covariates=("length",))
        found[f"{share:g} sd"] = _skills(log.assign(length_a=said[0], length_b=said[1]), columns)
    _compare("bins of lengths", found)
    for name, (ranker, *_) in found.items():
        effect = next(e for e in ranker.effects() if e.name == "covariate_effect")
        per_unit = effect.mean / ranker.covariate_units_["length"] * unit
        click.echo(f"{name:10} effect of one sd {per_unit:.3f}")


def _compare(title: str, found: dict[str, Any]) -> None:
    """Skills, in posterior standard deviations of those without bins."""
    _, mean, sd, _ = next(iter(found.values()))
    click.echo(f"{title:16} {'rms':>6} {'largest':>8} {'sd ratio':>9} {'CPU s':>6}")
    for name, (_, other, spread, cost) in found.items():
        gap = (other - mean) / sd
        ratio = float(np.mean(spread / sd))
        click.echo(
            f"{name:16} {np.sqrt(np.mean(gap**2)):6.3f} {np.abs(gap).max():8.3f} {ratio:9.3f} "
            f"{cost:6.1f}"
        )


@click.command()
@click.option("--only", type=click.Choice(["times", "lengths"]))
def bins(only: str | None) -> None:
    """What bins of times and of covariates cost: one log, binned more and more coarsely."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if only != "lengths":
            _bins_of_time(np.random.default_rng(0))
        if only != "times":
            _bins_of_lengths(np.random.default_rng(0))


@click.command()
@click.option("--runs", default=4)
def fewer_judges(runs: int) -> None:
    """What is kept of 10,000 judges of 10 comparisons: all, none, or a tenth of them."""
    rows: dict[str, list[list[float]]] = {"all judges": [], "--ignore judge": [], "a tenth": []}
    for seed in range(runs):
        random = np.random.default_rng(seed)
        truth, judges = random.normal(size=50), np.repeat(np.arange(10_000), 10)
        reliability = np.exp(0.7 * random.normal(size=10_000))
        log = _battles(random, truth, np.zeros(len(judges)), reliability[judges])
        log["judge"] = [f"j{j:05d}" for j in judges]
        truth -= truth.mean()
        order = np.argsort(np.argsort(-truth)) + 1
        some = log[judges % 10 == 0]
        for name, part in zip(rows, (log, log.drop(columns="judge"), some), strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ranker, mean, _, cost = _skills(part, ColumnNames())
            scaled = mean * float(truth @ mean / (mean @ mean))
            ranking = ranker.rank()
            at = [int(item[1:]) for item in ranking.names]
            low, high = np.asarray(ranking.rank_lower), np.asarray(ranking.rank_upper)
            held = np.mean((low <= order[at]) & (order[at] <= high))
            error = float(np.sqrt(np.mean((scaled - truth) ** 2)))
            tau = float(kendalltau(mean, truth).statistic)
            rows[name].append([error, tau, float(np.mean(high - low)), float(held), cost])
    click.echo(f"{'':16} {'error':>6} {'tau':>6} {'width':>6} {'held':>6} {'CPU s':>6}")
    for name, found in rows.items():
        error, tau, width, held, cost = np.mean(found, axis=0)
        click.echo(f"{name:16} {error:6.3f} {tau:6.3f} {width:6.2f} {held:6.1%} {cost:6.1f}")


COMMANDS = [counted, bins, fewer_judges]
