"""A run and its judgements made into a table of metrics with intervals."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from bayesrank import metrics
from bayesrank._validate import check_choice, check_level
from bayesrank.bounds._intervals import bootstrap_queries
from bayesrank.datasets import DataError
from bayesrank.datasets.runs import Qrels, Run
from bayesrank.metrics import PerQuery
from bayesrank.metrics.gain import LARGEST_EXPONENT
from bayesrank.metrics.problem import Ties

_SAMPLES = 1000


class MetricRow(NamedTuple):
    """One metric of a run."""

    name: str
    mean: float  #: over queries, and over draws if there are any; NaN if defined in no query
    low: float  #: ends of the interval; NaN where there is none
    high: float
    queries: int  #: in which the metric is defined
    best: float  #: the value of a perfect ranking
    result: PerQuery


class Evaluation(NamedTuple):
    """Metrics of a run."""

    rows: tuple[MetricRow, ...]
    queries: int  #: that are judged
    draws: int  #: of each score; 0 if the run has none
    level: float  #: of the intervals
    notes: tuple[str, ...]  #: what was left out or filled in, one line each


class _JudgedRun(NamedTuple):
    scores: np.ndarray  #: (draws, n), -inf where not retrieved
    labels: np.ndarray
    query: np.ndarray
    item: np.ndarray
    notes: tuple[str, ...]


def evaluate(
    run: Run,
    qrels: Qrels,
    *,
    k: int = 10,
    gain: Literal["exponential", "linear"] = "exponential",
    min_relevant: int = 1,
    ties: Ties = "expected",
    undefined: float | Literal["skip"] = "skip",
    unjudged: Literal["zero", "skip"] = "zero",
    level: float = 0.9,
    seed: int = 0,
) -> Evaluation:
    """Compute the metrics of a run on its judged queries; notes say what is left out.

    Intervals are credible ones if the run has draws, else of the bootstrap over queries. Judged
    items and queries that the run lacks count as not retrieved (see `bayesrank.metrics`). Items
    without judgement are label 0, or left out, by `unjudged`; `k` is of the metrics with an ``@``.
    With ``gain="linear"``, ``ties="trec"`` and ``undefined=0.0`` metrics are trec_eval's. Raises a
    `DataError` if no query is in both files or a gain overflows, a `ValueError` for an option.
    """
    check_level(level)
    check_choice(unjudged, "unjudged", "zero", "skip")
    top = max(qrels.labels.values())
    if gain == "exponential" and top > LARGEST_EXPONENT:
        fix = "take the linear gain (--gain linear), or number the levels 0, 1, 2, ..."
        raise DataError(qrels.path, f"labels go up to {top}, and 2**label overflows", fix)
    problem = _join(run, qrels, unjudged)
    call = {"query": problem.query, "ties": ties, "item": problem.item, "undefined": undefined}
    scores = problem.scores if len(problem.scores) > 1 else problem.scores[0]
    rows = []
    for name, best, metric in _metrics(k, gain, min_relevant):
        result = metric(scores, problem.labels, **call)
        low, high = _interval(result, level, seed)
        known = np.atleast_2d(~np.isnan(result.values))[0]
        mean = float(np.mean(result.mean))
        rows.append(MetricRow(name, mean, low, high, int(known.sum()), best, result))
    draws = len(problem.scores) if len(problem.scores) > 1 else 0
    queries = len(rows[0].result)
    return Evaluation(tuple(rows), queries, draws, level, problem.notes)


def _metrics(
    k: int, gain: Literal["exponential", "linear"], min_relevant: int
) -> list[tuple[str, float, Callable[..., PerQuery]]]:
    """Name, value of a perfect ranking, and call of each metric."""
    relevance = {"min_relevant": min_relevant}
    return [
        ("NDCG", 1.0, partial(metrics.ndcg, gain=gain)),
        (f"NDCG@{k}", 1.0, partial(metrics.ndcg, gain=gain, k=k)),
        ("Average precision (MAP)", 1.0, partial(metrics.average_precision, **relevance)),
        ("Reciprocal rank (MRR)", 1.0, partial(metrics.reciprocal_rank, **relevance)),
        (f"Precision@{k}", 1.0, partial(metrics.precision_at, k=k, **relevance)),
        ("Break-even point", 1.0, partial(metrics.break_even_point, **relevance)),
        ("AUC", 1.0, partial(metrics.auc, **relevance)),
        ("Kendall's tau-b", 1.0, metrics.kendall_tau),
        ("Winner takes all (cost)", 0.0, partial(metrics.winner_takes_all, **relevance)),
        ("Pairwise error", 0.0, metrics.pairwise_error),
        ("k-partite error, alpha = 1", 0.0, partial(metrics.k_partite_error, alpha=1.0)),
        ("Disagreement error", 0.0, metrics.disagreement_error),
    ]


def _interval(result: PerQuery, level: float, seed: int) -> tuple[float, float]:
    if np.ndim(result.values) > 1:
        return result.interval(level)
    if np.count_nonzero(~np.isnan(result.values)) < 2:
        return np.nan, np.nan
    means = bootstrap_queries(result, num_samples=_SAMPLES, rng=seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _join(run: Run, qrels: Qrels, unjudged: Literal["zero", "skip"]) -> _JudgedRun:
    """Lay out judged queries with all their items, judged or retrieved."""
    judged = dict.fromkeys(query for query, _ in qrels.labels)
    seen = dict.fromkeys(query for _, query, _ in run.scores)
    if not judged.keys() & seen.keys():
        raise DataError(
            run.path,
            f"none of its {len(seen)} queries is judged in {qrels.path}",
            "check that both name queries alike",
        )
    retrieved = dict.fromkeys((query, item) for _, query, item in run.scores if query in judged)
    extra = [pair for pair in retrieved if pair not in qrels.labels]
    pairs = list(qrels.labels) + (extra if unjudged == "zero" else [])
    row = {pair: i for i, pair in enumerate(pairs)}
    draws = {name: i for i, name in enumerate(dict.fromkeys(draw for draw, _, _ in run.scores))}
    scores = np.full((len(draws), len(pairs)), -np.inf)
    for (draw, query, item), score in run.scores.items():
        if (query, item) in row:
            scores[draws[draw], row[query, item]] = score
    missed = sum(pair not in retrieved for pair in qrels.labels)
    counts = len(seen.keys() - judged.keys()), len(judged.keys() - seen.keys()), len(extra), missed
    return _JudgedRun(
        scores,
        np.array([qrels.labels.get(pair, 0) for pair in pairs]),
        np.array([query for query, _ in pairs]),
        np.array([item for _, item in pairs]),
        _notes(*counts, unjudged == "zero"),
    )


def _notes(foreign: int, lost: int, extra: int, missed: int, as_zero: bool) -> tuple[str, ...]:
    """Sentences about queries and items that one side has and the other has not."""
    one, many = ("counts as label 0", "count as label 0") if as_zero else ("left out",) * 2
    notes = (
        _note(
            foreign,
            "query of the run is not judged, and left out",
            "queries of the run are not judged, and left out",
        ),
        _note(
            lost,
            "judged query is not in the run, and counts as found nothing",
            "judged queries are not in the run, and count as found nothing",
        ),
        _note(
            extra,
            f"item of the run is not judged, and {one}",
            f"items of the run are not judged, and {many}",
        ),
        _note(
            missed,
            "judged item is not in the run, and counts as not retrieved",
            "judged items are not in the run, and count as not retrieved",
        ),
    )
    return tuple(note for note in notes if note)


def _note(count: int, one: str, many: str) -> str:
    """Sentence about a number of things, empty if there is none."""
    return f"{count} {one if count == 1 else many}." if count else ""
