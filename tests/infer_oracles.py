"""Second routes to what EP computes, in plain NumPy: nothing of the engine is used here.

Every problem is given by its numbers: prior mean and covariance, a row and an offset for each
factor, and the factors' log likelihoods as functions of their predictors.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.stats import norm

LogLikelihood = Callable[[np.ndarray], np.ndarray]


def log_sum_exp(x: np.ndarray) -> float:
    """``log sum exp x`` without overflow."""
    return float(x.max() + np.log(np.sum(np.exp(x - x.max()))))


class Tilted(NamedTuple):
    """Log of the integral of a likelihood against a Gaussian, and moments of the product."""

    log_z: float
    mean: float
    variance: float


def tilted(
    log_likelihood: LogLikelihood,
    mean: float,
    variance: float,
    kinks: tuple[float, ...] = (),
    finest: float = 1e-9,
) -> Tilted:
    """Integrate over panels that nest around the cavity's mean, the tilted mode and `kinks`.

    The narrowest panel is `finest` of the whole range.
    """
    sd = np.sqrt(variance)
    grid = mean + sd * np.linspace(-45.0, 45.0, 4001)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        density = log_likelihood(grid) - 0.5 * (grid - mean) ** 2 / variance
    mode = grid[np.nanargmax(density)]
    side = np.geomspace(finest, 1.0, int(12 * -np.log10(finest)))
    steps = np.concatenate([-side[::-1], [0.0], side])
    width = 45.0 * sd + abs(mode - mean)
    edges = np.unique(np.concatenate([c + width * steps for c in (mean, mode, *kinks)]))
    points, weights = leggauss(20)
    half = 0.5 * np.diff(edges)
    x = (edges[:-1, None] + half[:, None] * (points + 1)).ravel()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        log_mass = log_likelihood(x) + norm.logpdf(x, mean, sd)
    log_mass = np.where(np.isnan(log_mass), -np.inf, log_mass)
    log_mass = log_mass + np.log(half[:, None] * weights).ravel()
    log_z = log_sum_exp(log_mass)
    p = np.exp(log_mass - log_z)
    centre = np.sum(p * x)
    return Tilted(log_z, float(centre), float(np.sum(p * (x - centre) ** 2)))


class Gaussian(NamedTuple):
    """A posterior and its log evidence."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float


def sequential_ep(
    prior_mean: np.ndarray,
    prior_covariance: np.ndarray,
    rows: np.ndarray,
    log_likelihoods: list[LogLikelihood],
    offsets: np.ndarray | None = None,
    power: float = 1.0,
    sweeps: int = 60,
    tol: float = 1e-10,
) -> Gaussian:
    """EP one factor after another, with a new inverse of the precision after each, by quadrature.

    The evidence is the normaliser of the approximation put together from the sites' own constants.
    """
    count = len(log_likelihoods)
    offsets = np.zeros(count) if offsets is None else offsets
    prior_precision = np.linalg.inv(prior_covariance)
    prior_shift = prior_precision @ prior_mean
    tau, nu, log_scale = np.zeros(count), np.zeros(count), np.zeros(count)

    def posterior() -> tuple[np.ndarray, np.ndarray]:
        covariance = np.linalg.inv(prior_precision + (rows.T * tau) @ rows)
        return covariance @ (prior_shift + rows.T @ nu), covariance

    for _ in range(sweeps):
        before = posterior()
        for k, (row, log_likelihood) in enumerate(zip(rows, log_likelihoods, strict=True)):
            mean, covariance = posterior()
            variance = row @ covariance @ row
            if variance < 1e-14:
                log_scale[k] = log_likelihood(np.atleast_1d(offsets[k] + row @ mean))[0]
                continue
            cavity_precision = 1 / variance - power * tau[k]
            cavity_shift = row @ mean / variance - power * nu[k]
            v, m = 1 / cavity_precision, cavity_shift / cavity_precision
            moments = tilted(
                lambda s, f=log_likelihood, b=offsets[k]: power * f(s + b), m, v, finest=1e-3
            )
            tau[k] = (1 / moments.variance - cavity_precision) / power
            nu[k] = (moments.mean / moments.variance - cavity_shift) / power
            # Of the site to the power, exp(power (nu s - tau s^2 / 2)), integrated over the cavity.
            log_site = 0.5 * np.log(moments.variance / v) + 0.5 * (
                moments.mean**2 / moments.variance - m**2 / v
            )
            log_scale[k] = (moments.log_z - log_site) / power
        after = posterior()
        change = np.abs(after[0] - before[0]) / np.sqrt(np.diag(after[1]))
        if max(change.max(), np.abs(np.log(np.diag(after[1]) / np.diag(before[1]))).max()) < tol:
            break
    mean, covariance = posterior()
    log_det = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(prior_covariance)[1]
    quadratic = mean @ (prior_shift + rows.T @ nu) - prior_mean @ prior_shift
    return Gaussian(mean, covariance, float(log_scale.sum() + 0.5 * log_det + 0.5 * quadratic))


def grid_posterior(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    covariance: np.ndarray,
    points: int = 61,
    reach: float = 8.0,
) -> Gaussian:
    """Moments of a density of a few latents, and its log integral, by a grid in whitened space.

    ``log_density`` maps latents (..., n) to (...); mean and covariance say where to look.
    """
    size = mean.size
    axis = np.linspace(-reach, reach, points)
    grid = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)
    root = np.linalg.cholesky(covariance)
    z = mean + grid @ root.T
    log_mass = log_density(z) + size * np.log(axis[1] - axis[0]) + np.log(np.diag(root)).sum()
    log_evidence = log_sum_exp(log_mass)
    p = np.exp(log_mass - log_evidence)
    centre = p @ z
    return Gaussian(centre, (z - centre).T @ ((z - centre) * p[:, None]), log_evidence)


def log_normal(z: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Log density of a multivariate normal at z (..., n)."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, (z - mean).reshape(-1, mean.size).T)
    constant = np.log(np.diag(root)).sum() + 0.5 * mean.size * np.log(2 * np.pi)
    return (-0.5 * (white**2).sum(0) - constant).reshape(z.shape[:-1])


def gaussian_posterior(
    prior_mean: np.ndarray,
    prior_covariance: np.ndarray,
    design: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray,
) -> Gaussian:
    """Posterior of linear regression and the log density of the data, in closed form."""
    total = design @ prior_covariance @ design.T + np.diag(noise**2)
    gain = np.linalg.solve(total, design @ prior_covariance).T
    residual = y - design @ prior_mean
    return Gaussian(
        prior_mean + gain @ residual,
        prior_covariance - gain @ design @ prior_covariance,
        float(log_normal(y, design @ prior_mean, total)),
    )


def pair_rows(size: int, winner: np.ndarray, loser: np.ndarray) -> np.ndarray:
    """Rows of the differences of items."""
    return np.eye(size)[winner] - np.eye(size)[loser]


def rbf(x: np.ndarray, lengthscale: float, amplitude: float = 1.0) -> np.ndarray:
    """Squared exponential covariance of inputs (n, d), with a little jitter."""
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    return amplitude**2 * np.exp(-0.5 * square / lengthscale**2) + 1e-8 * np.eye(len(x))
