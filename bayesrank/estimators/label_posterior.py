"""Forecasts of label ranking: utilities and performances of new examples under a posterior."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesrank.infer import EPResult, IntegratedEPResult
from bayesrank.models.label_ranking import label_features

__all__ = ["LabelPosterior", "LabelUtilities", "SampledRankings", "label_posterior"]

Array = NDArray[np.float64]

# Numbers that are worked on at once.
_BLOCK = 2**24


class SampledRankings(NamedTuple):
    """Draws of rankings of m examples.

    Attributes
    ----------
    labels
        Labels, best first, shape (num_samples, m, c).
    num_relevant
        How many of them are relevant, shape (num_samples, m): the first so many.
    """

    labels: NDArray[Any]
    num_relevant: NDArray[np.int64]


class LabelUtilities(NamedTuple):
    """Utilities of m examples: a mixture of K Gaussians."""

    weights: Array  # shares of the mixture, shape (K,)
    mean: Array  # shape (K, m, c)
    covariance: Array  # shape (K, m, c, c)
    zero_noise: Array  # standard deviation of the zero's performance, shape (K,)

    def average(self) -> tuple[Array, Array]:
        """Means and standard deviations of the utilities, shapes (m, c)."""
        mean = np.tensordot(self.weights, self.mean, 1)
        variance = np.diagonal(self.covariance, axis1=2, axis2=3) + (self.mean - mean) ** 2
        spread = np.tensordot(self.weights, variance, 1)
        return mean, np.sqrt(spread.astype(np.float64))

    def relevant(self) -> Array:
        """Probability that each label performs better than the zero, shape (m, c)."""
        variance = 1.0 + np.diagonal(self.covariance, axis1=2, axis2=3)
        spread = np.sqrt(variance + self.zero_noise[:, None, None] ** 2)
        return np.tensordot(self.weights, np.asarray(ndtr(self.mean / spread), float), 1)

    def wins(self) -> Array:
        """Number of other labels that each label is expected to beat, shape (m, c)."""
        total = np.zeros(self.mean.shape[1:])
        for weight, mean, covariance in zip(self.weights, self.mean, self.covariance, strict=True):
            own = np.diagonal(covariance, axis1=1, axis2=2)
            variance = own[:, :, None] + own[:, None, :] - 2.0 * covariance
            margin = mean[:, :, None] - mean[:, None, :]
            total += weight * ndtr(margin / np.sqrt(2.0 + np.maximum(variance, 0.0))).sum(axis=2)
        return total - 0.5

    def performances(self, rng: np.random.Generator, num_samples: int) -> tuple[Array, Array]:
        """Draws of the performances of labels (S, m, c) and of the zero (S, m)."""
        _, count, labels = self.mean.shape
        part = np.sort(rng.choice(len(self.weights), num_samples, p=self.weights))
        draws, zero = np.empty((num_samples, count, labels)), np.empty((num_samples, count))
        for number in np.unique(part):
            rows = part == number
            root = np.linalg.cholesky(self.covariance[number] + np.eye(labels))
            normal = rng.normal(size=(rows.sum(), count, labels))
            draws[rows] = self.mean[number] + np.einsum("mab,smb->sma", root, normal)
            zero[rows] = self.zero_noise[number] * rng.normal(size=(rows.sum(), count))
        return draws, zero


class LabelPosterior(NamedTuple):
    """A mixture of K Gaussians over the weights; the level of a label is its first weight."""

    weights: Array  # shares, shape (K,)
    mean: Array  # shape (K, c, p)
    covariance: Array  # shape (K, c p, c p)
    lengthscale: Array  # shape (K,); zeros where there is none
    zero_noise: Array  # shape (K,); zeros where there is none
    basis: Array  # points of the basis, shape (m, d); none without rows

    def utilities(self, X: Array) -> LabelUtilities:
        """Utilities of examples with these features, scaled, shape (m, d)."""
        parts, labels = len(self.weights), self.mean.shape[1]
        means = np.empty((parts, len(X), labels))
        covariances = np.empty((parts, len(X), labels, labels))
        for number in range(parts):
            phi = self._features(X, self.lengthscale[number])
            means[number] = phi @ self.mean[number].T
            covariances[number] = _spreads(phi, self.covariance[number], labels)
        return LabelUtilities(self.weights, means, covariances, self.zero_noise)

    def _features(self, X: Array, lengthscale: float) -> Array:
        phi = X
        if len(self.basis):
            with jax.enable_x64(True):
                arrays = jnp.asarray(X), jnp.asarray(self.basis)
                phi = np.asarray(label_features(*arrays, lengthscale))
        return np.concatenate([np.ones((len(X), 1)), phi], axis=1)


def _spreads(phi: Array, covariance: Array, labels: int) -> Array:
    """Covariances of the utilities of each example, shape (m, c, c)."""
    count, width = phi.shape
    found = np.empty((count, labels, labels))
    step = max(1, _BLOCK // len(covariance))
    for start in range(0, count, step):
        some = phi[start : start + step]
        for label in range(labels):
            across = some @ covariance[label * width : (label + 1) * width]
            across = across.reshape(len(some), labels, width)
            found[start : start + step, label] = np.einsum("mbp,mp->mb", across, some)
    return found


def label_posterior(result: EPResult | IntegratedEPResult, basis: Array | None) -> LabelPosterior:
    """Take what forecasts need from the result of an engine."""
    parts = list(result.components())
    means, covariances = [], []
    for _, _, moments in parts:
        bias, w = moments.mean["bias"], moments.mean["w"]
        labels, width = w.shape[0], w.shape[1] + 1
        places = np.arange(labels)[:, None]
        levels_then_weights = labels + places * (width - 1) + np.arange(width - 1)
        order = np.concatenate([places, levels_then_weights], axis=1).ravel()
        means.append(np.concatenate([bias[:, None], w], axis=1))
        covariances.append(moments.joint_covariance[np.ix_(order, order)])
    params = [part[1] for part in parts]
    lengthscale, zero_noise = (
        np.array([float(each.get(name, 0.0)) for each in params])
        for name in ("lengthscale", "zero_noise")
    )
    return LabelPosterior(
        np.array([part[0] for part in parts]) / sum(part[0] for part in parts),
        np.array(means),
        np.array(covariances),
        lengthscale,
        zero_noise,
        np.zeros((0, 0)) if basis is None else basis,
    )
