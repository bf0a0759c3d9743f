r"""Laplace's method on `bayesrank.models.score_table`, with tasks integrated out one by one.

Given the abilities, tasks are independent, so the likelihood of the abilities is a product of
integrals over one difficulty each. Quadrature takes them, and repeated runs inside them. What is
left, abilities and advantages within clusters, is log-concave, and Newton's method finds its mode:
clusters are eliminated one by one, abilities are dense. The spread of abilities is averaged over;
other scales have their most probable values. Tests compare it with EP and NUTS on the program.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import CubicHermiteSpline
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from bayesrank._stack import outside
from bayesrank.infer import ConvergenceWarning
from bayesrank.models.scores import LEVEL_SD, SCALES

__all__ = ["Board", "ScoreResult", "fit_scores"]

Array = Any  # of NumPy
expit: Any = special.expit
log_expit: Any = special.log_expit
logsumexp: Any = special.logsumexp

_REACH = 5.0  # prior standard deviations of a difficulty that quadrature covers
_STEP = 1.2  # posterior standard deviations between its nodes: errors stay below 1e-5
_RUN_NODES = 15  # of the integral over what all runs of a cell share
_ROUNDS, _SMALL = 40, 1e-3  # of Newton's method, and the promised gain before its last step
_SHORTEST = 1e-3  # share of a step
_GRID_STEP = 0.1  # of predictors
_GRID = np.linspace(-3.0, 3.0, 9)  # of the logarithm of the spread of abilities, in sd


class Board(NamedTuple):
    """A score table as arrays.

    Attributes
    ----------
    scores : ndarray of shape (n, T)
        Runs that succeeded, levels from 0, or numbers; anything where there are no runs.
    runs : ndarray of shape (n, T)
        Number of runs; 0 where the cell is missing.
    kind : str
        "solved", "grade" or "number", as for `bayesrank.models.score_table`.
    clusters : ndarray of shape (T,), optional
        Cluster of each task.
    values : ndarray, optional
        What the levels are worth, shape (r,), if scores are grades.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.scores import Board
    >>> board = Board(np.array([[1, 0], [1, 1]]), np.array([[1, 0], [1, 1]]))  # one cell missing
    >>> board.arguments()[0][:2]
    (array([0, 1, 1]), array([0, 0, 1]))
    """

    scores: Array
    runs: Array
    kind: str = "solved"
    clusters: Array | None = None
    values: Array | None = None

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of `bayesrank.models.score_table`."""
        systems, tasks = np.nonzero(self.runs)
        options: dict[str, Any] = {"kind": self.kind}
        scores = self.scores[systems, tasks]
        if self.values is not None:
            scores, options["num_levels"] = scores.astype(np.int64), len(self.values)
        if self.repeated:
            options["runs"] = self.runs[systems, tasks]
        if self.clusters is not None:
            options |= {"clusters": self.clusters, "num_clusters": int(self.clusters.max()) + 1}
        return (systems, tasks, scores, *self.runs.shape), options

    @property
    def repeated(self) -> bool:
        """Whether some cell has several runs that count one by one."""
        return self.kind == "solved" and bool((self.runs > 1).any())

    def sites(self, scales: Mapping[str, float]) -> dict[str, Any]:
        """Scales by the names of the program's sites."""
        gaps = [value for name, value in scales.items() if name.startswith("gap")]
        ends = {name: "" if name == "noise" else "_spread" for name in SCALES}
        named: dict[str, Any] = {f"{k}{ends[k]}": v for k, v in scales.items() if k in ends}
        return named | ({"gaps": np.array(gaps)} if gaps else {})

    def scales(self, sites: Mapping[str, Any]) -> dict[str, float]:
        """Scales by the names of `start`, from values of the program's sites."""
        gaps = {f"gap{k}": float(v) for k, v in enumerate(np.atleast_1d(sites.get("gaps", ())))}
        named = {name.removesuffix("_spread"): v for name, v in sites.items() if name != "gaps"}
        return {name: float(value) for name, value in named.items()} | gaps

    def start(self) -> dict[str, float]:
        """Scales of the program, at their prior medians."""
        names = {"ability": True, "difficulty": True, "cluster": self.clusters is not None}
        names |= {"cell": self.repeated, "noise": self.kind == "number"}
        scales = {name: SCALES[name] for name, used in names.items() if used}
        gaps = 0 if self.values is None else len(self.values) - 2
        return scales | {f"gap{k}": 1.0 for k in range(gaps)}


