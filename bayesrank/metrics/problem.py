"""Checks of what callers hand to the metrics, before anything is sorted."""

import math
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._tables import missing, numbered, plain_array
from bayesrank._validate import check_choice

Array = Any
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
