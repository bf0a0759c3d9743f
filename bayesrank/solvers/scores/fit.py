r"""Laplace's method on `bayesrank.models.score_table`, with tasks integrated out one by one.

What is left when the difficulties are integrated out, abilities and advantages within clusters, is
log-concave, and Newton's method finds its mode: clusters are eliminated one by one, abilities are
dense. The spread of abilities is averaged over; other scales have their most probable values.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri  # pyright: ignore[reportAttributeAccessIssue]
from scipy.optimize import minimize
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from bayesrank._stack import outside
from bayesrank.infer import ConvergenceWarning
from bayesrank.models.scores import LEVEL_SD, SCALES
from bayesrank.solvers.scores.tasks import Board, Cells, Tasks, integrated_tasks

Array = Any  # of NumPy
_ROUNDS, _SMALL = 40, 1e-3  # of Newton's method, and the promised gain before its last step
_SHORTEST = 1e-3  # share of a step
_GRID = np.linspace(-3.0, 3.0, 9)  # of the logarithm of the spread of abilities, in sd


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
        found = integrated_tasks(cells, self.mode, self.within, self.scales)
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
    options = {"initial_tr_radius": 0.5, "final_tr_radius": 0.02, "maxfev": 400}
    found = minimize(cost, start, method="COBYQA", options=options)
    if not found.success:
        warnings.warn(
            f"the search for scales has not ended ({found.message}); fix some of them",
            ConvergenceWarning,
            stacklevel=outside(),
        )


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
    tasks = integrated_tasks(cells, a, u, scales)
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
    precision, right, log_determinant = prior.copy(), -prior @ a, 0.0
    gradients, covariances = np.stack([each.gradient.sum(1) for each in tasks]), []
    for each, own, gradient in zip(tasks, u, gradients, strict=True):
        if within == np.inf:
            precision, right = precision + each.information, right + gradient
            continue
        # The information less what the advantages take of it.
        factor = cho_factor(each.information + within * np.eye(len(a)), lower=True)
        covariances.append(_inverse(factor[0]))
        log_determinant += _log_determinant(factor[0])
        precision += within * np.eye(len(a)) - within**2 * covariances[-1]
        right += within * (covariances[-1] @ (gradient - within * own) + own)
    factor = cho_factor(precision, lower=True)
    log_determinant += _log_determinant(factor[0])
    step, steps = cho_solve(factor, right), np.zeros_like(u)
    gain = (gradients.sum(0) - prior @ a) @ step
    if covariances:
        pulls = gradients - within * u
        steps = np.stack([c @ (p + within * step) for c, p in zip(covariances, pulls, strict=True)])
        steps -= step
        gain += (pulls * steps).sum()
    return _Move(step, steps, 0.5 * float(gain), factor, float(log_determinant))


def _inverse(factor: Array) -> Array:
    """The inverse of a matrix by its lower Cholesky factor."""
    half = np.tril(dpotri(factor, lower=True)[0])
    return half + np.tril(half, -1).T


def _log_determinant(factor: Array) -> float:
    """That of a matrix by its Cholesky factor."""
    return 2.0 * float(np.log(np.diagonal(factor)).sum())


def normal_draws(random: np.random.Generator, covariance: Array, count: int) -> Array:
    """Draws of a Gaussian about zero, shape (count, n)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return random.standard_normal((count, len(covariance))) @ root.T
