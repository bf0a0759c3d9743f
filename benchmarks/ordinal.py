"""Ordinal regression on one target: ours beside mord, statsmodels and skordinal.

Half of the items, drawn at random, are learned from and the others predicted. Features get mean
zero and standard deviation one over the training half. The median of the predicted levels counts
for the mean absolute error and the mode for the zero-one error, of all models that give
probabilities. A level that the training half does not show has the probability 1 / n under models
that know nothing of it.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from bayesrank import OrdinalGP

Array = NDArray[Any]

DATA = ("diabetes quantile", "diabetes width", "anes96", "era", "esl", "lev", "swd")


class Figures(NamedTuple):
    """What a model did on one half."""

    zero_one: float
    mae: float
    log_loss: float
    seconds: float
    cpu_seconds: float


class _Half(NamedTuple):
    """What a model gets: features and levels to learn from, and features to predict for."""

    X: Array
    levels: Array
    X_new: Array
    num_levels: int


def load(name: str) -> tuple[Array, Array]:
    """Features and levels from 0 of a data set: scikit-learn's, statsmodels's or skordinal's."""
    if name.startswith("diabetes"):
        from sklearn.datasets import load_diabetes

        bunch: Any = load_diabetes()
        features, target = bunch.data, bunch.target
        edges = np.linspace(target.min(), target.max(), 6)[1:-1]
        if name.endswith("quantile"):
            edges = np.quantile(target, [0.2, 0.4, 0.6, 0.8])
        return features, np.digitize(target, edges)
    if name == "anes96":
        from statsmodels.datasets import anes96

        table: Any = anes96.load_pandas().data
        columns = ["logpopul", "selfLR", "age", "educ", "income"]
        return table[columns].to_numpy(float), table["PID"].to_numpy(int)
    from skordinal import datasets

    features, levels = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(features, float), np.asarray(levels, int)


