"""The two data sets of active learning, and the priors that were tried on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from tinygp import transforms
from tinygp.kernels import DotProduct, Kernel

from bayesrank import gp
from benchmarks.active_simulation import Model, Task, Trial, run_trials
from benchmarks.pictures import draw_learning_curves

__all__ = ["BOSTON", "COMMANDS", "DIABETES", "boston_task", "diabetes_task", "prior"]


def boston_task() -> Task:
    """Boston housing, 506 x 13, standardised; the targets are the median prices."""
    from mlxtend.data import boston_housing_data

    X, target = boston_housing_data()
    return Task((X - X.mean(axis=0)) / X.std(axis=0), target)


def diabetes_task() -> Task:
    """scikit-learn's diabetes, 442 x 10, standardised; the targets are how far it progressed."""
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes()
    X = data["data"]
    return Task((X - X.mean(axis=0)) / X.std(axis=0), data["target"])


def prior(
    task: Task,
    *,
    linear: float = 0.0,
    smooth: float = 0.0,
    lengthscale: float = 1.0,
    item: float = 0.0,
    noise: float = 1.0,
    neighbors: int = 0,
) -> Model:
    """Skills as a sum of what is linear in the features, what is smooth, and the item's own.

    Parameters
    ----------
    task
        The items.
    linear, smooth, item
        Prior standard deviations of the three: ``linear`` for an item of the average square of the
        features, ``smooth`` of an RBF kernel with this ``lengthscale``, ``item`` independent.
    lengthscale
        Of the RBF kernel.
    noise
        Standard deviation of a performance.
    neighbors
        Warp the prior by the graph of so many nearest neighbours; 0 is no graph.
    """
    with jax.enable_x64(True):
        X = jnp.asarray(task.X, float)
        kernels: list[Kernel] = []
        if linear:
            scale = linear / np.sqrt(X.shape[1])
            kernels.append(transforms.Linear(jnp.asarray(scale), DotProduct()))
        if smooth:
            kernels.append(gp.rbf(smooth, lengthscale))
        kernel = sum(kernels[1:], start=kernels[0])
        if neighbors:
            kernel = gp.graph_kernel(kernel, X, gp.laplacian(gp.knn_graph(task.X, neighbors)))
        covariance = np.asarray(gp.gram(kernel, X))
    return Model(covariance + item**2 * np.eye(len(covariance)), noise)


def _paper(task: Task, neighbors: int = 0) -> Model:
    """Chu and Ghahramani's prior: ``kappa_o = kappa = 0.0625``, ``sigma^2 = 0.001``."""
    return prior(task, smooth=0.25, lengthscale=4.0, noise=0.001**0.5, neighbors=neighbors)


BOSTON: Mapping[str, Callable[[Task], Model]] = {
    "supervised": _paper,
    "semi-supervised": lambda task: _paper(task, neighbors=3),
    "linear + RBF + item": lambda task: prior(
        task, linear=0.5, smooth=0.5, lengthscale=5.0, item=0.7
    ),
}

DIABETES: Mapping[str, Callable[[Task], Model]] = {
    "RBF": lambda task: prior(task, smooth=1.0, lengthscale=10**0.5),
    "linear": lambda task: prior(task, linear=1.0),
    "linear + item": lambda task: prior(task, linear=0.7, item=0.7),
    "linear + RBF + item": lambda task: prior(
        task, linear=0.5, smooth=0.5, lengthscale=5.0, item=0.7
    ),
}


@click.command()
@click.option("--trials", default=20)
@click.option("--first-seed", default=0)
@click.option("--answers", default=50)
@click.option("--ways", default="random,entropy,bald")
@click.option("--models", default="supervised,semi-supervised", help="Names, with commas.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def boston(
    trials: int, first_seed: int, answers: int, ways: str, models: str, path: Path | None
) -> None:
    """Figure 2 of Chu and Ghahramani (2005): Boston housing, by prior and way of asking."""
    cases = [(model, way) for model in models.split(",") for way in ways.split(",")]
    task = boston_task()
    marks = (2, 5, 10, 20, 30, 40, 50)
    results = _study(task, BOSTON, cases, trials, first_seed, answers, marks)
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
    cases = [(model, way) for model in models.split(",") for way in ways.split(",")]
    task = diabetes_task()
    marks = (5, 10, 20, 30, 40)
    results = _study(task, DIABETES, cases, trials, first_seed, answers, marks)
    if path is not None:
        shown = {
            f"{model}, {way}": trial.error
            for number, ((model, way), trial) in enumerate(results.items())
            if way == "bald" or number == 0
        }
        figure = Figure(figsize=(6.5, 4.2), layout="constrained")
        ax = figure.subplots()
        draw_learning_curves(ax, shown, band="se")
        ax.set(ylim=(0.24, 0.36), title=f"Diabetes, average of {trials} trials; band: its error")
        figure.savefig(path, dpi=110)


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
        name = f"{model} | {way}"
        click.echo(
            f"{name:40} {figures} {standard_error:6.4f} "
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
    figure = Figure(figsize=(15, 4.4), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, model in zip(axes, ("supervised", "semi-supervised"), strict=False):
        curves = {
            way: results[model, way].error
            for way in ("random", "entropy", "bald")
            if (model, way) in results
        }
        draw_learning_curves(ax, curves, band="sd")
        ax.set_title(model, fontsize="medium")
    both = {
        f"entropy, {model}": results[model, "entropy"].error
        for model in ("supervised", "semi-supervised")
        if (model, "entropy") in results
    }
    draw_learning_curves(axes[2], both, band="sd")
    axes[2].set_title("entropy, with and without the graph", fontsize="medium")
    for ax in axes[1:]:
        ax.set_ylabel("")
    number = len(next(iter(results.values())).error)
    figure.suptitle(f"Boston housing, {number} trials; band: standard deviation of a trial")
    figure.savefig(path, dpi=110)


COMMANDS = [boston, diabetes]
