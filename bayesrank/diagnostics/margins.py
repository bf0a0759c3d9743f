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

_MOST_DRAWS = 200  # as many as data are made up
_STEPS = 50  # of Newton's method, which takes a dozen


def margins_of_log(
    data: ComparisonData,
    posterior: EPSkills | JudgedSkills,
    number: int,
    seed: int = 0,
) -> Callable[[int], Array]:
    """Return a function from the number of a draw to the (K,) margins that judges see.

    Skills are drawn jointly; the advantage of the position and each judge's effects apart from
    them, as their correlations have little bearing on cycles. `number` draws are made at most.
    """
    number, count = min(number, _MOST_DRAWS), len(data.category_names)
    shares = [None] if count < 2 else np.eye(count)
    skills = np.stack(
        [posterior.draws(each, number, np.random.RandomState(seed))[:number] for each in shares], 1
    )
    at = np.zeros(data.num_comparisons, int) if count < 2 else data.categories
    winner, loser = data.comparisons.T
    mean, sd = posterior.effects().position_effect or (0.0, 0.0)
    own = posterior.judges
    wide = np.sqrt(own.log_reliability_variance), np.sqrt(own.bias_variance)

    def margins(draw: int) -> Array:
        noise, seen = np.random.default_rng([seed, draw]), skills[draw % number]
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
