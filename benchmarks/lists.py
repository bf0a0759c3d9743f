"""RankRLS, ConeRank and LambdaRank on LightGBM's example of lists."""

from __future__ import annotations

import time
from pathlib import Path

import click

__all__ = ["COMMANDS"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def lists(folder: Path) -> None:
    """NDCG and pairwise error on LightGBM's lambdarank example, in FOLDER."""
    from bayesrank import ConeRank, LambdaRank, RankRLS
    from bayesrank.datasets import align, read_lists
    from bayesrank.metrics import ndcg, pairwise_error

    train = read_lists(folder / "rank.train")
    test, train = align(folder / "rank.test", read_lists(folder / "rank.test"), train)
    methods = {
        "RankRLS": RankRLS(),
        "RankRLS, leave-query-out": RankRLS(regularization="leave-query-out"),
        "RankRLS, weights=center": RankRLS(weights="center"),
        "ConeRank": ConeRank(),
        "ConeRank, SG as printed": ConeRank(method="sg", fold_in="printed", ridge=0.0),
        "LambdaRank, ranknet": LambdaRank(),
        "LambdaRank, ndcg": LambdaRank(field="ndcg"),
        "LambdaRank, ndcg, trees": LambdaRank(field="ndcg", model="trees"),
    }
    click.echo(f"{'':28} NDCG@1     @3     @5    @10  pairwise error   time")
    for name, method in methods.items():
        start = time.perf_counter()
        scores = method.fit(train.X, train.y, train.query).predict(test.X)
        took = time.perf_counter() - start
        tops = [ndcg(scores, test.y, query=test.query, k=k).mean for k in (1, 3, 5, 10)]
        error = pairwise_error(scores, test.y, query=test.query).mean
        places = " ".join(f"{value:6.3f}" for value in tops)
        click.echo(f"{name:28} {places} {error:15.3f} {took:5.1f} s")


COMMANDS = [lists]
