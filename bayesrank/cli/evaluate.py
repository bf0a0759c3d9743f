"""The command `evaluate`: a run and its judgements in, a table of metrics out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank.cli import command

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrank.bounds.evaluation import Evaluation, MetricRow
    from bayesrank.datasets.runs import Qrels, Run

_HELP = """\
Judge the ranked lists of a RUN by the relevance judgements in QRELS.

Both are comma-separated UTF-8 text with a header, or files in the formats of TREC, as below. Scores
are better if higher; labels are whole numbers, 0 for not relevant. A column draw in RUN tells
posterior draws of a score apart; intervals are then credible intervals, and else bootstrap
intervals over queries.

\b
  query,item,score          query,item,label
  q1,Espresso,0.9           q1,Espresso,2
  q1,Filter,0.4             q1,Instant,0

\b
  q1 Q0 Espresso 1 0.9 me   q1 0 Espresso 2
  q1 Q0 Filter 2 0.4 me     q1 0 Instant 0

An item that is not judged counts as label 0; a judged item that is not in RUN counts as not
retrieved. Ties count by their expected value under random tie-breaking.
With --ties trec --gain linear --undefined 0 the metrics are those of trec_eval.
"""


@click.command(help=_HELP)
@click.argument("run", type=command.FILE)
@click.argument("qrels", type=command.FILE)
@click.option(
    "-k", type=click.IntRange(min=1), default=10, help="Places that count in the metrics with an @."
)
@click.option(
    "--gain",
    type=click.Choice(["exponential", "linear"]),
    default="exponential",
    help="Gain of NDCG: 2^label - 1, or the label.",
)
@click.option(
    "--min-relevant",
    type=click.IntRange(min=1),
    default=1,
    help="Labels from here on are relevant.",
)
@click.option(
    "--ties",
    type=click.Choice(["expected", "trec", "input"]),
    default="expected",
    help="What equal scores are worth: their expected value, trec_eval's order, or file order.",
)
@click.option(
    "--undefined",
    default="skip",
    metavar="skip|NUMBER",
    help="What a query counts where a metric is not defined.",
)
@click.option(
    "--unjudged",
    type=click.Choice(["zero", "skip"]),
    default="zero",
    help="Items without judgement: label 0, or left out.",
)
@click.option(
    "--negative-labels",
    type=click.Choice(["refuse", "zero"]),
    default="refuse",
    help="Labels below zero: refused, or taken as 0.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    help="Probability of the intervals.",
)
@command.seed("Seed of the bootstrap.")
def evaluate(run: Path, qrels: Path, undefined: str, negative_labels: Any, **options: Any) -> None:
    """Read the files, print the table and what was left out."""
    from bayesrank.bounds.evaluation import evaluate as metrics_of
    from bayesrank.cli.steps import stdout_console
    from bayesrank.datasets.runs import read_qrels, read_run

    value = _undefined(undefined)
    judgements = read_qrels(qrels, negative=negative_labels)
    scores = read_run(run)
    _check_room(scores, judgements)
    evaluation = metrics_of(scores, judgements, undefined=value, **options)
    console = stdout_console()
    console.print(evaluation_table(evaluation))
    for line in _captions(evaluation):
        console.print(line, style="dim", markup=False, highlight=False)


def _check_room(run: Run, qrels: Qrels) -> None:
    """Scores of all draws, in the order of the file and in that of the ranks."""
    from bayesrank._memory import check_room

    draws = len({draw for draw, _, _ in run.scores})
    pairs = len({(query, item) for _, query, item in run.scores} | qrels.labels.keys())
    what = f"{draws:,} draws of the scores of {pairs:,} items in their queries"
    check_room(16 * draws * pairs, what, "give fewer draws, or divide the queries")


def evaluation_table(evaluation: Evaluation) -> Table:
    """Lay out metrics: name, mean, interval, the queries they are defined in, the best value."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Metric", min_width=8, overflow="fold")
    table.add_column("Mean", justify="right", no_wrap=True)
    # On a narrow terminal the two ends of an interval stand below each other.
    table.add_column(f"{100 * evaluation.level:g}% interval", justify="right", min_width=8)
    for title in ("Queries", "Best"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in evaluation.rows:
        table.add_row(row.name, _number(row.mean), _ends(row), str(row.queries), f"{row.best:g}")
    return table


def _undefined(text: str) -> Any:
    if text == "skip":
        return "skip"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise click.BadParameter(
            f"{text!r} is neither 'skip' nor a number.", param_hint="'--undefined'"
        )
    return value


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"


def _ends(row: MetricRow) -> str:
    return "-" if row.low != row.low else f"{row.low:.4f} to {row.high:.4f}"


def _captions(evaluation: Evaluation) -> list[str]:
    judged = "1 judged query" if evaluation.queries == 1 else f"{evaluation.queries} judged queries"
    source = "resampled queries (bootstrap)"
    if evaluation.draws:
        source = f"{evaluation.draws} posterior draws"
    elif all(row.low != row.low for row in evaluation.rows):
        return [f"{judged}, too few for intervals.", *evaluation.notes]
    return [f"{judged}. Intervals are from {source}.", *evaluation.notes]
