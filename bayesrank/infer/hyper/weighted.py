"""Points drawn from several densities, weighted by importance as draws from their mixture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesrank.infer.hyper.proposal import Proposal
from bayesrank.infer.white.importance import pareto_k

__all__ = ["Weighted", "weigh"]

Array = NDArray[np.float64]


class Weighted(NamedTuple):
    """Importance weights of points.

    Attributes
    ----------
    points
        Shape (K, d).
    weights
        Shape (K,), adding up to one.
    log_mean
        Log of the mean of the weights before that, the integral of the density.
    pareto_k
        Shape of their Pareto tail.
    """

    points: Array
    weights: Array
    log_mean: float
    pareto_k: float

    @property
    def effective(self) -> float:
        """Effective number of points."""
        return float(1.0 / np.sum(self.weights**2))

    @property
    def error(self) -> float:
        """Standard error of `log_mean`, as if the points were independent."""
        count = self.weights.size
        return float(np.sqrt(max(count / self.effective - 1.0, 0.0) / count))

    def refitted(self, before: Proposal) -> Proposal:
        """A density with the mean and covariance of the weighted points.

        Where few points count, their covariance is drawn towards that of the density before.
        """
        size = self.points.shape[1]
        mean = self.weights @ self.points
        apart = self.points - mean
        covariance = (apart.T * self.weights) @ apart
        scale = before.root * np.sqrt(0.5 * (before.below**2 + before.above**2))
        share = self.effective / (self.effective + size + 1)
        root = np.linalg.cholesky(share * covariance + (1 - share) * scale @ scale.T)
        return Proposal(mean, root, np.ones(size), np.ones(size))


def weigh(batches: list[tuple[Proposal, Array]], log_density: Array) -> Weighted:
    """Weigh points that were drawn batch by batch.

    Parameters
    ----------
    batches
        Densities, and the points drawn from each, shape (k, d).
    log_density
        Log of the density that the points are to stand for, at all points in order, shape (K,);
        minus infinity where it is not known.

    Returns
    -------
    Weighted
        With the weights of draws from the mixture of these densities (the balance heuristic), which
        are bounded by what any one of them gives.
    """
    points = np.concatenate([points for _, points in batches])
    shares = np.array([len(points) for _, points in batches]) / len(points)
    each = np.stack([proposal.log_density(points) for proposal, _ in batches])
    logs = log_density - np.asarray(logsumexp(each, axis=0, b=shares[:, None]))
    total = np.asarray(logsumexp(logs))
    return Weighted(points, np.exp(logs - total), float(total - np.log(logs.size)), pareto_k(logs))
