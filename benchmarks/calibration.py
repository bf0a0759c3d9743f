"""Does every estimator keep what its intervals and probabilities promise? On data from its program.

The truth is drawn from the program that the estimator states, its hyperparameters from their
priors, and then data; what the estimator says by default is held against the truth:

- of latents (skills, functions), measured from their mean, how often central intervals of 50 and
  90% hold them, and of ranks likewise: as whole numbers, both ends included, which hold more than
  they promise, and with the ranks at either end counted by the share of them that is inside;
- the probability integral transform (PIT): where the truth lies among posterior draws, whose
  spread, times the root of 12, is one if these are right, and more if they are too sure;
- the slope of the truth on the posterior mean, one if this goes neither too far nor not far enough.

Where an estimator has probabilities of levels and no latents to speak of, the level seen has a PIT
(randomised within the level), and the slope is that power of the probabilities that fits best.

Standard errors are those between data sets.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro import handlers
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, ndtr

from bayesrank.ranking import rank_interval, rank_samples

RANKS = ("ranks 90%", "ranks 90%, randomised")
FIGURES = ("50%", "90%", *RANKS, "PIT spread", "slope")


class Trial(NamedTuple):
    """What one data set shows.

    Attributes
    ----------
    pit
        Probability integral transforms, shape (n,).
    ranks
        Shares of items whose rank is held by intervals of 90%, whole and randomised.
    slope
        Numerator and denominator of a slope, which add up over data sets; or, of levels, log
        probabilities (n, r) and the level seen (n,).
    """

    pit: list[float]
    ranks: list[float]
    slope: list[Any]


class Case(NamedTuple):
    """An estimator with settings, on data of one kind.

    Attributes
    ----------
    name
        For the table.
    trial
        What happens on a data set, by its seed.
    sets
        How many data sets the full study has.
    """

    name: str
    trial: Callable[[int], Trial]
    sets: int


def of_draws(draws: np.ndarray, truth: np.ndarray, *, centred: bool = True) -> Trial:
    """Hold draws (S, n) of latents against the truth (n,), both measured from their mean."""
    if centred:
        draws, truth = draws - draws.mean(axis=1, keepdims=True), truth - truth.mean()
    mean = draws.mean(axis=0)
    place = np.empty(truth.size)
    place[np.argsort(-truth)] = np.arange(1, truth.size + 1)
    held = [_held(draws, place, 0.9), _held_at_random(draws, place, 0.9)]
    pit = np.mean(draws < truth, axis=0)
    # Sets of large skills would decide alone: each counts in units of its posterior's spread.
    unit = draws.var(axis=0).mean()
    slope = [float(mean @ truth / unit), float(mean @ mean / unit)]
    return Trial(pit.tolist(), held if centred else [], slope)


def drawn(program: Callable[..., Any], seed: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Values of all sites of a program, observed ones included, drawn from it."""
    with jax.enable_x64(True):
        free = handlers.seed(handlers.uncondition(program), jax.random.key(seed))
        trace = handlers.trace(free).get_trace(*args, **kwargs)
        return {name: np.asarray(site["value"]) for name, site in trace.items()}


def _held(draws: np.ndarray, place: np.ndarray, prob: float) -> float:
    low, high = np.asarray(rank_interval(draws, level=prob)).T
    return float(np.mean((low <= place) & (place <= high)))


def _held_at_random(draws: np.ndarray, place: np.ndarray, prob: float) -> float:
    """Coverage by the ranks' PIT, randomised within a rank: exact for a posterior that is right.

    The expectation over the random part is taken: of what probability the true rank has, the share
    that is between the two quantiles.
    """
    ranks, tail = rank_samples(draws), (1.0 - prob) / 2.0
    below, upto = np.mean(ranks < place, axis=0), np.mean(ranks <= place, axis=0)
    width = upto - below
    inside = np.minimum(upto, 1.0 - tail) - np.maximum(below, tail)
    share = np.maximum(inside, 0.0) / np.where(width > 0, width, 1.0)
    sure = (below >= tail) & (below <= 1.0 - tail)
    return float(np.mean(np.where(width > 0, share, sure)))


def of_normals(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray) -> Trial:
    """Hold normal forecasts, shape (n,), against the truth (n,)."""
    slope = [float(mean @ truth / np.mean(sd**2)), float(mean @ mean / np.mean(sd**2))]
    return Trial(ndtr((truth - mean) / sd).tolist(), [], slope)


def of_levels(probability: np.ndarray, level: np.ndarray, seed: int) -> Trial:
    """Hold probabilities (n, r) of levels against the levels seen, 0 .. r - 1, shape (n,)."""
    rows = np.arange(len(level))
    above = np.cumsum(probability, axis=1)[rows, level]
    uniform = np.random.default_rng(seed).random(len(level))
    pit = above - uniform * probability[rows, level]
    logs = np.log(np.maximum(probability, 1e-300))
    return Trial(pit.tolist(), [], [logs.tolist(), np.asarray(level).tolist()])


