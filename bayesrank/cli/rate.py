"""The command `rate`: ratings in; predicted ratings, rankings of items for each user, pictures."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.text import Text

from bayesrank._memory import check_memory
from bayesrank._names import count_of, shown
from bayesrank.cli.outputs import drawn, job
from bayesrank.cli.tables import plain_table
from bayesrank.datasets import DataError, RatingData, read_ratings
from bayesrank.datasets.items import read_items
from bayesrank.ranking.columns import percent

if TYPE_CHECKING:
    from bayesrank.estimators import CollaborativeOrdinalGP

FILES = ("predictions.csv", "rankings.csv", "items.csv", "items.png", "similarity.png")
_PRINTED = 3  # items of each user
_MOST_IN_PICTURE = 30
_MOST_PREDICTIONS = 1_000_000


def rate(
    ratings: Path,
    items: Path | None,
    levels: int | None,
    top: int,
    out: Path,
    rows: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Read the file, fit, write the results and print the best unseen items of users."""
    data = read_ratings(ratings, num_levels=levels)
    features = None if items is None else _features(items, ratings, data)
    _check_memory(len(data.users), len(data.items if features is None else features))
    inputs = (ratings, items)
    with job(out, FILES, inputs, quiet=quiet) as run, run.steps.running():
        with run.steps.step("Learning what users share"):
            model = _fit(data, features, **options)
        rated = _rated(data, model)
        with run.steps.step("Predicting"):
            results = _predict(model, rated, top)
        run.write(results)
    notes = _notes(data, model, rated)
    run.show(_table(results["rankings.csv"], rows), *notes, run.where)


def _check_memory(num_users: int, num_items: int) -> None:
    """Mean, variance, order and marks of every pair of user and item, and ten matrices of items."""
    check_memory(
        25 * num_users * num_items + 80 * num_items**2,
        f"{num_users:,} users and {num_items:,} items",
        "leave out users or items of few ratings, or fit by bayesrank.CollaborativeOrdinalGP, "
        "which predicts the pairs that you ask for",
    )


def _features(path: Path, ratings: Path, data: RatingData) -> pd.DataFrame:
    """Features by name; an item that is rated must be among them."""
    known = read_items(path)
    if known.features is None:
        fix = "add columns of numbers, or leave --items out"
        raise DataError(path, "there are names of items but no features", fix)
    for name in data.items:
        if name not in known.names:
            raise known.unknown(name, ratings)
    return pd.DataFrame(known.features, index=list(known.names))


