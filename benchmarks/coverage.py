"""Simulation-based calibration: how often the posterior's intervals hold the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click
import jax
import numpy as np

from bayesrank.infer import EP
from bayesrank.ranking import rank_interval
from benchmarks import problems

__all__ = ["COMMANDS"]


class Calibration(NamedTuple):
    """Outcome of a calibration study.

    Attributes
    ----------
    coverage
        For each data set, the share of items whose true rank lies in its 90% interval.
    skill_ranks
        Rank of each true skill among its posterior draws, as a fraction, (data sets, items); skills
        are measured from their mean.
    """

    coverage: np.ndarray
    skill_ranks: np.ndarray


def calibrate(
    datasets: int, n: int, count: int, variance: float, draws: int = 1_000
) -> Calibration:
    """Draw skills and comparisons from the model, infer, and look where the truth lies.

    References
    ----------
    Talts, S. et al. (2018). Validating Bayesian inference algorithms with simulation-based
    calibration.
    """
    engine = EP(problems.fixed_gp)
    coverage, ranks = np.empty(datasets), np.empty((datasets, n))
    for seed in range(datasets):
        problem = problems.gp_problem(n, count, variance, seed)
        result = engine.run(
            jax.random.key(seed),
            problem.X,
            problem.winner,
            problem.loser,
            np.asarray(variance),
            num_samples=draws,
        )
        samples = result.get_samples()["f"]
        low, high = np.asarray(rank_interval(samples, level=0.9)).T
        true_rank = np.empty(n)
        true_rank[np.argsort(-problem.skill)] = np.arange(1, n + 1)
        coverage[seed] = np.mean((low <= true_rank) & (true_rank <= high))
        # Comparisons say nothing of the level that all skills share: it is taken out of both.
        centred = samples - samples.mean(axis=1, keepdims=True)
        ranks[seed] = np.mean(centred < problem.skill - problem.skill.mean(), axis=0)
    return Calibration(coverage, ranks)


def plot(calibration: Calibration, path: Path, title: str) -> None:
    """Draw both halves of the study and write them to a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    percent = 100 * calibration.coverage
    edges = np.arange(np.floor(percent.min()) - 0.5, 101.5)
    left.hist(percent, bins=edges, color="tab:blue", alpha=0.8)
    mean = percent.mean()
    left.axvline(90, color="black", ls="--", label="what the intervals promise: 90%")
    left.axvline(mean, color="tab:red", label=f"what they keep: {mean:.1f}%")
    left.set_xlabel("items whose true rank lies in the interval (%)")
    left.set_ylabel("simulated data sets")
    left.set_ylim(0, 1.35 * left.get_ylim()[1])
    left.legend(framealpha=1.0, edgecolor="none", loc="upper left")
    bins = 20
    values: Any = calibration.skill_ranks.ravel()
    right.hist(values, bins=bins, color="tab:blue", alpha=0.8)
    right.axhline(values.size / bins, color="black", ls="--", label="calibrated: flat")
    right.set_xlabel("where the true skill lies among its posterior draws")
    right.set_ylabel("items")
    right.legend(framealpha=1.0, edgecolor="none", loc="lower center")
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


@click.command()
@click.option("--datasets", default=500)
@click.option("--items", default=100)
@click.option("--comparisons", default=500)
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def coverage(datasets: int, items: int, comparisons: int, path: Path | None) -> None:
    """Coverage of 90% rank intervals over simulated data sets."""
    result = calibrate(datasets, items, comparisons, 4.0)
    error = result.coverage.std() / len(result.coverage) ** 0.5
    click.echo(
        f"{datasets} data sets of {items} items and {comparisons} comparisons: 90% rank intervals "
        f"cover {100 * result.coverage.mean():.2f}% +- {100 * error:.2f}%"
    )
    if path is not None:
        plot(
            result,
            path,
            f"{datasets} simulated data sets, {items} items, {comparisons} comparisons",
        )


COMMANDS = [coverage]
