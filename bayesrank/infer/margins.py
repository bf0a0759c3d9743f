"""Draws that stay where latents with bounded support can be.

EP gives such a latent a mean and a standard deviation, and knows its correlations. Its margin is
then the gamma distribution of these moments if the support has one end, and the beta distribution
if it has two. The draws have the ranks of draws from a Gaussian with EP's correlations (a Gaussian
copula).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import stats

Numbers = NDArray[np.float64]

# Quantiles are tabled at these standard normal deviates, and linear between them.
_DEVIATES = np.linspace(-8.0, 8.0, 1601)


class BoundedMargins(NamedTuple):
    """Margins of the latents that have bounded support."""

    columns: NDArray[np.int64]  # their numbers among all latents, shape (b,)
    mean: Numbers  # EP's, shape (b,)
    sd: Numbers
    quantiles: Numbers  # at `_DEVIATES`, shape (b, K)

    def put(self, draws: Any) -> Any:
        """Give Gaussian draws (..., n) these margins."""
        deviates = (draws[..., self.columns] - self.mean) / self.sd
        if isinstance(draws, np.ndarray):  # draws of a result compile nothing
            put, columns = draws.astype(float), zip(self.columns, self.quantiles, strict=True)
            for number, (column, table) in enumerate(columns):
                put[..., column] = np.interp(deviates[..., number], _DEVIATES, table)
            return put
        look_up = jax.vmap(lambda z, q: jnp.interp(z, _DEVIATES, q), (-1, 0), -1)
        return jnp.asarray(draws).at[..., self.columns].set(look_up(deviates, self.quantiles))

    def log_slope(self, draws: Any) -> Numbers:
        """Log of how much `put` stretches the surroundings of draws (..., n), shape (...)."""
        deviates = (np.asarray(draws)[..., self.columns] - self.mean) / self.sd
        slopes = np.gradient(self.quantiles, _DEVIATES, axis=1) / self.sd[:, None]
        each = [np.interp(deviates[..., k], _DEVIATES, s) for k, s in enumerate(slopes)]
        return np.log(np.stack(each)).sum(axis=0)


def bounded_margins(
    mean: Numbers, variances: Numbers, ends: tuple[Numbers, Numbers] | None
) -> BoundedMargins | None:
    """Margins of the latents with bounded support; `ends` (n,) are infinite where there is none."""
    if ends is None:
        return None
    lower, upper = (np.asarray(x, float) for x in ends)
    columns = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    if not columns.size:
        return None
    centre, sd = mean[columns], np.sqrt(variances[columns])
    described = zip(centre, sd, lower[columns], upper[columns], strict=True)
    levels = stats.norm.cdf(_DEVIATES)
    quantiles = [_margin_of(*moments).ppf(levels) for moments in described]
    return BoundedMargins(columns, centre, sd, np.array(quantiles))


def bounded_draws(
    mean: Numbers, covariance: Numbers, white: Numbers, ends: tuple[Any, Any] | None
) -> tuple[Numbers, Numbers]:
    """Draws (..., n) from white ones within the supports; log densities (...), unnormalised."""
    root = square_root(covariance)
    draws, logs = mean + white @ root.T, log_gaussian(root, white)
    bounded = bounded_margins(mean, np.diagonal(covariance), ends)
    if bounded is None:
        return draws, logs
    return np.asarray(bounded.put(draws)), logs - bounded.log_slope(draws)


def _margin_of(mean: float, sd: float, lower: float, upper: float) -> Any:
    """A distribution on an interval with this mean and standard deviation, where there is one."""
    if not lower < mean < upper:  # EP has not converged
        ends = (lower - mean) / sd, (upper - mean) / sd
        return stats.truncnorm(*ends, loc=mean, scale=sd)
    if np.isinf(upper):
        return stats.gamma(((mean - lower) / sd) ** 2, lower, sd**2 / (mean - lower))
    if np.isinf(lower):
        return _Mirrored(_margin_of(-mean, sd, -upper, np.inf))
    width = upper - lower
    share = (mean - lower) / width
    count = share * (1 - share) * (width / sd) ** 2 - 1
    if not count > 0:
        ends = (lower - mean) / sd, (upper - mean) / sd
        return stats.truncnorm(*ends, loc=mean, scale=sd)
    return stats.beta(share * count, (1 - share) * count, lower, width)


class _Mirrored(NamedTuple):
    """The distribution of minus a variable."""

    margin: Any

    def ppf(self, levels: Numbers) -> Numbers:
        """Quantiles."""
        return -self.margin.ppf(1 - levels)


def square_root(covariance: np.ndarray) -> np.ndarray:
    """Square root R of a covariance, ``R R' = C``."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        # A posterior may be singular to rounding (two items with the same features): eigenvalues
        # that are negative at rounding level are zero.
        values, vectors = np.linalg.eigh(covariance)
        return vectors * np.sqrt(np.maximum(values, 0.0))


def log_gaussian(root: np.ndarray, white: np.ndarray) -> np.ndarray:
    """Log density (...) of draws ``R z`` from white ones (..., n), but for a constant."""
    triangular = not np.triu(root, 1).any()
    scales = np.abs(np.diagonal(root)) if triangular else np.linalg.norm(root, axis=0)
    kept = scales > 1e-6 * scales.max(initial=0.0)
    return -0.5 * np.sum(white[..., kept] ** 2, axis=-1) - np.sum(np.log(scales[kept]))
