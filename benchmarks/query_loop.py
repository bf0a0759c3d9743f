"""Seconds that a person waits between two questions, and what is compiled meanwhile."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesrank.active import QueryLoop
from benchmarks import problems

__all__ = ["CASES", "measure"]

# name: items, answers
CASES = {
    "n=506, 50 answers": (506, 50),
    "n=100, 500 answers": (100, 500),
    "n=506, 500 answers": (506, 500),
    "n=1000, 500 answers": (1000, 500),
}
CANDIDATES = 1_000
WINDOWS = (50, 100, 200, 300, 400, 500)
LEARNINGS = (10, 20, 40)


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process: five features, a journal on disk, 1,000 candidates.

    Returns
    -------
    dict
        Seconds until the first question (the loop is made, and what it needs is compiled); of the
        first round (tell, update, score, ask); for each window of answers, median and 95th
        percentile of the rounds, and the median of their CPU seconds; numbers of compilations until
        the first question and after it; seconds of learning hyperparameters the first time and
        later, apart from the rounds.
    """
    n, count = CASES[name]
    problem = problems.gp_problem(n, 1, 4.0, seed=0)
    with tempfile.TemporaryDirectory() as folder, _compilations() as compiled:
        start = time.perf_counter()
        loop = QueryLoop(
            n,
            problem.X,
            journal=Path(folder) / "answers.jsonl",
            candidates=CANDIDATES,
            hyperparameters={"noise": 1.0},
            refit_after=count + 1,
        )
        with loop:
            loop.ask()
            first_question, before = time.perf_counter() - start, len(compiled)
            rounds = np.array([_round(loop, problem.skill) for _ in range(count)])
            during = len(compiled) - before
            learn = [_learn(loop, problem.skill, k) for k in LEARNINGS] if count == 50 else []
    return {
        "case": name,
        "first_question_s": first_question,
        "first_round_s": float(rounds[0, 0]),
        "windows": _windows(rounds),
        "compiled_before": before,
        "compiled_during": during,
        "learn_s": learn,
    }


def _windows(rounds: np.ndarray) -> list[dict[str, Any]]:
    """Of the answers up to each mark, after the mark before it; the first round counts apart."""
    windows, start = [], 1
    for end in (w for w in WINDOWS if w <= len(rounds)):
        seconds, cpu = rounds[start:end].T
        windows.append(
            {
                "until": end,
                "median_s": float(np.median(seconds)),
                "p95_s": float(np.quantile(seconds, 0.95)),
                "cpu_s": float(np.median(cpu)),
            }
        )
        start = end
    return windows


def _round(loop: QueryLoop, skill: np.ndarray) -> tuple[float, float]:
    """Answer the question that stands, and ask the next."""
    (question,) = loop.ask()
    pair = [loop.items.index(name) for name in question[:2]]
    winner, loser = sorted(pair, key=lambda item: -skill[item])
    start, cpu = time.perf_counter(), time.process_time()
    loop.tell(winner, loser)
    loop.ask()
    return time.perf_counter() - start, time.process_time() - cpu


def _learn(full: QueryLoop, skill: np.ndarray, count: int) -> float:
    """Seconds of learning the hyperparameters from the first answers."""
    loop = QueryLoop(len(skill), full.result.model_args[0])
    for answer in full.answers[:count]:
        loop.tell(answer.winner, answer.loser)
    start = time.perf_counter()
    loop.learn()
    return time.perf_counter() - start


@contextmanager
def _compilations() -> Iterator[list[str]]:
    """Collect the names of XLA's compilations."""
    events: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if "backend_compile" in event:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.clear_event_listeners()
