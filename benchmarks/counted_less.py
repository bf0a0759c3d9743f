"""What is lost where a log is made smaller before it is counted: by bins, or without its judges."""

from __future__ import annotations

import time
import warnings
from typing import Any

import click
import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from bayesrank import Ranker
from bayesrank.datasets import ColumnNames, read_comparisons

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


COMMANDS = (bins, fewer_judges)
