"""Examples a second of the online learners, and memory of a long stream from the disk."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tinygp.kernels import Polynomial

from bayesrank.online import OAPBPM, OnlineBayesPoint, synthetic_stream

__all__ = ["Throughput", "from_disk", "in_memory"]


class Throughput(NamedTuple):
    """Time and memory of one pass.

    Attributes
    ----------
    seconds, cpu_seconds
        Time of learning after compilation; reading and making the data is not part of it.
    examples
        Number of examples.
    early_mb, late_mb
        Peak memory of the process after a tenth of the stream, and after all of it.
    """

    seconds: float
    cpu_seconds: float
    examples: int
    early_mb: float
    late_mb: float


def in_memory(name: str, examples: int = 50_000) -> Throughput:
    """One pass over the synthetic stream, degree 2: "OAP-BPM" (100 members) or another learner."""
    kernel = Polynomial(order=2, sigma=1.0)
    makers: dict[str, Callable[[], Any]] = {
        "OAP-BPM, 100 members": lambda: OAPBPM(5, kernel=kernel),
        "OnlineBayesPoint": lambda: OnlineBayesPoint(5, kernel=kernel),
        "OnlineBayesPoint, one noise": lambda: OnlineBayesPoint(5, kernel=kernel, noise=0.03),
        "OnlineBayesPoint, diagonal": lambda: OnlineBayesPoint(
            5, kernel=kernel, covariance="diagonal"
        ),
    }
    stream = synthetic_stream(examples, seed=0)
    makers[name]().partial_fit(stream.X[:1025], stream.y[:1025])
    model, clock, cpu = makers[name](), time.perf_counter(), time.process_time()
    model.partial_fit(stream.X, stream.y)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    return Throughput(clock, cpu, examples, _peak_mb(), _peak_mb())


def from_disk(
    examples: int = 1_000_000, features: int = 100, members: int = 100, chunk: int = 10_000
) -> Throughput:
    """Stream a file of single-precision features through OAP-BPM, chunk by chunk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.f32"
        _write(path, examples, features, chunk)
        model = OAPBPM(5, members)
        model.partial_fit(np.zeros((1025, features)), np.ones(1025, int))
        model = OAPBPM(5, members)
        clock = cpu = early = 0.0
        with path.open("rb") as file:
            for start in range(0, examples, chunk):
                rows = np.fromfile(file, np.float32, chunk * (features + 1)).reshape(chunk, -1)
                before, before_cpu = time.perf_counter(), time.process_time()
                model.partial_fit(rows[:, :-1], rows[:, -1])
                clock += time.perf_counter() - before
                cpu += time.process_time() - before_cpu
                if start <= examples // 10:
                    early = _peak_mb()
        return Throughput(clock, cpu, model.n_seen_, early, _peak_mb())


def _write(path: Path, examples: int, features: int, chunk: int) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=features) / features**0.5
    with path.open("wb") as file:
        for _ in range(0, examples, chunk):
            rows = rng.normal(size=(chunk, features + 1)).astype(np.float32)
            score = rows[:, :-1] @ weights + 0.3 * rows[:, -1]
            rows[:, -1] = 1 + (score[:, None] > np.array([-1.0, -0.3, 0.3, 1.0])).sum(1)
            rows.tofile(file)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
