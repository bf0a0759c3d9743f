"""Ratings held out at random: ours beside scikit-surprise's recommenders, and calibration."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from bayesrank._arviz import import_arviz
from bayesrank.solvers.collaborative import EM
from benchmarks.ratings import STRENGTH, Ratings, load

__all__ = ["COMMANDS"]

Array = NDArray[Any]


class Split(NamedTuple):
    """What came out on one random split.

    Attributes
    ----------
    figures
        By model: mean absolute error, zero-one error and log loss of the held-out ratings.
    probability
        CGPOR's probabilities of the levels of the held-out ratings, shape (K, r).
    levels
        Their levels, shape (K,).
    iterations, converged
        Of EM on the program of CGPOR.
    """

    figures: dict[str, dict[str, float]]
    probability: Array
    levels: Array
    iterations: int
    converged: bool


def split_errors(
    seed: int,
    strength: float | None = STRENGTH,
    iterations: int = 300,
    tol: float = 1e-4,
    least: int = 50,
) -> Split:
    """Hold out a fifth of all ratings of the films with `least` or more, and predict them."""
    data = load("movielens", least)
    test = np.random.default_rng(seed).random(len(data.users)) < 0.2
    shape = {"num_users": int(data.users.max()) + 1, "num_items": int(data.items.max()) + 1}
    train, held_out = data.where(~test), data.where(test)
    engine = EM("probit", strength=strength, tol=tol, max_iterations=iterations)
    result = engine.run(*train, progress_bar=False, **shape)  # pyright: ignore[reportArgumentType]
    probability = result.predict_proba(held_out.users, held_out.items)
    figures = {"CGPOR": _of_probabilities(probability, held_out.levels)}
    if importlib.util.find_spec("surprise") is not None:
        for name, predicted in _surprise(train, held_out):
            figures[name] = _of_numbers(predicted, held_out.levels)
    converged, count = bool(result.converged), int(result.num_iterations)
    return Split(figures, probability, held_out.levels, count, converged)


def _of_probabilities(probability: Array, levels: Array) -> dict[str, float]:
    """The median counts for the absolute error, the mode for the zero-one error."""
    median = (probability.cumsum(axis=1)[:, :-1] < 0.5).sum(axis=1)
    likelihood = probability[np.arange(len(levels)), levels]
    return {
        "mae": float(np.abs(median - levels).mean()),
        "zero-one": float((probability.argmax(axis=1) != levels).mean()),
        "log loss": float(-np.log(likelihood).mean()),
    }


def _of_numbers(mean: Array, levels: Array) -> dict[str, float]:
    """The mean absolute error is the smaller of that of the numbers and of them rounded."""
    rounded = np.clip(np.round(mean), 0, 4)
    return {
        "mae": float(min(np.abs(mean - levels).mean(), np.abs(rounded - levels).mean())),
        "zero-one": float((rounded != levels).mean()),
        "log loss": float("nan"),
    }


def _surprise(train: Ratings, test: Ratings) -> Iterator[tuple[str, Array]]:
    """Predictions of recommenders at their default settings, levels from 0."""
    import pandas as pd

    surprise: Any = importlib.import_module("surprise")
    table = pd.DataFrame({"user": train.users, "item": train.items, "rating": train.levels + 1})
    data = surprise.Dataset.load_from_df(table, surprise.Reader(rating_scale=(1, 5)))
    whole = data.build_full_trainset()
    similarity = {"name": "pearson_baseline", "user_based": False}
    algorithms = {
        "biased mean (surprise BaselineOnly)": surprise.BaselineOnly(verbose=False),
        "item kNN (surprise KNNBaseline)": surprise.KNNBaseline(
            k=40, sim_options=similarity, verbose=False
        ),
        "SVD (surprise)": surprise.SVD(random_state=0),
        "SVD++ (surprise)": surprise.SVDpp(random_state=0),
    }
    for name, algorithm in algorithms.items():
        algorithm.fit(whole)
        pairs = zip(test.users, test.items, strict=True)
        yield name, np.array([algorithm.predict(u, i).est for u, i in pairs]) - 1


# ---------------------------------------------------------------- calibration


def _draw_pit(values: Array, seed: int) -> Any:
    """Draw the share of `values` (K,) below each quantile, less the quantile: zero if uniform."""
    arviz = import_arviz()
    if "InferenceData" in vars(arviz):
        from matplotlib import pyplot as plt
        from scipy.stats import uniform

        ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")[1]
        return arviz.plot_ecdf(
            values,
            cdf=uniform.cdf,
            rvs=lambda size, random_state=None: uniform.rvs(size=size, random_state=random_state),
            difference=True,
            confidence_bands="simulated",
            ci_prob=0.94,
            eval_points=np.linspace(0.0, 1.0, 101),
            random_state=seed,
            ax=ax,
        )
    tree = arviz.from_dict({"predictions": {"PIT": values[None]}})
    collection = arviz.plot_ecdf_pit(
        tree,
        group="predictions",
        envelope_prob=0.94,
        backend="matplotlib",
        figure_kwargs={"figsize": (6.0, 4.0)},
    )
    return collection.get_target("PIT", {})


def draw_calibration(probability: Array, levels: Array, folder: Path, seed: int = 0) -> None:
    """Draw the PIT of held-out ratings by ArviZ, and the reliability of level probabilities.

    Parameters
    ----------
    probability
        Predicted probabilities of the levels, shape (K, r).
    levels
        What the levels were, shape (K,).
    folder
        Where ``ratings_pit.png`` and ``ratings_reliability.png`` go.
    seed
        Of the place within its level that a rating is given at random, without which the PIT of a
        few levels could not be uniform.
    """
    from matplotlib import pyplot as plt

    from bayesrank.diagnostics import randomized_pit
    from benchmarks.pictures import draw_reliability

    folder.mkdir(parents=True, exist_ok=True)
    happened = levels[:, None] == np.arange(probability.shape[1])
    reliability = plt.subplots(figsize=(5.0, 5.0), layout="constrained")[1]
    draw_reliability(reliability, probability, happened)
    for name, ax in (
        ("pit", _draw_pit(randomized_pit(probability, levels, seed=seed), seed)),
        ("reliability", reliability),
    ):
        figure: Any = ax.figure
        figure.savefig(folder / f"ratings_{name}.png", dpi=120, bbox_inches="tight")
        plt.close(figure)


@click.command()
@click.option("--seeds", default="11,12,13", help="A random split for each.")
@click.option("--strength", default=None, type=float, help="Strength of the kernel's prior.")
@click.option("--iterations", default=300, help="Most iterations of EM.")
@click.option("--least", default=50, help="Films with so many ratings or more.")
@click.option("--plot", default=None, help="Folder for pictures of the first split's calibration.")
def ratings_peers(
    seeds: str, strength: float | None, iterations: int, least: int, plot: str | None
) -> None:
    """Held-out errors beside scikit-surprise's, on a fifth of all ratings of MovieLens-small."""
    splits = []
    for seed in seeds.split(","):
        splits.append(split_errors(int(seed), strength, iterations, least=least))
        how = "converged" if splits[-1].converged else "stopped"
        click.echo(f"seed {seed}: EM {how} after {splits[-1].iterations} iterations")
    click.echo("mean (standard error); difference to CGPOR, paired (standard error)")
    for name in splits[0].figures:
        cells = []
        for figure in ("mae", "zero-one", "log loss"):
            values = np.array([split.figures[name][figure] for split in splits])
            ours = np.array([split.figures["CGPOR"][figure] for split in splits])
            cells.append(f"{figure} {_mean(values)} {_mean(values - ours)}")
        click.echo(f"{name:36} {'  '.join(cells)}")
    if plot is not None:
        draw_calibration(splits[0].probability, splits[0].levels, Path(plot))


def _mean(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ({error:.4f})"


COMMANDS = [ratings_peers]
