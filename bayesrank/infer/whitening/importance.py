"""Importance sampling from a Gaussian: its evidence, and how far its weights can be trusted.

References
----------
.. [1] Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed
   importance sampling. Journal of Machine Learning Research, 25(72), 1-58.
.. [2] Zhang, J. and Stephens, M. A. (2009). A new and efficient estimation method for the
   generalized Pareto distribution. Technometrics, 51, 316-325.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank.infer.compiled import jit
from bayesrank.infer.seeds import generator
from bayesrank.infer.whitening.program import Density

_DRAWS = 4000
_CHUNK = 500
_EQUAL = 1e-6
# A fifth of the draws are the tail, and five are the fewest to which one is fitted.
_FEWEST_IN_TAIL = 5
FEWEST = 5 * _FEWEST_IN_TAIL
_PRIOR = 10  # draws that a shape of 0.5 counts for


class Importance(NamedTuple):
    """What importance sampling says of a Gaussian as an approximation to a program's posterior.

    `k_hat` is the shape of the Pareto tail of the weights. Below 0.5 their variance is finite,
    below 0.7 they can be used. It sees all latents at once, so it can be large although each one is
    right. It sees the tail alone, so it can be large although the weights hardly vary. It is minus
    infinity if all weights are equal (the Gaussian is the posterior), NaN if that is singular.
    `elbo` is the mean of the log weights, the evidence lower bound. `log_evidence` is the log of
    the mean weight, with the standard error `error` in nats.
    """

    k_hat: float
    elbo: float
    log_evidence: float
    error: float

    @property
    def divergence(self) -> float:
        """Estimate of the Kullback-Leibler divergence of the Gaussian from the posterior."""
        return self.log_evidence - self.elbo


_UNKNOWN = Importance(np.nan, np.nan, np.nan, np.nan)


def importance_sampler(
    program: Density, draws: int = _DRAWS, batch: int | None = _CHUNK
) -> Callable[[Array, ArrayLike, ArrayLike], Importance]:
    """Make a judge of Gaussians: key, mean (n,), covariance (n, n) -> `Importance`."""
    log_joints = jit(lambda points: lax.map(program.log_joint, points, batch_size=batch))

    def importance(rng_key: Array, mean: ArrayLike, covariance: ArrayLike) -> Importance:
        values, vectors = np.linalg.eigh(covariance)
        if values.min() <= 0.0:
            return _UNKNOWN
        white = generator(rng_key).standard_normal((draws, values.size))
        points = np.asarray(mean) + (white * np.sqrt(values)) @ vectors.T
        log_proposals = -0.5 * (np.sum(white**2, 1) + np.sum(np.log(2.0 * np.pi * values)))
        logs = np.asarray(log_joints(jnp.asarray(points))) - log_proposals
        if np.isnan(logs).any():
            return _UNKNOWN
        weights = np.exp(logs - logs.max())
        return Importance(
            pareto_k(logs),
            float(logs.mean()),
            float(np.log(weights.mean()) + logs.max()),
            float(weights.std() / weights.mean() / np.sqrt(logs.size)),
        )

    return importance


def pareto_k(log_weights: NDArray[np.float64]) -> float:
    """k-hat of log weights (draws,), by ArviZ's ``psislw`` (Vehtari et al., 2024).

    It is minus infinity if all weights are equal, infinity if too few have the weight.
    """
    logs = np.asarray(log_weights - np.max(log_weights), float)
    if logs.min() > -_EQUAL:
        return -np.inf
    if logs.size < FEWEST:
        return np.inf
    with np.errstate(all="ignore"):
        shape = _shape(logs)
    return shape if np.isfinite(shape) else np.inf


def _shape(logs: NDArray[np.float64]) -> float:
    """Shape from the largest weights, by [2]; not finite where they fit none.  Logs end at 0."""
    number = math.ceil(min(logs.size / 5.0, 3.0 * math.sqrt(logs.size)))
    ordered = np.sort(logs)
    cutoff = max(ordered[-number - 1], math.log(np.finfo(float).tiny))
    tail = np.exp(ordered[ordered > cutoff]) - np.exp(cutoff)
    n = tail.size
    if n < _FEWEST_IN_TAIL:
        return np.inf
    points = 30 + int(math.sqrt(n))
    rates = 1.0 - np.sqrt(points / (np.arange(points) + 0.5))
    rates = rates / (3.0 * tail[int(n / 4 + 0.5) - 1]) + 1.0 / tail[-1]
    shapes = np.log1p(-rates[:, None] * tail).mean(axis=1)
    likelihoods = n * (np.log(-rates / shapes) - shapes - 1.0)
    weights = 1.0 / np.exp(likelihoods - likelihoods[:, None]).sum(axis=1)
    counts = weights >= 10.0 * np.finfo(float).eps
    rate = np.average(rates[counts], weights=weights[counts])
    shape = np.log1p(-rate * tail).mean()
    return float((n * shape + _PRIOR * 0.5) / (n + _PRIOR))
