"""Simulated battle logs: coverage and width of rank intervals, with and without each effect.

A log has items shown in two positions, and may have judges who differ, categories in which skills
differ, and an advantage of the first position. Two quantities may be meant by an item's skill if
there are categories: the *average* of the skills in the log's categories, and the *latent* skill
around which these are drawn, that of a category that has not been seen. Intervals are scored
against the ranks of both. `Ranker` estimates either; the rival, a bootstrapped Bradley-Terry
model, estimates the average. In every world the log has all columns, and the model their terms.
"""

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

Floats = NDArray[np.float64]
_TAIL = norm.ppf(0.95)
EFFECTS = ("judges", "categories", "position")
WORLDS = {
    "no effect": (),
    **{effect: (effect,) for effect in EFFECTS},
    "position, uneven sides": ("position", "uneven sides"),
    "all three": EFFECTS,
}


class Truth(NamedTuple):
    """What a log was drawn from."""

    skills: Floats
    in_category: Floats
    reliability: Floats
    bias: Floats
    position: float
    tie_width: float

    @property
    def estimands(self) -> dict[str, Floats]:
        """What may be meant by the skill of an item, shape (n,) each; categories count alike."""
        return {"average": self.skills + self.in_category.mean(0), "latent": self.skills}


def draw(
    rng: np.random.Generator,
    items: int,
    judges: int,
    categories: int,
    rows: int,
    effects: tuple[str, ...] = EFFECTS,
) -> tuple[Truth, pd.DataFrame]:
    """Draw a log with some of the effects; the others are drawn, too, and set to zero.

    With "uneven sides" each pair has the item of the higher number first in nine of ten battles.
    """
    there = {effect: float(effect in effects) for effect in EFFECTS}
    true = Truth(
        rng.normal(0.0, 1.0, items),
        there["categories"] * rng.normal(0.0, 0.3, (categories, items)),
        np.exp(there["judges"] * rng.normal(0.0, 0.3, judges)),
        there["judges"] * rng.normal(0.0, 0.3, judges),
        there["position"] * float(rng.normal(0.0, 0.3)),
        0.4,
    )
    first = rng.integers(0, items, rows)
    second = (first + rng.integers(1, items, rows)) % items
    if "uneven sides" in effects:
        turned = (first < second) == (rng.uniform(size=rows) < 0.9)
        first, second = np.where(turned, second, first), np.where(turned, first, second)
    judge, category = rng.integers(0, judges, rows), rng.integers(0, categories, rows)
    skill = true.skills + true.in_category
    margin = true.reliability[judge] * (skill[category, first] - skill[category, second])
    margin += true.position + true.bias[judge] + np.sqrt(2.0) * rng.normal(size=rows)
    won = np.where(margin > true.tie_width, 0, np.where(margin < -true.tie_width, 1, 2))
    names = [f"model-{i:03d}" for i in range(items)]
    columns = {
        "model_a": (first, names),
        "model_b": (second, names),
        "winner": (won, ["model_a", "model_b", "tie"]),
        "judge": (judge, [f"judge-{j:04d}" for j in range(judges)]),
        "category": (category, [f"category-{c}" for c in range(categories)]),
    }
    codes = {name: pd.Categorical.from_codes(*column) for name, column in columns.items()}
    return true, pd.DataFrame(codes)


def fit(table: pd.DataFrame) -> Any:
    """Write the log, read it back, fit and rank it."""
    from bayesrank.datasets import read_comparisons
    from bayesrank.estimators import Ranker

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        table.to_csv(path, index=False)
        ranker = Ranker().fit(read_comparisons(path))
    ranker.rank()
    return ranker


def _numbers(names: Any) -> NDArray[np.intp]:
    """Numbers at the end of names, which come in the order of their first appearance."""
    return np.array([int(name.rpartition("-")[2]) for name in names])


def draws_of(ranker: Any, overall: str) -> Floats:
    """Posterior draws of the skills, "average" or "unseen", in the order of the truth."""
    samples = ranker.set_params(overall=overall).samples()
    draws = np.empty_like(samples)
    draws[:, _numbers(ranker.names_)] = samples
    return draws


def coverage(ranker: Any, true: Truth) -> dict[str, NDArray[np.bool_]]:
    """Whether 90% intervals cover the parameters of judges, categories and position, by kind."""
    result, judges, n = ranker.result_, ranker.result_.judges, len(true.skills)
    item, judge = _numbers(ranker.names_), _numbers(ranker.judge_names_)
    category = _numbers(ranker.category_names_)
    center = np.eye(n) - 1.0 / n
    skills, within = zip(*map(result.skills, np.eye(result.num_categories)), strict=True)
    wrong = np.array(skills) - (true.skills + true.in_category)[np.ix_(category, item)]
    spread = [np.diagonal(center @ each @ center) for each in within]
    position, position_sd = result.position
    width, width_sd = result.log_tie_width
    off = {
        "skills in categories": (wrong @ center, np.array(spread)),
        "log reliabilities of judges": (
            judges.log_reliability - np.log(true.reliability[judge]),
            judges.log_reliability_variance,
        ),
        "order biases of judges": (judges.bias - true.bias[judge], judges.bias_variance),
        "advantage of the first": (position - true.position, position_sd**2),
        "tie width": (width - np.log(true.tie_width), width_sd**2),
    }
    return {kind: np.ravel(np.abs(x) < _TAIL * np.sqrt(v)) for kind, (x, v) in off.items()}


