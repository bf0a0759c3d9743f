"""Seconds and memory of one run, first call and later calls apart."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bayesrank.infer import EP, maximize_evidence
from benchmarks import problems

__all__ = ["CASES", "measure"]

Run = Callable[[], Any]


def _gp(n: int, count: int) -> Run:
    problem = problems.gp_problem(n, count, 4.0, seed=0)
    engine, key = EP(problems.fixed_gp), jax.random.key(0)
    variance = np.asarray(4.0)

    def run() -> Any:
        return engine.run(key, problem.X, problem.winner, problem.loser, variance)

    return run


def _skills(n: int, count: int) -> Run:
    problem = problems.skills_problem(n, count, seed=0)
    engine, key = EP(problems.skills), jax.random.key(0)

    def run() -> Any:
        return engine.run(key, problem.winner, problem.loser, n)

    return run


def _hyperparameters(n: int, count: int) -> Run:
    problem = problems.gp_problem(n, count, 4.0, seed=0)
    engine = EP(problems.ard_gp)

    def run() -> Any:
        return maximize_evidence(engine, problem.X, problem.winner, problem.loser)

    return run


# name: how to set it up, repeats after the first call, target in seconds for the median of these
CASES: dict[str, tuple[Callable[[], Run], int, float]] = {
    "EP, GP, n=300, K=1,500": (lambda: _gp(300, 1_500), 20, 0.05),
    "EP, GP, n=1,000, K=5,000": (lambda: _gp(1_000, 5_000), 7, 0.6),
    "ARD by evidence, n=300, K=1,500": (lambda: _hyperparameters(300, 1_500), 5, 1.0),
    "ARD by evidence, n=1,000, K=5,000": (lambda: _hyperparameters(1_000, 5_000), 3, 15.0),
    "EP, independent skills, n=1,000, K=10,000": (lambda: _skills(1_000, 10_000), 7, 0.6),
    "EP, independent skills, n=1,000, K=100,000": (lambda: _skills(1_000, 100_000), 7, 1.0),
}


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process.

    Returns
    -------
    dict
        Seconds of the first call (tracing and compiling included), median and smallest of the
        later ones, and the peak of the process's memory above what it held after imports, in MB.
    """
    set_up, repeats, target = CASES[name]
    run = set_up()
    before = _peak_mb()
    first = _seconds(run)
    later = [_seconds(run) for _ in range(repeats)]
    return {
        "case": name,
        "first_s": first,
        "median_s": float(np.median(later)),
        "min_s": min(later),
        "target_s": target,
        "peak_mb": _peak_mb() - before,
    }


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
