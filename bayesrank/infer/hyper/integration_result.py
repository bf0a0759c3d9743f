"""What an integration over hyperparameters by weighted points returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayesrank.infer.hyper.mixture import MixtureResult
from bayesrank.infer.result import GaussianMoments

__all__ = ["IntegratedEPResult", "MixtureComponent"]


class MixtureComponent(NamedTuple):
    """The posterior at one value of the hyperparameters.

    Attributes
    ----------
    weight
        Its share of the mixture.
    params
        Values of all hyperparameters, those held fixed included.
    moments
        Mean and covariance of the latents given these.
    """

    weight: float
    params: dict[str, np.ndarray]
    moments: GaussianMoments


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IntegratedEPResult(MixtureResult):
    """The posterior of latents and hyperparameters; `bayesrank.to_arviz` takes it.

    Attributes
    ----------
    converged
        Whether EP converged at all points that count, and the weights can be relied on: their
        Pareto tail is below 0.7, and the effective number of points is no smaller than was asked
        for.
    effective_points
        Effective number of points, ``1 / sum w^2``.
    mode
        Most probable hyperparameters, on their unconstrained scale.
    weights
        Weights of the points, shape (K,), adding up to one.
    points
        Values of the hyperparameters there, shapes (K,) + their own.
    component_means, component_covariances
        EP's posterior of all latents there, shapes (K, n) and (K, n, n).
    num_evaluations
        Number of values of the hyperparameters at which EP was run, the search included.

    Notes
    -----
    The other attributes are those of `bayesrank.infer.hyper.mixture.MixtureResult`. Moments are
    those of the weighted points; of the draws, each belongs to one of the points.
    """

    effective_points: float
    mode: dict[str, np.ndarray]
    weights: np.ndarray
    points: dict[str, np.ndarray]
    component_means: np.ndarray
    component_covariances: np.ndarray
    num_evaluations: int

    @cached_property
    def hyperparameter_moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and standard deviation of each hyperparameter."""
        moments = {}
        for name, values in self.points.items():
            mean = np.tensordot(self.weights, values, 1)
            moments[name] = mean, np.sqrt(np.tensordot(self.weights, (values - mean) ** 2, 1))
        return moments

    def components(self) -> Iterator[MixtureComponent]:
        """The Gaussians that the posterior is a mixture of."""
        for number, weight in enumerate(self.weights):
            at = {name: values[number] for name, values in self.points.items()}
            moments = GaussianMoments(
                shapes=self.shapes,
                joint_mean=self.component_means[number],
                joint_covariance=self.component_covariances[number],
            )
            yield MixtureComponent(float(weight), {**self.params, **at}, moments)
