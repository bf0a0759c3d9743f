r"""The two data sets of active learning, and the priors that were tried on them.

Active learning on data with known targets: who is asked what, and how fast errors fall.

A trial draws a pool of candidate pairs and a way of asking picks from it, one at a time. The answer
is the true order of the two targets. After every answer EP gives the posterior of all items, and
the error is the share of *all* pairs of items that the posterior means put in the wrong order; a
pair of equal targets counts one half, as nothing can be right or wrong about it. Pools hold no such
pairs: nobody could answer them.

The best few of several items, with noisy answers: how many are found, and when it is enough.

Skills are standard normal, and an answer is that of the model: a difference of skills of
:math:`\sqrt 2` wins 84%. Each series has skills and answers of its own, the same for all ways.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr
from scipy.stats import binomtest, rankdata
from tinygp import transforms
from tinygp.kernels import DotProduct, Kernel

from bayesrank import gp
from bayesrank.active import (
    Acquisition,
    Beliefs,
    QueryLoop,
    bald,
    best_pairs,
    entropy_gain,
    margin_variance,
    pool_variance,
    random_gain,
)
from bayesrank.active.settle import Answers, SkillPrior, settle
from bayesrank.infer import ConvergenceWarning

Array = np.ndarray

# Ways of asking: each makes an acquisition of a random key and the pool of candidate pairs.
WAYS: Mapping[str, Callable[[jax.Array, Array], Acquisition]] = {
    "random": lambda key, pool: random_gain(key),
    "entropy": lambda key, pool: entropy_gain,
    "bald": lambda key, pool: bald,
    "variance": lambda key, pool: margin_variance,
    "pool variance": lambda key, pool: pool_variance,
}


class Task(NamedTuple):
    """Items: standardised features (n, d), and the targets (n,) that order them."""

    X: Array
    target: Array


class Model(NamedTuple):
    """SkillPrior covariance of the skills, (n, n), and the standard deviation of a performance."""

    covariance: Array
    noise: float


class Trial(NamedTuple):
    """What happened after 1, 2, ... answers.

    Attributes
    ----------
    error
        Share of all pairs in the wrong order, (answers,).
    spread
        Variance of the margins of all pairs, summed, as a share of what it was before, (answers,).
    asked
        The questions, winner first, (answers, 2).
    """

    error: Array
    spread: Array
    asked: Array


def simulate(
    task: Task, model: Model, way: str, seed: int, answers: int, pool_size: int = 1_000
) -> Trial:
    """Ask, answer and learn, one question at a time."""
    pool = _draw_pool(task.target, pool_size, np.random.default_rng(seed))
    acquisition = WAYS[way](jax.random.key(seed), pool)
    n = len(task.target)
    prior = SkillPrior(np.zeros(n), model.covariance)
    mean, covariance, sites = *prior, np.zeros((2, 0))
    asked = np.zeros((answers, 2), int)
    error, spread = np.zeros(answers), np.zeros(answers)
    for t in range(answers):
        beliefs = Beliefs(*(np.asarray(x, np.float32) for x in (mean, covariance, model.noise)))
        pair = np.asarray(best_pairs(acquisition, beliefs, candidates=pool, exclude=asked)[0][0])
        first_wins = task.target[pair[0]] > task.target[pair[1]]
        asked[t] = pair if first_wins else pair[::-1]
        known = Answers(asked[: t + 1], np.full(t + 1, model.noise))
        tau, nu = np.pad(sites, ((0, 0), (0, 1)))
        fit = settle(prior, known, (tau, nu), tol=1e-5)
        mean, covariance, sites = fit.mean, fit.covariance, np.stack([fit.tau, fit.nu])
        error[t] = pair_error(mean, task.target)
        spread[t] = _total_spread(covariance) / _total_spread(model.covariance)
    return Trial(error, spread, asked)


def run_trials(
    task: Task, model: Model, way: str, seeds: range, answers: int, pool_size: int = 1_000
) -> Trial:
    """Stack the trials of several seeds: error and spread (seeds, answers), asked (.., 2)."""
    trials = [simulate(task, model, way, seed, answers, pool_size) for seed in seeds]
    return Trial(*(np.stack(part) for part in zip(*trials, strict=True)))


def pair_error(mean: Array, target: Array) -> float:
    """Share of all pairs in the wrong order; one half for pairs that are equal in either."""
    predicted, true = rankdata(mean, "dense"), rankdata(target, "dense")
    signs = np.sign(predicted[:, None] - predicted) * np.sign(true[:, None] - true)
    n = len(target)
    return float(0.5 * (1.0 - signs.sum() / (n * (n - 1))))


def _draw_pool(target: Array, size: int, rng: np.random.Generator) -> Array:
    pairs = np.stack(np.triu_indices(len(target), 1), axis=1)
    pairs = pairs[target[pairs[:, 0]] != target[pairs[:, 1]]]
    return rng.permuted(pairs[rng.choice(len(pairs), size, replace=False)], axis=1)


def _total_spread(covariance: Array) -> float:
    return float(len(covariance) * np.trace(covariance) - covariance.sum())


def draw_learning_curves(ax: Any, curves: Mapping[str, Array], *, band: str) -> None:
    """Errors (trials, answers) by name: averages, and bands of their "sd" or "se"."""
    for number, (name, table) in enumerate(curves.items()):
        answers, mean = np.arange(1, table.shape[1] + 1), table.mean(axis=0)
        width = table.std(axis=0, ddof=1) / (len(table) ** 0.5 if band == "se" else 1.0)
        ax.plot(answers, mean, color=f"C{number}", label=name)
        ax.fill_between(answers, mean - width, mean + width, color=f"C{number}", alpha=0.18, lw=0)
    ax.set(xlabel="answers", ylabel="pairs in the wrong order")
    ax.legend(frameon=False, fontsize="small")


def draw_running_loss(ax: Any, losses: Mapping[str, Array], best: float) -> None:
    """Average loss of all examples so far, of tables (trials, examples) by name."""
    for name, table in losses.items():
        length = table.shape[1]
        running = (table.cumsum(1) / np.arange(1, length + 1)).mean(0)
        shown = np.unique(np.geomspace(10, length, 300).astype(int))
        ax.plot(shown, running[shown - 1], label=f"{name} {running[-1]:.3f}")
    ax.axhline(best, color="0.4", linestyle="--", linewidth=1, label=f"the true rule {best:.3f}")
    ax.set(xscale="log", xlabel="examples", ylabel="average rank loss so far")
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize="small")


def draw_reliability(ax: Any, probability: Array, happened: Array, bins: int = 20) -> None:
    """How often events happened against their probability, with Wilson's 90% intervals."""
    p, seen = np.ravel(probability), np.ravel(happened)
    groups = np.array_split(np.argsort(p, kind="stable"), bins)
    share = np.array([seen[group].mean() for group in groups])
    tests = [binomtest(int(seen[group].sum()), len(group)) for group in groups]
    ends = np.array([test.proportion_ci(0.9, method="wilson") for test in tests]).T
    ax.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    ax.errorbar([p[group].mean() for group in groups], share, np.abs(ends - share), fmt="o-")
    ax.set(xlabel="predicted probability of a level", ylabel="how often it was the rating")


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


