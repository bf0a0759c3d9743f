"""Simulated logs of an arena: time, memory, coverage, and the usual way beside it."""

from __future__ import annotations

import resource
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau, norm

__all__ = ["COMMANDS"]

Floats = NDArray[np.float64]
_TAIL = norm.ppf(0.95)


class Truth(NamedTuple):
    """What a log was drawn from."""

    skills: Floats
    in_category: Floats
    reliability: Floats
    bias: Floats
    position: float
    tie_width: float


def draw(
    rng: np.random.Generator, items: int, judges: int, categories: int, rows: int
) -> tuple[Truth, pd.DataFrame]:
    """Draw a log from the program, with scales as its priors expect them."""
    true = Truth(
        rng.normal(0.0, 1.0, items),
        rng.normal(0.0, 0.3, (categories, items)),
        np.exp(rng.normal(0.0, 0.3, judges)),
        rng.normal(0.0, 0.3, judges),
        float(rng.normal(0.0, 0.3)),
        0.4,
    )
    first = rng.integers(0, items, rows)
    second = (first + rng.integers(1, items, rows)) % items
    judge, category = rng.integers(0, judges, rows), rng.integers(0, categories, rows)
    skill = true.skills + true.in_category
    margin = true.reliability[judge] * (skill[category, first] - skill[category, second])
    margin += true.position + true.bias[judge] + np.sqrt(2.0) * rng.normal(size=rows)
    won = np.where(margin > true.tie_width, 0, np.where(margin < -true.tie_width, 1, 2))
    names = [f"model-{i:03d}" for i in range(items)]
    table = pd.DataFrame(
        {
            "model_a": pd.Categorical.from_codes(first, names),
            "model_b": pd.Categorical.from_codes(second, names),
            "winner": pd.Categorical.from_codes(won, ["model_a", "model_b", "tie"]),
            "judge": pd.Categorical.from_codes(judge, [f"judge-{j:04d}" for j in range(judges)]),
            "category": pd.Categorical.from_codes(
                category, [f"category-{c}" for c in range(categories)]
            ),
        }
    )
    return true, table


def read_and_fit(table: pd.DataFrame, said: bool = False) -> tuple[Any, float]:
    """Write the log, and read, fit and rank it; seconds of the latter."""
    from bayesrank.datasets import read_comparisons
    from bayesrank.estimators import ArenaRanker

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        table.to_csv(path, index=False)
        start = time.perf_counter()
        data = read_comparisons(path)
        if said:
            click.echo(f"read after {time.perf_counter() - start:.1f} s")
        ranker = ArenaRanker().fit(data)
        ranker.rank()
    return ranker, time.perf_counter() - start


def within(ranker: Any, true: Truth) -> dict[str, NDArray[np.bool_]]:
    """Whether the 90% intervals hold the truth, by kind."""
    fit, n = ranker.result_, len(true.skills)
    # Names come in the order of their first appearance.
    item = np.array([int(name.rpartition("-")[2]) for name in ranker.names_])
    judge = np.array([int(name.rpartition("-")[2]) for name in ranker.judge_names_])
    category = np.array([int(name.rpartition("-")[2]) for name in ranker.category_names_])
    centre = np.eye(n) - 1.0 / n
    found = {}

    def note(kind: str, off: Floats, variance: Floats) -> None:
        found[kind] = np.ravel(np.abs(off) < _TAIL * np.sqrt(variance))

    covariance = centre @ fit.covariance[:n, :n] @ centre
    note("skills", centre @ (fit.mean[:n] - true.skills[item]), np.diagonal(covariance))
    wrong = fit.category_skills - (true.skills + true.in_category)[np.ix_(category, item)]
    spread = np.array(
        [np.diagonal(centre @ each[:n, :n] @ centre) for each in fit.category_covariance]
    )
    note("skills in categories", wrong @ centre, spread)
    off = fit.log_reliability - np.log(true.reliability[judge])
    note("reliabilities", off, fit.log_reliability_variance)
    note("order biases", fit.bias - true.bias[judge], fit.bias_variance)
    note("position", *_pair(fit.position, true.position))
    note("tie width", *_pair(fit.log_tie_width, np.log(true.tie_width)))
    return found


def _pair(moments: tuple[float, float], truth: float) -> tuple[Floats, Floats]:
    mean, deviation = moments
    return np.array([mean - truth]), np.array([deviation**2])


