"""From a kernel to a metric: check, rank, apply block by block, name the queries."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_positive
from bayesrank.metrics._result import PerQuery
from bayesrank.metrics.lists import Lists, arrange, rank_codes
from bayesrank.metrics.problem import Array, LabelKind, ScoredLists, Ties, check

_BLOCK = 2**21  # items worked on at once: draws beyond it wait for the next block


def per_query(
    kernel: Callable[[Lists], Array],
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    query: ArrayLike | None = None,
    where: ArrayLike | None = None,
    kind: LabelKind = "real",
    min_relevant: float | None = None,
    ties: Ties = "expected",
    item: ArrayLike | None = None,
    undefined: float | Literal["skip", "raise"] = "skip",
) -> PerQuery:
    """Check, rank, and apply `kernel`, (num_lists,) with NaN; values ``(*leading, queries)``."""
    problem = check(scores, labels, query, where, kind, ties, item)
    if min_relevant is not None:
        problem = _binarize(problem, min_relevant)
    values = np.concatenate([_block(kernel, part) for part in _blocks(problem)])
    values = _fill(values, problem, undefined)
    return PerQuery(values.reshape(*problem.lead, len(problem.names)), problem.names)


def _binarize(problem: ScoredLists, min_relevant: float) -> ScoredLists:
    min_relevant = check_positive(min_relevant, "min_relevant")
    labels = (problem.labels >= min_relevant) * 1.0
    return problem._replace(labels=labels, levels=(0.0, 1.0))


def _blocks(problem: ScoredLists) -> list[ScoredLists]:
    """Cut a problem into blocks of draws that fit into memory."""
    draws, n = problem.scores.shape
    step = max(1, _BLOCK // max(n, 1))

    def part(array: Array, start: int) -> Array:
        return array if len(array) == 1 else array[start : start + step]

    return [
        problem._replace(
            scores=problem.scores[start : start + step],
            labels=part(problem.labels, start),
            where=part(problem.where, start),
        )
        for start in range(0, max(draws, 1), step)
    ]


def _block(kernel: Callable[[Lists], Array], problem: ScoredLists) -> Array:
    """Values of one block, shape ``(draws, queries)``."""
    draws, n = problem.scores.shape
    if draws * n == 0:
        return np.full((draws, len(problem.names)), np.nan)
    lists = _ranked(problem)
    values = np.where(lists.size > 0, kernel(lists), np.nan)
    return values.reshape(draws, -1)[:, :-1]


def _fill(
    values: Array, problem: ScoredLists, undefined: float | Literal["skip", "raise"]
) -> Array:
    if undefined == "skip":
        return values
    if undefined == "raise":
        bad = np.argwhere(np.isnan(values))
        if len(bad):
            name = problem.names.tolist()[bad[0][1]]
            raise ValueError(
                f"the metric is not defined for query {name!r}: it has no items, or labels of one "
                "kind only; drop it, or choose undefined='skip' or a number"
            )
        return values
    if isinstance(undefined, str):
        raise ValueError(f"undefined must be 'skip', 'raise' or a number, got {undefined!r}")
    return np.where(np.isnan(values), float(undefined), values)


def _ranked(problem: ScoredLists) -> Lists:
    """Rank all draws of a problem; the masked items of each go to one more list at its end."""
    draws, n = problem.scores.shape
    spare = len(problem.names)
    list_id = (
        np.where(problem.where, problem.query, spare) + (spare + 1) * np.arange(draws)[:, None]
    )
    scores = np.where(problem.where, problem.scores, 0.0).ravel()
    labels = np.broadcast_to(np.where(problem.where, problem.labels, 0.0), (draws, n)).ravel()
    key, num_keys = rank_codes(-scores)
    if problem.tiebreak is not None:
        tiebreak = np.where(scores > -np.inf, np.tile(problem.tiebreak, draws), 0)
        key, num_keys = key.astype(np.int64) * n + tiebreak, num_keys * n
    return arrange(
        list_id.ravel(), key, num_keys, labels, scores, draws * (spare + 1), problem.levels
    )