def bootstrap(table: pd.DataFrame, resamples: int, seed: int = 0) -> Floats:
    """Bradley-Terry scores of resampled logs, shape (resamples, n); a tie is half a win of each.

    Equal rows are counted, and drawn again by a multinomial.
    """
    from sklearn.linear_model import LogisticRegression

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
    for _ in range(resamples):
        drawn = rng.multinomial(counts.sum(), counts / counts.sum())
        weight = np.tile(drawn, 2) * share
        model = LogisticRegression(fit_intercept=False, C=1e6, tol=1e-6, max_iter=500)
        scores.append(model.fit(design[weight > 0], win[weight > 0], weight[weight > 0]).coef_[0])
    return np.array(scores)


def rank_intervals(draws: Floats, level: float = 0.9) -> Floats:
    """Intervals of the ranks of the columns of `draws`, shape (2, n); rank 1 is the largest."""
    ranks = (-draws).argsort(axis=1).argsort(axis=1) + 1
    tail = (1.0 - level) / 2.0
    return np.quantile(ranks, [tail, 1.0 - tail], axis=0, method="closest_observation")


def score(draws: Floats, truth: Floats) -> tuple[float, float, float]:
    """Share of true ranks inside 90% intervals, their mean width, and Kendall's tau."""
    low, high = rank_intervals(draws)
    rank = (-truth).argsort().argsort() + 1
    inside = float(np.mean((low <= rank) & (rank <= high)))
    tau = float(kendalltau(draws.mean(0), truth).statistic)
    return inside, float(np.mean(high - low + 1)), tau


@click.command()
@click.option("--logs", default=20, help="Logs of each world.")
@click.option("--items", default=20)
@click.option("--judges", default=20)
@click.option("--categories", default=3)
@click.option("--rows", default=2_000)
@click.option("--resamples", default=200, help="Of the bootstrap.")
def arena(logs: int, items: int, judges: int, categories: int, rows: int, resamples: int) -> None:
    """Coverage and width of 90% rank intervals in small logs, with and without each effect."""
    click.echo("| world | method | estimand | coverage | width | Kendall's tau |")
    click.echo("|---|---|---|---|---|---|")
    kinds: dict[str, list[float]] = defaultdict(list)
    for world, effects in WORLDS.items():
        scores: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
        for seed in range(logs):
            rng = np.random.default_rng(seed)
            true, table = draw(rng, items, judges, categories, rows, effects)
            ranker = fit(table)
            methods = {
                "Ranker": draws_of(ranker, "average"),
                'Ranker, overall="unseen"': draws_of(ranker, "unseen"),
                "bootstrap": bootstrap(table, resamples),
            }
            for estimand, truth in true.estimands.items():
                for method, draws in methods.items():
                    scores[method, estimand].append(score(draws, truth))
            if effects == EFFECTS:
                for kind, inside in coverage(ranker, true).items():
                    kinds[kind].append(float(inside.mean()))
        for (method, estimand), each in scores.items():
            if estimand == "latent" and "categories" not in effects:
                continue  # the same as the average
            inside, width, tau = np.transpose(each)
            click.echo(
                f"| {world} | {method} | {estimand} | {_percent(inside)} | {width.mean():.1f} | "
                f"{tau.mean():.3f} |"
            )
    click.echo("\n| 90% intervals of, with all three effects | coverage |\n|---|---|")
    for kind, shares in kinds.items():
        click.echo(f"| {kind} | {_percent(np.array(shares))} |")


def _percent(shares: Floats) -> str:
    """A mean over logs, with its standard error."""
    return f"{100 * shares.mean():.1f} ± {100 * shares.std(ddof=1) / len(shares) ** 0.5:.1f}%"


@click.command("arena-large")
@click.option("--rows", default=1_000_000)
@click.option("--items", default=200)
@click.option("--judges", default=5_000)
@click.option("--categories", default=20)
def arena_large(rows: int, items: int, judges: int, categories: int) -> None:
    """Seconds, memory and coverage of one large simulated log."""
    true, table = draw(np.random.default_rng(0), items, judges, categories, rows)
    start, cpu = time.perf_counter(), time.process_time()
    ranker = fit(table)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    click.echo(f"written, read, fitted, ranked: {seconds:.1f} s ({cpu:.1f} of CPU), {peak:.2f} GB")
    for kind, inside in coverage(ranker, true).items():
        click.echo(f"{kind:30} {inside.mean():.3f} of {len(inside):,}")


COMMANDS = [arena, arena_large]
