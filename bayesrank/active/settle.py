r"""The posterior after some answers, brought up to date in a few sweeps of EP.

Sweeps of EP (Minka, 2001, PhD thesis, MIT) lead from the last posterior to the fixed point of
`bayesrank.infer.EP` on the same program. Compiled code matches the moments of a number of answers
that is rounded up, so that nothing compiles as answers grow. NumPy makes the Gaussian, since its
LAPACK takes matrices of any size. Up to a thousand rows BLAS keeps to one thread. A second one
gains little, and on a busy machine threads that wait for each other cost tens of times as much.

With :math:`G = A K A^\top` the prior covariance of the K margins and :math:`r = \sqrt\tau`, margins
take one Cholesky factorisation of :math:`I + r G r = L L^\top` and one triangular solve. The skills
themselves come once, at the end:

.. math:: C = K - W^\top W, \qquad W = L^{-1} r A K .

Both are in sections 3.6 and 3.9 of Rasmussen and Williams (2006), Gaussian Processes for Machine
Learning. If there are more answers than items, their sites are first gathered on the items, and all
matrices are n x n.
"""

import contextlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lu_factor, lu_solve, solve_triangular
from threadpoolctl import ThreadpoolController

from bayesrank._process import enter_jax
from bayesrank._sizes import next_size
from bayesrank.distributions import Thurstone, ThurstoneTies, TiltedMoments
from bayesrank.infer.spi import (
    Block,
    Problem,
    Rows,
    largest_change,
    log_sites,
    next_damping,
    propose,
)

Array = NDArray[np.float64]
PairIndices = NDArray[np.intp]

_ONE_THREAD = 1000
# What counts as converged, as for `EP`: where the noise is tiny, rounding leaves a margin moving by
# more than the tolerance that is aimed at.
_CONVERGED = 1e-4
_FURTHER = 30
# Answers are padded to this many, twice as many, and so on. Scoring a thousand takes less than
# starting compiled code does.
_SMALLEST_BUCKET = 1024


class SkillPrior(NamedTuple):
    """A Gaussian over n skills: mean (n,), covariance (n, n)."""

    mean: Array
    covariance: Array


class Answers(NamedTuple):
    """K answers."""

    comparisons: PairIndices  # winner and loser, or a pair that is about equal, shape (K, 2)
    noise: Array  # standard deviation of a performance in each, (K,)
    tied: NDArray[np.bool_] | None = None  # whether the two are about equal, (K,); None for never
    tie_width: float | None = None  # largest difference of performances that counts as equal


class Settled(NamedTuple):
    """The posterior of the skills, and the sites that make it."""

    mean: Array  # of the skills, shape (n,)
    covariance: Array  # shape (n, n)
    tau: Array  # site precisions of the margins, (K,)
    nu: Array  # their precision-means, measured from the prior mean, (K,)
    log_evidence: float  # EP's, in nats
    max_change: float  # of a margin in the last sweep, see `bayesrank.infer.EPResult`
    converged: bool  # whether that is at most 1e-4
    num_sweeps: int  # each with a factorisation


class _Made(NamedTuple):
    """Means and variances of margins (2, K), and a function to the skills and ``log |I + S K|``."""

    margins: Array
    skills: Callable[[], tuple[Array, Array, float]]


