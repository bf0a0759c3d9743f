r"""Margins of the comparisons that were answered, and skills, given the sites of the answers.

With :math:`G = A K A^\top` the prior covariance of the K margins and :math:`r = \sqrt\tau`, margins
take one Cholesky factorisation of :math:`I + r G r = L L^\top` and one triangular solve. The skills
themselves come once, at the end:

.. math:: C = K - W^\top W, \qquad W = L^{-1} r A K .

Where there are more answers than items, the sites are gathered on the items first, and all matrices
are n x n, however many the answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lu_factor, lu_solve, solve_triangular

__all__ = ["ItemSpace", "MarginSpace", "Margins", "SkillPrior", "differences", "space_of"]

Array = NDArray[np.float64]
PairIndices = NDArray[np.intp]


class SkillPrior(NamedTuple):
    """A Gaussian over n skills: mean (n,), covariance (n, n)."""

    mean: Array
    covariance: Array


class Margins(NamedTuple):
    """Mean and variance of each margin, measured from the prior mean, (K,)."""

    mean: Array
    variance: Array


class _Space:
    """A prior, and the pairs that were compared."""

    def __init__(self, prior: SkillPrior, comparisons: PairIndices) -> None:
        self.prior, self.comparisons = prior.covariance, comparisons
        own = np.diagonal(prior.covariance)
        self.scale = own[comparisons[:, 0]] + own[comparisons[:, 1]]

    def margins_of(self, mean: Array, covariance: Array) -> Margins:
        """Margins of skills, the mean measured from the prior mean."""
        variance = _with_floor(_variances(covariance, self.comparisons), self.scale)
        return Margins(differences(mean, self.comparisons), variance)


class MarginSpace(_Space):
    """Sites on the margins themselves: matrices of K x K, for K <= n."""

    def __init__(self, prior: SkillPrior, comparisons: PairIndices) -> None:
        super().__init__(prior, comparisons)
        self.across = differences(prior.covariance, comparisons)  # A K, shape (K, n)
        # Contiguous rows are picked several times as fast.
        self.covariance = differences(np.ascontiguousarray(self.across.T), comparisons)  # A K A'
        self.variance = _with_floor(np.diagonal(self.covariance), self.scale)
        self._last: tuple[Array, Array] | None = None

    def margins(self, sites: Array) -> Margins:
        """Margins given the sites, (2, K)."""
        half, nu = self._solved(sites, self.covariance), sites[1]
        mean = self.covariance @ nu - half.T @ (half @ nu)
        variance = self.variance - np.einsum("ij,ij->j", half, half)
        return Margins(mean, _with_floor(variance, self.variance))

    def skills(self, sites: Array) -> tuple[Array, Array, float]:
        """Mean and covariance of the skills, and ``log |I + S K|``."""
        half, nu = self._solved(sites, self.across), sites[1]
        mean = self.across.T @ nu - half.T @ (half @ _gathered(nu, self.comparisons, half.shape[1]))
        log_det = 2.0 * float(np.sum(np.log(np.diagonal(self._factor(sites)))))
        taken = half.T @ half  # large where there are many items: used again for what is left
        return mean, np.subtract(self.prior, taken, out=taken), log_det

    def _solved(self, sites: Array, right: Array) -> Array:
        """``L^-1 r right``."""
        scaled = np.sqrt(sites[0])[:, None] * right
        return solve_triangular(self._factor(sites), scaled, lower=True, check_finite=False)

    def _factor(self, sites: Array) -> Array:
        if self._last is None or self._last[0] is not sites:
            root = np.sqrt(sites[0])
            gram = root[:, None] * self.covariance * root
            gram[np.diag_indices_from(gram)] += 1.0
            self._last = sites, cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        return self._last[1]


class ItemSpace(_Space):
    """Sites gathered on the items: matrices of n x n, for K > n."""

    def __init__(self, prior: SkillPrior, comparisons: PairIndices) -> None:
        super().__init__(prior, comparisons)
        self._last: tuple[Array, tuple[Array, Array, float]] | None = None

    def margins(self, sites: Array) -> Margins:
        """Margins given the sites, (2, K)."""
        return self.margins_of(*self.skills(sites)[:2])

    def skills(self, sites: Array) -> tuple[Array, Array, float]:
        """Mean and covariance of the skills, and ``log |I + S K|``."""
        if self._last is None or self._last[0] is not sites:
            self._last = sites, self._posterior(*sites)
        return self._last[1]

    def _posterior(self, tau: Array, nu: Array) -> tuple[Array, Array, float]:
        n = len(self.prior)
        factors = lu_factor(
            np.eye(n) + self.prior @ _weighted(tau, self.comparisons, n), check_finite=False
        )
        covariance = lu_solve(factors, self.prior, check_finite=False)
        covariance = 0.5 * (covariance + covariance.T)
        log_det = float(np.sum(np.log(np.abs(np.diagonal(factors[0])))))
        return covariance @ _gathered(nu, self.comparisons, n), covariance, log_det


def space_of(prior: SkillPrior, comparisons: PairIndices) -> MarginSpace | ItemSpace:
    """The space with the smaller matrices."""
    few = len(comparisons) <= len(prior.mean)
    return (MarginSpace if few else ItemSpace)(prior, comparisons)


def differences(rows: Array, comparisons: PairIndices) -> Array:
    """``A x``: rows of the first items less those of the second."""
    return rows[comparisons[:, 0]] - rows[comparisons[:, 1]]


def _variances(covariance: Array, comparisons: PairIndices) -> Array:
    """Diagonal of ``A C A'``."""
    first, second = comparisons.T
    own = np.diagonal(covariance)
    return own[first] + own[second] - 2.0 * covariance[first, second]


def _gathered(weights: Array, comparisons: PairIndices, n: int) -> Array:
    """``A' w``: what the first items get, less what the second get."""
    first, second = comparisons.T
    return np.subtract(np.bincount(first, weights, n), np.bincount(second, weights, n), dtype=float)


def _weighted(weights: Array, comparisons: PairIndices, n: int) -> Array:
    """``A' diag(w) A``, shape (n, n)."""
    first, second = comparisons.T
    crossed = np.zeros((n, n))
    np.add.at(crossed, (first, second), weights)
    crossed = -(crossed + crossed.T)
    own = np.bincount(first, weights, n) + np.bincount(second, weights, n)
    crossed[np.diag_indices(n)] += own
    return crossed


def _with_floor(variance: Array, prior: Array) -> Array:
    """Keep rounding from making the variance of a margin between near-duplicates negative."""
    return np.maximum(variance, np.finfo(float).eps * prior)
