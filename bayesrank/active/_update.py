r"""Beliefs about skills after some answers, brought up to date in a few sweeps of EP.

This is the fixed point of `bayesrank.infer.EP` on the same program, reached by the cheapest way
that a loop of questions has: it starts from the sites of the last answer, and it works in the space
of the K margins while these are fewer than the n items. With :math:`G = A K A^\top` the prior
covariance of the margins and :math:`r = \sqrt\tau`, one sweep takes one Cholesky factorisation of
:math:`I + r G r` and one triangular solve; in the first sweep after an answer all other sites are
at their fixed point, so that it is the rank-one update for the new answer. The skills themselves
come once, at the end:

.. math:: C = K - W^\top W, \qquad W = L^{-1} r A K, \qquad I + r G r = L L^\top .

It runs in NumPy, whose LAPACK takes matrices of any size as they come: there is nothing to compile,
however the answers grow. Up to 256 answers it keeps BLAS to one thread: so small a matrix gains
nothing from a second one, and on a busy machine threads that wait for each other cost far more.

References
----------
.. [1] Minka, T. (2001). A family of algorithms for approximate Bayesian inference. PhD thesis, MIT.
.. [2] Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes for Machine Learning,
   sections 3.6 and 3.9.
"""

from __future__ import annotations

import contextlib
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lu_factor, lu_solve, solve_triangular
from scipy.special import erfcx, log_ndtr
from threadpoolctl import ThreadpoolController

__all__ = ["Answers", "Fit", "Prior", "fit_answers"]

Array = NDArray[np.float64]

_SMALLEST_DAMPING = 0.05
_ONE_THREAD = 256
# What counts as converged, as for `EP`: where the noise is tiny, rounding leaves a margin moving by
# more than the tolerance that is aimed at.
_CONVERGED = 1e-4


class Prior(NamedTuple):
    """A Gaussian over n skills: mean (n,), covariance (n, n)."""

    mean: Array
    covariance: Array


class Answers(NamedTuple):
    """K comparisons (winner, loser), shape (K, 2), and the noise of a performance in each, (K,)."""

    comparisons: NDArray[np.intp]
    noise: Array


class Fit(NamedTuple):
    """The posterior of the skills, and the sites that make it.

    Attributes
    ----------
    mean, covariance
        Of the skills, shapes (n,) and (n, n).
    tau, nu
        Site precisions and precision-means of the margins, measured from the prior mean, (K,).
    log_evidence
        EP's log evidence, in nats.
    delta
        Largest change of a margin in the last sweep: of its mean in posterior standard deviations,
        or of its log variance.
    converged
        Whether `delta` is below 1e-4.
    num_sweeps
        Number of sweeps made.
    """

    mean: Array
    covariance: Array
    tau: Array
    nu: Array
    log_evidence: float
    delta: float
    converged: bool
    num_sweeps: int


class _Margins(NamedTuple):
    """What the sites make of the margins: mean (K,), variance (K,), and ``log |I + S K|``."""

    mean: Array
    variance: Array
    log_det: float


def fit_answers(
    prior: Prior,
    answers: Answers,
    start: tuple[Array, Array] | None = None,
    *,
    tol: float = 1e-8,
    max_sweeps: int = 200,
) -> Fit:
    """Sweep to EP's fixed point.

    Parameters
    ----------
    prior
        Skills before the first answer.
    answers
        The answers.
    start
        Sites ``(tau, nu)`` to start from, (K,) each, zero for an answer that is new.
    tol
        Sweep until `Fit.delta` comes below this,
    max_sweeps
        or there were so many sweeps.
    """
    few = len(answers.comparisons) <= _ONE_THREAD
    with _threads().limit(limits=1, user_api="blas") if few else contextlib.nullcontext():
        return _fit(prior, answers, start, tol, max_sweeps)


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of this process; finding them takes some milliseconds."""
    return ThreadpoolController()


def _fit(
    prior: Prior,
    answers: Answers,
    start: tuple[Array, Array] | None,
    tol: float,
    max_sweeps: int,
) -> Fit:
    count = len(answers.comparisons)
    tau, nu = (np.zeros(count), np.zeros(count)) if start is None else start
    few = count <= len(prior.mean)
    space = (_MarginSpace if few else _ItemSpace)(prior, answers.comparisons)
    offset = _differences(prior.mean, answers.comparisons)
    margins = space.margins(tau, nu)
    damping, delta, sweep = 1.0, 0.0 if count == 0 else math.inf, 0
    while delta > tol and sweep < max_sweeps:
        new_tau, new_nu = _matched(tau, nu, margins, offset, answers.noise)
        next_tau, next_nu = tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)
        after = space.margins(next_tau, next_nu)
        change = _largest_change(margins, after) / damping
        damping = max(_SMALLEST_DAMPING, damping / 2) if change > delta else min(1, 1.2 * damping)
        tau, nu, margins, delta = next_tau, next_nu, after, change
        sweep += 1
    evidence = _log_evidence(tau, nu, margins, offset, answers.noise)
    mean, covariance = space.skills(tau, nu)
    converged = bool(delta <= _CONVERGED)
    return Fit(prior.mean + mean, covariance, tau, nu, evidence, float(delta), converged, sweep)


# ---------------------------------------------------------------- sites


def _probit(mean: Array, variance: Array, noise: Array) -> tuple[Array, Array, Array]:
    """Log of the probability that the first item won, and its two derivatives in the mean."""
    total = 2.0 * noise**2 + variance
    z = mean / np.sqrt(total)
    ratio = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))  # density over mass, at any z
    return log_ndtr(z), ratio / np.sqrt(total), -ratio * (ratio + z) / total


def _cavity(tau: Array, nu: Array, margins: _Margins) -> tuple[Array, Array]:
    # A probit is log-concave: its site has no negative precision, and its cavity is proper.
    left = 1.0 - tau * margins.variance
    return (margins.mean - nu * margins.variance) / left, margins.variance / left


def _matched(
    tau: Array, nu: Array, margins: _Margins, offset: Array, noise: Array
) -> tuple[Array, Array]:
    """Sites that give the margins their tilted moments."""
    mean, variance = _cavity(tau, nu, margins)
    _, first, second = _probit(offset + mean, variance, noise)
    scale = 1.0 + second * variance
    return np.maximum(-second, 0.0) / scale, (first - mean * second) / scale


def _largest_change(before: _Margins, after: _Margins) -> float:
    moved = np.abs(after.mean - before.mean) / np.sqrt(after.variance)
    return float(np.max(np.maximum(moved, np.abs(np.log(after.variance / before.variance)))))


def _log_evidence(tau: Array, nu: Array, margins: _Margins, offset: Array, noise: Array) -> float:
    """EP's log evidence, as in `bayesrank.infer.sites.log_evidence`."""
    mean, variance = _cavity(tau, nu, margins)
    log_z = _probit(offset + mean, variance, noise)[0]
    widening = 1.0 + tau * variance
    log_sites = -0.5 * np.log(widening) - 0.5 / widening * (
        tau * mean**2 - 2.0 * nu * mean - nu**2 * variance
    )
    return float(np.sum(log_z - log_sites) - 0.5 * margins.log_det + 0.5 * nu @ margins.mean)