def settle(
    prior: SkillPrior,
    answers: Answers,
    start: tuple[Array, Array] | Settled | None = None,
    *,
    tol: float = 1e-6,
    max_sweeps: int = 200,
) -> Settled:
    """Sweep to EP's fixed point from sites (K,) each, or the posterior of all but the last."""
    enter_jax()
    size = min(len(answers.comparisons), len(prior.mean))
    one = _threads().limit(limits=1, user_api="blas") if size <= _ONE_THREAD else None
    with one or contextlib.nullcontext(), jax.enable_x64(True):
        return _swept(prior, answers, start, tol, max_sweeps)


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of this process; finding them takes some milliseconds."""
    return ThreadpoolController()


def _swept(
    prior: SkillPrior,
    answers: Answers,
    start: tuple[Array, Array] | Settled | None,
    tol: float,
    max_sweeps: int,
) -> Settled:
    pairs, count = answers.comparisons, len(answers.comparisons)
    few = count <= len(prior.mean)
    times = (_by_margins if few else _by_items)(prior.covariance, pairs)
    tied = np.zeros(count) if answers.tied is None else answers.tied
    given = _padded(_differences(prior.mean, pairs), answers.noise, tied)
    width = None if answers.tie_width is None else np.float64(answers.tie_width)

    sites, made = np.zeros((2, count)), None
    if isinstance(start, Settled):
        sites[:, :-1] = start.tau, start.nu
        margins = _margins(start.mean - prior.mean, start.covariance, prior.covariance, pairs)
    else:
        sites[:] = 0.0 if start is None else start
        made = times(sites)
        margins = made.margins
    damping, delta, sweep = np.float64(1.0), np.float64(np.inf), 0
    while delta > tol and sweep < max_sweeps:
        proposed, _ = _proposed(_padded(*sites, *margins), given, width, damping)
        sites = np.asarray(proposed)[:, :count]
        made = times(sites)
        moved = _padded(*margins), _padded(*made.margins), damping, delta, sweep
        damping, delta = map(np.float64, _paced(*moved))
        margins, sweep = made.margins, sweep + 1
        if delta <= _CONVERGED:  # where rounding keeps it from the tolerance, it is enough
            max_sweeps = min(max_sweeps, sweep + _FURTHER)
    mean, covariance, log_det = (made or times(sites)).skills()
    terms = np.asarray(_proposed(_padded(*sites, *margins), given, width, damping)[1])[:count]
    evidence = float(terms.sum()) - 0.5 * log_det + 0.5 * float(sites[1] @ margins[0])
    return Settled(
        mean=prior.mean + mean,
        covariance=covariance,
        tau=sites[0],
        nu=sites[1],
        log_evidence=evidence,
        max_change=float(delta),
        converged=bool(delta <= _CONVERGED),
        num_sweeps=sweep,
    )


@jax.jit
def _proposed(state: Any, given: Any, tie_width: Any, damping: Any) -> tuple[Any, Any]:
    """Sites that a sweep steps to, (2, K), and what each gives to the evidence as it is, (K,)."""
    tau, nu, mean, variance = state
    offset, noise, tied = given

    def moments(m: Any, v: Any) -> TiltedMoments:
        if tie_width is None:
            return Thurstone(0.0, noise).tilted_moments(1, m, v)
        outcome = jnp.where(tied > 0, 1, 2)
        return ThurstoneTies(0.0, tie_width, noise).tilted_moments(outcome, m, v)

    none: Any = None  # no prior: margins are given
    problem = Problem(none, (Block(Rows.identity(0), offset, moments),))
    found = propose(problem, (tau,), (nu,), ((mean, variance),), damping)
    (seen,) = found.tilted
    terms = seen.log_z - log_sites(tau, nu, seen.mean, seen.variance)
    # The probability of an interval is log-concave in the margin: its site has no negative
    # precision, but for rounding.
    return jnp.stack([jnp.maximum(found.tau[0], 0.0), found.nu[0]]), terms


@jax.jit
def _paced(before: Any, after: Any, damping: Any, delta: Any, sweep: Any) -> tuple[Any, Any]:
    """Damping of the next sweep, and how far this one has moved margins, (2, K) each."""
    moved = largest_change((tuple(before),), (tuple(after),)) / damping
    return next_damping(damping, moved, delta, sweep, True, 1.0), moved


def _padded(*columns: Any) -> Array:
    """Columns (K,) as rows of an array of one of a few sizes, filled up with ones."""
    count = len(columns[0])
    padded = np.ones((len(columns), next_size(count, _SMALLEST_BUCKET)))
    padded[:, :count] = columns
    return padded


def _by_margins(prior: Array, pairs: PairIndices) -> Callable[[Array], _Made]:
    """Prior times sites (2, K) by matrices of K x K, for K <= n."""
    across = _differences(prior, pairs)  # A K, shape (K, n)
    # Contiguous rows are picked several times as fast.
    gram = _differences(np.ascontiguousarray(across.T), pairs)  # A K A'
    least = np.finfo(float).eps * np.diagonal(gram)

    def times(sites: Array) -> _Made:
        root, nu = np.sqrt(sites[0])[:, None], sites[1]
        matrix = root * gram * root[:, 0]
        matrix[np.diag_indices_from(matrix)] += 1.0
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        half = solve_triangular(factor, root * gram, lower=True, check_finite=False)
        variance = np.diagonal(gram) - np.einsum("ij,ij->j", half, half)
        mean = gram @ nu - half.T @ (half @ nu)

        def skills() -> tuple[Array, Array, float]:
            half = solve_triangular(factor, root * across, lower=True, check_finite=False)
            mean = across.T @ nu - half.T @ (half @ _gathered(nu, pairs, len(prior)))
            taken = half.T @ half  # large where there are many items: used again for what is left
            log_det = 2.0 * float(np.sum(np.log(np.diagonal(factor))))
            return mean, np.subtract(prior, taken, out=taken), log_det

        return _Made(np.stack([mean, np.maximum(variance, least)]), skills)

    return times


def _by_items(prior: Array, pairs: PairIndices) -> Callable[[Array], _Made]:
    """Prior times sites (2, K) gathered on the items, by matrices of n x n, for K > n."""
    n = len(prior)

    def times(sites: Array) -> _Made:
        crossed = np.zeros((n, n))
        np.add.at(crossed, tuple(pairs.T), sites[0])
        crossed = -(crossed + crossed.T)
        crossed[np.diag_indices(n)] -= crossed.sum(axis=1)
        factors = lu_factor(np.eye(n) + prior @ crossed, check_finite=False)
        covariance = lu_solve(factors, prior, check_finite=False)
        covariance = 0.5 * (covariance + covariance.T)
        mean = covariance @ _gathered(sites[1], pairs, n)
        log_det = float(np.sum(np.log(np.abs(np.diagonal(factors[0])))))
        made = _margins(mean, covariance, prior, pairs)
        return _Made(made, lambda: (mean, covariance, log_det))

    return times


def _margins(mean: Array, covariance: Array, prior: Array, pairs: PairIndices) -> Array:
    """Means and variances of margins, (2, K), measured from the prior mean."""
    first, second = pairs.T
    own, scale = np.diagonal(covariance), np.diagonal(prior)
    variance = own[first] + own[second] - 2.0 * covariance[first, second]
    # Rounding is not to make the variance of a margin between near-duplicates negative.
    least = np.finfo(float).eps * (scale[first] + scale[second])
    return np.stack([mean[first] - mean[second], np.maximum(variance, least)])


def _differences(rows: Array, pairs: PairIndices) -> Array:
    """``A x``: rows of the first items less those of the second."""
    return rows[pairs[:, 0]] - rows[pairs[:, 1]]


def _gathered(weights: Array, pairs: PairIndices, n: int) -> Array:
    """``A' w``: what the first items get, less what the second get, (n,)."""
    first, second = pairs.T
    return np.subtract(np.bincount(first, weights, n), np.bincount(second, weights, n), dtype=float)
