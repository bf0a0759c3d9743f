"""The command `learn`: lists with features in; a ranking model, its metrics, and pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from bayesrank._memory import check_memory
from bayesrank._version import __version__
from bayesrank.bounds.evaluation import Evaluation
from bayesrank.bounds.evaluation import evaluate as metrics_of
from bayesrank.cli.evaluate import captions, evaluation_table
from bayesrank.cli.job import blamed, job
from bayesrank.cli.outputs import drawn
from bayesrank.datasets import DataError, align, read_lists
from bayesrank.datasets.lists import ListData
from bayesrank.datasets.runs import Qrels, Run

_LANCZOS = 50  # vectors that it keeps beyond that
_ATOMS = 10  # of ConeRank
FILES = ("run.csv", "metrics.csv", "model.npz", "metrics.png", "queries.png")


def learn(
    train: Path, test: Path | None, method: str, out: Path, k: int, seed: int, quiet: bool
) -> None:
    """Read the files, fit, judge, write the results and print the metrics."""
    learned = read_lists(train)
    if test is None:
        learned, judged = _split(train, learned, seed)
    else:
        judged, learned = align(test, read_lists(test), learned)
    _check_memory(method, learned, judged)
    with job(out, FILES, (train, test), quiet=quiet) as run, run.steps.running():
        with run.steps.step("Learning"):
            model = _fit(train, method, learned, seed)
        with run.steps.step("Judging"):
            table, evaluation = _judge(test or train, model, judged, k, seed)
        run.write(
            {"run.csv": table, "model.npz": _arrays(model, method, learned), **_metrics(evaluation)}
        )
    where = f"Learned from {len(set(learned.query)):,} queries. {run.where}"
    run.show(evaluation_table(evaluation), "\n".join(captions(evaluation)), where)


def _check_memory(method: str, learned: ListData, judged: ListData) -> None:
    """Refuse matrices of the smaller side, dense features, or differences of pairs, if too many."""
    m, d = learned.X.shape
    query = np.unique(np.array(learned.query, object), return_inverse=True)[1]
    sizes = np.bincount(query)
    what = f"{m:,} items with features up to number {learned.first + d - 1:,}"
    need = 3 * d
    if method == "cone-rank":
        grades = np.stack([query, learned.y.astype(int)])
        each = np.unique(grades, axis=1, return_counts=True)[1]
        pairs = int((np.sum(sizes**2) - np.sum(each**2)) // 2)
        need += pairs * (3 * d + 4 * _ATOMS)
        what = f"{pairs:,} pairs of {what}"
    elif method == "lambda-rank":
        need += 3 * d * max(m, judged.X.shape[0]) + int(sizes.max()) ** 2
    else:
        from bayesrank.solvers.rank_rls import LARGEST_DENSE

        side = min(m, d)
        need += 5 * side**2 if side <= LARGEST_DENSE else _LANCZOS * max(m, d)
    fix = "number the features without gaps, or give fewer items or features"
    check_memory(8 * need, what, fix)


def _split(path: Path, data: ListData, seed: int) -> tuple[ListData, ListData]:
    """Hold out a fifth of the queries."""
    names = np.array(list(dict.fromkeys(data.query)), object)
    if len(names) < 2:
        raise DataError(path, "there is one query only", "give more, or a file to --test")
    count = max(1, len(names) // 5)
    held = set(np.random.default_rng(seed).permutation(names)[:count])
    mine = np.array([query in held for query in data.query])
    return data.rows(np.flatnonzero(~mine)), data.rows(np.flatnonzero(mine))


def _fit(path: Path, method: str, data: ListData, seed: int) -> Any:
    from bayesrank.estimators import ConeRank, LambdaRank, RankRLS

    kinds = {"rank-rls": RankRLS, "cone-rank": ConeRank, "lambda-rank": LambdaRank}
    with blamed(path):
        return kinds[method](random_state=seed).fit(data.X, data.y, data.query)


def _judge(
    path: Path, model: Any, data: ListData, k: int, seed: int
) -> tuple[pd.DataFrame, Evaluation]:
    """Return the scores of items, as a table, and the metrics of them."""
    scores = model.predict(data.X)
    if not np.isfinite(scores).all():
        raise DataError(path, "scores overflow", "bring the features to a like scale, about 1")
    keys = list(zip(data.query, data.items, strict=True))
    run = Run(path, {("", *key): float(s) for key, s in zip(keys, scores, strict=True)})
    labels = {key: int(y) for key, y in zip(keys, data.y, strict=True)}
    table = pd.DataFrame(keys, columns=["query", "item"]).assign(score=scores)
    return table, metrics_of(run, Qrels(path, labels), k=k, seed=seed)


def _arrays(model: Any, method: str, data: ListData) -> dict[str, Any]:
    """What a file stores of a model: numbers and names, no code."""
    nothing = sparse.csr_array((1, data.X.shape[1]))
    header = {"method": method, "version": __version__, "first": data.first, "names": data.names}
    return {
        "coef": model.coef_,
        "intercept": model.predict(nothing)[0],
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
    }


def _metrics(evaluation: Evaluation) -> dict[str, Any]:
    """The table of metrics, and the pictures."""
    from matplotlib.figure import Figure

    from bayesrank.plots import plot_metrics

    rows = evaluation.rows
    metrics = pd.DataFrame(
        [(r.name, r.mean, r.low, r.high, r.queries) for r in rows],
        columns=["metric", "mean", "low", "high", "queries"],
    )
    ends = metrics["mean"], metrics["low"], metrics["high"]
    values = np.asarray(rows[1].result.values, float)

    def histogram() -> Figure:
        figure = Figure(layout="constrained")
        ax = figure.add_subplot()
        ax.hist(values[~np.isnan(values)], bins=20, range=(0, 1))
        ax.set(xlabel=rows[1].name, ylabel="Queries")
        return figure

    return {
        "metrics.csv": metrics,
        "metrics.png": drawn(plot_metrics, list(metrics["metric"]), *ends),
        "queries.png": drawn(histogram),
    }