def overlap(beliefs: Beliefs, pairs: Array, *, k: int) -> Array:
    """How far one of the others reaches above one of the best k, each by a standard deviation."""
    mean, sd = jnp.asarray(beliefs.mean), jnp.sqrt(jnp.diagonal(beliefs.covariance))
    best = jnp.argsort(jnp.argsort(-mean)) < k
    i, j = pairs[..., 0], pairs[..., 1]
    inner, outer = jnp.where(best[i], i, j), jnp.where(best[i], j, i)
    reach = mean[outer] + sd[outer] - mean[inner] + sd[inner]
    return jnp.where(best[i] != best[j], reach, reach - 1e3)


TOP_WAYS: Mapping[str, Callable[[int], Mapping[str, Any]]] = {
    "random": lambda k: {"acquisition": "random"},
    "pair": lambda k: {"goal": "pair"},
    "overlap": lambda k: {"acquisition": partial(overlap, k=k)},
    "top": lambda k: {"goal": "top", "k": k},
}
"""Options of a loop for each way of asking for the best k items."""


def recall(way: str, seed: int, *, items: int, k: int, answers: int, **options: Any) -> Array:
    """Share of the best k items among those of the k highest means, after each answer."""
    skill = np.random.default_rng([seed, 0]).normal(size=items)
    loop = QueryLoop(items, seed=seed, hyperparameters="prior", **TOP_WAYS[way](k), **options)
    rng, found = np.random.default_rng([seed, 1]), []
    for _ in range(answers):
        _answer(loop, skill, rng)
        found.append(len(_best(loop.beliefs.mean, k) & _best(skill, k)) / k)
    return np.array(found)


