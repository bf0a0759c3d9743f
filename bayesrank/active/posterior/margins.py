r"""Margins of the comparisons that were answered, and skills, given the sites of the answers.

With :math:`G = A K A^\top` the prior covariance of the K margins and :math:`r = \sqrt\tau`, margins
take one Cholesky factorisation of :math:`I + r G r = L L^\top` and one triangular solve. The skills
themselves come once, at the end:

.. math:: C = K - W^\top W, \qquad W = L^{-1} r A K .

Where there are more answers than items, the sites are gathered on the items first, and all matrices
are n x n, however many the answers.

How margins respond to a change of the sites is known without another factorisation, to first order
in the changes and exactly if only one site changes: with :math:`S` the covariance of the margins,
a site that gains precision :math:`d` and precision-mean :math:`\delta` takes
:math:`e = d / (1 + S_{jj} d)` off,

.. math::
    \Delta v_k = -\sum_j S_{kj}^2 e_j, \qquad
    \Delta m_k = \sum_j S_{kj} \frac{\delta_j - d_j m_j}{1 + S_{jj} d_j} .
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lu_factor, lu_solve, solve_triangular

__all__ = ["ItemSpace", "MarginSpace", "Margins", "SkillPrior", "differences", "space_of"]

Array = NDArray[np.float64]
Pairs = NDArray[np.intp]


class SkillPrior(NamedTuple):
    """A Gaussian over n skills: mean (n,), covariance (n, n)."""

    mean: Array
    covariance: Array


class _ByMargins:
    """The response of margins, by their own covariance S (K, K)."""

    def __init__(self, covariance: Array) -> None:
        self.covariance = covariance

    @cached_property
    def _square(self) -> Array:
        return self.covariance**2

    def __call__(self, shrinkage: Array, shift: Array) -> tuple[Array, Array]:
        return self.covariance @ shift, -(self._square @ shrinkage)

    def column(self, site: int) -> Array:
        """Covariances of all margins with one."""
        return self.covariance[site]

    def shrunk(self, site: int, shrinkage: float) -> _ByMargins:
        """The response once one site has taken so much off."""
        column = self.covariance[site]
        return _ByMargins(self.covariance - shrinkage * np.outer(column, column))


class _ByItems:
    """The same by the covariance of the skills (n, n), for many more margins than items."""

    def __init__(self, covariance: Array, comparisons: Pairs) -> None:
        self.covariance, self.comparisons = covariance, comparisons

    def __call__(self, shrinkage: Array, shift: Array) -> tuple[Array, Array]:
        n = len(self.covariance)
        taken = self.covariance @ _weighted(shrinkage, self.comparisons, n) @ self.covariance
        mean = self.covariance @ _gathered(shift, self.comparisons, n)
        return differences(mean, self.comparisons), -_variances(taken, self.comparisons)

    def column(self, site: int) -> Array:
        """Covariances of all margins with one."""
        return differences(self._direction(site), self.comparisons)

    def shrunk(self, site: int, shrinkage: float) -> _ByItems:
        """The response once one site has taken so much off."""
        direction = self._direction(site)
        covariance = self.covariance - shrinkage * np.outer(direction, direction)
        return _ByItems(covariance, self.comparisons)

    def _direction(self, site: int) -> Array:
        winner, loser = self.comparisons[site]
        return self.covariance[winner] - self.covariance[loser]


_Response = _ByMargins | _ByItems


class Margins(NamedTuple):
    """What the sites make of the margins.

    Attributes
    ----------
    mean, variance
        Of each margin, measured from the prior mean, (K,).
    response
        ``response(e, shift)``: the changes of mean and variance, see the top of this file. It may
        be that of earlier margins, which were close.
    """

    mean: Array
    variance: Array
    response: _Response

    def after(self, d_tau: Array, d_nu: Array) -> Margins:
        """Margins when the sites have changed: exact for one site, to first order for more."""
        left = 1.0 + self.variance * d_tau
        mean, variance = self.response(d_tau / left, (d_nu - d_tau * self.mean) / left)
        return self._replace(mean=self.mean + mean, variance=self.variance + variance)

    def after_one(self, site: int, d_tau: float, d_nu: float) -> Margins:
        """Margins and their response when one site has changed: exact."""
        column, left = self.response.column(site), 1.0 + self.variance[site] * d_tau
        shift = (d_nu - d_tau * self.mean[site]) / left
        return Margins(
            self.mean + shift * column,
            self.variance - d_tau / left * column**2,
            self.response.shrunk(site, d_tau / left),
        )


class _Space:
    """A prior, and the pairs that were compared."""

    def __init__(self, prior: SkillPrior, comparisons: Pairs) -> None:
        self.prior, self.comparisons = prior.covariance, comparisons
        own = np.diagonal(prior.covariance)
        self.scale = own[comparisons[:, 0]] + own[comparisons[:, 1]]

    def margins_of(
        self, mean: Array, covariance: Array, response: _Response | None = None
    ) -> Margins:
        """Margins of skills, the mean measured from the prior mean."""
        variance = _with_floor(_variances(covariance, self.comparisons), self.scale)
        response = response or self._response(covariance)
        return Margins(differences(mean, self.comparisons), variance, response)

    def _response(self, covariance: Array) -> _Response:
        # Whichever is cheaper, and never much larger than the covariance of the skills.
        count, n = len(self.comparisons), len(covariance)
        if count <= n or (count <= 4 * n and 16 * count**2 <= n**3):
            across = differences(covariance, self.comparisons)
            return _ByMargins(_between(across, self.comparisons))
        return _ByItems(covariance, self.comparisons)


class MarginSpace(_Space):
    """Sites on the margins themselves: matrices of K x K, for K <= n."""

    def __init__(self, prior: SkillPrior, comparisons: Pairs) -> None:
        super().__init__(prior, comparisons)
        self.across = differences(prior.covariance, comparisons)  # A K, shape (K, n)
        self.covariance = _between(self.across, comparisons)  # A K A'
        self.variance = _with_floor(np.diagonal(self.covariance), self.scale)
        self._last: tuple[Array, Array] | None = None

    def margins(self, sites: Array, response: _Response | None = None) -> Margins:
        """Margins given the sites, (2, K), with a response that is known already or their own."""
        half, nu = self._solved(sites, self.covariance), sites[1]
        mean = self.covariance @ nu - half.T @ (half @ nu)
        variance = _with_floor(self.variance - np.einsum("ij,ij->j", half, half), self.variance)
        return Margins(mean, variance, response or _ByMargins(self.covariance - half.T @ half))

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

    def __init__(self, prior: SkillPrior, comparisons: Pairs) -> None:
        super().__init__(prior, comparisons)
        self._last: tuple[Array, tuple[Array, Array, float]] | None = None

    def margins(self, sites: Array, response: _Response | None = None) -> Margins:
        """Margins given the sites, (2, K), with a response that is known already or their own."""
        return self.margins_of(*self.skills(sites)[:2], response)

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


def space_of(prior: SkillPrior, comparisons: Pairs) -> MarginSpace | ItemSpace:
    """The space with the smaller matrices."""
    few = len(comparisons) <= len(prior.mean)
    return (MarginSpace if few else ItemSpace)(prior, comparisons)


def differences(rows: Array, comparisons: Pairs) -> Array:
    """``A x``: rows of the winners less those of the losers."""
    return rows[comparisons[:, 0]] - rows[comparisons[:, 1]]


def _between(across: Array, comparisons: Pairs) -> Array:
    """``(A C) A'``, from rows ``A C``: contiguous rows are picked several times as fast."""
    return differences(np.ascontiguousarray(across.T), comparisons)


def _variances(covariance: Array, comparisons: Pairs) -> Array:
    """Diagonal of ``A C A'``."""
    winner, loser = comparisons.T
    own = np.diagonal(covariance)
    return own[winner] + own[loser] - 2.0 * covariance[winner, loser]


def _gathered(weights: Array, comparisons: Pairs, n: int) -> Array:
    """``A' w``: what the winners get, less what the losers get."""
    winner, loser = comparisons.T
    return np.subtract(np.bincount(winner, weights, n), np.bincount(loser, weights, n), dtype=float)


def _weighted(weights: Array, comparisons: Pairs, n: int) -> Array:
    """``A' diag(w) A``, shape (n, n)."""
    winner, loser = comparisons.T
    crossed = np.zeros((n, n))
    np.add.at(crossed, (winner, loser), weights)
    crossed = -(crossed + crossed.T)
    own = np.bincount(winner, weights, n) + np.bincount(loser, weights, n)
    crossed[np.diag_indices(n)] += own
    return crossed


def _with_floor(variance: Array, prior: Array) -> Array:
    """Keep rounding from making the variance of a margin between near-duplicates negative."""
    return np.maximum(variance, np.finfo(float).eps * prior)
