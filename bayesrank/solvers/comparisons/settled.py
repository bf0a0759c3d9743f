"""Whether the scales of a log are known well enough not to be averaged over."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import ComparisonData
from bayesrank.models.comparisons import SCALES
from bayesrank.solvers.comparisons.judged_fit import fit_arena
from bayesrank.solvers.comparisons.judged_result import ArenaFit
from bayesrank.solvers.comparisons.terms import arguments_of

Floats = NDArray[np.float64]

# What averaging may change where it is left out, in posterior standard deviations of a skill: its
# mean, and its own standard deviation as a share.
_SHIFT, _GROWTH = 0.1, 0.03


def settles_scales(data: ComparisonData, fit: ArenaFit, fixed: Mapping[str, float]) -> bool:
    """Whether averaging over the scales would change no skill by more than a little.

    Learned scales of skills, overall and in categories, move by one posterior standard deviation of
    their logarithm either way. Averaging the two fits is Gauss-Hermite quadrature by two points.

    Parameters
    ----------
    data, fit
        The log, and what `fit_arena` made of it.
    fixed
        Scales that were held fixed, by name.
    """

    def refit(scales: Mapping[str, float]) -> ArenaFit:
        columns = arguments_of(data)
        return fit_arena(data.num_items, data.comparisons, scales=scales, **columns)

    mean, variance = _skills(fit)
    shift, growth = np.zeros_like(mean), np.zeros_like(mean)
    for name in sorted({"scale", "category_scale"} & fit.scales.keys() - fixed.keys()):
        step = np.exp(_deviation(fit, name))
        moved = [
            _skills(refit({**fit.scales, name: fit.scales[name] * factor}))
            for factor in (1.0 / step, step)
        ]
        (low, low_variance), (high, high_variance) = moved
        shift += np.abs(0.5 * (low + high) - mean)
        growth += 0.5 * (low_variance + high_variance) + 0.25 * (high - low) ** 2 - variance
    sd = np.sqrt(variance)
    few = (shift <= _SHIFT * sd).all() and (growth <= ((1.0 + _GROWTH) ** 2 - 1.0) * variance).all()
    return bool(few and fit.converged)


def _skills(fit: ArenaFit) -> tuple[Floats, Floats]:
    """Means and variances of skills about their average, overall and in each category."""
    shares = [None, *np.eye(fit.num_categories)]
    means, covariances = map(np.array, zip(*map(fit.skills, shares), strict=True))
    own = np.diagonal(covariances, axis1=1, axis2=2) - 2.0 * covariances.mean(axis=2)
    variances = own + covariances.mean(axis=(1, 2))[:, None]
    return means - means.mean(axis=1, keepdims=True), variances


def _deviation(fit: ArenaFit, name: str) -> float:
    """Standard deviation of the logarithm of a scale, by how much of each latent data determine."""
    scale, n = fit.scales[name], fit.num_items
    variances, own = np.diagonal(fit.covariance)[:n], n * (1 + fit.num_categories)
    if name == "category_scale":
        variances = np.diagonal(fit.covariance)[n:own]
    known = np.clip(1.0 - variances / scale**2, 0.0, 1.0)
    return float((2.0 * (known**2).sum() + SCALES[name].sd ** -2.0) ** -0.5)
