r"""Points where the density of hyperparameters is: from a Student-t of two halves, and weighted.

Posteriors of scales lean: towards large values, if the data bound them from below only. On a white
scale :math:`z` around the mode, each half of each axis gets the density's own scale (Rue et al.,
2009, section 6.5; Martins et al., 2013). With :math:`x_i = z_i / \sigma_i^{\pm}`, the sign being
that of :math:`z_i`, the density is

.. math:: q(z) = t_\nu(x) \prod_i \frac{2}{\sigma_i^- + \sigma_i^+}.

It is continuous, with tails heavier than a Gaussian's. As a scale mixture of two-piece Gaussians it
gives points from uniform numbers. Scrambled Sobol numbers spread them evenly.

References
----------
Rue, H., Martino, S. and Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian
models by using integrated nested Laplace approximations. Journal of the Royal Statistical Society
B, 71, 319-392. Martins, T. G., Simpson, D., Lindgren, F. and Rue, H. (2013). Bayesian computing
with INLA: new features. Computational Statistics and Data Analysis, 67, 68-83.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import gammaln, logsumexp, ndtri

from bayesrank.infer.whitening.importance import FEWEST, pareto_k

Array = NDArray[np.float64]

_DEGREES = 8.0
_WIDEST = 1.8
# Of the points of a net, whose means over each show how far it varies.
_BLOCKS = 8


class Proposal(NamedTuple):
    """A two-piece Student-t density of vectors of length d."""

    centre: Array  # where it is highest, shape (d,)
    root: Array  # from the white scale to that of the vectors, shape (d, d)
    below: Array  # scales of the lower and the upper half of each white axis, shape (d,)
    above: Array

    def points(self, count: int, seed: int) -> Array:
        """Points spread as the density says, shape (count, d); `count` is a power of two."""
        size = self.centre.size
        generator: Any = stats.qmc.Sobol
        uniform = generator(size + 1, seed=seed).random(count)
        uniform = np.clip(uniform, 1e-9, 1.0 - 1e-9)
        stretch = np.sqrt(_DEGREES / stats.chi2.ppf(uniform[:, -1], _DEGREES))
        return self.centre + (self._two_piece(uniform[:, :-1]) * stretch[:, None]) @ self.root.T

    def widened(self, share: float) -> Proposal:
        r"""Widen by :math:`s`, where the effective share is :math:`(\sqrt{2 s^2 - 1} / s^2)^d`."""
        each = share ** (2.0 / self.centre.size)
        factor = min(np.sqrt((1.0 + np.sqrt(1.0 - each)) / each), _WIDEST)
        return self._replace(below=factor * self.below, above=factor * self.above)

    def _two_piece(self, uniform: Array) -> Array:
        """Quantiles of the two-piece normal distribution of each axis."""
        width = self.below + self.above
        low = uniform * width < self.below
        inside = np.where(
            low,
            uniform * width / (2 * self.below),
            0.5 + (uniform * width - self.below) / (2 * self.above),
        )
        return ndtri(inside) * np.where(low, self.below, self.above)

    def log_density(self, points: Array) -> Array:
        """Log density at vectors (count, d), shape (count,)."""
        size = self.centre.size
        white = np.linalg.solve(self.root, (points - self.centre).T).T
        squared = np.sum((white / np.where(white < 0, self.below, self.above)) ** 2, axis=1)
        constant = gammaln(0.5 * (_DEGREES + size)) - gammaln(0.5 * _DEGREES)
        constant -= 0.5 * size * np.log(_DEGREES * np.pi)
        constant += np.sum(np.log(2.0 / (self.below + self.above)))
        constant -= np.linalg.slogdet(self.root)[1]
        return constant - 0.5 * (_DEGREES + size) * np.log1p(squared / _DEGREES)


class Weighted(NamedTuple):
    """Importance weights of points."""

    points: Array  # shape (K, d)
    weights: Array  # shape (K,), adding up to one
    log_mean: float  # log of the mean of the weights before that, the integral of the density
    pareto_k: float  # shape of their Pareto tail; NaN if they are too few to show one

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
        """A density fitted to the weighted points, drawn towards the one before.

        The root follows their covariance. Weighted likelihood then places the centre and both
        halves of each axis. The density before counts as much as d + 1 points.
        """
        size = self.points.shape[1]
        mean = self.weights @ self.points
        apart = self.points - mean
        scale = before.root * np.sqrt(0.5 * (before.below**2 + before.above**2))
        share = self.effective / (self.effective + size + 1)
        covariance = share * (apart.T * self.weights) @ apart + (1 - share) * scale @ scale.T
        root = symmetric_root(covariance)
        white = np.linalg.solve(root, apart.T).T
        strength = 4.0 * (size + 1) / self.effective
        found: Any = optimize.minimize(
            _misfit,
            np.zeros(3 * size),
            (white, self.weights, strength),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-1.5, 1.5)] * (3 * size),
        )
        centre, below, above = np.split(found.x, 3)
        return Proposal(mean + root @ centre, root, np.exp(below), np.exp(above))

    def errors(self, sizes: Sequence[int]) -> tuple[Array, Array]:
        """Monte Carlo errors of means (d,), in standard deviations, and of these, as shares.

        `sizes` are numbers of points of each net. Means over eight blocks of consecutive points
        show how far a net of this size varies. Rank scores keep one far point from hiding that.
        Errors are at least half those of independent points.
        """
        if self.effective < 2.0:
            return np.full(self.points.shape[1], np.inf), np.full(self.points.shape[1], np.inf)
        parts = [np.arange(size) * _BLOCKS // size for size in sizes]
        block = np.eye(_BLOCKS)[np.concatenate(parts)]
        scores = _rank_scores(self.points, self.weights)
        centred = scores - self.weights @ scores
        variance = self.weights @ centred**2
        each = centred / np.sqrt(variance), 0.5 * (centred**2 / variance - 1.0)

        def error(values: Array) -> Array:
            sums = block.T @ (self.weights[:, None] * values)
            blocks = np.sum(sums**2, axis=0) * _BLOCKS / (_BLOCKS - 1)
            return np.sqrt(np.maximum(blocks, 0.25 * self.weights**2 @ values**2))

        return error(each[0]), error(each[1])


def _misfit(theta: Array, white: Array, weights: Array, strength: float) -> tuple[float, Array]:
    """Minus the weighted log likelihood of a centre and log scales, penalised; and its slope."""
    size = white.shape[1]
    centre, (below, above) = theta[:size], np.exp(theta[size:].reshape(2, size))
    apart = white - centre
    low = apart < 0
    scales = np.where(low, below, above)
    squared = (apart / scales) ** 2
    total = squared.sum(axis=1)
    log_density = -np.sum(np.log(below + above))
    log_density = log_density - 0.5 * (_DEGREES + size) * np.log1p(total / _DEGREES)
    pull = ((_DEGREES + size) / (_DEGREES + total))[:, None]
    slope = np.concatenate(
        [
            weights @ (pull * apart / scales**2),
            weights @ (pull * squared * low) - below / (below + above),
            weights @ (pull * squared * ~low) - above / (below + above),
        ]
    )
    penalised = -(weights @ log_density) + 0.5 * strength * np.sum(theta**2)
    return float(penalised), -slope + strength * theta


def _rank_scores(points: Array, weights: Array) -> Array:
    """Normal scores of weighted points (K, d), in each direction by itself."""
    scores = np.empty_like(points)
    for column, values in enumerate(points.T):
        order = np.argsort(values)
        below = np.cumsum(weights[order]) - 0.5 * weights[order]
        scores[order, column] = ndtri(np.clip(below, 1e-6, 1 - 1e-6))
    return scores


def weigh(batches: list[tuple[Proposal, Array]], log_density: Array) -> Weighted:
    """Weigh points (k, d) of each density as draws from their mixture (the balance heuristic)."""
    points = np.concatenate([points for _, points in batches])
    shares = np.array([len(points) for _, points in batches]) / len(points)
    each = np.stack([proposal.log_density(points) for proposal, _ in batches])
    logs = log_density - np.asarray(logsumexp(each, axis=0, b=shares[:, None]))
    total = np.asarray(logsumexp(logs))
    tail = pareto_k(logs) if logs.size >= FEWEST else np.nan
    return Weighted(points, np.exp(logs - total), float(total - np.log(logs.size)), tail)


_STEP = 0.02  # of the differences of gradients, on the unconstrained scale
# A log hyperparameter that the data leave open has a prior of about unit scale: flat or wrong
# directions are made moderate.
_LEAST_CURVATURE = 0.25


def whitening_root(gradient: Callable[[Array], Array], centre: Array, slope: Array) -> np.ndarray:
    """``R`` (d, d) with ``R R'`` the inverse of minus the Hessian, by differences of gradients.

    Of all roots the symmetric one, after scaling to correlations, keeps nearest to the coordinates,
    along which scales have their long tails.
    """
    steps = _STEP * np.eye(centre.size)
    precision = -np.stack([gradient(centre + step) - slope for step in steps]) / _STEP
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    return symmetric_root((vectors / np.maximum(values, _LEAST_CURVATURE)) @ vectors.T)


def symmetric_root(covariance: Array) -> Array:
    """``D C`` (d, d), of standard deviations and the symmetric root of the correlations."""
    sd = np.sqrt(np.diagonal(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    return sd[:, None] * ((vectors * np.sqrt(np.maximum(values, 1e-9))) @ vectors.T)
