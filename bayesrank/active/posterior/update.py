r"""Beliefs about skills after some answers, brought up to date in a few sweeps of EP.

This is the fixed point of `bayesrank.infer.EP` on the same program, reached by the cheapest way
that a loop of questions has. After one more answer it starts from the last posterior: the site of
the new answer is a rank-one update, and exact. The other sites then move a little, all of them.
Between two factorisations they are settled among themselves, the margins responding to first order
(`posterior.margins`), so that the changes left are of second order: two factorisations
stand for about seven sweeps.

It runs in NumPy, whose LAPACK takes matrices of any size as they come: there is nothing to compile,
however the answers grow. Up to a thousand rows it keeps BLAS to one thread: a second one would gain
little, and on a busy machine threads that wait for each other cost tens of times as much.

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
from scipy.special import erfcx, log_ndtr
from threadpoolctl import ThreadpoolController

from bayesrank.active.posterior.margins import Margins, SkillPrior, differences, space_of

__all__ = ["Answers", "Fit", "SkillPrior", "fit_answers"]

Array = NDArray[np.float64]

_SMALLEST_DAMPING = 0.05
_ONE_THREAD = 1000
# What counts as converged, as for `EP`: where the noise is tiny, rounding leaves a margin moving by
# more than the tolerance that is aimed at.
_CONVERGED = 1e-4
_FURTHER = 30
# Changes up to here are small enough for margins to be expected to respond to first order.
_SMALL = 0.1
_SETTLING = 10
# A response is kept for as long as each sweep leaves less than this of the change before it.
_FAST = 0.1


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
        Largest change of a margin that one more sweep would make, to first order: of its mean in
        posterior standard deviations, or of its log variance.
    converged
        Whether `delta` is below 1e-4.
    num_sweeps
        Number of sweeps made, each with a factorisation.
    """

    mean: Array
    covariance: Array
    tau: Array
    nu: Array
    log_evidence: float
    delta: float
    converged: bool
    num_sweeps: int