# ---------------------------------------------------------------- the Gaussian


def _differences(rows: Array, comparisons: NDArray[np.intp]) -> Array:
    """``A x``: rows of the winners less those of the losers."""
    return rows[comparisons[:, 0]] - rows[comparisons[:, 1]]


def _gathered(weights: Array, comparisons: NDArray[np.intp], n: int) -> Array:
    """``A' w``: what the winners get, less what the losers get."""
    gathered = np.zeros(n)
    np.add.at(gathered, comparisons[:, 0], weights)
    np.subtract.at(gathered, comparisons[:, 1], weights)
    return gathered


def _with_floor(variance: Array, prior: Array) -> Array:
    """Keep rounding from making the variance of a margin between near-duplicates negative."""
    return np.maximum(variance, np.finfo(float).eps * prior)


class _MarginSpace:
    """Sites on the margins themselves: matrices of K x K, for K <= n."""

    def __init__(self, prior: Prior, comparisons: NDArray[np.intp]) -> None:
        self.prior, self.comparisons = prior.covariance, comparisons
        self.across = _differences(prior.covariance, comparisons)  # A K, shape (K, n)
        self.covariance = _differences(self.across.T, comparisons).T  # A K A'
        self.variance = _with_floor(np.diagonal(self.covariance), _scale(prior, comparisons))

    def margins(self, tau: Array, nu: Array) -> _Margins:
        root = np.sqrt(tau)
        factor = self._factor(root)
        half = solve_triangular(
            factor, root[:, None] * self.covariance, lower=True, check_finite=False
        )
        variance = _with_floor(self.variance - np.sum(half**2, axis=0), self.variance)
        mean = self.covariance @ nu - half.T @ (half @ nu)
        return _Margins(mean, variance, 2.0 * float(np.sum(np.log(np.diagonal(factor)))))

    def skills(self, tau: Array, nu: Array) -> tuple[Array, Array]:
        root = np.sqrt(tau)
        half = solve_triangular(
            self._factor(root), root[:, None] * self.across, lower=True, check_finite=False
        )
        mean = self.across.T @ nu - half.T @ (half @ _gathered(nu, self.comparisons, half.shape[1]))
        return mean, self.prior - half.T @ half

    def _factor(self, root: Array) -> Array:
        gram = root[:, None] * self.covariance * root
        gram[np.diag_indices_from(gram)] += 1.0
        return cholesky(gram, lower=True, overwrite_a=True, check_finite=False)


class _ItemSpace:
    """Sites gathered on the items: matrices of n x n, for K > n."""

    def __init__(self, prior: Prior, comparisons: NDArray[np.intp]) -> None:
        self.prior, self.comparisons = prior.covariance, comparisons
        self.scale = _scale(prior, comparisons)

    def margins(self, tau: Array, nu: Array) -> _Margins:
        mean, covariance, log_det = self._posterior(tau, nu)
        winner, loser = self.comparisons.T
        own = np.diagonal(covariance)
        variance = own[winner] + own[loser] - 2.0 * covariance[winner, loser]
        return _Margins(mean[winner] - mean[loser], _with_floor(variance, self.scale), log_det)

    def skills(self, tau: Array, nu: Array) -> tuple[Array, Array]:
        return self._posterior(tau, nu)[:2]

    def _posterior(self, tau: Array, nu: Array) -> tuple[Array, Array, float]:
        n = len(self.prior)
        winner, loser = self.comparisons.T
        precision = np.zeros((n, n))
        np.add.at(precision, (winner, winner), tau)
        np.add.at(precision, (loser, loser), tau)
        np.add.at(precision, (winner, loser), -tau)
        np.add.at(precision, (loser, winner), -tau)
        shift = _gathered(nu, self.comparisons, n)
        factors = lu_factor(np.eye(n) + self.prior @ precision, check_finite=False)
        covariance = lu_solve(factors, self.prior, check_finite=False)
        covariance = 0.5 * (covariance + covariance.T)
        log_det = float(np.sum(np.log(np.abs(np.diagonal(factors[0])))))
        return covariance @ shift, covariance, log_det


def _scale(prior: Prior, comparisons: NDArray[np.intp]) -> Array:
    own = np.diagonal(prior.covariance)
    return own[comparisons[:, 0]] + own[comparisons[:, 1]]
