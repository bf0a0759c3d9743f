"""Commands of the benchmarks of label ranking: rankings of iris and wine, yeast, and coverage."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import click
import numpy as np


@click.group()
def labels() -> None:
    """Label ranking: Kendall's tau, sets of labels, and intervals."""


@labels.command()
@click.argument("name", type=click.Choice(["iris", "wine"]))
def rankings(name: str) -> None:
    """Kendall's tau of forecast rankings, by tenfold cross-validation on the same folds."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import KFold
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, ranks = _label_rankings(name)
    nearest = make_pipeline(StandardScaler(), KNeighborsRegressor(5))
    found: dict[str, list[float]] = {}
    for train, test in KFold(10, shuffle=True, random_state=0).split(X):
        scores = {
            "5 nearest, mean ranks": -nearest.fit(X[train], ranks[train]).predict(X[test]),
            "forest on ranks": -RandomForestRegressor(random_state=0)
            .fit(X[train], ranks[train])
            .predict(X[test]),
        }
        orders, evidence = np.argsort(ranks[train], axis=1), {}
        for kernel in ("linear", "rbf"):
            model = _ranker(kernel=kernel, labels=[0, 1, 2]).fit(X[train], orders.tolist())
            scores[f"LabelRanker, {kernel}"] = model.decision_function(X[test])
            evidence[kernel] = model.log_evidence_
        best = max(evidence, key=lambda kernel: evidence[kernel])
        scores["LabelRanker, by evidence"] = scores[f"LabelRanker, {best}"]
        for method, values in scores.items():
            found.setdefault(method, []).append(_tau(values, ranks[test]))
    for method, taus in found.items():
        error = np.std(taus, ddof=1) / np.sqrt(len(taus))
        click.echo(f"{method:26} {np.mean(taus):.3f} ± {error:.3f}")


def _ranker(**options: Any) -> Any:
    from bayesrank import LabelRanker

    chosen: dict[str, Any] = {"kernel": "linear", "hyperparameters": "map", "n_basis": 100}
    return LabelRanker(**{**chosen, **options})


def _label_rankings(name: str) -> tuple[Any, Any]:
    """Features, and ranks of the classes by the probabilities of naive Bayes on all rows."""
    from sklearn.datasets import load_iris, load_wine
    from sklearn.naive_bayes import GaussianNB

    data: Any = {"iris": load_iris, "wine": load_wine}[name]()
    proba = GaussianNB().fit(data.data, data.target).predict_proba(data.data)
    order = np.argsort(-np.where(proba < 1e-3, 0.0, proba), axis=1, kind="stable")
    return data.data, np.argsort(order, axis=1)


def _tau(scores: Any, ranks: Any) -> float:
    from bayesrank.metrics import kendall_tau

    query = np.repeat(np.arange(len(ranks)), ranks.shape[1])
    return float(kendall_tau(scores.ravel(), -ranks.ravel(), query=query).mean)


@labels.command()
@click.option("--unknown", default=0.0, help="Share of the training labels that is not told.")
def yeast(unknown: float) -> None:
    """Sets of labels of yeast (package river): 1,500 genes to learn from, 917 to judge."""
    X, Y = _yeast()
    told = Y[:1500].astype(float)
    told[np.random.default_rng(0).random(told.shape) < unknown] = np.nan
    for name, method in (("binary relevance", _logistic), ("LabelRanker", _calibrated)):
        start = time.perf_counter()
        proba, joint = method(X[:1500], told, X[1500:], Y[1500:])
        took = time.perf_counter() - start
        click.echo(f"{name:18} {_figures(proba, Y[1500:])}  joint {joint:.3f}  {took:.0f} s")


def _yeast() -> tuple[Any, Any]:
    import pandas as pd

    found = importlib.util.find_spec("river")
    if found is None or found.origin is None:
        raise click.UsageError("yeast comes with the package river; install bayesrank[benchmarks]")
    table = pd.read_csv(Path(found.origin).parent / "datasets" / "yeast.csv.gz")
    names = [column for column in table.columns if column.startswith("Class")]
    names.sort(key=lambda column: int(column.removeprefix("Class")))
    return table.drop(columns=names).to_numpy(float), table[names].to_numpy(int)


def _logistic(X: Any, told: Any, new: Any, Y: Any) -> tuple[Any, float]:
    """A logistic regression a label, its penalty chosen by cross-validation."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = []
    for y in told.T:
        known = ~np.isnan(y)
        penalties = LogisticRegressionCV(
            Cs=np.logspace(-4, 0, 9),
            cv=5,
            scoring="neg_log_loss",
            l1_ratios=(0,),
            use_legacy_attributes=False,
        )
        model = make_pipeline(StandardScaler(), penalties).fit(X[known], y[known])
        columns.append(model.predict_proba(new)[:, 1])
    proba = np.stack(columns, axis=1)
    return proba, float(-np.log(np.where(Y == 1, proba, 1 - proba)).sum(axis=1).mean())


def _calibrated(X: Any, told: Any, new: Any, Y: Any) -> tuple[Any, float]:
    model = _ranker().fit(X, relevant=told)
    values = {name: round(float(value), 3) for name, value in model.params_.items()}
    click.echo(f"{values}, log evidence {model.log_evidence_:.1f}")
    return model.predict_proba(new), _joint_log_loss(model, new, Y)