def _fit(
    data: RatingData, features: pd.DataFrame | None, strength: float | None, iterations: int
) -> CollaborativeOrdinalGP:
    from bayesrank.estimators import CollaborativeOrdinalGP
    from bayesrank.infer import ConvergenceWarning

    users = [data.users[i] for i in data.rows[:, 0]]
    items = [data.items[i] for i in data.rows[:, 1]]
    model = CollaborativeOrdinalGP(strength=strength, max_iterations=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below, with a fix for here
        model.fit(users, items, data.levels, item_features=features)
    if not model.result.converged:
        warnings.warn(
            f"the fit did not converge in {count_of(iterations, 'iteration')}; increase "
            "--iterations",
            ConvergenceWarning,
            stacklevel=2,
        )
    return model


def _rated(data: RatingData, model: CollaborativeOrdinalGP) -> np.ndarray:
    """Which pairs were rated, shape (users, items)."""
    rated = np.zeros((len(model.users_), len(model.items_)), bool)
    rated[tuple(data.rows.T)] = True
    return rated


def _predict(model: CollaborativeOrdinalGP, rated: np.ndarray, top: int) -> dict[str, Any]:
    """The tables and the pictures, by the names of their files."""
    from bayesrank.plots import plot_similarity, plot_tastes

    users, items = list(model.users_), list(model.items_)
    mean, _ = model.result.functions()
    best = np.argsort(np.where(rated, np.inf, -mean), axis=1, kind="stable")[:, :top]
    pairs = [(u, i) for u in range(len(users)) for i in best[u] if not rated[u, i]]
    rankings = _rows(model, pairs)
    rankings.insert(1, "rank", rankings.groupby("user", sort=False).cumcount() + 1)
    predictions = None
    if (~rated).sum() <= _MOST_PREDICTIONS:
        predictions = _rows(model, list(zip(*np.nonzero(~rated), strict=True)))
    table = pd.DataFrame(
        {
            "item": items,
            "ratings": rated.sum(axis=0),
            "liking": model.shared_mean_,
            "disagreement": np.sqrt(np.diagonal(model.shared_kernel_)),
        }
    ).sort_values("disagreement", ascending=False, kind="stable")
    shown = table.ratings.sort_values(ascending=False, kind="stable").index[:_MOST_IN_PICTURE]
    names = [items[i] for i in shown]
    kernel = pd.DataFrame(model.shared_kernel_[np.ix_(shown, shown)], names, names)
    tastes = drawn(plot_tastes, table["liking"], table["disagreement"], list(table["item"]))
    return {
        "predictions.csv": predictions,
        "rankings.csv": rankings,
        "items.csv": table.round(4),
        "items.png": tastes,
        "similarity.png": drawn(plot_similarity, kernel, names) if len(names) > 1 else None,
    }


def _rows(model: CollaborativeOrdinalGP, pairs: list[tuple[int, int]]) -> pd.DataFrame:
    """Predictions of pairs (user, item), a row each."""
    numbers = np.array(pairs, np.int64).reshape(-1, 2)
    table: dict[str, Any] = {
        "user": [model.users_[u] for u in numbers[:, 0]],
        "item": [model.items_[i] for i in numbers[:, 1]],
    }
    probability = model.result.predict_proba(numbers[:, 0], numbers[:, 1])
    for name, share in (("level", 0.5), ("lower", 0.05), ("upper", 0.95)):
        table[name] = model.levels_[(probability.cumsum(axis=1) < share).sum(axis=1)]
    for k, level in enumerate(model.levels_):
        table[f"P({level})"] = probability[:, k].round(4)
    return pd.DataFrame(table)


def _notes(data: RatingData, model: CollaborativeOrdinalGP, rated: np.ndarray) -> tuple[str, ...]:
    counts = (len(data.users), "user"), (len(model.items_), "item"), (len(data.levels), "rating")
    notes = [
        f"{', '.join(count_of(*count) for count in counts)} from {model.levels_[0]} to "
        f"{model.levels_[-1]}. Best first"
        + ("; Rating is the median of the prediction." if len(model.levels_) > 2 else ".")
    ]
    few = int((rated.sum(axis=1) == 1).sum())
    if few:
        notes.append(
            f"{count_of(few, 'user')} gave only one rating: their predictions are close to those "
            "for a new user."
        )
    unrated = int((rated.sum(axis=0) == 0).sum())
    if unrated:
        notes.append(f"Without ratings, predicted from features only: {count_of(unrated, 'item')}.")
    if (~rated).sum() > _MOST_PREDICTIONS:
        notes.append(
            f"{(~rated).sum():,} unrated pairs are too many for predictions.csv; rankings.csv has "
            "the best of each user (--top N for more)."
        )
    if data.ignored_columns:
        notes.append(f"Columns not used: {', '.join(data.ignored_columns)}.")
    return tuple(notes)


def _table(rankings: pd.DataFrame, rows: int) -> Any:
    """The best unseen items of the first users."""
    first = "User"
    *others, last = (name for name in rankings if name.startswith("P("))
    two = len(others) == 1  # a median of two levels, and an interval, say little
    titles = [last] if two else ["Rating", "90% interval"]
    table = plain_table([first, "Best unseen", *titles], first)
    table.columns[1].justify = "left"
    users = list(dict.fromkeys(rankings["user"]))[:rows]
    best: Any = rankings[rankings["user"].isin(users) & (rankings["rank"] <= _PRINTED)]
    columns = ["user", "rank", "item", "level", "lower", "upper", last]
    for user, rank, item, level, lower, upper, chance in best[columns].itertuples(index=False):
        name = shown(str(user)) if rank == 1 else ""
        ends = f"{lower}" if lower == upper else f"{lower}–{upper}"
        said = (percent(chance),) if two else (f"{level}", ends)
        table.add_row(Text(name), Text(shown(str(item))), *said)
    return table
