"""The command `evaluate`: a run and its judgements in, a table of metrics out."""

from pathlib import Path
from typing import Any

from rich.table import Table

from bayesrank._memory import check_memory
from bayesrank.bounds.evaluation import Evaluation, MetricRow
from bayesrank.bounds.evaluation import evaluate as metrics_of
from bayesrank.cli.progress import stdout_console
from bayesrank.datasets.runs import Qrels, Run, read_qrels, read_run


def evaluate(run: Path, qrels: Path, negative_labels: Any, **options: Any) -> None:
    """Read the files, print the table and what was left out."""
    judgements = read_qrels(qrels, negative=negative_labels)
    scores = read_run(run)
    _check_memory(scores, judgements)
    evaluation = metrics_of(scores, judgements, **options)
    console = stdout_console()
    console.print(evaluation_table(evaluation))
    for line in captions(evaluation):
        console.print(line, style="dim", markup=False, highlight=False)


def _check_memory(run: Run, qrels: Qrels) -> None:
    """Scores of all draws, in the order of the file and in that of the ranks."""
    draws = len({draw for draw, _, _ in run.scores})
    pairs = len({(query, item) for _, query, item in run.scores} | qrels.labels.keys())
    what = f"{draws:,} draws of the scores of {pairs:,} items in their queries"
    check_memory(16 * draws * pairs, what, "give fewer draws, or divide the queries")


def evaluation_table(evaluation: Evaluation) -> Table:
    """Lay out metrics: name, mean, interval, the queries they are defined in, the best value."""
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


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"


def _ends(row: MetricRow) -> str:
    return "-" if row.low != row.low else f"{row.low:.4f} to {row.high:.4f}"


def captions(evaluation: Evaluation) -> list[str]:
    """Sentences below the table of metrics."""
    judged = "1 judged query" if evaluation.queries == 1 else f"{evaluation.queries} judged queries"
    source = "resampled queries (bootstrap)"
    if evaluation.draws:
        source = f"{evaluation.draws} posterior draws"
    elif all(row.low != row.low for row in evaluation.rows):
        return [f"{judged}, too few for intervals.", *evaluation.notes]
    columns = "Queries: those with a value of the metric. Best: the value of a perfect ranking."
    return [f"{judged}. Intervals are from {source}.", columns, *evaluation.notes]