def _joint_log_loss(model: Any, X: Any, Y: Any) -> float:
    """Minus the log of the probability of the whole set, by quadrature over the zero's noise.

    Given the utilities labels are independent but for the zero, and the utilities are drawn.
    """
    from scipy.special import log_ndtr, logsumexp

    scaled = (X - model.feature_mean_) / model.feature_scale_
    found = model.posterior_.utilities(scaled)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    rng, draws = np.random.default_rng(0), 200
    root = np.linalg.cholesky(found.covariance[0] + 1e-10 * np.eye(Y.shape[1]))
    normal = rng.normal(size=(draws, *Y.shape))
    utility = found.mean[0] + np.einsum("mab,smb->sma", root, normal)
    parts = [
        log_ndtr(np.where(Y == 1, 1, -1) * (utility - found.zero_noise[0] * node)).sum(axis=2)
        + np.log(weight / weights.sum())
        for node, weight in zip(nodes, weights, strict=True)
    ]
    return float(-(logsumexp(np.array(parts), axis=(0, 1)) - np.log(draws)).mean())


def _figures(proba: Any, Y: Any) -> str:
    from bayesrank import metrics

    flat, truth, query = proba.ravel(), Y.ravel(), np.repeat(np.arange(len(Y)), Y.shape[1])
    chosen = (flat > 0.5).astype(int)
    loss = -np.log(np.where(truth == 1, flat, 1 - flat)).mean()
    rows = {
        "Hamming": metrics.zero_one_error(chosen, truth, query=query),
        "subset": metrics.subset_error(chosen, truth, query=query),
        "rank loss": metrics.pairwise_error(flat, truth, query=query),
        "one-error": metrics.winner_takes_all(flat, truth, query=query),
        "coverage": metrics.coverage_error(flat, truth, query=query),
        "precision": metrics.average_precision(flat, truth, query=query),
    }
    parts = [f"{name} {float(value.mean):.4f}" for name, value in rows.items()]
    return "  ".join([*parts, f"log loss {loss:.4f}"])


@labels.command()
@click.option("--problems", default=200, help="Simulated data sets.")
def intervals(problems: int) -> None:
    """How often 90% intervals of weights hold the truth, beside independent pairs."""
    held: dict[str, list[float]] = {}
    for seed in range(problems):
        for name, share in _one_coverage(seed).items():
            held.setdefault(name, []).append(share)
    for name, shares in held.items():
        error = np.std(shares, ddof=1) / np.sqrt(len(shares))
        click.echo(f"{name:24} {np.mean(shares):.3f} ± {error:.3f}")


def _one_coverage(seed: int, n: int = 40, c: int = 5, p: int = 3) -> dict[str, float]:
    """Forty full rankings of five labels and the zero, drawn from the program."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X = (X - X.mean(0)) / X.std(0)
    w = 0.7 * rng.normal(size=(c, p))
    performance = rng.normal(size=c) + X @ w.T + rng.normal(size=(n, c))
    relevant = performance > 0.4 * rng.normal(size=(n, 1))
    orders = np.argsort(-performance, axis=1)
    shares = {}
    for choice in ("map", "integrate"):
        result = _ranker(hyperparameters=choice).fit(X, orders.tolist(), relevant).result
        off = (result.mean["w"] - w) / result.sd["w"]
        shares[choice] = float(np.mean(np.abs(off) < 1.645))
    shares["independent pairs"] = _pairs_coverage(X, w, orders, relevant)
    return shares


def _pairs_coverage(X: Any, w: Any, orders: Any, relevant: Any) -> float:
    """Each pair of alternatives taken for a comparison by itself, with the true noise."""
    from scipy.stats import norm

    n, c = orders.shape
    place = np.argsort(orders, axis=1)
    rows, sds = [], []
    for i in range(n):
        for a in range(c):
            for b in range(a + 1, c):
                sign = 1.0 if place[i, a] < place[i, b] else -1.0
                row = np.zeros((c, X.shape[1] + 1))
                row[a], row[b] = sign * np.r_[1, X[i]], -sign * np.r_[1, X[i]]
                rows.append(row.ravel())
                sds.append(np.sqrt(2.0))
            row = np.zeros((c, X.shape[1] + 1))
            row[a] = (1.0 if relevant[i, a] else -1.0) * np.r_[1, X[i]]
            rows.append(row.ravel())
            sds.append(np.sqrt(1.16))
    H = np.array(rows) / np.array(sds)[:, None]
    prior = np.tile(np.r_[2.0, np.full(X.shape[1], 0.7)] ** -2.0, c)
    mean = np.zeros(H.shape[1])
    precision = np.diag(prior)
    for _ in range(30):  # Laplace's approximation; the posterior of so many pairs is normal
        z = H @ mean
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        precision = np.diag(prior) + (H * (ratio * (z + ratio))[:, None]).T @ H
        mean = mean + np.linalg.solve(precision, H.T @ ratio - prior * mean)
    sd = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    off = (mean - np.concatenate([np.zeros((c, 1)), w], axis=1).ravel()) / sd
    return float(np.mean(np.abs(off.reshape(c, -1)[:, 1:]) < 1.645))


COMMANDS = (labels,)
