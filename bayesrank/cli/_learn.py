"""The command `learn`: lists with features in; a ranking model, its figures, and pictures."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from bayesrank._names import shown
from bayesrank._version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from bayesrank.bounds.evaluation import Evaluation
    from bayesrank.datasets.lists import ListData

FILES = ("run.csv", "figures.csv", "model.npz", "figures.png", "queries.png")

_HELP = """\
Learn to rank from the items of TRAIN: features, grades, and queries that group them.

TRAIN is svmlight text with qid (LETOR), the same without qid and a file TRAIN.query with the
lengths of the lists (LightGBM), or comma-separated text with the columns query and label and one
column a feature. A column item names the items; without it they are numbered by the lines of the
file.

\b
  2 qid:1 1:0.5 3:2.0        query,label,price,strength
  0 qid:1 1:0.1 2:1.0        q1,2,2.5,9

Figures are of the items of --test, or of a fifth of TRAIN's queries, which are then not learned
from. The folder holds run.csv (scores, for `evaluate`), figures.csv, model.npz, figures.png and
queries.png. The model is one weight a feature and an intercept, the arrays coef and intercept of
numpy.load("model.npz"): scores are X @ coef + intercept.
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

    from bayesrank.cli._evaluate import evaluation_table
    from bayesrank.cli._output import output_folder
    from bayesrank.cli._room import refuse_large_learning
    from bayesrank.cli._steps import Steps
    from bayesrank.cli._tables import stdout_console
    from bayesrank.datasets import align, read_lists

    learned = read_lists(train)
    if test is None:
        learned, judged = _split(train, learned, seed)
    else:
        judged, learned = align(test, read_lists(test), learned)
    refuse_large_learning(train, method, learned, judged)
    steps = Steps(Console(stderr=True), quiet=quiet)
    inputs = (train,) if test is None else (train, test)
    with output_folder(out, FILES, inputs) as folder, steps.running():
        with steps.step("Learning"):
            model = _fit(train, method, learned, seed)
        with steps.step("Judging"):
            table, evaluation = _judge(test or train, model, judged, k, seed)
        with steps.step("Writing the results"):
            _write(folder, _arrays(model, method, learned), table, evaluation)
    console = stdout_console()
    console.print(evaluation_table(evaluation))
    where = f"{len(set(judged.query))} queries judged, {len(set(learned.query))} learned from."
    results = shown(f"Results are in {out}.")
    console.print(f"\n{where} {results}", markup=False, highlight=False)


def _split(path: Path, data: "ListData", seed: int) -> tuple["ListData", "ListData"]:
    """Hold out a fifth of the queries."""
    from bayesrank.datasets import DataError

    names = np.array(list(dict.fromkeys(data.query)), object)
    if len(names) < 2:
        raise DataError(path, "there is one query only", "give more, or a file to --test")
    count = max(1, len(names) // 5)
    held = set(np.random.default_rng(seed).permutation(names)[:count])
    mine = np.array([query in held for query in data.query])
    return data.rows(np.flatnonzero(~mine)), data.rows(np.flatnonzero(mine))


def _fit(path: Path, method: str, data: "ListData", seed: int) -> Any:
    from bayesrank.datasets import DataError
    from bayesrank.estimators import ConeRank, LambdaRank, RankRLS

    kinds = {"rank-rls": RankRLS, "cone-rank": ConeRank, "lambda-rank": LambdaRank}
    try:
        return kinds[method](random_state=seed).fit(data.X, data.y, data.query)
    except ValueError as error:
        raise DataError(path, str(error), "correct the file") from None


def _judge(
    path: Path, model: Any, data: "ListData", k: int, seed: int
) -> tuple["pd.DataFrame", "Evaluation"]:
    """Return the scores of items, as a table, and the figures of them."""
    import pandas as pd

    from bayesrank.bounds.evaluation import evaluate as figures_of
    from bayesrank.datasets import DataError
    from bayesrank.datasets.runs import Qrels, Run

    scores = model.predict(data.X)
    if not np.isfinite(scores).all():
        raise DataError(path, "scores overflow", "bring the features to a like scale, about 1")
    keys = list(zip(data.query, data.items, strict=True))
    run = Run(path, {("", *key): float(s) for key, s in zip(keys, scores, strict=True)})
    labels = {key: int(y) for key, y in zip(keys, data.y, strict=True)}
    table = pd.DataFrame(keys, columns=["query", "item"]).assign(score=scores)
    return table, figures_of(run, Qrels(path, labels), k=k, seed=seed)


def _arrays(model: Any, method: str, data: "ListData") -> dict[str, Any]:
    """What is kept of a model: numbers and names, no code."""
    from scipy import sparse

    nothing = sparse.csr_array((1, data.X.shape[1]))
    header = {"method": method, "version": __version__, "first": data.first, "names": data.names}
    return {
        "coef": model.coef_,
        "intercept": model.predict(nothing)[0],
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
    }


def _write(
    folder: Path, model: dict[str, Any], table: "pd.DataFrame", evaluation: "Evaluation"
) -> None:
    import matplotlib
    import pandas as pd

    matplotlib.use("Agg")  # pictures go to files, whether or not there is a screen
    from matplotlib import pyplot as plt

    from bayesrank._states import write_arrays
    from bayesrank.cli._output import write_frame
    from bayesrank.plots import plot_figures

    write_frame(folder / "run.csv", table)
    rows = evaluation.rows
    figures = pd.DataFrame(
        [(r.name, r.mean, r.low, r.high, r.queries) for r in rows],
        columns=["figure", "mean", "low", "high", "queries"],
    )
    write_frame(folder / "figures.csv", figures)
    write_arrays(folder / "model.npz", model)
    ax = plot_figures(list(figures["figure"]), figures["mean"], figures["low"], figures["high"])
    ax.figure.savefig(folder / "figures.png", dpi=150)  # pyright: ignore[reportAttributeAccessIssue]
    values = np.asarray(rows[1].result.values, float)
    figure, ax = plt.subplots(layout="constrained")
    ax.hist(values[~np.isnan(values)], bins=20, range=(0, 1))
    ax.set(xlabel=rows[1].name, ylabel="Queries")
    figure.savefig(folder / "queries.png", dpi=150)
    plt.close("all")
