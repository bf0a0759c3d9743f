"""What the parts of the solver hand to each other: data, states, and statistics of the E-step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank.gp import KernelPrior

if TYPE_CHECKING:
    from bayesrank.solvers.collaborative.likelihoods import Likelihood


class Observations(NamedTuple):
    """Observations of all users, an entry each, in any order."""

    users: NDArray[np.int64]  # (K,), from 0 to ``num_users - 1``
    items: NDArray[np.int64]  # (K, w): one for a rating, two for a comparison
    weights: tuple[float, ...]  # of each in the predictor, (w,): 1, or 1 and -1
    levels: NDArray[np.float64]  # a level from 0, a number, or 1: the first won; (K,)
    num_users: int
    num_items: int


class UserBlock(NamedTuple):
    """Users with at most ``s`` observations, in ``c`` batches of ``b``."""

    items: ArrayLike  # (c, b, s, w)
    weights: ArrayLike  # (c, b, s, w), zero in empty rows
    levels: ArrayLike  # (c, b, s)
    users: ArrayLike  # numbers, (c, b); the number of users where there is none
    entries: ArrayLike  # places among all observations, (c, b, s); their number if none

    @property
    def known(self) -> Array:
        """Which places hold a user, shape (c, b)."""
        return (jnp.asarray(self.weights)[..., 0] != 0).any(axis=-1)


class Setting(NamedTuple):
    """What does not change between iterations, and is known when code is compiled."""

    likelihood: Likelihood
    collaborative: bool
    kernel_prior: KernelPrior
    mean_strength: float
    learn_base: bool

    @property
    def model(self) -> str:
        """What is fitted, in words."""
        kind = "collaborative" if self.collaborative else "individual"
        return f"{self.likelihood.name}, {kind}"


class SharedPrior(NamedTuple):
    """The process that users' functions are drawn from: ``h`` (m,) and ``Sigma`` (m, m)."""

    mean: Array
    kernel: Array


class Base(NamedTuple):
    """The base process: its level, a scalar, and the scales of its kernels, shape (C,)."""

    level: Array
    scales: Array


class LikelihoodParams(NamedTuple):
    """Parameters of a likelihood, and the standard deviation of users' own about them."""

    shared: Array  # (p,)
    spread: Array  # (p,), zero where users do not differ


class UserState(NamedTuple):
    """What a user keeps between iterations; arrays have further leading axes in a block."""

    tau: Array  # precisions of the sites of the observations, (s,)
    nu: Array  # their precision-means, (s,)
    theta: Array  # parameters of the likelihood, (p,)
    level: Array  # of an individual ``N(h + level, scale * Sigma)``; else 0
    scale: Array  # the same; else 1


class State(NamedTuple):
    """Everything that is estimated: what users share (of the kernel, the core's), and their own."""

    prior: SharedPrior
    base: Base
    params: LikelihoodParams
    users: tuple[UserState, ...]


class UserData(NamedTuple):
    """One user's observations (s,), which rows hold one, and the prior of their predictors."""

    levels: Array
    filled: Array
    mean: Array
    covariance: Array


class UserPosterior(NamedTuple):
    """A user's posterior at the observations, see `bayesrank.solvers.collaborative.posterior`."""

    shift: Array  # ``a``, shape (s,)
    half: Array  # ``W`` with ``G = W' W``, shape (s, s)
    mean: Array  # of the predictors, measured from the prior mean, shape (s,)
    variance: Array  # of the predictors, measured from the prior mean, shape (s,)
    log_det: Array  # ``log |I + T Sigma_jj|``
    explained: Array  # ``tr(G Sigma_jj)``


class UserFit(NamedTuple):
    """A user's posterior and log evidence, and by how much the sites still move predictors."""

    posterior: UserPosterior
    log_evidence: Array
    delta: Array


class UserStatistics(NamedTuple):
    """Sufficient statistics of each user for the user's own parameters."""

    trace: Array  # ``a' Sigma_jj a - tr(G Sigma_jj)`` with the user's own scale
    level_score: Array  # ``1' a``
    level_information: Array  # ``1' G 1``
    num_observations: Array  # number of observations
    likelihood: Any  # what the likelihood's M-step needs, see its ``sufficient_statistics``


class Sums(NamedTuple):
    """Sums over users for the M-step of what they share."""

    shift: Array  # ``sum_j P_j' a_j``, (m,)
    spread: Array  # ``sum_j P_j' (a_j a_j' - G_j) P_j``, (m, m)
    log_evidence: Array  # of all users
    delta: Array  # largest change of a predictor's mean, in its cavity's standard deviations


class EStep(NamedTuple):
    """What the E-step found: states and statistics of each block, and the sums."""

    users: tuple[UserState, ...]
    statistics: tuple[UserStatistics, ...]
    sums: Sums
    conditional: Any  # a `CoreConditional`: how items outside of the core follow it
