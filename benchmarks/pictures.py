"""Pictures of the benchmarks: learning curves, running losses, and reliability of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

__all__ = ["draw_learning_curves", "draw_reliability", "draw_running_loss"]

Array = NDArray[Any]


def draw_learning_curves(ax: Any, curves: Mapping[str, Array], *, band: str) -> None:
    """Errors (trials, answers) by name: averages, and bands of their "sd" or "se"."""
    for number, (name, table) in enumerate(curves.items()):
        answers, mean = np.arange(1, table.shape[1] + 1), table.mean(axis=0)
        width = table.std(axis=0, ddof=1) / (len(table) ** 0.5 if band == "se" else 1.0)
        ax.plot(answers, mean, color=f"C{number}", label=name)
        ax.fill_between(answers, mean - width, mean + width, color=f"C{number}", alpha=0.18, lw=0)
    ax.set(xlabel="answers", ylabel="pairs in the wrong order")
    ax.legend(frameon=False, fontsize="small")


def draw_running_loss(ax: Any, losses: Mapping[str, Array], best: float) -> None:
    """Average loss of all examples so far, of tables (trials, examples) by name."""
    for name, table in losses.items():
        length = table.shape[1]
        running = (table.cumsum(1) / np.arange(1, length + 1)).mean(0)
        shown = np.unique(np.geomspace(10, length, 300).astype(int))
        ax.plot(shown, running[shown - 1], label=f"{name} {running[-1]:.3f}")
    ax.axhline(best, color="0.4", linestyle="--", linewidth=1, label=f"the true rule {best:.3f}")
    ax.set(xscale="log", xlabel="examples", ylabel="average rank loss so far")
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize="small")


def draw_reliability(ax: Any, probability: Array, happened: Array, bins: int = 20) -> None:
    """How often events happened against their probability, with Wilson's 90% intervals."""
    p, seen = np.ravel(probability), np.ravel(happened)
    groups = np.array_split(np.argsort(p, kind="stable"), bins)
    share = np.array([seen[group].mean() for group in groups])
    tests = [binomtest(int(seen[group].sum()), len(group)) for group in groups]
    ends = np.array([test.proportion_ci(0.9, method="wilson") for test in tests]).T
    ax.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    ax.errorbar([p[group].mean() for group in groups], share, np.abs(ends - share), fmt="o-")
    ax.set(xlabel="predicted probability of a level", ylabel="how often it was the rating")
