"""Collaborative ratings: time and memory of CGPOR, and whether it has settled where it stops."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesrank.solvers.collaborative import EM, EMResult
from benchmarks.ratings import STRENGTH, Ratings, load

__all__ = ["Timing", "plot", "settled", "speed", "timings"]

_TOL = 1e-4
_ITERATIONS, _FIRST = 12, 3


class Timing(NamedTuple):
    """Seconds of an iteration, median of several, compiling apart; and of how much."""

    users: int
    ratings: int
    wall: float
    cpu: float


def speed(name: str, share: float = 1.0) -> dict[str, float]:
    """Fit one data set, or the first `share` of its users, once with all that is compiled."""
    data = load(name)
    num_items = int(data.items.max()) + 1
    data = data.where(data.users < share * (data.users.max() + 1))
    engine = EM("probit", strength=STRENGTH, tol=_TOL)
    start, cpu = time.perf_counter(), time.process_time()
    result = engine.run(*data, num_items=num_items, progress_bar=False)
    return {
        "users": float(len(np.unique(data.users))),
        "ratings": float(len(data.users)),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "iterations": float(result.num_iterations),
        "converged": float(result.converged),
        "objective": float(result.trace[-1]) / len(data.users),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def settled(name: str, further: int = 100, seed: int = 0) -> Iterator[dict[str, float]]:
    """Log loss on a fifth of the ratings where EM stops, and after at most `further` iterations.

    Yields
    ------
    dict
        Figures of the two fits; ``moved`` is the root mean square change of the probability of the
        levels held out.
    """
    data = load(name)
    test = np.random.default_rng(seed).random(len(data.users)) < 0.2
    train, held_out = data.where(~test), data.where(test)
    shape: dict[str, Any] = {
        "num_users": int(data.users.max()) + 1,
        "num_items": int(data.items.max()) + 1,
    }
    first = EM("probit", strength=STRENGTH, tol=_TOL)
    result = first.run(*train, **shape, progress_bar=False)
    before = _said(result, held_out)
    yield _figures(result, before, before)
    longer = EM("probit", strength=STRENGTH, tol=_TOL / 100, max_iterations=further)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = longer.run(*train, **shape, init_state=result.state, progress_bar=False)
    yield _figures(result, _said(result, held_out), before)


def _said(result: EMResult, held_out: Ratings) -> np.ndarray:
    """Probability of what was said."""
    probability = result.predict_proba(held_out.users, held_out.items)
    return probability[np.arange(len(held_out.levels)), held_out.levels]


def _figures(result: EMResult, said: np.ndarray, before: np.ndarray) -> dict[str, float]:
    return {
        "iterations": float(result.num_iterations),
        "objective": float(result.trace[-1]) / len(result.observations.users),
        "log loss": float(-np.log(said).mean()),
        "moved": float(np.sqrt(((said - before) ** 2).mean())),
    }


def timings(name: str, counts: tuple[int, ...]) -> Iterator[Timing]:
    """Time an iteration of EM, on so many of the users, drawn at random."""
    data = load(name)
    num_users, num_items = int(data.users.max()) + 1, int(data.items.max()) + 1
    order = np.random.default_rng(0).permutation(num_users)
    for count in counts:
        some = data.where(np.isin(data.users, order[:count]))
        clock: list[tuple[float, float]] = []

        def tick(number: int, value: float, clock: list[tuple[float, float]] = clock) -> None:
            clock.append((time.perf_counter(), time.process_time()))

        engine = EM(
            "probit",
            strength=STRENGTH,
            accelerate=False,
            max_iterations=_ITERATIONS,
            tol=1e-12,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine.run(
                *some, num_users=num_users, num_items=num_items, progress_bar=False, callback=tick
            )
        wall, cpu = np.median(np.diff(clock, axis=0)[_FIRST:], axis=0)
        users = len(np.unique(some.users))
        yield Timing(users, len(some.users), float(wall), float(cpu))


def plot(rows: list[Timing], path: Path) -> None:
    """Draw seconds of an iteration against users, with a straight line, to a PNG file."""
    from matplotlib.figure import Figure

    users = np.array([row.users for row in rows])
    cpu = np.array([row.cpu for row in rows])
    slope, start = np.polyfit(users, cpu, 1)
    figure = Figure(figsize=(6.5, 4.0), layout="constrained")
    axes = figure.subplots()
    ends = np.array([0, users.max() * 1.05])
    label = f"{start:.2f} s + {1e3 * slope:.2f} s per 1,000 users"
    axes.plot(ends, start + slope * ends, color="0.6", lw=1, label=label)
    axes.plot(users, cpu, "o", label="median of an iteration")
    axes.set(
        xlabel="Users",
        ylabel="Processor time of an iteration, s",
        xlim=(0, ends[1]),
        ylim=(0, 1.15 * cpu.max()),
        title=f"CGPOR on lecture ratings, up to {rows[-1].ratings:,} of them",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=110)
