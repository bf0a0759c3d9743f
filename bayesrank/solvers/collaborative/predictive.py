r"""Predictions that integrate over mean and kernel, which are learned of few users.

Given a user's values :math:`f_o` of the s items rated, the value of item :math:`i` is a linear
regression. EM's kernel is that of :math:`N = n + \tau` rows: n users, and those that the prior is
worth (of the item's tier). EM is mean-field variational Bayes, too, where users and prior count as
so many complete rows. With the usual flat prior of weights and log variance (the right Haar prior,
whose predictions have exact coverage) the predictive distribution is Student's t. Its mean is that
by EM's kernel. Its variance is :math:`\Sigma_{ii} - \Sigma_{io} \Sigma_{oo}^{-1} \Sigma_{oi}` times

.. math:: \frac{N}{N - s - 2}
    \left(1 + \frac{(f_o - h_o)' \Sigma_{oo}^{-1} (f_o - h_o)}{N} + \frac{1}{n + \kappa}\right),

the last term by the mean, whose prior is worth :math:`\kappa` users. The quadratic form is averaged
over the posterior of :math:`f_o`. Of the items rated, those of later tiers do not count in s. Items
outside of the core count as of the last tier, which is a little too wide. The kernel is taken as
known where N is so small that the variance does not exist.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from bayesrank.gp import KernelPrior

Array = NDArray[Any]


class Explained(NamedTuple):
    """What a user's observations say of the function at k items."""

    shift: Array  # of the mean, (k,)
    gain_across: Array  # ``G P Sigma``, (s, k)
    across: Array  # ``P Sigma``, (s, k)
    factors: Array | None = None  # of the variance given the items rated, (k,)
    root: Array | None = None  # whose square these items explain, (s, k)

    def variance(self, prior: Array) -> Array:
        """Posterior variances (k,) from those of the prior."""
        found = prior - (self.gain_across * self.across).sum(axis=0)
        if self.factors is None or self.root is None:
            return found
        return found + (self.factors - 1.0) * (prior - (self.root**2).sum(axis=0))

    def covariance(self, prior: Array) -> Array:
        """Posterior covariance (k, k) from that of the prior."""
        found = prior - self.gain_across.T @ self.across
        if self.factors is None or self.root is None:
            return found
        scale = np.sqrt(self.factors)
        return found + (np.outer(scale, scale) - 1.0) * (prior - self.root.T @ self.root)


class PredictiveFactors(NamedTuple):
    """What the variances' factors are made of."""

    rows: Array  # ``N`` of each item, (m,)
    mean: float  # the term of the mean
    place: Array  # of each item in the order of the prior, (m,)
    end: Array  # of its tier in that order, (m,)

    @classmethod
    def of(
        cls, prior: KernelPrior, mean_strength: float, num_users: int, num_items: int
    ) -> "PredictiveFactors":
        """By the prior of a fit to so many users."""
        order = np.arange(num_items) if prior.items is None else prior.items
        tiers, place = prior.tiers, np.argsort(order)
        tier = np.searchsorted([x.end for x in tiers[:-1]], place, side="right")
        rows = num_users + np.array([x.strength for x in tiers])[tier]
        end = np.array([x.end for x in tiers])[tier]
        return cls(rows, 1.0 / (num_users + mean_strength), place, end)

    def widen(
        self, part: Explained, items: Array, square: float, kernel: Array, wanted: Array
    ) -> Explained:
        """Add factors at the items `wanted` (k,), by different `items` (s,) that a user rated.

        `square` is the mean quadratic form, less s.
        """
        rows = self.rows[wanted]
        count = np.searchsorted(np.sort(self.place[items]), self.end[wanted])
        exists = rows > count + 2.0
        rows = np.where(exists, rows, count + 3.0)
        factors = rows / (rows - count - 2.0) * (1.0 + (square + len(items)) / rows + self.mean)
        factor = np.linalg.cholesky(kernel[np.ix_(items, items)])
        root = solve_triangular(factor, kernel[np.ix_(items, wanted)], lower=True)
        return part._replace(factors=np.where(exists, factors, 1.0), root=root)
