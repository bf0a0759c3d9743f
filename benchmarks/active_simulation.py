"""Active learning on data with known targets: who is asked what, and how fast errors fall.

A trial draws a pool of candidate pairs and a way of asking picks from it, one at a time. The answer
is the true order of the two targets. After every answer EP gives the posterior of all items, and
the error is the share of *all* pairs of items that the posterior means put in the wrong order; a
pair of equal targets counts one half, as nothing can be right or wrong about it. Pools hold no such
pairs: nobody could answer them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import rankdata

from bayesrank.active import (
    Acquisition,
    Beliefs,
    bald,
    best_pairs,
    entropy_gain,
    margin_variance,
    pool_variance,
    random_gain,
)
from bayesrank.active.settle import Answers, SkillPrior, settle

__all__ = ["WAYS", "Model", "Task", "Trial", "pair_error", "run_trials", "simulate"]

Array = np.ndarray

# Ways of asking: each makes an acquisition of a random key and the pool of candidate pairs.
WAYS: Mapping[str, Callable[[jax.Array, Array], Acquisition]] = {
    "random": lambda key, pool: random_gain(key),
    "entropy": lambda key, pool: entropy_gain,
    "bald": lambda key, pool: bald,
    "variance": lambda key, pool: margin_variance,
    "pool variance": lambda key, pool: pool_variance,
}


class Task(NamedTuple):
    """Items: standardised features (n, d), and the targets (n,) that order them."""

    X: Array
    target: Array


class Model(NamedTuple):
    """SkillPrior covariance of the skills, (n, n), and the standard deviation of a performance."""

    covariance: Array
    noise: float


class Trial(NamedTuple):
    """What happened after 1, 2, ... answers.

    Attributes
    ----------
    error
        Share of all pairs in the wrong order, (answers,).
    spread
        Variance of the margins of all pairs, summed, as a share of what it was before, (answers,).
    asked
        The questions, winner first, (answers, 2).
    """

    error: Array
    spread: Array
    asked: Array


def simulate(
    task: Task, model: Model, way: str, seed: int, answers: int, pool_size: int = 1_000
) -> Trial:
    """Ask, answer and learn, one question at a time."""
    pool = _draw_pool(task.target, pool_size, np.random.default_rng(seed))
    acquisition = WAYS[way](jax.random.key(seed), pool)
    n = len(task.target)
    prior = SkillPrior(np.zeros(n), model.covariance)
    mean, covariance, sites = *prior, np.zeros((2, 0))
    asked = np.zeros((answers, 2), int)
    error, spread = np.zeros(answers), np.zeros(answers)
    for t in range(answers):
        beliefs = Beliefs(*(np.asarray(x, np.float32) for x in (mean, covariance, model.noise)))
        pair = np.asarray(best_pairs(acquisition, beliefs, candidates=pool, exclude=asked)[0][0])
        first_wins = task.target[pair[0]] > task.target[pair[1]]
        asked[t] = pair if first_wins else pair[::-1]
        known = Answers(asked[: t + 1], np.full(t + 1, model.noise))
        tau, nu = np.pad(sites, ((0, 0), (0, 1)))
        fit = settle(prior, known, (tau, nu), tol=1e-5)
        mean, covariance, sites = fit.mean, fit.covariance, np.stack([fit.tau, fit.nu])
        error[t] = pair_error(mean, task.target)
        spread[t] = _total_spread(covariance) / _total_spread(model.covariance)
    return Trial(error, spread, asked)


def run_trials(
    task: Task, model: Model, way: str, seeds: range, answers: int, pool_size: int = 1_000
) -> Trial:
    """Stack the trials of several seeds: error and spread (seeds, answers), asked (.., 2)."""
    trials = [simulate(task, model, way, seed, answers, pool_size) for seed in seeds]
    return Trial(*(np.stack(part) for part in zip(*trials, strict=True)))


def pair_error(mean: Array, target: Array) -> float:
    """Share of all pairs in the wrong order; one half for pairs that are equal in either."""
    predicted, true = rankdata(mean, "dense"), rankdata(target, "dense")
    signs = np.sign(predicted[:, None] - predicted) * np.sign(true[:, None] - true)
    n = len(target)
    return float(0.5 * (1.0 - signs.sum() / (n * (n - 1))))


def _draw_pool(target: Array, size: int, rng: np.random.Generator) -> Array:
    pairs = np.stack(np.triu_indices(len(target), 1), axis=1)
    pairs = pairs[target[pairs[:, 0]] != target[pairs[:, 1]]]
    return rng.permuted(pairs[rng.choice(len(pairs), size, replace=False)], axis=1)


def _total_spread(covariance: Array) -> float:
    return float(len(covariance) * np.trace(covariance) - covariance.sum())
