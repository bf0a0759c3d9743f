"""The paper's synthetic stream: Table 1, the numbers beside it, and Figure 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from scipy import stats
from tinygp.kernels import ExpSquared, Polynomial

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


def learners(num_members: int, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
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
                lambda kind=kind, tau=tau: kind(LEVELS, num_members, tau, seed, kernel=kernel),
            )
    yield "OnlineBayesPoint", lambda: OnlineBayesPoint(LEVELS, kernel=kernel)
    yield (
        "OnlineBayesPoint, diagonal",
        lambda: OnlineBayesPoint(LEVELS, kernel=kernel, covariance="diagonal"),
    )


class Centred:
    """A learner of features whose origin is the middle of the unit square."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn, see `OnlineBayesPoint`."""
        self.learner.partial_fit(X - 0.5, y)

    def predict(self, X: np.ndarray, *, rounded: bool = True) -> np.ndarray:
        """Predict, see `OnlineBayesPoint`."""
        return self.learner.predict(X - 0.5, rounded=rounded)


def other_learners(num_members: int, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Learners that are not in the paper: of stored examples, and of centred features."""
    rbf, quadratic = ExpSquared(0.5), Polynomial(order=2, sigma=1.0)
    yield "PRank, RBF, 1,000 stored", lambda: PRank(LEVELS, kernel=rbf)
    yield (
        "OAP-BPM, RBF, 1,000 stored",
        lambda: OAPBPM(LEVELS, num_members, 0.3, seed, kernel=rbf),
    )
    for budget in (10, 25):
        yield (
            f"OnlineBayesPoint, RBF, {budget} stored",
            lambda budget=budget: OnlineBayesPoint(LEVELS, kernel=rbf, budget=budget),
        )
    yield (
        "OnlineBayesPoint, diagonal, centred",
        lambda: Centred(OnlineBayesPoint(LEVELS, kernel=quadratic, covariance="diagonal")),
    )


def run_trials(
    trials: int,
    examples: int,
    num_members: int,
    *,
    curves: int = 0,
    chosen: Callable[[int, int], Iterator[tuple[str, Callable[[], Any]]]] = learners,
) -> SyntheticStudy:
    """Let every learner see the same streams once, then test it on fresh examples.

    Parameters
    ----------
    trials
        Number of streams.
    examples
        Length of each.
    num_members
        Members of an ensemble.
    curves
        Number of trials whose running losses are kept.
    chosen
        Which learners.
    """
    study = SyntheticStudy({}, {}, {})
    for trial in range(trials):
        stream = synthetic_stream(examples, seed=2 * trial)
        test = synthetic_stream(TEST, seed=2 * trial + 1)
        for table in (study.unrounded, study.rounded):
            table.setdefault(IDEAL, []).append(rank_loss(test.y, test.ideal))
        for name, make in chosen(num_members, trial):
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

    from benchmarks.active_tasks import draw_running_loss

    shown = [
        *("PRank", "WH eta=0.1", "OAP-VP tau=0.3", "OAP-Bagg tau=0.3", "OAP-BPM tau=0.3"),
        "OnlineBayesPoint",
    ]
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    axes = figure.subplots()
    best = float(np.mean(study.rounded[IDEAL]))
    draw_running_loss(axes, {name: np.stack(study.running[name]) for name in shown}, best)
    axes.set_title("Synthetic stream, ranks rounded: each example is predicted, then learned")
    figure.savefig(path, dpi=110)


@click.command()
@click.option("--trials", default=20)
@click.option("--examples", default=50_000)
@click.option("--members", default=100)
@click.option("--curves", default=0, help="Trials whose running losses are kept, for --plot.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
@click.option("--others", is_flag=True, help="Learners that are not in the paper instead.")
def online_synthetic(
    trials: int, examples: int, members: int, curves: int, path: Path | None, others: bool
) -> None:
    """Rank losses on the paper's synthetic stream (Table 1, Figure 2)."""
    if others and (curves or path):
        raise click.UsageError(
            "--curves and --plot are for the paper's learners; leave out --others."
        )
    chosen = other_learners if others else learners
    study = run_trials(trials, examples, members, curves=curves, chosen=chosen)
    click.echo(f"{'learner':35} {'unrounded':>17} {'rounded':>17} {'paper':>6}")
    for name, losses in study.unrounded.items():
        whole = study.rounded[name]
        paper = f"{PAPER[name]:.2f}" if name in PAPER else ""
        click.echo(
            f"{name:35} {np.mean(losses):8.4f} +- {half_width(losses):.4f} "
            f"{np.mean(whole):8.4f} +- {half_width(whole):.4f} {paper:>6}"
        )
    if path is not None:
        plot(study, path)


COMMANDS = [online_synthetic]
