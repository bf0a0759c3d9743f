"""The command `learn`: lists with features in; a ranking model, its figures, and pictures."""

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

if TYPE_CHECKING:
    from bayesrank.bounds.evaluation import Evaluation
    from bayesrank.datasets.lists import ListData

FILES = ("run.csv", "figures.csv", "model.pickle", "figures.png", "queries.png")

_HELP = """\
Learn to rank from the items of TRAIN: features, grades, and queries that group them.

TRAIN is svmlight text with qid (LETOR), the same without qid and a file TRAIN.query with the
lengths of the lists (LightGBM), or comma-separated text with the columns query and label and one
column a feature.

\b
  2 qid:1 1:0.5 3:2.0        query,label,price,strength
  0 qid:1 1:0.1 2:1.0        q1,2,2.5,9

Figures are of the items of --test, or of a fifth of TRAIN's queries, which are then not learned
from. The folder holds run.csv (scores, for `evaluate`), figures.csv, model.pickle (load it with
Python's pickle, and only if you trust where it is from), figures.png and queries.png.
"""


@click.command(help=_HELP)
@click.argument("train", type=click.Path(path_type=Path))
@click.option("--test", type=click.Path(path_type=Path), metavar="FILE", help="Items to judge by.")
@click.option(
    "--method",
    type=click.Choice(["rank-rls", "cone-rank", "lambda-rank"]),
    default="rank-rls",
    show_default=True,
    help="What to learn by.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("bayesrank-out"),
    show_default=True,
    metavar="FOLDER",
    help="Where the results go. Results of an earlier run are replaced.",
)
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, help="Top places.")
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of chance."
)
@click.option("--quiet", is_flag=True, help="Show no progress, only the table and any warnings.")
def learn(
    train: Path, test: Path | None, method: str, out: Path, k: int, seed: int, quiet: bool
) -> None:
    """Read the files, fit, judge, write the results and print the figures."""
    from rich.console import Console

    from bayesrank.bounds.evaluation import evaluate as figures_of
    from bayesrank.cli._evaluate import evaluation_table
    from bayesrank.cli._output import output_folder
    from bayesrank.cli._steps import Steps
    from bayesrank.cli._tables import stdout_console
    from bayesrank.datasets.lists import read_lists
    from bayesrank.datasets.runs import Qrels, Run

    learned = read_lists(train)
    if test is None:
        learned, judged = _split(train, learned, seed)
    else:
        judged = read_lists(test)
    width = max(learned.X.shape[1], judged.X.shape[1])
    learned, judged = learned.widened(width), judged.widened(width)
    steps = Steps(Console(stderr=True), quiet=quiet)
    inputs = (train,) if test is None else (train, test)
    with output_folder(out, FILES, inputs) as folder, steps.running():
        with steps.step("Learning"):
            model = _fit(train, method, learned, seed)
        with steps.step("Judging"):
            scores = model.predict(judged.X)
            keys = [(query, str(i + 1)) for i, query in enumerate(judged.query)]
            run = Run(train, {("", *key): float(s) for key, s in zip(keys, scores, strict=True)})
            labels = {key: int(y) for key, y in zip(keys, judged.y, strict=True)}
            evaluation = figures_of(run, Qrels(test or train, labels), k=k, seed=seed)
        with steps.step("Writing the results"):
            _write(folder, model, keys, scores, evaluation)
    console = stdout_console()
    console.print(evaluation_table(evaluation))
    where = f"{len(set(judged.query))} queries judged, {len(set(learned.query))} learned from."
    console.print(f"\n{where} Results are in {out}.", markup=False, highlight=False)


def _split(path: Path, data: "ListData", seed: int) -> tuple["ListData", "ListData"]:
    """Hold out a fifth of the queries."""
    from bayesrank.datasets import DataError
    from bayesrank.datasets.lists import ListData

    names = np.array(list(dict.fromkeys(data.query)), object)
    if len(names) < 2:
        raise DataError(path, "there is one query only", "give more, or a file to --test")
    count = max(1, len(names) // 5)
    held = set(np.random.default_rng(seed).permutation(names)[:count])
    mine = np.array([query in held for query in data.query])

    def part(rows: np.ndarray) -> ListData:
        chosen = np.flatnonzero(rows)
        return ListData(data.X[chosen], data.y[chosen], tuple(data.query[i] for i in chosen))

    return part(~mine), part(mine)


def _fit(path: Path, method: str, data: "ListData", seed: int) -> Any:
    from bayesrank.datasets import DataError
    from bayesrank.estimators import ConeRank, LambdaRank, RankRLS

    kinds = {"rank-rls": RankRLS, "cone-rank": ConeRank, "lambda-rank": LambdaRank}
    try:
        return kinds[method](random_state=seed).fit(data.X, data.y, data.query)
    except ValueError as error:
        raise DataError(path, str(error), "correct the file") from None


def _write(
    folder: Path,
    model: Any,
    keys: list[tuple[str, str]],
    scores: np.ndarray,
    evaluation: "Evaluation",
) -> None:
    import matplotlib
    import pandas as pd

    matplotlib.use("Agg")  # pictures go to files, whether or not there is a screen
    from matplotlib import pyplot as plt

    from bayesrank.plots import plot_figures

    table = pd.DataFrame(keys, columns=["query", "item"])
    table.assign(score=scores).to_csv(folder / "run.csv", index=False)
    rows = evaluation.rows
    figures = pd.DataFrame(
        [(r.name, r.mean, r.low, r.high, r.queries) for r in rows],
        columns=["figure", "mean", "low", "high", "queries"],
    )
    figures.to_csv(folder / "figures.csv", index=False)
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    ax = plot_figures(list(figures["figure"]), figures["mean"], figures["low"], figures["high"])
    ax.figure.savefig(folder / "figures.png", dpi=150)  # pyright: ignore[reportAttributeAccessIssue]
    values = np.asarray(rows[1].result.values, float)
    figure, ax = plt.subplots(layout="constrained")
    ax.hist(values[~np.isnan(values)], bins=20, range=(0, 1))
    ax.set(xlabel=rows[1].name, ylabel="Queries")
    figure.savefig(folder / "queries.png", dpi=150)
    plt.close("all")
