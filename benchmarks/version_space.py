"""The exact posterior of `ordinal_version_space`, by tempered sequential Monte Carlo.

The likelihood comes in step by step, each as large as keeps three fifths of the particles
effective; after each the particles are drawn again and moved by Metropolis steps. Six latents and
a few dozen examples take a second, and sites that are nearly edges do no harm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp

__all__ = ["exact_weights"]

Array = NDArray[np.float64]

_PARTICLES, _STEPS, _LAST_STEPS = 2000, 8, 16
_EFFECTIVE, _ACCEPTED = 0.6, 0.25


def exact_weights(
    X: Array, y: NDArray[np.int64], num_levels: int, threshold_scale: float, seed: int
) -> Array:
    """Draws of the weights, shape (2000, d), noise and thresholds integrated over."""
    rng, d = np.random.default_rng(seed), X.shape[1]
    side = np.where(y[:, None] > np.arange(1, num_levels), 1.0, -1.0)

    def log_likelihood(z: Array) -> Array:
        score, edges = z[:, 1 : 1 + d] @ X.T, threshold_scale * z[:, 1 + d :]
        margin = side * (score[:, :, None] - edges[:, None])
        return log_ndtr(margin / np.exp(z[:, :1, None])).sum(axis=(1, 2))

    def log_prior(z: Array) -> Array:
        # Half-Cauchy noise, in its log; the others are standard normal.
        return z[:, 0] - np.log1p(np.exp(2.0 * z[:, 0]) / d) - 0.5 * (z[:, 1:] ** 2).sum(axis=1)

    noise = np.sqrt(d) * np.abs(rng.standard_cauchy((_PARTICLES, 1)))
    z = np.hstack([np.log(noise), rng.normal(size=(_PARTICLES, d + num_levels - 1))])
    power, size, fit = 0.0, 0.6, log_likelihood(z)
    while power < 1.0:
        step = _step(fit, 1.0 - power)
        power += step
        share = np.exp(step * fit - np.asarray(logsumexp(step * fit)))
        levels = (np.arange(_PARTICLES) + rng.random()) / _PARTICLES
        z = z[np.minimum(np.searchsorted(np.cumsum(share), levels), _PARTICLES - 1)]
        fit, prior = log_likelihood(z), log_prior(z)
        root = np.linalg.cholesky(np.cov(z.T))
        for _ in range(_STEPS if power < 1.0 else _LAST_STEPS):
            moved = z + size * rng.lognormal(0.0, 0.5) * rng.normal(size=z.shape) @ root.T
            new_fit, new_prior = log_likelihood(moved), log_prior(moved)
            log_ratio = power * (new_fit - fit) + new_prior - prior
            taken = np.log(rng.random(_PARTICLES)) < log_ratio
            z[taken], fit[taken], prior[taken] = moved[taken], new_fit[taken], new_prior[taken]
            size *= np.exp(0.3 * (taken.mean() - _ACCEPTED))
    return z[:, 1 : 1 + d]


def _step(fit: Array, most: float) -> float:
    """How much of the likelihood keeps the particles effective."""

    def too_many(step: float) -> float:
        share = np.exp(step * fit - np.asarray(logsumexp(step * fit)))
        return float(1.0 / (share**2).sum()) - _EFFECTIVE * _PARTICLES

    if too_many(most) > 0.0:
        return most
    found: Any = brentq(too_many, 0.0, most)
    return float(found)
