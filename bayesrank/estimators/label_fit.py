"""How `LabelRanker` learns its hyperparameters and kernel, and forecasts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from bayesrank.estimators.base import inferred, seed_of
from bayesrank.estimators.checks import check_hyperparameters
from bayesrank.infer import EPResult
from bayesrank.models.label_ranking import LabelConditions, calibrated_label_ranking, label_features
from bayesrank.solvers.label_ranking import check_label_memory

if TYPE_CHECKING:
    from bayesrank.estimators.label_ranking import LabelRanker

Array = NDArray[np.float64]

_MOST_WEIGHTS = 500  # of a basis that is tried unasked: time goes with their cube
_POINTS = 32  # that an average over hyperparameters takes at the least


class LabelFit(NamedTuple):
    """The posterior of levels and weights, its hyperparameters or their means, and its basis."""

    result: EPResult
    params: dict[str, Any]
    basis: Array | None  # points of the basis, shape (m, d); None where utilities are linear


def fit_labels(
    asked: LabelRanker,
    features: Array,
    data: LabelConditions,
    num_labels: int,
    calibrated: bool,
    callback: Callable[[int, float], None] | None,
) -> LabelFit:
    """Fit with the kernel asked for; "auto" takes the one with the larger evidence."""
    args = features, *data, num_labels
    options: dict[str, Any] = {"calibrated": calibrated, "correlated": bool(asked.correlated)}
    search: dict[str, Any] = {"num_restarts": asked.num_restarts, "callback": callback}
    bases = _bases(asked, features, num_labels)
    with threadpool_limits(1, user_api="blas"):  # small matrices, many of them
        if len(bases) == 1:
            return _fit(asked, args, options, bases[0], search)
        if asked.hyperparameters != "integrate":
            return _better([_fit(asked, args, options, basis, search) for basis in bases])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the last fit has its own
            best = _better([_fit(asked, args, options, basis, search, "map") for basis in bases])
        search["init"] = {k: v for k, v in best.params.items() if k != "correlation"}
        fixed = {k: v for k, v in best.params.items() if k == "correlation"}
        return _fit(asked, args, options, best.basis, search, fixed=fixed)


def _better(fits: list[LabelFit]) -> LabelFit:
    """The converged fit with the largest evidence; any fit if none has converged."""
    return max(fits, key=lambda fit: (fit.result.converged, fit.result.log_evidence))


def _bases(asked: LabelRanker, features: Array, num_labels: int) -> list[Array | None]:
    """Points of the bases to try; None stands for linear utilities."""
    if asked.kernel == "linear":
        return [None]
    basis, given = _basis(asked, features), asked.hyperparameters
    if asked.kernel == "rbf" or (isinstance(given, Mapping) and "lengthscale" in given):
        return [basis]
    return [None, basis] if num_labels * (len(basis) + 1) <= _MOST_WEIGHTS else [None]


def _fit(
    asked: LabelRanker,
    args: tuple[Any, ...],
    options: dict[str, Any],
    basis: Array | None,
    search: dict[str, Any],
    instead: str | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> LabelFit:
    """Fit with one basis, by the choice asked for or by `instead`."""
    shapes: dict[str, tuple[int, ...]] = {"scale": ()}
    if basis is not None:
        shapes, options = shapes | {"lengthscale": ()}, options | {"basis": basis}
    shapes |= {"zero_noise": ()} if options["calibrated"] else {}
    given, choice = _choice(asked, shapes, args[-1])
    given, choice = given | dict(fixed or {}), instead or choice
    width = args[0].shape[1] if basis is None else len(basis)
    check_label_memory(len(args[0]), args[-1], width, _POINTS if choice == "integrate" else 1)
    key = jax.random.key(seed_of(asked.random_state))
    program = calibrated_label_ranking, args, options
    if choice == "integrate":
        if options["correlated"] and not given:
            best = inferred(*program, tuple(shapes), given, "map", key, search)[1]
            given = {"correlation": best["correlation"]}
    return LabelFit(*inferred(*program, tuple(shapes), given, choice, key, search), basis)


def _choice(
    ranker: LabelRanker, shapes: dict[str, tuple[int, ...]], num_labels: int
) -> tuple[dict[str, Array], str]:
    """Hyperparameters that are fixed, and what is done about the others."""
    asked, correlation = ranker.hyperparameters, None
    if isinstance(asked, Mapping) and "correlation" in asked:
        asked = dict(asked)
        correlation = _check_correlation(asked.pop("correlation"), num_labels)
    params, choice = check_hyperparameters(asked, shapes, ("integrate", "map", "prior"))
    if correlation is not None and not ranker.correlated:
        raise ValueError("hyperparameters names 'correlation', which needs correlated=True")
    if correlation is not None:
        params["correlation"] = correlation
    elif ranker.correlated and choice == "prior":
        if isinstance(asked, Mapping):
            return params, "map"
        params["correlation"] = np.eye(num_labels)
    return params, choice


def _basis(ranker: LabelRanker, features: Array) -> Array:
    """Centres of the examples, or the examples themselves where they are few."""
    points = np.unique(features, axis=0)
    if len(points) <= ranker.n_basis:
        return points
    seed = seed_of(ranker.random_state)
    return KMeans(ranker.n_basis, n_init="auto", random_state=seed).fit(points).cluster_centers_


def _check_correlation(correlation: Any, num_labels: int) -> Array:
    matrix = np.asarray(correlation, float)
    known = matrix.shape == (num_labels, num_labels) and np.isfinite(matrix).all()
    known = known and np.allclose(matrix, matrix.T) and np.allclose(np.diagonal(matrix), 1.0)
    if not known or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(
            f"hyperparameters['correlation'] is not a correlation of {num_labels} labels; pass a "
            "symmetric, positive definite matrix with ones on its diagonal"
        )
    return matrix


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
        relevant = np.tensordot(self.weights, np.asarray(ndtr(self.mean / spread), float), 1)
        return np.minimum(relevant, 1.0)  # weights add up to one but for rounding

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


def label_posterior(result: EPResult, basis: Array | None) -> LabelPosterior:
    """Take what forecasts need from the result of an engine."""
    parts = list(result.components())
    means, covariances = [], []
    for _, _, moments, _ in parts:
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