def compare(name: str, repeats: int = 10, first_seed: int = 0) -> dict[str, list[Figures]]:
    """Measure all models that are installed, the same halves for each.

    Returns
    -------
    dict
        By model, a row for each half. "OrdinalGP, by evidence" is the one of the two links with
        the larger evidence on the training half, and its time that of both.
    """
    features, levels = load(name)
    models = dict(_models())
    found: dict[str, list[Figures]] = {}
    for seed in range(first_seed, first_seed + repeats):
        order = np.random.default_rng(seed).permutation(len(levels))
        train, test = np.split(order, [len(levels) // 2])
        mean, scale = features[train].mean(axis=0), features[train].std(axis=0)
        standard = (features - mean) / scale
        half = _Half(standard[train], levels[train], standard[test], int(levels.max()) + 1)
        evidence: dict[str, tuple[float, Figures]] = {}
        for model, fit in models.items():
            start, cpu = time.perf_counter(), time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predict, log_evidence = fit(half)
            seconds = time.perf_counter() - start, time.process_time() - cpu
            predicted = predict()
            figures = Figures(*_errors(predicted, levels[test], half), *seconds)
            found.setdefault(model, []).append(figures)
            if log_evidence is not None:
                evidence[model] = (log_evidence, figures)
        both = [figures for _, figures in evidence.values()]
        chosen = max(evidence.values(), key=lambda pair: pair[0])[1]
        times = (sum(f.seconds for f in both), sum(f.cpu_seconds for f in both))
        row = Figures(*chosen[:3], *times)
        found.setdefault("OrdinalGP, by evidence", []).append(row)
    return found


def _errors(predicted: Array, levels: Array, half: _Half) -> tuple[float, float, float]:
    """Zero-one error, mean absolute error and log loss of probabilities, or of levels alone."""
    if predicted.ndim == 1:
        wrong = predicted != levels
        return float(wrong.mean()), float(np.abs(predicted - levels).mean()), float("nan")
    probability = predicted.copy()
    unseen = np.setdiff1d(np.arange(half.num_levels), half.levels)
    probability[:, unseen] = np.maximum(probability[:, unseen], 1.0 / len(half.levels))
    median = (predicted.cumsum(axis=1)[:, :-1] < 0.5).sum(axis=1)
    return (
        float((predicted.argmax(axis=1) != levels).mean()),
        float(np.abs(median - levels).mean()),
        float(-np.log(probability[np.arange(len(levels)), levels]).mean()),
    )


# ---------------------------------------------------------------- models

# What a fit returns: how to predict, and the log evidence of those that have one.
Fitted = tuple[Callable[[], Array], float | None]
Fit = Callable[[_Half], Fitted]


def _models() -> Iterator[tuple[str, Fit]]:
    """All models that are installed; compiled code is shared by the fits of one."""
    for likelihood in ("probit", "logit"):
        yield f"OrdinalGP, {likelihood}", _ours(likelihood)
    yield "frequencies", _frequencies
    if importlib.util.find_spec("mord") is not None:
        yield "mord LogisticAT", _mord
    if importlib.util.find_spec("statsmodels") is not None:
        for link in ("probit", "logit"):
            yield f"statsmodels OrderedModel, {link}", _statsmodels(link)
    if importlib.util.find_spec("skordinal") is not None:
        yield "skordinal REDSVM", _redsvm


def _ours(likelihood: Any) -> Fit:
    first = OrdinalGP(likelihood=likelihood, standardize=False)

    def fit(half: _Half) -> Fitted:
        model = first.set_params(levels=range(half.num_levels)).fit(half.X, half.levels)
        return lambda: model.predict_proba(half.X_new), model.log_evidence_

    return fit


def _frequencies(half: _Half) -> Fitted:
    share = np.bincount(half.levels, minlength=half.num_levels) / len(half.levels)
    return lambda: np.tile(share, (len(half.X_new), 1)), None


def _of_seen_levels(probability: Array, half: _Half) -> Array:
    """Columns for all levels, from those of the levels in the training half."""
    full = np.zeros((len(probability), half.num_levels))
    full[:, np.unique(half.levels)] = probability
    return full


def _mord(half: _Half) -> Fitted:
    import mord

    model = mord.LogisticAT().fit(half.X, half.levels)
    return lambda: _of_seen_levels(model.predict_proba(half.X_new), half), None


def _statsmodels(link: str) -> Fit:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    def fit(half: _Half) -> Fitted:
        model = OrderedModel(half.levels, half.X, distr=link)
        result: Any = model.fit(method="bfgs", disp=False)

        def predict() -> Array:
            predicted = model.predict(result.params, exog=half.X_new)
            return _of_seen_levels(np.asarray(predicted), half)

        return predict, None

    return fit


def _redsvm(half: _Half) -> Fitted:
    from skordinal.classifiers import REDSVM

    model = REDSVM().fit(half.X, half.levels)
    return lambda: np.asarray(model.predict(half.X_new)), None


@click.command("ordinal")
@click.option("--data", default="all", help="Data sets, comma-separated, or all.")
@click.option("--repeats", default=10, help="Number of random halves.")
@click.option("--seed", default=0, help="Seed of the first half.")
def single(data: str, repeats: int, seed: int) -> None:
    """Ordinal regression on one target beside mord, statsmodels and skordinal."""
    figures = ("zero-one", "mae", "log loss")
    click.echo(
        f"means over {repeats} halves from seed {seed}; in brackets what is more than OrdinalGP's, "
        "probit, paired, ± its standard error; median seconds, and those of the processor, of a "
        "fit after the first"
    )
    for name in DATA if data == "all" else data.split(","):
        click.echo(f"{name:32} " + " ".join(f"{f:26}" for f in figures) + f"{'s':>8}{'CPU s':>8}")
        rows = {model: np.array(found) for model, found in compare(name, repeats, seed).items()}
        ours = next(iter(rows.values()))
        for model, values in rows.items():
            more = values[:, :3] - ours[:, :3]
            cells = [
                f"{mean:6.4f} ({_difference(column)})".ljust(26)
                for mean, column in zip(values[:, :3].mean(axis=0), more.T, strict=True)
            ]
            # The first fit compiles.
            times = np.median(values[min(1, len(values) - 1) :, 3:], axis=0)
            click.echo(f"{model:32} {' '.join(cells)}{times[0]:8.3f}{times[1]:8.3f}")


def _difference(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.4f} ± {error:.4f}"


COMMANDS = [single]
