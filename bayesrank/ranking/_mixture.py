"""What a mixture of Gaussians says of skills without draws: moments, intervals and pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bayesrank.ranking._ranks import Array

_HALVINGS = 60  # of the bracket of a quantile


class SkillMixture(NamedTuple):
    """Skills of n items by a mixture of C Gaussians.

    Attributes
    ----------
    weights
        Share of each Gaussian, shape ``(C,)``.
    means, covariances
        Their moments, shapes ``(C, n)`` and ``(C, n, n)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.ranking import SkillMixture
    >>> skills = SkillMixture(np.ones(1), np.array([[1.0, 0.0]]), np.eye(2)[None])
    >>> float(skills.better(0, 1).round(3))
    0.76
    """

    weights: Array
    means: Array
    covariances: Array

    def of(self, items: Array) -> "SkillMixture":
        """Skills of some items, by their indices."""
        return self._replace(
            means=self.means[:, items], covariances=self.covariances[:, items][:, :, items]
        )

    def relative(self, averages: Array, group: Array) -> "SkillMixture":
        """Skills less some average of skills: rows of `averages` (G, n), that of each item's group.

        `group` has shape (n,).
        """
        shared = averages @ self.covariances
        both = (shared @ averages.T)[:, group][:, :, group]
        own = shared[:, group]
        means = self.means - (self.means @ averages.T)[:, group]
        return self._replace(means=means, covariances=self.covariances - own - own.mT + both)

    def moments(self) -> tuple[Array, Array]:
        """Means and standard deviations, shape ``(n,)``."""
        mean = self.weights @ self.means
        variance = self._variances() + (self.means - mean) ** 2
        return mean, np.sqrt(self.weights @ variance)

    def covariance(self) -> Array:
        """Covariance of the skills, shape ``(n, n)``."""
        apart = self.means - self.weights @ self.means
        return np.tensordot(self.weights, self.covariances, 1) + (self.weights * apart.T) @ apart

    def interval(self, level: float) -> tuple[Array, Array]:
        """Ends of the equal-tailed credible interval of each skill, shape ``(n,)``."""
        sd = np.sqrt(self._variances())
        reach = -ndtri((1.0 - level) / 2.0) * sd

        def quantile(share: float) -> Array:
            low, high = (self.means - reach).min(axis=0), (self.means + reach).max(axis=0)
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                below = self.weights @ ndtr((middle - self.means) / np.maximum(sd, 1e-300)) < share
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            return 0.5 * (low + high)

        return quantile((1.0 - level) / 2.0), quantile((1.0 + level) / 2.0)

    def better(self, first: ArrayLike, second: ArrayLike) -> Array:
        """Probability that items `first` are better than items `second`; one half of equals."""
        first, second = np.broadcast_arrays(first, second)
        own = self._variances()
        both = own[:, first] + own[:, second] - 2.0 * self.covariances[:, first, second]
        gap, sd = self.means[:, first] - self.means[:, second], np.sqrt(np.maximum(both, 0.0))
        known = np.where(gap == 0.0, 0.5, gap > 0.0)
        chance = np.where(sd > 0.0, ndtr(gap / np.where(sd > 0.0, sd, 1.0)), known)
        return np.tensordot(self.weights, chance, 1)

    def _variances(self) -> Array:
        return np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0)
