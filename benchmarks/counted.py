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


COMMANDS = (counted,)
