"""Commands of the benchmarks of learning to rank: figures on lists, and times."""

from __future__ import annotations

import importlib.util
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy import sparse

__all__ = ["COMMANDS"]


def _example(folder: Path) -> list[tuple[Any, Any, Any]]:
    """Features, grades and queries of the training and the test lists."""
    from sklearn.datasets import load_svmlight_files

    paths = [folder / "rank.train", folder / "rank.test"]
    (*parts,) = load_svmlight_files([str(path) for path in paths])
    sizes = [np.loadtxt(f"{path}.query", int) for path in paths]
    return [
        (X, y, np.repeat(np.arange(len(size)), size))
        for X, y, size in zip(parts[::2], parts[1::2], sizes, strict=True)
    ]


@click.group()
def learn() -> None:
    """RankRLS, ConeRank and LambdaRank."""


@learn.command()
@click.argument("folder", type=click.Path(path_type=Path))
def figures(folder: Path) -> None:
    """NDCG and pairwise error on LightGBM's lambdarank example, in FOLDER."""
    from bayesrank import ConeRank, LambdaRank, RankRLS
    from bayesrank.metrics import ndcg, pairwise_error

    train, test = _example(folder)
    methods = {
        "RankRLS": RankRLS(),
        "RankRLS, leave-query-out": RankRLS(regularization="leave-query-out"),
        "RankRLS, centre": RankRLS(weights="center"),
        "ConeRank": ConeRank(),
        "ConeRank, SG as printed": ConeRank(method="sg", fold_in="printed", ridge=0.0),
        "LambdaRank, ranknet": LambdaRank(),
        "LambdaRank, ndcg": LambdaRank(field="ndcg"),
        "LambdaRank, ndcg, trees": LambdaRank(field="ndcg", model="trees"),
    }
    click.echo(f"{'':28} NDCG@1     @3     @5    @10  pairwise error   time")
    for name, method in methods.items():
        start = time.perf_counter()
        scores = method.fit(*train).predict(test[0])
        took = time.perf_counter() - start
        tops = [ndcg(scores, test[1], query=test[2], k=k).mean for k in (1, 3, 5, 10)]
        error = pairwise_error(scores, test[1], query=test[2]).mean
        places = " ".join(f"{value:6.3f}" for value in tops)
        click.echo(f"{name:28} {places} {error:15.3f} {took:5.1f} s")


@learn.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--method", type=click.Choice(["exact", "sg", "eg"]), default="exact")
def cone(folder: Path, method: Any) -> None:
    """Figures 3 and 4 of ConeRank on LightGBM's example: ranking by atoms, and eigenvalues."""
    from bayesrank import ConeRank
    from bayesrank.datasets import group_queries
    from bayesrank.metrics import average_precision, ndcg
    from bayesrank.solvers.cone_rank import ordered_pairs

    train, test = _example(folder)
    click.echo("atoms    MAP  NDCG@10")
    model = ConeRank(method=method)
    for count in (2, 5, 10, 15, 20, 30, 40):
        model.set_params(num_atoms=count)
        scores = model.fit(*train).predict(test[0])
        precision = average_precision(scores, test[1] > 0, query=test[2]).mean
        gain = ndcg(scores, test[1], query=test[2], k=10).mean
        click.echo(f"{count:5d} {precision:6.3f} {gain:8.3f}")
    lists = group_queries(train[2], len(train[1]))
    scaled: Any = sparse.csr_array(train[0]) @ sparse.diags_array(1.0 / model.feature_scale_)
    rows = scaled.toarray()[lists.order]
    pairs = ordered_pairs(rows, train[1][lists.order], lists, np.sqrt(rows.shape[1]), 1.0)
    values = np.linalg.eigvalsh(pairs.z.T @ pairs.z)[::-1]
    click.echo("eigenvalues  share of the differences' energy")
    for count in (1, 2, 5, 10, 15, 20, 30, 40, 60, 100):
        click.echo(f"{count:11d} {values[:count].sum() / values.sum():8.3f}")


def _lists(m: int, d: int, num_queries: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, d))
    y = X @ rng.normal(size=d) * 0.3 + rng.normal(size=m)
    return X, y, np.sort(rng.integers(0, num_queries, m))


def _say(name: str, call: Callable[[], Any], repeats: int = 1) -> None:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    click.echo(f"{name:58} {np.median(times):9.4f} s")


@learn.command()
def speed() -> None:
    """Times at 4,000 rows, 100,000 sparse rows, and 6,400 pairs."""
    from tinygp.kernels import ExpSquared

    from bayesrank import ConeRank, LambdaRank, RankRLS
    from bayesrank.datasets import group_queries
    from bayesrank.solvers.rank_rls import contrasts_of, leave_query_out
    from bayesrank.solvers.rank_rls.hold_out import held_out_errors
    from bayesrank.solvers.rank_rls.spectrum import LinearSpectrum

    X, y, query = _lists(4000, 50, 400)
    before = _peak()
    kernel = RankRLS(kernel=ExpSquared(7.0), regularization=1.0)
    _say(
        "RankRLS, Gaussian kernel, hold-out, 4,000",
        lambda: kernel.fit(X, y, query).leave_query_out(),
    )
    click.echo(f"peak memory {_peak():.0f} MB, of which {before:.0f} MB are imports and data")
    contrasts = contrasts_of(group_queries(query, len(y)))

    def grid() -> None:
        system = LinearSpectrum.of(X, y, contrasts)
        for lam in np.logspace(-3, 3, 15):
            held_out_errors(system, lam)

    _say(
        "RankRLS, linear, leave-query-out, 4,000 x 50",
        lambda: leave_query_out(LinearSpectrum.of(X, y, contrasts), 1.0),
        repeats=25,
    )
    _say("RankRLS, linear, hold-out at 15 constants", grid, repeats=9)
    thin: Any = sparse.random(100_000, 500, density=0.05, rng=0, format="csr")
    target = np.asarray(thin @ np.ones(500)) + np.random.default_rng(0).normal(size=100_000)
    lists = np.arange(100_000) // 20
    _say("RankRLS, 100,000 x 500 sparse", lambda: RankRLS().fit(thin, target, lists))
    grades = np.tile([1.0] * 10 + [0.0] * 10, 64)
    wide = np.random.default_rng(0).normal(size=(1280, 46))
    cone = ConeRank(ridge=1.0)
    _say("ConeRank, 6,400 pairs, 10 atoms", lambda: cone.fit(wide, grades, np.arange(1280) // 20))
    rows, levels, names = _lists(3000, 300, 200)
    levels = np.digitize(levels, [-1.0, 1.0, 3.0]).astype(float)
    linear = LambdaRank(field="ndcg")
    for time_of in ("first", "second"):
        _say(
            f"LambdaRank, linear, 3,000 x 300, 300 steps, {time_of} fit",
            lambda: linear.fit(rows, levels, names),
        )
    if importlib.util.find_spec("lightgbm") is not None:
        trees = LambdaRank(field="ndcg", model="trees")
        for time_of in ("first", "second"):
            _say(
                f"LambdaRank, 100 trees, {time_of} fit",
                lambda: trees.fit(rows, levels, names),
            )
        _say("LightGBM, 100 trees", lambda: _lightgbm(rows, levels, names), repeats=3)


def _lightgbm(X: Any, y: Any, query: Any) -> None:
    import lightgbm

    params = {"objective": "lambdarank", "lambdarank_norm": False, "verbosity": -1}
    sizes = np.unique(query, return_counts=True)[1]
    lightgbm.train(params, lightgbm.Dataset(X, label=y, group=sizes), num_boost_round=100)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


COMMANDS = (learn,)