def series_until_settled(
    seed: int, *, items: int, k: int, limit: int, scale: float = 1.0, **options: Any
) -> tuple[int, bool, bool]:
    """Number of answers, whether the best k are settled by then, and whether they are the best."""
    skill = scale * np.random.default_rng([seed, 0]).normal(size=items)
    loop, rng = QueryLoop(items, seed=seed, stop_top=k, **options), np.random.default_rng([seed, 1])
    while not (progress := loop.progress()).done and progress.answers < limit:
        _answer(loop, skill, rng)
    right = _best(loop.beliefs.mean, k) == _best(skill, k)
    return progress.answers, (progress.settled or 0.0) >= loop.rule.level, right


def _answer(loop: QueryLoop, skill: Array, rng: np.random.Generator) -> None:
    first, second = loop.ask()[0][:2]
    wins = rng.random() < ndtr((skill[first] - skill[second]) / np.sqrt(2.0))
    loop.tell(*((first, second) if wins else (second, first)))


def _best(skill: Array, k: int) -> set[int]:
    return set(np.argsort(-np.asarray(skill))[:k].tolist())


@click.command()
@click.option("--series", default=100)
@click.option("--first-seed", default=0)
@click.option("--items", default=20)
@click.option("--k", default=3)
@click.option("--answers", default=40)
@click.option("--ways", default=",".join(TOP_WAYS))
def top(series: int, first_seed: int, items: int, k: int, answers: int, ways: str) -> None:
    """Share of the best k of some items that are found, by way of asking."""
    marks = [mark for mark in (10, 20, 30, 40, 60, 80, 120) if mark <= answers]
    click.echo(f"{'after so many answers':24} {' '.join(f'{mark:>5}' for mark in marks)}   s.e.")
    for way in ways.split(","):
        seeds = range(first_seed, first_seed + series)
        found = [recall(way, seed, items=items, k=k, answers=answers) for seed in seeds]
        figures = " ".join(f"{np.mean([f[mark - 1] for f in found]):5.3f}" for mark in marks)
        error = np.std([f[marks[-1] - 1] for f in found], ddof=1) / np.sqrt(series)
        click.echo(f"{way:24} {figures}  {error:5.3f}")


@click.command()
@click.option("--series", default=100)
@click.option("--first-seed", default=0)
@click.option("--items", default=10)
@click.option("--k", default=3)
@click.option("--level", default=0.95)
@click.option("--limit", default=2_000, help="Answers after which a series ends unsettled.")
@click.option("--scale", default=1.0, help="Standard deviation of the skills.")
def settled(
    series: int, first_seed: int, items: int, k: int, level: float, limit: int, scale: float
) -> None:
    """How often the best k are settled, how soon, and how often they are the best then."""
    options = {"items": items, "k": k, "limit": limit, "scale": scale, "stop_level": level}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seeds = range(first_seed, first_seed + series)
        found = [series_until_settled(seed, **options) for seed in seeds]
    right = np.array([right for _, done, right in found if done])
    answers = np.percentile([answers for answers, _, _ in found], (25, 50, 75)).astype(int)
    error = np.sqrt(right.mean() * (1.0 - right.mean()) / len(right))
    click.echo(
        f"{len(right)} of {series} settled; right {right.mean():.3f} +- {error:.3f}; "
        f"answers, quartiles: {', '.join(map(str, answers))}"
    )


COMMANDS = [boston, diabetes, top, settled]
