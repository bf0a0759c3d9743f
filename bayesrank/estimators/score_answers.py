"""Scores of systems by the posterior of a score table: on tasks like these, or on these very tasks.

**On tasks like these**, the tasks of the board are a sample. A score is the mean over all tasks of
the population, of which nothing is supposed: a Bayesian bootstrap draws weights of the tasks, or of
the clusters, and a score is the weighted mean of the cells' chances. Weights vary as much as the
unbiased variance of that many tasks. So many tasks know that variance only so well, which gives
all moves the tails of Student's t.

**On these very tasks**, only runs are random, and cells that nobody ran are filled in.

A draw moves the cells' chances with the abilities to first order on the scale of the link, and adds
what abilities leave open: difficulties, advantages within clusters, and, on these tasks, what the
runs of a cell share. On other tasks that is new, and its part in these scores is in the abilities.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from bayesrank.solvers.scores import (
    Cells,
    Part,
    ScoreResult,
    Tasks,
    normal_draws,
    score_thresholds,
    shared_nodes,
)

Array = Any
ScoreQuestion = Literal["tasks like these", "these tasks"]
QUESTIONS: tuple[ScoreQuestion, ...] = ("tasks like these", "these tasks")
expit: Any = special.expit
FEWEST = 4  #: tasks, or clusters, that say something of others like them: fewer have no variance


class CellScores(NamedTuple):
    """Expected scores of the cells, shape (n, T)."""

    mean: Array
    slope: Array  #: by the predictor
    variance: Array  #: of what the runs of a cell share, given the predictor


def score_draws(
    result: ScoreResult, question: ScoreQuestion, num_samples: int, random: np.random.Generator
) -> Array:
    """Draws of the systems' scores, shape (num_samples, n), in units of the board."""
    tasks, count = result.tasks(), result.board.runs.shape[1]
    cells = cell_scores(result, tasks, question)
    by_ability, noise = _linear(result, tasks, cells, question)
    moves = (result.draws(num_samples, random) - result.mode) @ by_ability.T
    moves += normal_draws(random, noise, num_samples)
    weights = np.full((1, count), 1.0 / count)
    if question == "tasks like these":
        group = np.arange(count) if result.board.clusters is None else result.board.clusters
        groups = int(group.max()) + 1
        tails = random.chisquare(groups - 1, (num_samples, 1)) / (groups - 1)
        weights = _bootstrapped(group, tails * (groups - 2) / groups, random)
        moves /= np.sqrt(tails)
    base, centre = weights @ cells.mean.T, cells.mean.mean(1)
    if result.board.kind == "number":
        return base + moves
    low, high = _bounds(result)
    slope = (centre - low) * (high - centre) / (high - low)
    shares = special.logit((base - low) / (high - low)) + moves / slope
    return low + (high - low) * expit(shares)


def cell_scores(result: ScoreResult, tasks: Tasks, question: ScoreQuestion) -> CellScores:
    """Expected scores of each cell at the most probable abilities."""
    board, scales, these = result.board, result.scales, question == "these tasks"
    spread = scales.get("cell", 0.0)
    if not these:  # other tasks, in other clusters
        spread = float(np.hypot(spread, scales.get("cluster", 0.0)))
    found, cells = np.zeros((3, *board.runs.shape)), Cells.of(board)
    for part, own in zip(cells.parts, result.within, strict=True):
        a = result.mode + own if these else result.mode
        if tasks.nodes is None or tasks.weights is None:
            found[0][:, part.tasks] = a[:, None] - tasks.mean[part.tasks]
            found[1][:, part.tasks] = 1.0
            continue
        weights = tasks.weights[part.tasks].T
        for kind, here in _kinds(cells, part, these and spread > 0.0):
            said = _expected(result, kind, a[:, None] - tasks.nodes, spread)
            found[:, :, part.tasks] += here * (np.stack(said) @ weights)
    return CellScores(*found)


def _kinds(cells: Cells, part: Part, apart: bool) -> list[tuple[tuple[int, int], Array]]:
    """Kinds of cells to tell apart, as runs solved and runs, and where they are."""
    if not apart:
        return [((0, 0), np.ones(part.scores.shape))]
    return [*zip(cells.kinds, part.kinds, strict=True), ((0, 0), ~part.there)]


def _expected(
    result: ScoreResult, kind: tuple[int, int], eta: Array, spread: float
) -> tuple[Array, Array, Array]:
    """Mean score at the predictor, its slope, and the variance of what the runs share."""
    if result.board.values is not None:
        below = expit(score_thresholds(result.scales)[:, None, None] - eta)
        steps = np.diff(result.board.values)[:, None, None]
        mean = result.board.values[-1] - (steps * below).sum(0)
        return mean, (steps * below * (1.0 - below)).sum(0), np.zeros(eta.shape)
    solved, runs = kind
    shift, log_weight = shared_nodes(spread)
    chance = expit(eta[..., None] + shift)
    logs = runs * special.log_expit(eta[..., None] + shift) + log_weight
    logs = logs - (runs - solved) * (eta[..., None] + shift)
    weight = special.softmax(logs, axis=-1)
    mean = (weight * chance).sum(-1)
    first = solved - runs * chance
    apart = weight * (chance - mean[..., None])
    slope = (weight * chance * (1.0 - chance)).sum(-1) + (apart * first).sum(-1)
    return mean, slope, (apart * chance).sum(-1)


def _bootstrapped(group: Array, shape: Array, random: np.random.Generator) -> Array:
    """Weights of the tasks by a Bayesian bootstrap of their groups, a row for each shape."""
    drawn = np.broadcast_to(shape, (len(shape), int(group.max()) + 1))
    # In logarithms: few groups have small shapes, of which all draws may underflow.
    logs = np.log(random.gamma(drawn + 1.0)) - random.exponential(size=drawn.shape) / shape
    return special.softmax(logs[:, group], axis=1)


def _linear(
    result: ScoreResult, tasks: Tasks, cells: CellScores, question: ScoreQuestion
) -> tuple[Array, Array]:
    """What abilities move mean scores by, (n, n), and the covariance of what they leave open."""
    n, count = result.board.runs.shape
    # What runs of a cell share on other tasks is among what abilities leave open.
    known = np.diag(cells.variance.sum(1)) / count**2
    by_ability, noise = np.zeros((n, n)), known * (question == "these tasks")
    for part in Cells.of(result.board).parts:
        slope, own = cells.slope[:, part.tasks] / count, tasks.part(part.tasks)
        direct, through = np.diag(slope.sum(1)), -slope @ own.slope.T
        # A system's advantage within the clusters of the board is none on other tasks.
        alone, shared = (0.0 * direct, direct + through)
        if question == "tasks like these":
            alone, shared = direct, through
        kept = np.eye(n)
        if "cluster" in result.scales:
            information = own.information
            open_ = np.linalg.inv(information + result.scales["cluster"] ** -2 * np.eye(n))
            kept = kept - open_ @ information
            noise += shared @ open_ @ shared.T
        by_ability += alone + shared @ kept
        noise += (slope * own.variance) @ slope.T
    return by_ability, noise


def _bounds(result: ScoreResult) -> tuple[float, float]:
    values = result.board.values
    return (0.0, 1.0) if values is None else (float(values[0]), float(values[-1]))