class Part(NamedTuple):
    """The tasks of a cluster."""

    tasks: Array  # their numbers
    scores: Array  # (n, their number)
    there: Array
    kinds: list[Array]  # where each kind of cell is


class Cells(NamedTuple):
    """A board with its cells sorted by what they say."""

    board: Board
    parts: list[Part]
    kinds: list[tuple[int, int]]  # score and runs of each kind
    most: float  # runs of one task

    @classmethod
    def of(cls, board: Board) -> "Cells":
        """Sort the cells of a board."""
        there, groups = board.runs > 0, np.zeros(board.runs.shape[1], np.int64)
        groups = groups if board.clusters is None else board.clusters
        kinds: list[tuple[int, int]] = []
        code = np.full(board.runs.shape, -1)
        if board.kind != "number":
            paired = board.scores * (board.runs.max() + 1) + board.runs
            said, code[there] = np.unique(paired[there], return_inverse=True)
            kinds = [
                (int(p // (board.runs.max() + 1)), int(p % (board.runs.max() + 1))) for p in said
            ]
        parts = []
        for group in range(groups.max() + 1):
            own = np.flatnonzero(groups == group)
            where = [(code[:, own] == k).astype(float) for k in range(len(kinds))]
            parts.append(Part(own, board.scores[:, own], there[:, own], where))
        return cls(board, parts, kinds, float(board.runs.sum(0).max()))


class Tasks(NamedTuple):
    """What tasks say of abilities `a`, with their difficulties integrated out."""

    log_likelihood: float
    gradient: Array  #: of the log likelihood by the ability, in each cell, shape (n, T)
    curvature: Array  #: mean of minus the second derivative in each cell, (n, T)
    slope: Array  #: of the mean difficulty by each ability, (n, T)
    mean: Array  #: of the difficulties, (T,)
    variance: Array  #: of the difficulties, (T,)
    nodes: Array | None = None  #: of the difficulty, (Q,), unless scores are numbers
    weights: Array | None = None  #: of the nodes, (T, Q)

    def part(self, chosen: Array) -> "Tasks":
        """Some of the tasks, by their numbers."""
        wide = {k: getattr(self, k)[:, chosen] for k in ("gradient", "curvature", "slope")}
        weights = None if self.weights is None else self.weights[chosen]
        mean, variance = self.mean[chosen], self.variance[chosen]
        return self._replace(**wide, mean=mean, variance=variance, weights=weights)

    @property
    def information(self) -> Array:
        """Minus the Hessian by the abilities, shape (n, n)."""
        return np.diag(self.curvature.sum(1)) - (self.slope / self.variance) @ self.slope.T


class ScoreMode(NamedTuple):
    """Mode of abilities and of advantages within clusters, at some scales."""

    scales: dict[str, float]
    mode: Array  # (n,)
    within: Array  # (C, n)
    covariance: Array  # of the abilities, (n, n)
    log_evidence: float


class ScoreResult(NamedTuple):
    """The posterior of abilities: a mixture of Gaussians over the spread of abilities.

    Attributes
    ----------
    board : Board
        What was fitted.
    scales : dict
        The most probable scales: ``ability_spread`` without its ending, and so on.
    weights, means, covariances : ndarray
        The mixture, shapes (M,), (M, n) and (M, n, n).
    mode, within : ndarray
        Abilities (n,) and advantages (C, n) at the most probable scales.
    log_evidence : float
        Laplace's log evidence there, up to a constant of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.scores import Board, fit_scores
    >>> solved = np.array([[1, 1, 1, 0], [0, 1, 0, 0]])
    >>> result = fit_scores(Board(solved, np.ones((2, 4))))
    >>> bool(result.mode[0] > result.mode[1])
    True
    """

    board: Board
    scales: dict[str, float]
    weights: Array
    means: Array
    covariances: Array
    mode: Array
    within: Array
    log_evidence: float

    def moments(self) -> tuple[Array, Array]:
        """Posterior means and standard deviations of the abilities, shape (n,)."""
        mean = self.weights @ self.means
        variances = np.diagonal(self.covariances, axis1=1, axis2=2) + (self.means - mean) ** 2
        return mean, np.sqrt(self.weights @ variances)

    def draws(self, num_samples: int, random: np.random.Generator) -> Array:
        """Draws of the abilities, shape (num_samples, n)."""
        counts = random.multinomial(num_samples, self.weights)
        parts = zip(self.means, self.covariances, counts, strict=True)
        return np.concatenate([normal_draws(random, c, k) + m for m, c, k in parts])

    def tasks(self) -> Tasks:
        """What tasks say at the mode, each in its cluster."""
        cells = Cells.of(self.board)
        found = _integrated(cells, self.mode, self.within, self.scales)
        back = np.argsort(np.concatenate([part.tasks for part in cells.parts]))
        joined: dict[str, Any] = {"nodes": found[0].nodes}
        for name in ("gradient", "curvature", "slope", "mean", "variance", "weights"):
            parts = [getattr(each, name) for each in found]
            if parts[0] is not None:
                wide = name in ("gradient", "curvature", "slope")
                joined[name] = (
                    np.concatenate(parts, 1)[:, back] if wide else np.concatenate(parts)[back]
                )
        return Tasks(sum(each.log_likelihood for each in found), **joined)


def fit_scores(board: Board, fixed: Mapping[str, float] | None = None) -> ScoreResult:
    """The posterior of a score table.

    Parameters
    ----------
    board : Board
        The table.
    fixed : mapping, optional
        Values of scales, by the names of `Board.start`. The spread of abilities is averaged over
        unless it is among them.
    """
    fixed = dict(fixed or {})
    start, cells = board.start() | fixed, Cells.of(board)
    free = [name for name in start if name not in fixed]
    found = [_fitted(cells, start, None)]

    def cost(logs: Array) -> float:
        scales = start | dict(zip(free, np.exp(logs).tolist(), strict=True))
        fit = _fitted(cells, scales, found[0])
        if fit.log_evidence > found[0].log_evidence:
            found[0] = fit
        return -fit.log_evidence

    with threadpool_limits(1, user_api="blas"):
        if free:
            logs = np.log([start[name] for name in free])
            _minimized(cost, logs)
        fits = _averaged(cells, found[0]) if "ability" in free else [found[0]]
    logs = np.array([fit.log_evidence for fit in fits])
    return ScoreResult(
        board,
        found[0].scales,
        np.exp(logs - logsumexp(logs)),
        np.stack([fit.mode for fit in fits]),
        np.stack([fit.covariance for fit in fits]),
        found[0].mode,
        found[0].within,
        found[0].log_evidence,
    )


def _minimized(cost: Callable[[Array], float], start: Array) -> None:
    """Search the most probable scales, of which `cost` keeps the best."""
    simplex = start + np.vstack([np.zeros(len(start)), 0.4 * np.eye(len(start))])
    options = {"initial_simplex": simplex, "xatol": 0.02, "fatol": 0.02, "maxfev": 400}
    minimize(cost, start, method="Nelder-Mead", options=options)


def _averaged(cells: Cells, best: ScoreMode) -> list[ScoreMode]:
    """Fits over a grid of the spread of abilities, other scales fixed."""

    def at(log_step: float) -> ScoreMode:
        scales = best.scales | {"ability": best.scales["ability"] * float(np.exp(log_step))}
        return _fitted(cells, scales, best)

    near = [at(step).log_evidence for step in (-0.1, 0.1)]
    curvature = (2.0 * best.log_evidence - sum(near)) / 0.01
    sd = 1.0 / np.sqrt(max(curvature, 1.0))
    return [at(step) for step in sd * _GRID]


def _fitted(cells: Cells, scales: dict[str, float], near: ScoreMode | None) -> ScoreMode:
    """Newton's method at some scales, from the mode at others."""
    n, groups = len(cells.board.scores), len(cells.parts)
    a, u = (np.zeros(n), np.zeros((groups, n))) if near is None else (near.mode, near.within)
    prior = np.linalg.inv(scales["ability"] ** 2 * np.eye(n) + LEVEL_SD**2)
    within = scales["cluster"] ** -2 if "cluster" in scales else np.inf
    at = partial(_density, cells, prior=prior, within=within, scales=scales)
    value, tasks = at(a, u)
    move, rounds = _newton(tasks, a, u, prior, within), 0
    while move.gain > _SMALL and rounds < _ROUNDS:  # a last step is then as good as exact
        share, (new_value, tasks) = 1.0, at(a + move.step, u + move.steps)
        while new_value < value and share > _SHORTEST:
            share *= 0.5
            new_value, tasks = at(a + share * move.step, u + share * move.steps)
        a, u, value = a + share * move.step, u + share * move.steps, new_value
        move, rounds = _newton(tasks, a, u, prior, within), rounds + 1
    if move.gain > _SMALL:
        warnings.warn(
            f"abilities have not converged after {_ROUNDS} steps; intervals may be wrong: fix the "
            "scales, or look for scores far from all others",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    evidence = value + move.gain + 0.5 * (np.linalg.slogdet(prior)[1] - move.log_determinant)
    covariance = cho_solve(move.factor, np.eye(n))
    a, u = a + move.step, u + move.steps
    return ScoreMode(scales, a, u, covariance, float(evidence + _prior(scales)))


def _prior(scales: Mapping[str, float]) -> float:
    """Log prior density of the logarithms of the scales."""
    medians = [SCALES.get(name, 1.0) for name in scales]
    return -0.5 * float((np.log(np.array([*scales.values()]) / medians) ** 2).sum())


def _density(
    cells: Cells, a: Array, u: Array, *, prior: Array, within: float, scales: Mapping[str, float]
) -> tuple[float, list[Tasks]]:
    """Log joint density of abilities, advantages and scores, and what tasks say."""
    tasks = _integrated(cells, a, u, scales)
    inside = (
        0.5 * u.size * np.log(within) - 0.5 * within * (u**2).sum() if "cluster" in scales else 0.0
    )
    return sum(each.log_likelihood for each in tasks) - 0.5 * a @ prior @ a + inside, tasks


class _Move(NamedTuple):
    """A step of Newton's method, the gain that it promises, and the precision it divides by."""

    step: Array  # of abilities
    steps: Array  # of advantages within clusters
    gain: float
    factor: Any  # of the precision of the abilities
    log_determinant: float  # of the precision of all


def _newton(tasks: list[Tasks], a: Array, u: Array, prior: Array, within: float) -> _Move:
    """A step: each cluster is eliminated, then abilities are dense."""
    inner, precision, right, log_determinant = [], prior.copy(), -prior @ a, 0.0
    gradients = [each.gradient.sum(1) for each in tasks]
    for each, own, gradient in zip(tasks, u, gradients, strict=True):
        information, left = each.information, np.zeros((len(a), len(a) + 1))
        if within < np.inf:
            factor = cho_factor(information + within * np.eye(len(a)), lower=True)
            left = cho_solve(factor, np.column_stack([information, gradient - within * own]))
            log_determinant += 2.0 * np.log(np.diagonal(factor[0])).sum()
        precision += information - information @ left[:, :-1]
        right += gradient - information @ left[:, -1]
        inner.append(left)
    factor = cho_factor(precision, lower=True)
    log_determinant += 2.0 * np.log(np.diagonal(factor[0])).sum()
    step = cho_solve(factor, right)
    steps = np.stack([left[:, -1] - left[:, :-1] @ step for left in inner])
    gain = (sum(gradients) - prior @ a) @ step
    if within < np.inf:
        gain += ((np.stack(gradients) - within * u) * steps).sum()
    return _Move(step, steps, 0.5 * float(gain), factor, float(log_determinant))


def _integrated(cells: Cells, a: Array, u: Array, scales: Mapping[str, float]) -> list[Tasks]:
    """Integrate the difficulties out, cluster by cluster."""
    if cells.board.kind == "number":
        return [
            _of_numbers(part, a + own, scales) for part, own in zip(cells.parts, u, strict=True)
        ]
    spread = scales["difficulty"]
    step = min(0.5 * spread, _STEP / np.sqrt(spread**-2 + 0.25 * cells.most))
    half = int(np.ceil(_REACH * spread / step))
    nodes = step * np.arange(-half, half + 1)
    lowest, highest = (each(a + u) for each in (np.min, np.max))
    terms = _terms(cells, scales, lowest - nodes[-1], highest - nodes[0])
    return [
        _of_counts(part, a + own, nodes, spread, terms)
        for part, own in zip(cells.parts, u, strict=True)
    ]


def _of_numbers(part: Part, a: Array, scales: Mapping[str, float]) -> Tasks:
    """Difficulties under normal noise, in closed form."""
    precision, prior = scales["noise"] ** -2, scales["difficulty"] ** -2
    residual = np.where(part.there, part.scores - a[:, None], 0.0)
    variance = 1.0 / (prior + precision * part.there.sum(0))
    mean = -variance * precision * residual.sum(0)
    fit = residual + mean * part.there
    log_likelihood = 0.5 * (
        part.there.sum() * np.log(precision)
        + np.log(variance * prior).sum()
        - precision * (fit**2).sum()
        - prior * (mean**2).sum()
    )
    gradient, curvature = precision * fit, precision * part.there
    return Tasks(float(log_likelihood), gradient, curvature, curvature * variance, mean, variance)


def _of_counts(part: Part, a: Array, nodes: Array, spread: float, terms: Any) -> Tasks:
    """Difficulties by the trapezoid rule."""
    prior = -0.5 * (nodes / spread) ** 2
    logs = np.tile(prior - logsumexp(prior), (part.scores.shape[1], 1))
    eta = a[:, None] - nodes
    said = terms(eta)
    for here, (value, _, _) in zip(part.kinds, said, strict=True):
        logs += here.T @ value
    total = logsumexp(logs, axis=1)
    weights = np.exp(logs - total[:, None])
    mean = weights @ nodes
    apart = weights * (nodes - mean[:, None])
    gradient, curvature, slope = np.zeros((3, *part.scores.shape))
    for here, (_, first, second) in zip(part.kinds, said, strict=True):
        gradient += here * (first @ weights.T)
        curvature -= here * (second @ weights.T)
        slope += here * (first @ apart.T)
    variance = apart @ nodes
    return Tasks(float(total.sum()), gradient, curvature, slope, mean, variance, nodes, weights)


def _terms(
    cells: Cells, scales: Mapping[str, float], lowest: float, highest: float
) -> Callable[[Array], list[Sequence[Array]]]:
    """A function of the predictor: each kind's log likelihood and two derivatives."""
    each: list[Callable[[Array], Sequence[Array]]]
    if cells.board.kind == "grade":
        thresholds = np.concatenate([[-np.inf], score_thresholds(scales), [np.inf]])
        each = [partial(_graded, *thresholds[level : level + 2]) for level, _ in cells.kinds]
        return lambda eta: [kind(eta) for kind in each]
    if "cell" not in scales:
        each = [partial(_counted, *kind) for kind in cells.kinds]
        return lambda eta: [kind(eta) for kind in each]
    # Integrals over what the runs of a cell share are taken once for each place of a fine grid.
    grid = np.arange(lowest, highest + 2 * _GRID_STEP, _GRID_STEP)
    found = np.array([_repeated(*kind, grid, scales["cell"]) for kind in cells.kinds])
    slopes = np.stack([found[:, 1], found[:, 2], np.gradient(found[:, 2], grid, axis=1)], axis=1)
    spline = CubicHermiteSpline(grid, found, slopes, axis=2)
    return lambda eta: list(spline(eta))


def _graded(low: float, high: float, eta: Array) -> tuple[Array, Array, Array]:
    """A grade between two thresholds."""
    below, above = expit(low - eta), expit(high - eta)
    curvature = below * (1.0 - below) + above * (1.0 - above)
    value = log_expit(high - eta) + log_expit(eta - low) + np.log1p(-np.exp(low - high))
    return value, below + above - 1.0, -curvature


def _counted(solved: int, runs: int, eta: Array) -> tuple[Array, Array, Array]:
    """Runs that succeeded of several."""
    chance = expit(eta)
    value = runs * log_expit(eta) - (runs - solved) * eta
    return value, solved - runs * chance, -runs * chance * (1.0 - chance)


def _repeated(solved: int, runs: int, eta: Array, spread: float) -> tuple[Array, Array, Array]:
    """Runs that succeeded of several, which share a normal term of this sd."""
    shift, log_weight = shared_nodes(spread)
    value, first, second = _counted(solved, runs, eta[..., None] + shift)
    logs = value + log_weight
    total = logsumexp(logs, axis=-1)
    weight = np.exp(logs - total[..., None])
    mean = (weight * first).sum(-1)
    return total, mean, (weight * (first**2 + second)).sum(-1) - mean**2


def shared_nodes(spread: float) -> tuple[Array, Array]:
    """Nodes of a normal term of this sd, and the logarithms of their weights."""
    if spread == 0.0:
        return np.zeros(1), np.zeros(1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_RUN_NODES)
    return spread * nodes, np.log(weights / weights.sum())


def score_thresholds(scales: Mapping[str, float]) -> Array:
    """Thresholds with mean zero, by their gaps, shape (r - 1,)."""
    edges = np.cumsum([0.0, *(scales[name] for name in scales if name.startswith("gap"))])
    return edges - edges.mean()


def normal_draws(random: np.random.Generator, covariance: Array, count: int) -> Array:
    """Draws of a Gaussian about zero, shape (count, n)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return random.standard_normal((count, len(covariance))) @ root.T
