"""Score tables with their tasks integrated out one by one.

Given the abilities, tasks are independent, so the likelihood of the abilities is a product of
integrals over one difficulty each. Quadrature takes them, and repeated runs inside them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import CubicHermiteSpline

from bayesrank.models.scores import SCALES

Array = Any  # of NumPy
expit: Any = special.expit
log_expit: Any = special.log_expit
logsumexp: Any = special.logsumexp

_REACH = 5.0  # prior standard deviations of a difficulty that quadrature covers
_STEP = 1.2  # posterior standard deviations between its nodes: errors stay below 1e-5
_RUN_NODES = 15  # of the integral over what all runs of a cell share
_GRID_STEP = 0.1  # of predictors


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
    kinds: list[Array]  # where each kind of cell is; of runs that share nothing, their number
    linear: Array  # what multiplies predictors in the log likelihood, (n, number)


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
        alone = board.kind == "solved" and not board.repeated
        if board.kind == "grade" or board.repeated:
            paired = board.scores * (board.runs.max() + 1) + board.runs
            said, code[there] = np.unique(paired[there], return_inverse=True)
            kinds = [
                (int(p // (board.runs.max() + 1)), int(p % (board.runs.max() + 1))) for p in said
            ]
        parts = []
        for group in range(groups.max() + 1):
            own = np.flatnonzero(groups == group)
            where = [(code[:, own] == k).astype(float) for k in range(len(kinds))]
            scores = board.scores[:, own]
            linear = scores * there[:, own] * float(alone)
            where = [board.runs[:, own] * 1.0] if alone else where
            parts.append(Part(own, scores, there[:, own], where, linear))
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


def integrated_tasks(cells: Cells, a: Array, u: Array, scales: Mapping[str, float]) -> list[Tasks]:
    """Integrate the difficulties out, cluster by cluster."""
    if cells.board.kind == "number":
        return [
            _of_numbers(part, a + own, scales) for part, own in zip(cells.parts, u, strict=True)
        ]
    spread = scales["difficulty"]
    step = min(0.5 * spread, _STEP / np.sqrt(spread**-2 + 0.25 * cells.most))
    half = int(np.ceil(_REACH * spread / step))
    nodes = step * np.arange(-half, half + 1)
    prior = -0.5 * (nodes / spread) ** 2
    prior -= logsumexp(prior)
    lowest, highest = (each(a + u) for each in (np.min, np.max))
    terms = _terms(cells, scales, lowest - nodes[-1], highest - nodes[0])
    return [
        _of_counts(part, a + own, nodes, prior, terms)
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


def _of_counts(part: Part, a: Array, nodes: Array, prior: Array, terms: Any) -> Tasks:
    """Difficulties by the trapezoid rule."""
    eta = a[:, None] - nodes
    logs = prior - part.linear.sum(0)[:, None] * nodes
    logs += (a @ part.linear)[:, None]
    said = terms(eta)
    for here, (value, _, _) in zip(part.kinds, said, strict=True):
        logs += here.T @ value
    highest = logs.max(1, keepdims=True)
    weights = np.exp(logs - highest)
    sums = weights.sum(1, keepdims=True)
    weights /= sums
    mean = weights @ nodes
    apart = weights * (nodes - mean[:, None])
    gradient = part.linear.copy()
    curvature, slope = np.zeros((2, *gradient.shape))
    for here, (_, first, second) in zip(part.kinds, said, strict=True):
        gradient += here * (first @ weights.T)
        curvature -= here * (second @ weights.T)
        slope += here * (first @ apart.T)
    variance = apart @ nodes
    total = float((highest + np.log(sums)).sum())
    return Tasks(total, gradient, curvature, slope, mean, variance, nodes, weights)


def _terms(
    cells: Cells, scales: Mapping[str, float], lowest: float, highest: float
) -> Callable[[Array], list[Sequence[Array]]]:
    """A function of the predictor: each kind's log likelihood and two derivatives."""
    each: list[Callable[[Array], Sequence[Array]]]
    if cells.board.kind == "grade":
        thresholds = np.concatenate([[-np.inf], score_thresholds(scales), [np.inf]])
        each = [partial(_graded, *thresholds[level : level + 2]) for level, _ in cells.kinds]
        return lambda eta: [kind(eta) for kind in each]
    if "cell" not in scales:  # beside the linear term
        return lambda eta: [_counted(0, 1, eta)]
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
    away = np.exp(-np.abs(eta))
    chance = np.where(eta >= 0.0, 1.0, away) / (1.0 + away)
    value = solved * eta - runs * (np.maximum(eta, 0.0) + np.log1p(away))
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
