"""From a kernel to a metric: check the arrays, rank, apply block by block, name the queries."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._tables import missing, numbered, plain_array
from bayesrank._validate import check_choice, check_level, check_positive
from bayesrank.metrics.lists import Array, Lists, arrange, rank_codes


@dataclass(frozen=True, eq=False)
class PerQuery:
    """A metric for each query, in each draw where the scores had draws.

    Parameters
    ----------
    values
        Shape ``(queries,)``, or ``(draws, queries)`` for scores with a leading axis; NaN where the
        metric is not defined and such queries are skipped.
    query
        Shape ``(queries,)``: their names, in order of first appearance.

    Examples
    --------
    >>> from bayesrank.metrics import pairwise_error
    >>> error = pairwise_error([3.0, 2.0, 1.0, 1.0], [1, 0, 0, 1], query=["a", "a", "b", "b"])
    >>> error
    PerQuery(mean=0.25, queries=2)
    >>> error.values
    array([0. , 0.5])
    """

    values: Any
    query: NDArray[Any]

    @property
    def mean(self) -> Any:
        """Mean over the queries in which the metric is defined, one a draw; NaN without any."""
        kept = ~np.isnan(self.values)
        count = kept.sum(axis=-1)
        total = np.where(kept, self.values, 0.0).sum(axis=-1)
        mean = np.where(count > 0, total / np.where(count > 0, count, 1), np.nan)
        return float(mean) if self.values.ndim == 1 else mean

    @property
    def num_undefined(self) -> int:
        """Number of queries that the mean leaves out, in the first draw where there are draws."""
        values = np.asarray(self.values)
        first = values.reshape(-1, values.shape[-1])[:1]
        return int(np.isnan(first).sum())

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Ends of the equal-tailed credible interval of the mean, from the draws.

        Parameters
        ----------
        level
            Posterior probability of the interval.

        Raises
        ------
        ValueError
            If `level` is not between 0 and 1, or the scores had no draws.
        """
        check_level(level)
        if np.ndim(self.values) < 2:
            raise ValueError(
                "interval needs draws: give scores of shape (draws, n), or use "
                "bayesrank.bounds.bootstrap_queries for the spread over queries"
            )
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(np.asarray(self.mean), [tail, 1.0 - tail])
        return float(low), float(high)

    def __float__(self) -> float:
        if np.ndim(self.values) > 1:
            raise TypeError("a metric of draws is a distribution: take .mean, one value a draw")
        return float(self.mean)

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        shape = list(self.values.shape)
        parts = [f"mean={np.mean(self.mean):.6g}"]
        if len(shape) > 1:
            parts.append(f"draws={int(np.prod(shape[:-1]))}")
        parts.append(f"queries={shape[-1]}")
        if self.num_undefined:
            parts.append(f"undefined={self.num_undefined}")
        return f"PerQuery({', '.join(parts)})"


Ties = Literal["expected", "trec", "input"]
LabelKind = Literal["real", "grade", "level", "rating"]


class Options(TypedDict, total=False):
    """Arguments that all metrics share; `bayesrank.metrics` explains them."""

    query: ArrayLike | None
    where: ArrayLike | None
    ties: Ties
    item: ArrayLike | None
    undefined: float | Literal["skip", "raise"]


class ScoredLists(NamedTuple):
    """Checked arrays, with all leading axes flattened into draws."""

    scores: Array  #: (draws, n)
    labels: Array  #: (draws or 1, n)
    where: Array  #: (draws or 1, n)
    query: NDArray[np.intp]  #: (n,), position in `names`
    names: NDArray[Any]  #: (queries,), in order of first appearance
    tiebreak: NDArray[np.int64] | None  #: (n,), lower is ranked first; None for expected values
    levels: tuple[float, ...] | None  #: distinct labels, if asked for and concrete
    lead: tuple[int, ...]  #: the leading axes of the scores


