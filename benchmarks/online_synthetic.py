"""The paper's synthetic stream: Table 1, the numbers beside it, and Figure 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from tinygp.kernels import Polynomial

from bayesrank.online import (
    OAPBPM,
    OAPBagging,
    OAPVoted,
    OnlineBayesPoint,
    PRank,
    VotedPRank,
    WidrowHoff,
    rank_loss,
    synthetic_stream,
)

__all__ = ["PAPER", "SyntheticStudy", "learners", "plot", "run_trials"]

LEVELS, TEST = 5, 1_000
IDEAL = "the true rule"

PAPER = {
    "PRank": 0.37,
    "voted PRank": 0.31,
    "WH eta=0.1": 0.30,
    "OAP-VP tau=0.3": 0.32,
    "OAP-VP tau=0.6": 0.31,
    "OAP-VP tau=0.9": 0.31,
    "OAP-Bagg tau=0.3": 0.33,
    "OAP-Bagg tau=0.6": 0.31,
    "OAP-Bagg tau=0.9": 0.32,
    "OAP-BPM tau=0.3": 0.23,
    "OAP-BPM tau=0.6": 0.24,
    "OAP-BPM tau=0.9": 0.26,
}
"""Rank losses on test examples as printed, by learner."""


class SyntheticStudy(NamedTuple):
    """Outcome of the trials.

    Attributes
    ----------
    unrounded, rounded
        Test losses by learner, one for each trial.
    running
        Losses of the first trials' training examples as they were met, rounded, by learner;
        (trials, T). The voted PRank, whose every prediction takes all past rules, is left out.
    """

    unrounded: dict[str, list[float]]
    rounded: dict[str, list[float]]
    running: dict[str, list[np.ndarray]]


def learners(n_members: int, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All learners by name, on the kernel of degree two."""
    kernel = Polynomial(order=2, sigma=1.0)
    yield "PRank", lambda: PRank(LEVELS, kernel=kernel)
    yield "voted PRank", lambda: VotedPRank(LEVELS, kernel=kernel, budget=None)
    for eta in (0.2, 0.1, 0.05, 0.01):
        yield f"WH eta={eta}", lambda eta=eta: WidrowHoff(LEVELS, eta, kernel=kernel)
    kinds = {"OAP-VP": OAPVoted, "OAP-Bagg": OAPBagging, "OAP-BPM": OAPBPM}
    for name, kind in kinds.items():
        for tau in (0.3, 0.6, 0.9):
            yield (
                f"{name} tau={tau}",
                lambda kind=kind, tau=tau: kind(LEVELS, n_members, tau, seed, kernel=kernel),
            )
    yield "OnlineBayesPoint", lambda: OnlineBayesPoint(LEVELS, kernel=kernel)
    yield (
        "OnlineBayesPoint, diagonal",
        lambda: OnlineBayesPoint(LEVELS, kernel=kernel, covariance="diagonal"),
    )


def run_trials(trials: int, examples: int, n_members: int, *, curves: int) -> SyntheticStudy:
    """Let every learner see the same streams once, then test it on fresh examples.

    Parameters
    ----------
    trials
        Number of streams.
    examples
        Length of each.
    n_members
        Members of an ensemble.
    curves
        Number of trials whose running losses are kept.
    """
    study = SyntheticStudy({}, {}, {})
    for trial in range(trials):
        stream = synthetic_stream(examples, seed=2 * trial)
        test = synthetic_stream(TEST, seed=2 * trial + 1)
        for table in (study.unrounded, study.rounded):
            table.setdefault(IDEAL, []).append(rank_loss(test.y, test.ideal))
        for name, make in learners(n_members, seed=trial):
            model = make()
            if trial < curves and name != "voted PRank":
                met = np.abs(model.prequential(stream.X, stream.y) - stream.y)
                study.running.setdefault(name, []).append(met)
            else:
                model.partial_fit(stream.X, stream.y)
            for table, rounded in ((study.unrounded, False), (study.rounded, True)):
                loss = rank_loss(test.y, model.predict(test.X, rounded=rounded))
                table.setdefault(name, []).append(loss)
    return study


def half_width(losses: list[float]) -> float:
    """Half of Student's 95% confidence interval of a mean."""
    count = len(losses)
    if count < 2:
        return float("nan")
    return float(stats.t.ppf(0.975, count - 1) * np.std(losses, ddof=1) / count**0.5)


def plot(study: SyntheticStudy, path: Path) -> None:
    """Draw the running losses, as in Figure 2, and write them to a PNG file."""
    from matplotlib.figure import Figure

    from bayesrank.plots import plot_running_loss

    shown = [
        *("PRank", "WH eta=0.1", "OAP-VP tau=0.3", "OAP-Bagg tau=0.3", "OAP-BPM tau=0.3"),
        "OnlineBayesPoint",
    ]
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    axes = figure.subplots()
    floor = float(np.mean(study.rounded[IDEAL]))
    plot_running_loss({name: np.stack(study.running[name]) for name in shown}, floor=floor, ax=axes)
    axes.set_title("Synthetic stream, ranks rounded: each example is predicted, then learned")
    figure.savefig(path, dpi=110)
