r"""The posterior after some answers, brought up to date in a few sweeps of EP.

This is the fixed point of `bayesrank.infer.EP` on the same program, reached by plain EP that starts
from the last posterior. Sites are those of `bayesrank.infer.sites`, compiled for a number of
answers that is rounded up, so that nothing compiles as answers grow. The Gaussian is made in NumPy,
whose LAPACK takes matrices of any size as they come. Up to a thousand rows it keeps BLAS to one
thread: a second one would gain little, and on a busy machine threads that wait for each other cost
tens of times as much.

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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from bayesrank._forks import refuse_forked_child
from bayesrank.active.posterior.margins import Margins, SkillPrior, differences, space_of
from bayesrank.distributions import Thurstone, ThurstoneTies
from bayesrank.infer.spi import cavity, log_sites, match

__all__ = ["Answers", "SkillFit", "SkillPrior", "fit_answers"]

Array = NDArray[np.float64]

_SMALLEST_DAMPING = 0.05
_ONE_THREAD = 1000
# What counts as converged, as for `EP`: where the noise is tiny, rounding leaves a margin moving by
# more than the tolerance that is aimed at.
_CONVERGED = 1e-4
_FURTHER = 30
# Answers are padded to this many, twice as many, and so on. Scoring a thousand takes less than
# starting compiled code does.
_SMALLEST_BUCKET = 1024


class Answers(NamedTuple):
    """K answers.

    Attributes
    ----------
    comparisons
        Two items each, shape (K, 2): the winner and the loser, or a pair that is about equal.
    noise
        Standard deviation of a performance in each, (K,).
    tied
        Whether the two are about equal, (K,); None for never.
    tie_width
        Largest difference of performances that counts as equal; None if there is no such answer.
    """

    comparisons: NDArray[np.intp]
    noise: Array
    tied: NDArray[np.bool_] | None = None
    tie_width: float | None = None


class SkillFit(NamedTuple):
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
        Largest change of a margin in the last sweep, undamped: of its mean in posterior standard
        deviations, or of its log variance.
    converged
        Whether `delta` is at most 1e-4.
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
    start: tuple[Array, Array] | SkillFit | None = None,
    *,
    tol: float = 1e-6,
    max_sweeps: int = 200,
) -> SkillFit:
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
        Sweep until `SkillFit.delta` comes down to this,
    max_sweeps
        or there were so many sweeps.
    """
    refuse_forked_child()
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
        self.prior, self.tol, self.count = prior, tol, len(answers.comparisons)
        self.space = space_of(prior, answers.comparisons)
        tied = np.zeros(self.count) if answers.tied is None else answers.tied
        offset = differences(prior.mean, answers.comparisons)
        self._observed = self._padded(offset, answers.noise, tied)
        self._tie_width = None if answers.tie_width is None else np.float64(answers.tie_width)

    def run(self, start: tuple[Array, Array] | SkillFit | None, max_sweeps: int) -> SkillFit:
        sites, margins = self._begin(start)
        damping, delta, sweep = 1.0, math.inf, 0
        while delta > self.tol and sweep < max_sweeps:
            matched, _ = self._match(sites, margins)
            sites = sites + damping * (matched - sites)
            before, margins = margins, self.space.margins(sites)
            last, delta = delta, _largest_change(before, margins) / damping
            # A margin in between can only come to rest if steps grow short enough.
            worse = delta > last
            damping = max(_SMALLEST_DAMPING, damping / 2) if worse else min(1.0, 1.2 * damping)
            sweep += 1
            if delta <= _CONVERGED:  # where rounding keeps it from the tolerance, it is enough
                max_sweeps = min(max_sweeps, sweep + _FURTHER)
        return self._fit(sites, margins, delta, sweep)

    def _begin(self, start: tuple[Array, Array] | SkillFit | None) -> tuple[Array, Margins]:
        """Sites (2, K) to start from, and their margins."""
        sites = np.zeros((2, self.count))
        if isinstance(start, SkillFit):
            sites[:, :-1] = start.tau, start.nu
            return sites, self.space.margins_of(start.mean - self.prior.mean, start.covariance)
        if start is not None:
            sites[:] = start
        return sites, self.space.margins(sites)

    def _match(self, sites: Array, margins: Margins) -> tuple[Array, Array]:
        """Sites (2, K) that give the margins their tilted moments; terms of the evidence, (K,)."""
        arguments = self._padded(*sites, *margins), self._observed
        with jax.enable_x64(True):
            matched, terms = _matched(*arguments, self._tie_width)
        return np.asarray(matched)[:, : self.count], np.asarray(terms)[: self.count]

    def _padded(self, *columns: Any) -> Array:
        """Columns as rows of an array of one of a few sizes, filled up with ones."""
        size = max(_SMALLEST_BUCKET, 1 << (max(self.count, 1) - 1).bit_length())
        padded = np.ones((len(columns), size))
        padded[:, : self.count] = columns
        return padded

    def _fit(self, sites: Array, margins: Margins, delta: float, sweep: int) -> SkillFit:
        mean, covariance, log_det = self.space.skills(sites)
        terms = self._match(sites, margins)[1]
        evidence = float(np.sum(terms)) - 0.5 * log_det + 0.5 * float(sites[1] @ margins.mean)
        return SkillFit(
            mean=self.prior.mean + mean,
            covariance=covariance,
            tau=sites[0],
            nu=sites[1],
            log_evidence=evidence,
            delta=delta,
            converged=delta <= _CONVERGED,
            num_sweeps=sweep,
        )


@jax.jit
def _matched(state: Any, observed: Any, tie_width: Any) -> tuple[jax.Array, jax.Array]:
    """New sites, and what each site gives to the evidence, see `bayesrank.infer.sites`."""
    tau, nu, mean, variance = state
    offset, noise, tied = observed
    m, v, _ = cavity(tau, nu, mean, variance)
    if tie_width is None:
        moments = Thurstone(0.0, noise).tilted_moments(1, offset + m, v)
    else:
        outcome = jnp.where(tied > 0, 1, 2)
        moments = ThurstoneTies(0.0, tie_width, noise).tilted_moments(outcome, offset + m, v)
    # The probability of an interval is log-concave in the margin: its site has no negative
    # precision, and its cavity is proper, but for rounding.
    new_tau, new_nu, proper = match(moments, m, v)
    sites = jnp.where(proper, jnp.stack([jnp.maximum(new_tau, 0.0), new_nu]), state[:2])
    return sites, moments.log_z - log_sites(tau, nu, m, v)


def _largest_change(before: Margins, after: Margins) -> float:
    """Largest change of a mean, in standard deviations, or of a log variance."""
    moved = np.abs(after.mean - before.mean) / np.sqrt(after.variance)
    spread = np.abs(np.log(after.variance / before.variance))
    return float(np.max(np.maximum(moved, spread), initial=0.0))
