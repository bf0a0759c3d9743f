"""Margins of a log's comparisons at posterior draws, where more than today's skill decides.

`bayesrank.diagnostics.transitivity` makes up data by them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bayesrank.datasets import ComparisonData
from bayesrank.models.dynamic import skill_covariances
from bayesrank.solvers.comparisons import EPSkills, JudgedSkills
from bayesrank.solvers.comparisons.process import rate_name

Array = NDArray[np.float64]

_STEPS = 50  # of Newton's method, which takes a dozen


def margins_of_log(
    data: ComparisonData,
    posterior: EPSkills | JudgedSkills,
    params: Mapping[str, Any],
    number: int,
    seed: int = 0,
) -> Callable[[int], Array]:
    """Return a function from the number of a draw to the (K,) margins that judges see.

    Skills, the advantage of the position and each judge's effects are drawn apart from each other:
    their correlations have little bearing on cycles.
    """
    skills = posterior.draws(None, number, np.random.RandomState(seed))
    categories = _Categories(data, posterior, params)
    winner, loser = data.comparisons.T
    mean, sd = posterior.effects().position_effect or (0.0, 0.0)
    own = posterior.judges
    wide = np.sqrt(own.log_reliability_variance), np.sqrt(own.bias_variance)

    def margins(draw: int) -> Array:
        noise = np.random.default_rng([seed, draw])
        seen = categories.skills(skills[draw], noise)
        at = np.zeros(len(winner), int) if len(seen) == 1 else data.categories
        margin = seen[at, winner] - seen[at, loser]
        if data.judges is not None:
            factor = np.exp(own.log_reliability + wide[0] * noise.standard_normal(len(wide[0])))
            margin *= factor[data.judges]
        if data.position is not None:
            margin += data.position * (mean + sd * noise.standard_normal())
            if len(own.bias):
                bias = own.bias + wide[1] * noise.standard_normal(len(wide[1]))
                margin += data.position * bias[data.judges]
        return margin

    return margins


class _Categories:
    """Skills in each category by overall ones, (C, n); without categories, these alone.

    One moves with the overall skill by a share k, and has a variance ``category_scale^2 k``.
    """

    def __init__(self, data: ComparisonData, posterior: Any, params: Mapping[str, Any]) -> None:
        count, self._any = len(data.category_names), len(data.category_names) > 1
        if self._any:
            self._overall, sd = posterior.skills()
            found = [posterior.skills(category) for category in range(count)]
            self._mean, own = (np.array(each) for each in zip(*found, strict=True))
            wide = float(params["category_scale"]) ** 2
            self._share = (np.sqrt(wide**2 + 4.0 * (sd * own) ** 2) - wide) / (2.0 * sd**2)
            self._sd = np.sqrt(wide * self._share)

    def skills(self, overall: Array, noise: np.random.Generator) -> Array:
        """Skills at a draw of overall ones, shape (C, n)."""
        if not self._any:
            return overall[None]
        own = self._sd * noise.standard_normal(self._sd.shape)
        return self._mean + self._share * (overall - self._overall) + own


def margins_in_time(
    result: Any, params: Mapping[str, Any], rows: NDArray[np.bool_], number: int, seed: int = 0
) -> Array | None:
    """Draw the margins of comparisons when they were made, (number, R), by Laplace's method.

    `result` is a `bayesrank.solvers.comparisons.DynamicEP`, `params` are its hyperparameters. It
    learns from the R decisive comparisons of `rows`, bool of shape (K,), alone. None where the
    search for the most probable margins does not settle.
    """
    said, (_, pairs) = result.model_kwargs, result.model_args
    pairs, period = np.asarray(pairs)[rows], np.asarray(said["period"])[rows]
    weights = np.ones(len(pairs)) if said.get("weights") is None else said["weights"][rows]
    pace = params[rate_name(said["process"])]
    distinct, at = np.unique(period, return_inverse=True)
    with jax.enable_x64(True):
        times = jnp.asarray(said["times"], float)[distinct]
        prior, _ = skill_covariances(said["process"], params["scale"], pace, times)
    winner, loser = pairs.T
    same = 1.0 * (winner[:, None] == winner) - (winner[:, None] == loser)
    same += 1.0 * (loser[:, None] == loser) - (loser[:, None] == winner)
    covariance = same * np.asarray(prior)[np.ix_(at, at)]
    found = _mode(covariance, weights, float(params.get("tie_width", 0.0)))
    if found is None:
        return None
    mean, bent = found
    root = np.sqrt(bent)
    inner = np.linalg.inv(np.eye(len(root)) + root[:, None] * covariance * root)
    gain = covariance * root
    within = covariance - gain @ inner @ gain.T
    values, vectors = np.linalg.eigh(within)
    normal = np.random.default_rng(seed).standard_normal((number, len(mean)))
    return mean + normal * np.sqrt(np.maximum(values, 0.0)) @ vectors.T


def _mode(covariance: Array, weights: Any, width: float) -> tuple[Array, Array] | None:
    """The most probable margins of won comparisons, and the curvature of their likelihood there.

    None where Newton's method does not settle.
    """
    margin, bent = np.zeros(len(covariance)), np.zeros(len(covariance))
    for _ in range(_STEPS):
        z = (margin - width) / np.sqrt(2.0)
        slope = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)
        bent = weights * slope * (slope + z) / 2.0
        pull = bent * margin + weights * slope / np.sqrt(2.0)
        root = np.sqrt(bent)
        inner = np.eye(len(root)) + root[:, None] * covariance * root
        new = covariance @ (pull - root * np.linalg.solve(inner, root * (covariance @ pull)))
        moved, margin = np.max(np.abs(new - margin)), new
        if moved < 1e-6:
            return margin, bent
    return None
