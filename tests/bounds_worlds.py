"""Problems whose expected error is known, to see whether a bound holds and how loose it is."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr

from bayesrank.bounds import Queries, pair_share, skew_vector
from bayesrank.metrics import k_partite_error

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianRatings:
    """Ratings whose features are Gaussian inside each level, with unit covariance."""

    means: Array
    chances: Array

    def sample(self, num_examples: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.intp]]:
        """Draw features, shape ``(M, d)``, and ratings ``1 .. k``, shape ``(M,)``."""
        level = rng.choice(len(self.chances), size=num_examples, p=self.chances)
        noise = rng.normal(size=(num_examples, self.means.shape[1]))
        return self.means[level] + noise, level + 1

    def expected_error(self, weights: Array, rho: ArrayLike, alpha: float = 0.0) -> float:
        """Exact expected error of the ranking function ``weights @ x`` (Definition 2)."""
        shares = np.asarray(rho)
        centres = self.means @ weights / (math.sqrt(2.0) * float(np.linalg.norm(weights)))
        total = sum(
            shares[low] * shares[high] * (high - low) ** alpha * ndtr(centres[low] - centres[high])
            for low in range(len(shares))
            for high in range(low + 1, len(shares))
        )
        return float(total / pair_share(shares))


@dataclass(frozen=True)
class GaussianQueries:
    """Queries of `size` candidates with Gaussian features and logistic relevance."""

    weights: Array
    size: int = 10
    offset: float = 1.0

    def sample(self, num_queries: int, rng: np.random.Generator) -> Queries:
        """Draw labelled queries."""
        features = rng.normal(size=(num_queries * self.size, len(self.weights)))
        relevant = rng.random(len(features)) < expit(features @ self.weights - self.offset)
        return Queries(features, np.repeat(np.arange(num_queries), self.size), relevant.astype(int))


def coverage_and_looseness(
    problem: GaussianRatings,
    learn: Callable[[Array, NDArray[np.intp]], Array],
    bound: Callable[[Array, int], float],
    *,
    size: int,
    draws: int,
    alpha: float = 0.0,
    delta: float = 0.1,
) -> tuple[float, float]:
    """Share of samples in which a bound of the error of what was learned held, and how loose it is.

    That is the mean bound over the distance that would have been enough, its 1 - delta quantile.
    """
    rng = np.random.default_rng(0)
    deviation, bounds = np.empty(draws), np.empty(draws)
    for draw in range(draws):
        features, labels = problem.sample(size, rng)
        weights = learn(features, labels)
        rho = skew_vector(labels, len(problem.chances))
        empirical = k_partite_error(features @ weights, labels, alpha).mean
        deviation[draw] = abs(empirical - problem.expected_error(weights, rho, alpha))
        bounds[draw] = bound(rho, size)
    enough = np.quantile(deviation, 1.0 - delta)
    return float(np.mean(deviation < bounds)), float(bounds.mean() / enough)
