"""Modes of the hyperparameters, where an integration over them starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from bayesrank.infer.ep import EP
from bayesrank.infer.hyper.hyperparameters import EvidenceEvaluation, Hyperparameters
from bayesrank.infer.hyper.search import STEPS, TOLERANCE, Search, SearchEnd, check_settings
from bayesrank.infer.reader.traced import Traced
from bayesrank.infer.result import EPResult

# Modes this much lower than the best, in nats, compete with it; a valley between two is so deep,
# and ends that are nearer than this on the unconstrained scale are one.
_COMPETES, _VALLEY, _NEAR = 4.0, 0.1, 0.3


class Mode(NamedTuple):
    """The most probable hyperparameters on their unconstrained scale."""

    free: Hyperparameters
    flat: np.ndarray  # the point, shape (d,)
    evaluation: EvidenceEvaluation  # there; its objective is the log density of the point
    gradient: np.ndarray  # (d,)
    start: EPResult  # EP's result where the search started
    num_evaluations: int  # of the evidence
    others: tuple[Mode, ...] = ()  # modes that compete with it, best first


def find_mode(
    engine: EP,
    program: Traced,
    called: tuple[tuple, dict[str, Any]],
    params: Mapping[str, Any],
    *,
    init: Mapping[str, Any] | None = None,
    num_restarts: int = 0,
    rng_key: Array | None = None,
    callback: Callable[[int, float], None] | None = None,
    tol: float = 0.0,
    jacobian: bool = True,
) -> Mode:
    """The mode of evidence times prior, of unconstrained values where `jacobian`."""
    check_settings(num_restarts)
    given: dict[str, Any] = dict(params)
    start = dict(init or {})
    search = Search(engine, program, called, given, start, callback, tol=tol, jacobian=jacobian)
    ends = apart(search, search.ends(num_restarts, rng_key, STEPS, TOLERANCE))
    first, *others = (
        Mode(search.free, x.outcome.x, x.evaluation, x.gradient, search.result, search.count)
        for x in ends
    )
    return first._replace(others=tuple(others))


def apart(search: Search, ends: list[SearchEnd]) -> list[SearchEnd]:
    """The best end, and those that compete with it, a valley apart from all before them."""
    best = search.best(ends)
    found = [best]
    for end in sorted(ends, key=lambda e: -float(e.evaluation.objective)):
        least = float(best.evaluation.objective) - _COMPETES
        if not end.evaluation.usable or float(end.evaluation.objective) < least:
            continue
        if end is not best and all(_is_valley_between(search, end, other) for other in found):
            found.append(end)
    return found


def _is_valley_between(search: Search, lower: SearchEnd, other: SearchEnd) -> bool:
    """Whether the objective halfway is below that of the lower end."""
    if np.linalg.norm(lower.outcome.x - other.outcome.x) < _NEAR:
        return False
    middle, _ = search.evaluate(0.5 * (lower.outcome.x + other.outcome.x))
    level = float(lower.evaluation.objective) - _VALLEY
    return bool(middle.usable) and float(middle.objective) < level
