"""Simulated comparisons, and the programs that they are drawn from."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from scipy.special import ndtr

from bayesrank.distributions import Thurstone

LENGTHSCALE = 0.5
JITTER = 1e-6


class Problem(NamedTuple):
    """Comparisons, the skills behind them, and pairs to be predicted.

    Attributes
    ----------
    X
        Features (n, 5), uniform in the unit cube; None for independent skills.
    winner, loser
        Comparisons (K,).
    skill
        True skills (n,).
    fresh
        Pairs (first, second) not used for learning, (20000, 2).
    first_wins
        Their outcomes.
    """

    X: Any
    winner: np.ndarray
    loser: np.ndarray
    skill: np.ndarray
    fresh: np.ndarray
    first_wins: np.ndarray


def covariance(X: Any, variance: Any, lengthscale: Any) -> Any:
    """RBF covariance with jitter, for NumPy or JAX arrays."""
    scaled = X / lengthscale
    squares = (scaled**2).sum(1)
    distance = squares[:, None] + squares[None] - 2 * scaled @ scaled.T
    return variance * (jnp.exp(-0.5 * distance) + JITTER * jnp.eye(X.shape[0]))


def gp_problem(n: int, count: int, variance: float, seed: int) -> Problem:
    """Skills from a GP over five features; P(first wins) = Phi(difference / sqrt 2)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 5))
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = variance * (np.exp(-0.5 * squared / LENGTHSCALE**2) + JITTER * np.eye(n))
    skill = np.linalg.cholesky(K) @ rng.normal(size=n)
    return _compare(X, skill, count, rng)


def skills_problem(n: int, count: int, seed: int) -> Problem:
    """Independent standard normal skills."""
    rng = np.random.default_rng(seed)
    return _compare(None, rng.normal(size=n), count, rng)


def _compare(X: Any, skill: np.ndarray, count: int, rng: np.random.Generator) -> Problem:
    n = skill.size

    def play(number: int) -> tuple[np.ndarray, np.ndarray]:
        first = rng.integers(n, size=number)
        second = (first + rng.integers(1, n, size=number)) % n
        wins = rng.uniform(size=number) < ndtr((skill[first] - skill[second]) / np.sqrt(2))
        return np.stack([first, second], axis=1), wins

    pairs, wins = play(count)
    winner = np.where(wins, pairs[:, 0], pairs[:, 1])
    loser = np.where(wins, pairs[:, 1], pairs[:, 0])
    fresh, first_wins = play(20_000)
    return Problem(X, winner, loser, skill, fresh, first_wins)


def fixed_gp(X: Any, winner: Any, loser: Any, variance: Any) -> None:
    """GP skills at the hyperparameters that the data were drawn with."""
    n = X.shape[0]
    f = numpyro.sample(
        "f", dist.MultivariateNormal(jnp.zeros(n), covariance(X, variance, LENGTHSCALE))
    )
    margin = f[winner] - f[loser]
    numpyro.sample("win", Thurstone(margin, 1.0), obs=jnp.ones(margin.shape, int))


def ard_gp(X: Any, winner: Any, loser: Any) -> None:
    """GP skills with an amplitude and one length scale per feature to learn."""
    n, d = X.shape
    amplitude = numpyro.param("amplitude", 1.0, constraint=constraints.positive)
    lengthscale = numpyro.param("lengthscale", jnp.ones(d), constraint=constraints.positive)
    f = numpyro.sample(
        "f", dist.MultivariateNormal(jnp.zeros(n), covariance(X, amplitude**2, lengthscale))
    )
    margin = f[winner] - f[loser]
    numpyro.sample("win", Thurstone(margin, 1.0), obs=jnp.ones(margin.shape, int))


def skills(winner: Any, loser: Any, n: int) -> None:
    """Independent standard normal skills."""
    f = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([n]))
    margin = f[winner] - f[loser]
    numpyro.sample("win", Thurstone(margin, 1.0), obs=jnp.ones(margin.shape, int))