def usual(table: pd.DataFrame, bootstraps: int, seed: int = 0) -> tuple[Floats, float]:
    """Bootstrapped scores as arenas compute them, and seconds: Bradley-Terry by scikit-learn.

    A tie is half a win of either side; equal rows are counted, and drawn again by a multinomial.
    """
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    columns = ("model_a", "model_b", "winner")
    first, second, won = (table[c].cat.codes.to_numpy(np.int64) for c in columns)
    n = len(table["model_a"].cat.categories)
    keys, counts = np.unique((first * n + second) * 3 + won, return_counts=True)
    sides, outcome = np.divmod(keys, 3)
    one, other = np.divmod(sides, n)
    design = np.zeros((len(keys), n))
    design[np.arange(len(keys)), one] = 1.0
    design[np.arange(len(keys)), other] = -1.0
    design, win = np.concatenate([design, design]), np.repeat([1, 0], len(keys))
    share = np.concatenate([np.choose(outcome, [1.0, 0.0, 0.5]), np.choose(outcome, [0, 1.0, 0.5])])
    rng, scores = np.random.default_rng(seed), []
    for _ in range(bootstraps):
        drawn = rng.multinomial(counts.sum(), counts / counts.sum())
        weight = np.tile(drawn, 2) * share
        model = LogisticRegression(fit_intercept=False, C=1e6, tol=1e-6, max_iter=200)
        scores.append(model.fit(design[weight > 0], win[weight > 0], weight[weight > 0]).coef_[0])
    return np.array(scores), time.perf_counter() - start


def intervals_of_ranks(draws: Floats) -> Floats:
    """90% intervals of the ranks, shape (2, n)."""
    ranks = (-draws).argsort(axis=1).argsort(axis=1) + 1
    return np.quantile(ranks, [0.05, 0.95], axis=0)


@click.command()
@click.option("--rows", default=1_000_000)
@click.option("--items", default=200)
@click.option("--judges", default=5_000)
@click.option("--categories", default=20)
@click.option("--bootstraps", default=100, help="Of the usual way; 0 leaves it out.")
def arena(rows: int, items: int, judges: int, categories: int, bootstraps: int) -> None:
    """Seconds, memory and coverage on one large simulated log, beside the usual way."""
    true, table = draw(np.random.default_rng(0), items, judges, categories, rows)
    cpu = time.process_time()
    ranker, seconds = read_and_fit(table, said=True)
    cpu = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    click.echo(f"read, fitted, ranked: {seconds:.1f} s ({cpu:.1f} s of processor), {peak:.2f} GB")
    for kind, inside in within(ranker, true).items():
        click.echo(f"{kind:22} {inside.mean():.3f} of {len(inside):,}")
    order = [int(name.rpartition("-")[2]) for name in ranker.names_]
    draws = np.empty((2000, items))
    draws[:, order] = ranker.samples()
    _compare("ArenaRanker", draws, true)
    if bootstraps:
        scores, seconds = usual(table, bootstraps)
        _compare(f"logistic regression, {bootstraps} bootstraps, {seconds:.1f} s", scores, true)
        tau = kendalltau(scores.mean(0), draws.mean(0)).statistic
        click.echo(f"Kendall's tau between the two orders {tau:.4f}")


def _compare(name: str, draws: Floats, true: Truth) -> None:
    low, high = intervals_of_ranks(draws)
    rank = (-true.skills).argsort().argsort() + 1
    inside = np.mean((low <= rank) & (rank <= high))
    tau = kendalltau(draws.mean(0), true.skills).statistic
    click.echo(
        f"{name}: tau with the truth {tau:.4f}, 90% intervals of ranks hold {inside:.3f}, "
        f"mean width {np.mean(high - low + 1):.1f}"
    )


@click.command()
@click.option("--logs", default=50)
@click.option("--items", default=20)
@click.option("--judges", default=50)
@click.option("--categories", default=3)
@click.option("--rows", default=5_000)
def arena_coverage(logs: int, items: int, judges: int, categories: int, rows: int) -> None:
    """Share of truths that 90% intervals hold, over simulated logs; the usual way's ranks, too."""
    inside: dict[str, list[float]] = defaultdict(list)
    for seed in range(logs):
        true, table = draw(np.random.default_rng(seed), items, judges, categories, rows)
        ranker, _ = read_and_fit(table)
        for kind, values in within(ranker, true).items():
            inside[kind].append(float(values.mean()))
        order = [int(name.rpartition("-")[2]) for name in ranker.names_]
        draws = np.empty((2000, items))
        draws[:, order] = ranker.samples()
        rank = (-true.skills).argsort().argsort() + 1
        for name, samples in (("ranks", draws), ("ranks, usual way", usual(table, 100)[0])):
            low, high = intervals_of_ranks(samples)
            inside[name].append(float(np.mean((low <= rank) & (rank <= high))))
    for kind, values in inside.items():
        error = np.std(values) / np.sqrt(logs)
        click.echo(f"{kind:22} {np.mean(values):.3f} +- {error:.3f}")


COMMANDS = [arena, arena_coverage]
