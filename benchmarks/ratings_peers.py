"""Ratings held out at random: ours beside myfm and scikit-surprise's recommenders, and calibration.

A random fifth is held out, and all settings are defaults; myfm has rank 10 and 300 sweeps. With
probabilities, the mean level is judged by its squared error, the median by its absolute error, the
mode by the zero-one error, and the central 90% interval of levels by its coverage.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from bayesrank import CollaborativeOrdinalGP
from bayesrank._arviz import import_arviz
from benchmarks.ratings_protocol import Ratings, film_features, load

Array = NDArray[Any]


_FIGURES = ("rmse", "mae", "zero-one", "log loss", "90%", "CPU s")
_SWEEPS, _RANK = 300, 10  # of myfm


class Split(NamedTuple):
    """What came out on one random split.

    Attributes
    ----------
    figures
        By model: the figures of the held-out ratings.
    probability
        Ours of the levels of the held-out ratings, by defaults, shape (K, r).
    levels
        Their levels, shape (K,).
    """

    figures: dict[str, dict[str, float]]
    probability: Array
    levels: Array


def split_errors(seed: int, name: str, least: int) -> Split:
    """Hold out a fifth of all ratings, and predict them."""
    data = load(name, least)
    test = np.random.default_rng(seed).random(len(data.users)) < 0.2
    train, held_out = data.where(~test), data.where(test)
    features = film_features(least) if name == "movielens" else None
    figures, probabilities = {}, {}
    for model, predict in _models(train, held_out, features):
        start = time.process_time()
        found = predict()
        taken = {"CPU s": time.process_time() - start}
        if found.ndim == 2:
            probabilities[model] = found
        judged = _of_probabilities if found.ndim == 2 else _of_numbers
        figures[model] = judged(found, held_out.levels) | taken
    if importlib.util.find_spec("surprise") is not None:
        for model, predicted in _surprise(train, held_out):
            figures[model] = _of_numbers(predicted, held_out.levels)
    return Split(figures, probabilities["CGPOR"], held_out.levels)


def _models(train: Ratings, test: Ratings, features: Array | None) -> Iterator[tuple[str, Any]]:
    """Names, and functions that fit and predict."""

    def ours(table: Array | None = None, *, implicit: bool = True) -> Array:
        model = CollaborativeOrdinalGP(implicit=implicit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(train.users, train.items, train.levels + 1, table)
        return model.predict_proba(test.users, test.items, unknown="population")

    yield "CGPOR", ours
    yield "CGPOR, ids alone", lambda: ours(implicit=False)
    if features is not None:
        yield "CGPOR, with genres and year", lambda: ours(features)
    if importlib.util.find_spec("myfm") is not None:
        yield "myfm, ids alone", lambda: _myfm(train, test, None, implicit=False)
        yield "myfm, with who rated what", lambda: _myfm(train, test, None, implicit=True)
        if features is not None:
            yield "myfm, with these, too", lambda: _myfm(train, test, features, implicit=True)


def _myfm(train: Ratings, test: Ratings, features: Array | None, *, implicit: bool) -> Array:
    """Ordinal probit factorisation machines: probabilities of levels, (K, r)."""
    from scipy import sparse

    myfm: Any = importlib.import_module("myfm")
    shape = tuple(int(max(x.max(), y.max())) + 1 for x, y in zip(train[:2], test[:2], strict=True))
    rated = sparse.csr_array((np.ones(len(train.users)), train[:2]), shape=shape)
    blocks = []
    for count, table, more in ((shape[0], rated, None), (shape[1], rated.T.tocsr(), features)):
        parts: list[Any] = [sparse.identity(count, format="csr")]
        if implicit:
            root = np.sqrt(np.maximum(table.sum(axis=1), 1.0))
            parts.append(sparse.csr_matrix(sparse.diags_array(1.0 / root) @ table))
        if more is not None:
            parts.append(sparse.csr_matrix(more))
        blocks.append(parts)
    sides = [sparse.csr_matrix(sparse.hstack(parts)) for parts in blocks]

    def relations(ratings: Ratings) -> list[Any]:
        return [myfm.RelationBlock(x, side) for x, side in zip(ratings[:2], sides, strict=True)]

    model = myfm.MyFMOrderedProbit(rank=_RANK, random_seed=0)
    sizes = [part.shape[1] for parts in blocks for part in parts]
    model.fit(
        None,
        train.levels,
        X_rel=relations(train),
        n_iter=_SWEEPS,
        n_kept_samples=_SWEEPS - 20,
        group_shapes=sizes,
    )
    return np.asarray(model.predict_proba(None, relations(test)))


def _of_probabilities(probability: Array, levels: Array) -> dict[str, float]:
    below = probability.cumsum(axis=1)
    low, median, high = ((below[:, :-1] < share).sum(axis=1) for share in (0.05, 0.5, 0.95))
    mean = probability @ np.arange(probability.shape[1])
    likelihood = probability[np.arange(len(levels)), levels]
    return {
        "rmse": float(np.sqrt(((mean - levels) ** 2).mean())),
        "mae": float(np.abs(median - levels).mean()),
        "zero-one": float((probability.argmax(axis=1) != levels).mean()),
        "log loss": float(-np.log(likelihood).mean()),
        "90%": float(((low <= levels) & (levels <= high)).mean()),
    }


def _of_numbers(mean: Array, levels: Array) -> dict[str, float]:
    """The mean absolute error is the smaller of that of the numbers and of them rounded."""
    rounded = np.clip(np.round(mean), 0, 4)
    return {
        "rmse": float(np.sqrt(((mean - levels) ** 2).mean())),
        "mae": float(min(np.abs(mean - levels).mean(), np.abs(rounded - levels).mean())),
        "zero-one": float((rounded != levels).mean()),
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
    from benchmarks.active_tasks import draw_reliability

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
@click.option("--data", "name", type=click.Choice(["movielens", "insteval"]), default="movielens")
@click.option("--seeds", default="11,12,13", help="A random split for each.")
@click.option("--least", default=20, help="Films with so many ratings or more.")
@click.option("--plot", default=None, help="Folder for pictures of the first split's calibration.")
def ratings_peers(name: str, seeds: str, least: int, plot: str | None) -> None:
    """Held-out errors beside those of myfm and scikit-surprise, on a fifth of all ratings."""
    splits = [split_errors(int(seed), name, least) for seed in seeds.split(",")]
    click.echo("mean (standard error); difference to CGPOR, paired (standard error)")
    for model in splits[0].figures:
        cells = []
        for figure in _FIGURES:
            values = np.array([split.figures[model].get(figure, np.nan) for split in splits])
            ours = np.array([split.figures["CGPOR"][figure] for split in splits])
            cells.append(f"{figure} {_mean(values)} {_mean(values - ours)}")
        click.echo(f"{model:36} {'  '.join(cells)}")
    if plot is not None:
        draw_calibration(splits[0].probability, splits[0].levels, Path(plot))


def _mean(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ({error:.4f})"


COMMANDS = [ratings_peers]
