"""Collaborative ratings: time and memory of CGPOR to convergence."""

from __future__ import annotations

import resource
import time

import numpy as np

from bayesrank.infer import EM
from benchmarks.ratings import STRENGTH, load

__all__ = ["speed"]


def speed(name: str, share: float = 1.0) -> dict[str, float]:
    """Fit one data set, or the first `share` of its users, once with all that is compiled."""
    data = load(name)
    num_items = int(data.items.max()) + 1
    data = data.where(data.users < share * (data.users.max() + 1))
    engine = EM("probit", strength=STRENGTH, tol=1e-4)
    start, cpu = time.perf_counter(), time.process_time()
    result = engine.run(*data, num_items=num_items, progress_bar=False)
    return {
        "users": float(len(np.unique(data.users))),
        "ratings": float(len(data.users)),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "iterations": float(result.num_iterations),
        "converged": float(result.converged),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
