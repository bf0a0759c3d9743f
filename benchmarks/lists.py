"""RankRLS, ConeRank and LambdaRank on LightGBM's example of lists, beside LightGBM."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.datasets import load_svmlight_file


class Lists(NamedTuple):
    """Features, grades and queries of the items of lists."""

    X: Any
    y: Any
    query: Any


def _read(folder: Path, part: str) -> Lists:
    """Lists of a part, "train" or "test": a file of svmlight, and one of the lists' lengths."""
    X, y = load_svmlight_file(str(folder / f"rank.{part}"), n_features=301, zero_based=True)
    sizes = np.loadtxt(folder / f"rank.{part}.query", dtype=int)
    return Lists(X, y, np.repeat(np.arange(len(sizes)), sizes))


class _LightGBM:
    """LambdaMART with the options that LightGBM has by default."""

    def fit(self, X: Any, y: Any, query: Any) -> Any:
        from lightgbm import LGBMRanker

        return LGBMRanker(verbose=-1).fit(X, y, group=np.bincount(query))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def lists(folder: Path) -> None:
    """NDCG and pairwise error on LightGBM's lambdarank example, in FOLDER."""
    from bayesrank import ConeRank, LambdaRank, RankRLS
    from bayesrank.metrics import ndcg, pairwise_error

    train, test = _read(folder, "train"), _read(folder, "test")
    methods = {
        "RankRLS": RankRLS(),
        "RankRLS, leave-query-out": RankRLS(regularization="leave-query-out"),
        "RankRLS, weights=center": RankRLS(weights="center"),
        "RankRLS, weights=pairs": RankRLS(weights="pairs"),
        "ConeRank": ConeRank(),
        "ConeRank, 30 iterations": ConeRank(num_iterations=30),
        "ConeRank, 30, ridge 0": ConeRank(num_iterations=30, ridge=0.0),
        "ConeRank, SG as printed": ConeRank(
            method="sg", num_iterations=10, fold_in="printed", ridge=0.0
        ),
        "ConeRank, EG": ConeRank(method="eg", num_iterations=10, ridge=0.0),
        "LambdaRank, ranknet": LambdaRank(),
        "LambdaRank, ndcg": LambdaRank(field="ndcg"),
        "LambdaRank, ndcg, trees": LambdaRank(field="ndcg", model="trees"),
        "LightGBM": _LightGBM(),
    }
    click.echo(f"{'':28} NDCG@1     @3     @5    @10  pairwise error   time  lambda or objective")
    for name, method in methods.items():
        start = time.perf_counter()
        fitted = method.fit(train.X, train.y, train.query)
        scores = fitted.predict(test.X)
        took = time.perf_counter() - start
        tops = [ndcg(scores, test.y, query=test.query, k=k).mean for k in (1, 3, 5, 10)]
        error = pairwise_error(scores, test.y, query=test.query).mean
        places = " ".join(f"{value:6.3f}" for value in tops)
        found = getattr(method, "objective_", getattr(method, "regularization_", float("nan")))
        click.echo(f"{name:28} {places} {error:15.3f} {took:5.1f} s  {found:8.4g}")


COMMANDS = [lists]