def run(
    cases: Sequence[Case], share: float, results: Path | None, report: Callable[[str], None]
) -> dict[str, list[Trial]]:
    """Run the trials that a file of results, a line of JSON each, does not have yet; add them."""
    known: dict[str, list[Trial]] = {case.name: [] for case in cases}
    if results is not None and results.exists():
        for line in results.read_text().splitlines():
            name, *trial = json.loads(line)
            known.setdefault(name, []).append(Trial(*trial))
    found: dict[str, list[Trial]] = {}
    for case in cases:
        trials = known[case.name]
        for seed in range(len(trials), max(2, round(share * case.sets))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trials.append(case.trial(seed))
            if results is not None:
                with results.open("a") as file:
                    file.write(json.dumps([case.name, *trials[-1]]) + "\n")
        found[case.name] = trials
        report(table({case.name: trials}, header=False))
    return found


def figures(trials: Sequence[Trial]) -> dict[str, tuple[float, float]]:
    """Each figure with its standard error, by leaving out one data set at a time."""
    whole = _figures(trials)
    each = [_figures([t for t in trials if t is not one]) for one in trials]
    count = len(trials)
    errors = {k: np.std([e[k] for e in each]) * np.sqrt(count - 1) for k in whole}
    return {k: (whole[k], float(errors[k])) for k in whole}


def _figures(trials: Sequence[Trial]) -> dict[str, float]:
    pit = np.concatenate([trial.pit for trial in trials])
    inside = {p: float(np.mean(np.abs(pit - 0.5) <= p / 2)) for p in (0.5, 0.9)}
    found = {"50%": inside[0.5], "90%": inside[0.9]}
    if trials[0].ranks:
        held = np.mean([trial.ranks for trial in trials], axis=0)
        found |= dict(zip(RANKS, held.tolist(), strict=True))
    spread = float(np.sqrt(12.0 * np.mean((pit - 0.5) ** 2)))
    return found | {"PIT spread": spread, "slope": _slope(trials)}


def _slope(trials: Sequence[Trial]) -> float:
    if not isinstance(trials[0].slope[0], list):
        above, below = np.sum([trial.slope for trial in trials], axis=0)
        return float(above / below)
    logs = np.concatenate([trial.slope[0] for trial in trials])
    level = np.concatenate([trial.slope[1] for trial in trials])

    def loss(power: float) -> float:
        scaled = power * logs
        seen = scaled[np.arange(len(level)), level]
        return float(np.mean(np.asarray(logsumexp(scaled, axis=1)) - seen))

    found: Any = minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded")
    return float(found.x)


def table(
    found: dict[str, list[Trial]], points: Mapping[str, str] = {}, *, header: bool = True
) -> str:
    """A table in Markdown; `points` are what gives no intervals, and what it gives instead."""
    lines = []
    if header:
        lines.append(f"| estimator and data | sets | {' | '.join(FIGURES)} |")
        lines.append(f"|---|---|{'---|' * len(FIGURES)}")
    for name, trials in found.items():
        row = figures(trials)
        cells = [_cell(key, row) for key in FIGURES]
        lines.append(f"| {name} | {len(trials)} | {' | '.join(cells)} |")
    for instead in dict.fromkeys(points.values()):
        names = ", ".join(name for name, what in points.items() if what == instead)
        lines += ["", f"No intervals, {instead}: {names}."]
    return "\n".join(lines)


def _cell(key: str, row: dict[str, tuple[float, float]]) -> str:
    if key not in row:
        return "-"
    value, error = row[key]
    if "%" in key:
        return f"{100 * value:.1f} ± {100 * error:.1f}"
    return f"{value:.2f} ± {error:.2f}"


def read_table(text: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The figures of a page that has the table, with their standard errors, by estimator."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 + len(FIGURES) and " ± " in line:
            rows[cells[0]] = {
                key: _read_cell(key, cell)
                for key, cell in zip(FIGURES, cells[2:], strict=True)
                if cell != "-"
            }
    return rows


def _read_cell(key: str, cell: str) -> tuple[float, float]:
    unit = 100.0 if "%" in key else 1.0
    value, error = (float(number) / unit for number in cell.split(" ± "))
    return value, error


def plot(rows: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Draw the coverage of 90% intervals, of latents and of ranks, and write a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    axes.axvspan(87, 93, color="tab:green", alpha=0.15, label="87 to 93%")
    axes.axvline(90, color="black", lw=0.8, ls="--")
    kinds = {"90%": (0.2, "tab:blue"), RANKS[0]: (0.0, "tab:orange"), RANKS[1]: (-0.2, "tab:red")}
    for key, (shift, colour) in kinds.items():
        seen = [(p, *row[key]) for p, row in zip(places, rows.values(), strict=True) if key in row]
        place, value, error = np.array(seen).T
        what = key.replace(" 90%", "") if "ranks" in key else "latents, levels or numbers"
        axes.errorbar(
            100 * value, place + shift, xerr=100 * error, fmt="o", ms=4, color=colour, label=what
        )
    axes.set_yticks(places, list(rows))
    axes.set_xlabel("90% intervals hold so many of what is true (%), with standard errors")
    axes.legend(loc="lower left", framealpha=1.0, edgecolor="none")
    figure.savefig(path, dpi=110)