def check(
    scores_like: ArrayLike,
    labels_like: ArrayLike,
    query: ArrayLike | None,
    where_like: ArrayLike | None,
    kind: LabelKind,
    ties: Ties,
    item: ArrayLike | None,
) -> ScoredLists:
    """Check the arrays of a metric against each other and against the rules for labels."""
    scores_like, labels_like = plain_array(scores_like), plain_array(labels_like)
    where_like = True if where_like is None else plain_array(where_like)
    scores, labels = _real("scores", scores_like), _real("labels", labels_like)
    where: Array = np.asarray(where_like)
    _check_shapes(scores, labels, where)
    _check_values("scores", scores_like, where_like, kind)
    _check_values("labels", labels_like, where_like, kind)
    codes, names = number_queries(query, scores.shape[-1])
    if ties == "trec":
        with np.errstate(over="ignore"):
            scores = scores.astype(np.float32).astype(scores.dtype)
    lead = np.broadcast_shapes(scores.shape[:-1], labels.shape[:-1], where.shape[:-1])
    return ScoredLists(
        scores=_draws(np.broadcast_to(scores, (*lead, scores.shape[-1]))),
        labels=_draws(labels, lead),
        where=_draws(np.broadcast_to(where, (*where.shape[:-1], scores.shape[-1])), lead),
        query=codes,
        names=names,
        tiebreak=_tiebreak(ties, item, scores.shape[-1]),
        levels=_levels(labels_like) if kind == "level" else None,
        lead=lead,
    )


def _real(name: str, values: Any) -> Array:
    if np.dtype(values.dtype).kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, got dtype {values.dtype}; convert them")
    return np.asarray(values).astype(np.float64)


def _check_shapes(scores: Array, labels: Array, where: Array) -> None:
    for name, array in (("scores", scores), ("labels", labels)):
        if array.ndim == 0:
            raise ValueError(f"{name} must have one entry an item, got a single number")
    if where.dtype != bool:
        raise ValueError(f"where must be boolean, got dtype {where.dtype}; write where > 0")
    n = scores.shape[-1]
    for name, array in (("labels", labels), ("where", where)):
        if array.ndim and array.shape[-1] != n:
            raise ValueError(
                f"{name} has {array.shape[-1]} entries and scores has {n}; give one an item"
            )


def _draws(array: Array, lead: tuple[int, ...] | None = None) -> Array:
    """Flatten leading axes, of the shape `lead`, into draws; an array without any gets one."""
    axes: tuple[int, ...] = array.shape[:-1] if lead is None or array.ndim == 1 else lead
    n = array.shape[-1]
    return np.broadcast_to(array, (*axes, n)).reshape(math.prod(axes), n)


def _levels(labels: ArrayLike) -> tuple[float, ...] | None:
    known = np.asarray(labels, np.float64)
    return tuple(np.unique(known[~np.isnan(known)]).tolist())


def _check_values(name: str, values: ArrayLike, used: Any, kind: LabelKind) -> None:
    array, used = np.broadcast_arrays(np.asarray(values, np.float64), used)

    def refuse(bad: NDArray[np.bool_], what: str, fix: str) -> None:
        wrong = np.argwhere(bad & used)
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            index = ", ".join(map(str, place))
            raise ValueError(f"{name}[{index}] is {array[place]:g}: {what}; {fix}")

    if name == "scores":
        refuse(np.isnan(array), "a score must be a number", "mask it by where=, or give -inf")
        if kind == "rating":
            refuse(np.isinf(array), "a predicted rating must be finite", "mask it by where=")
        return
    refuse(~np.isfinite(array), "a label must be a finite number", "mask it by where=")
    if kind != "real":
        refuse(
            array < 0, "a label must not be below zero", "map the lowest to 0, or mask it by where="
        )
    if kind == "level":
        refuse(array != np.round(array), "a level must be a whole number", "number the levels")


def number_queries(query: ArrayLike | None, n: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Numbers of the queries of n items, by first appearance, and the queries' names."""
    if query is None:
        return np.zeros(n, np.intp), np.zeros(1, np.intp)
    names = np.asarray(query)
    if names.shape != (n,):
        raise ValueError(f"query has shape {names.shape} and there are {n} items; give one an item")
    codes, known = numbered(names.tolist())
    for number, name in enumerate(known):
        if missing(name):
            place = int(np.argmax(codes == number))
            raise ValueError(f"query[{place}] is {name}; every item must belong to one")
    unique = np.empty(len(known), names.dtype)
    unique[:] = known
    return codes, unique


def _tiebreak(ties: Ties, item: ArrayLike | None, n: int) -> NDArray[np.int64] | None:
    check_choice(ties, "ties", *get_args(Ties))
    if ties == "expected":
        return None
    if ties == "input":
        return np.arange(n, dtype=np.int64)
    if item is None:
        raise ValueError("ties='trec' needs item=, the identifiers that trec_eval sorts by")
    items = np.asarray(item)
    if items.shape != (n,):
        raise ValueError(f"item has shape {items.shape} and there are {n} items; give one an item")
    inverse = np.unique(items.astype(str), return_inverse=True)[1]
    return (inverse.max(initial=0) - inverse).astype(np.int64)


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
