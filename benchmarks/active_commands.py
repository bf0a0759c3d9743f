"""Commands of the benchmarks of active learning."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

if TYPE_CHECKING:
    from benchmarks.active_simulation import Trial

__all__ = ["COMMANDS"]

_SEPARATOR = " | "


@click.command()
@click.option("--only", default="", help="Run the cases whose name contains this.")
def acquisition(only: str) -> None:
    """First call, later calls and memory of choosing the ten best of all pairs."""
    from benchmarks.active_speed import CASES

    click.echo(f"{'case':45} {'first s':>8} {'median s':>9} {'min s':>8} {'target':>7} {'MB':>6}")
    for name in CASES:
        if only not in name:
            continue
        command = [sys.executable, "-m", "benchmarks", "one", "acquisition", name]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = json.loads(output.splitlines()[-1])
        target = "" if row["target_s"] is None else f"{row['target_s']:.2f}"
        click.echo(
            f"{name:45} {row['first_s']:8.2f} {row['median_s']:9.4f} {row['min_s']:8.4f} "
            f"{target:>7} {row['peak_mb']:6.0f}"
        )


@click.command()
@click.option("--trials", default=20)
@click.option("--first-seed", default=0)
@click.option("--answers", default=50)
@click.option("--ways", default="random,entropy,bald,pool entropy,pool error")
@click.option("--models", default="supervised,semi-supervised", help="Names, with commas.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def boston(
    trials: int, first_seed: int, answers: int, ways: str, models: str, path: Path | None
) -> None:
    """Figure 2 of Chu and Ghahramani (2005): Boston housing, by prior and way of asking."""
    from benchmarks import active_tasks

    cases = [(model, way) for model in models.split(",") for way in ways.split(",")]
    task = active_tasks.boston()
    marks = (2, 5, 10, 20, 30, 40, 50)
    results = _study(task, active_tasks.BOSTON, cases, trials, first_seed, answers, marks)
    if path is not None:
        _plot_boston(results, path)


@click.command()
@click.option("--trials", default=20)
@click.option("--first-seed", default=0)
@click.option("--answers", default=40)
@click.option("--ways", default="random,entropy,bald,variance")
@click.option("--models", default="RBF,linear,linear + item,linear + RBF + item")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def diabetes(
    trials: int, first_seed: int, answers: int, ways: str, models: str, path: Path | None
) -> None:
    """scikit-learn's diabetes, by prior and way of asking."""
    from bayesrank.plots import plot_learning_curves
    from benchmarks import active_tasks

    cases = [(model, way) for model in models.split(",") for way in ways.split(",")]
    task = active_tasks.diabetes()
    marks = (5, 10, 20, 30, 40)
    results = _study(task, active_tasks.DIABETES, cases, trials, first_seed, answers, marks)
    if path is not None:
        shown = {
            f"{model}, {way}": trial.error
            for number, ((model, way), trial) in enumerate(results.items())
            if way == "bald" or number == 0
        }
        ax: Any = plot_learning_curves(shown, band="se")
        ax.set_ylim(0.24, 0.36)
        ax.set_title(f"Diabetes, average of {trials} trials; band: standard error of the average")
        ax.figure.savefig(path, dpi=110)


def _study(
    task: Any,
    models: Mapping[str, Any],
    cases: Sequence[tuple[str, str]],
    trials: int,
    first_seed: int,
    answers: int,
    marks: Sequence[int],
) -> dict[tuple[str, str], Trial]:
    """Run and print cases: the error after so many answers, with the last one's standard error."""
    from benchmarks.active_simulation import run_trials

    marks = [k for k in marks if k <= answers]
    heads = " ".join(f"{k:>6}" for k in marks)
    click.echo(f"{'error after so many answers':40} {heads}   s.e.  spread left after 10")
    results = {}
    for model, way in cases:
        seeds = range(first_seed, first_seed + trials)
        trial = run_trials(task, models[model](task), way, seeds, answers)
        results[model, way] = trial
        error = trial.error.mean(axis=0)
        figures = " ".join(f"{error[k - 1]:6.4f}" for k in marks)
        standard_error = trial.error[:, -1].std(ddof=1) / np.sqrt(trials)
        click.echo(
            f"{model + _SEPARATOR + way:40} {figures} {standard_error:6.4f} "
            f"{trial.spread[:, min(9, answers - 1)].mean():6.3f}"
        )
        _compare_with_random(results, model, way, task)
    return results


def _compare_with_random(
    results: Mapping[tuple[str, str], Trial], model: str, way: str, task: Any
) -> None:
    """Print the first ten answers beside those of random questions in the same pools."""
    ours, random = results[model, way], results.get((model, "random"))
    if random is None or way == "random":
        return
    difference = (ours.error - random.error)[:, :10].mean(axis=1)
    distance = np.linalg.norm(task.X, axis=1)
    far, usual = (distance[trial.asked[:, :10]].mean() for trial in (ours, random))
    click.echo(
        f"{'':4}first ten answers: error {difference.mean():+.4f} +- "
        f"{difference.std(ddof=1) / np.sqrt(len(difference)):.4f} against random; items asked are "
        f"{far:.2f} from the average item, random ones {usual:.2f}"
    )


def _plot_boston(results: Mapping[tuple[str, str], Trial], path: Path) -> None:
    from matplotlib import pyplot as plt

    from bayesrank.plots import plot_learning_curves

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.4), sharey=True, layout="constrained")
    for ax, model in zip(axes, ("supervised", "semi-supervised"), strict=False):
        curves = {
            way: results[model, way].error
            for way in ("random", "entropy", "pool error")
            if (model, way) in results
        }
        plot_learning_curves(curves, ax=ax)
        ax.set_title(model, fontsize="medium")
    both = {
        f"entropy, {model}": results[model, "entropy"].error
        for model in ("supervised", "semi-supervised")
        if (model, "entropy") in results
    }
    plot_learning_curves(both, ax=axes[2])
    axes[2].set_title("entropy, with and without the graph", fontsize="medium")
    for ax in axes[1:]:
        ax.set_ylabel("")
    number = len(next(iter(results.values())).error)
    figure.suptitle(f"Boston housing, {number} trials; band: standard deviation of a trial")
    figure.savefig(path, dpi=110)


COMMANDS = (acquisition, boston, diabetes)
