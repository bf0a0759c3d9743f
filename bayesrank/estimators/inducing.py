"""Skills of items with features, where the items are too many for a covariance matrix.

Their prior is of low rank plus diagonal (`bayesrank.gp.features`). Hyperparameters are learned from
a part of the comparisons, with 200 inducing points; then so many are taken that data see next to
nothing of what they leave open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from bayesrank import gp
from bayesrank.infer import EP, LargeEPResult
from bayesrank.models import preference_gp

__all__ = [
    "LEARNING_RANK",
    "LOW_RANK",
    "NewSkills",
    "rank_for_comparisons",
    "fewer_comparisons",
    "new_skills",
    "with_new_skills",
]

Array = NDArray[np.float64]

# Inducing points and comparisons that hyperparameters are learned with.
LEARNING_RANK = 200
LOW_RANK = EP(preference_gp, structure="low_rank")
_COMPARISONS = 10_000
_CHUNK = 16_384
# Largest curvature of the log likelihood in the margin, where noise is one.
_CURVATURE = {"probit": 1 / math.pi, "logit": 0.25}


class NewSkills(NamedTuple):
    """Skills by what they share, as those of items that were not compared share inducing points.

    Attributes
    ----------
    mean
        Posterior means, shape (m,).
    root, own
        ``B`` (m, M) and ``d`` (m,), with covariances ``B B' + diag(d)``.
    """

    mean: Array
    root: Array
    own: Array

    @property
    def variance(self) -> Array:
        """Posterior variances, shape (m,)."""
        return np.sum(self.root**2, axis=1) + self.own

    @property
    def covariance(self) -> NewSkills:
        """What stands for the posterior covariance: `of_differences` tells all of it."""
        return self

    def of_differences(self, first: NDArray[Any], second: NDArray[Any]) -> Array:
        """Variances of differences of skills, shape (P,)."""
        variance = np.where(first == second, 0.0, self.own[first] + self.own[second])
        for start in range(0, first.size, _CHUNK):
            some = slice(start, start + _CHUNK)
            variance[some] += np.sum((self.root[first[some]] - self.root[second[some]]) ** 2, 1)
        return variance

    def above_average(self, count: int) -> NewSkills:
        """Skills of all items but the first `count`, from the average of these."""
        mean, root = (x[count:] - x[:count].mean(axis=0) for x in (self.mean, self.root))
        return NewSkills(mean, root, self.own[count:] + self.own[:count].mean() / count)


def fewer_comparisons(
    args: tuple[Array, NDArray[Any]], options: Mapping[str, Any]
) -> tuple[tuple[Array, NDArray[Any]], dict[str, Any]]:
    """Arguments for learning: 10,000 comparisons by chance, or all, their items, and a rank."""
    X, pairs = args
    kept = np.sort(np.random.default_rng(0).permutation(len(pairs))[:_COMPARISONS])
    items, inverse = np.unique(pairs[kept], return_inverse=True)
    part = {k: v[kept] if k in ("outcomes", "weights") else v for k, v in options.items()}
    return (X[items], inverse.reshape(-1, 2)), {**part, "rank": min(LEARNING_RANK, len(items))}


def rank_for_comparisons(
    params: Mapping[str, Any],
    X: Array,
    pairs: NDArray[Any],
    weights: Array | None,
    likelihood: str,
) -> int:
    """Number of inducing points by `gp.enough_rank`, of what comparisons tell of items.

    Parameters
    ----------
    params
        Hyperparameters.
    X, pairs, weights
        What the items and their comparisons are, as for `preference_gp`.
    likelihood
        That of comparisons.
    """
    each = np.ones(len(pairs)) if weights is None else np.asarray(weights, float)
    precision = np.bincount(pairs.ravel(), np.repeat(each, 2), len(X))
    precision *= _CURVATURE[likelihood] / float(params["noise"]) ** 2
    with jax.enable_x64(True):
        kernel = gp.rbf(params["amplitude"], params["lengthscale"])
        return gp.enough_rank(kernel, X, precision)


def new_skills(result: LargeEPResult, features: Array) -> NewSkills:
    """Carry the posterior of `preference_gp` with a rank to new items, features of shape (m, d)."""
    gaussian: Any = result.posterior.gaussian
    known, rank = result.model_args[0], result.model_kwargs["rank"]
    prior = _prior(result.params, known, features, rank)
    mean, root = gaussian.shared()
    factor = np.asarray(prior.cov_factor)
    return NewSkills(factor @ mean, factor @ root, np.asarray(prior.cov_diag))


def with_new_skills(result: LargeEPResult, features: Array) -> NewSkills:
    """Skills of the items of the program, and behind them of new ones, features (m, d)."""
    new = new_skills(result, features)
    root, own = result.posterior.factors()
    # What all skills share comes first, then what the compared ones share besides.
    shared = np.pad(new.root, ((0, 0), (0, root.shape[1] - new.root.shape[1])))
    mean = np.concatenate([result.mean["f"], new.mean])
    return NewSkills(mean, np.concatenate([root, shared]), np.concatenate([own, new.own]))


def _prior(params: Mapping[str, Any], known: Array, X: Array, rank: int) -> Any:
    """Prior of items, by the inducing points of those known."""
    with jax.enable_x64(True):
        kernel = gp.rbf(params["amplitude"], params["lengthscale"])
        points = gp.inducing_points(jax.numpy.asarray(known), rank)
        return gp.features(kernel, jax.numpy.asarray(X), rank, inducing=points)