def fit_answers(
    prior: SkillPrior,
    answers: Answers,
    start: tuple[Array, Array] | Fit | None = None,
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
        Sites ``(tau, nu)`` to start from, (K,) each, zero for an answer that is new. Or, which is
        cheaper, the posterior after all answers but the last.
    tol
        Sweep until `Fit.delta` comes below this,
    max_sweeps
        or there were so many sweeps.
    """
    size = min(len(answers.comparisons), len(prior.mean))
    one = _threads().limit(limits=1, user_api="blas") if size <= _ONE_THREAD else None
    with one or contextlib.nullcontext():
        return _Sweeps(prior, answers, tol).run(start, max_sweeps)


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of this process; finding them takes some milliseconds."""
    return ThreadpoolController()


class _Sweeps:
    """Sites of some answers, swept until the margins stay."""

    def __init__(self, prior: SkillPrior, answers: Answers, tol: float) -> None:
        self.prior, self.answers, self.tol = prior, answers, tol
        self.space = space_of(prior, answers.comparisons)
        self.offset = differences(prior.mean, answers.comparisons)

    def run(self, start: tuple[Array, Array] | Fit | None, max_sweeps: int) -> Fit:
        sites, margins = self._begin(start)
        damping, change, delta, sweep = 1.0, math.inf, math.inf, 0
        while True:
            aim = self._matched(sites, margins)
            moved = margins.after(*(aim - sites))
            former, delta = delta, _largest_change(margins, moved)
            if delta <= _CONVERGED:  # where rounding keeps it from the tolerance, it is enough
                max_sweeps = min(max_sweeps, sweep + _FURTHER)
            if delta <= self.tol or sweep == max_sweeps:
                return self._fit(sites, margins, delta, sweep)
            if delta < _SMALL and damping == 1.0:
                aim = self._settled(sites, margins, aim, moved, delta)
            sites = sites + damping * (aim - sites)
            response = margins.response if delta < _FAST * former else None
            before, margins = margins, self.space.margins(sites, response)
            last, change = change, _largest_change(before, margins) / damping
            worse = change > last
            damping = max(_SMALLEST_DAMPING, damping / 2) if worse else min(1.0, 1.2 * damping)
            sweep += 1

    def _begin(self, start: tuple[Array, Array] | Fit | None) -> tuple[Array, Margins]:
        """Sites (2, K) to start from, and their margins."""
        count = len(self.answers.comparisons)
        if not isinstance(start, Fit):
            sites = np.zeros((2, count)) if start is None else np.array(start, float)
            return sites, self.space.margins(sites)
        sites = np.zeros((2, count))
        sites[:, :-1] = start.tau, start.nu
        margins = self.space.margins_of(start.mean - self.prior.mean, start.covariance)
        sites[:, -1] = self._matched(sites, margins)[:, -1]
        return sites, margins.after_one(-1, *sites[:, -1])

    def _settled(
        self, sites: Array, margins: Margins, aim: Array, moved: Margins, delta: float
    ) -> Array:
        """Sites that would stay, if margins responded to first order and no further."""
        aimed_at = max(0.5 * self.tol, 0.1 * delta**2)  # beyond it the second order counts
        for _ in range(_SETTLING):
            if not np.all(aim[0] * moved.variance < 1.0):  # a cavity has to be proper
                break
            again = self._matched(aim, moved)
            after = margins.after(*(again - sites))
            before, delta = delta, _largest_change(moved, after)
            if delta >= before:
                break
            aim, moved = again, after
            if delta <= aimed_at:
                break
        return aim

    def _matched(self, sites: Array, margins: Margins) -> Array:
        """Sites that give the margins their tilted moments."""
        mean, variance = _cavity(sites, margins)
        _, first, second = _probit(self.offset + mean, variance, self.answers.noise)
        scale = 1.0 + second * variance
        return np.stack([np.maximum(-second, 0.0) / scale, (first - mean * second) / scale])

    def _fit(self, sites: Array, margins: Margins, delta: float, sweep: int) -> Fit:
        mean, covariance, log_det = self.space.skills(sites)
        evidence = self._log_sites(sites, margins) - 0.5 * log_det + 0.5 * sites[1] @ margins.mean
        return Fit(
            mean=self.prior.mean + mean,
            covariance=covariance,
            tau=sites[0],
            nu=sites[1],
            log_evidence=float(evidence),
            delta=delta,
            converged=delta <= _CONVERGED,
            num_sweeps=sweep,
        )

    def _log_sites(self, sites: Array, margins: Margins) -> float:
        """What the sites give to EP's log evidence, as in `bayesrank.infer.sites.log_evidence`."""
        tau, nu = sites
        mean, variance = _cavity(sites, margins)
        log_z = _probit(self.offset + mean, variance, self.answers.noise)[0]
        widening = 1.0 + tau * variance
        log_sites = -0.5 * np.log(widening) - 0.5 / widening * (
            tau * mean**2 - 2.0 * nu * mean - nu**2 * variance
        )
        return float(np.sum(log_z - log_sites))


def _probit(mean: Array, variance: Array, noise: Array) -> tuple[Array, Array, Array]:
    """Log of the probability that the first item won, and its two derivatives in the mean."""
    total = 2.0 * noise**2 + variance
    z = mean / np.sqrt(total)
    ratio = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))  # density over mass, at any z
    return log_ndtr(z), ratio / np.sqrt(total), -ratio * (ratio + z) / total


def _cavity(sites: Array, margins: Margins) -> tuple[Array, Array]:
    # A probit is log-concave: its site has no negative precision, and its cavity is proper.
    tau, nu = sites
    left = 1.0 - tau * margins.variance
    return (margins.mean - nu * margins.variance) / left, margins.variance / left


def _largest_change(before: Margins, after: Margins) -> float:
    """Largest change of a mean, in standard deviations, or of a log variance."""
    if not np.all(after.variance > 0.0):  # far beyond first order
        return math.inf
    moved = np.abs(after.mean - before.mean) / np.sqrt(after.variance)
    spread = np.abs(np.log(after.variance / before.variance))
    return float(np.max(np.maximum(moved, spread), initial=0.0))
