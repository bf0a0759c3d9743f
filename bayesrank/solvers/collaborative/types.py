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

__all__ = [
    "Base",
    "EStep",
    "LikelihoodParams",
    "Observations",
    "Setting",
    "SharedPrior",
    "State",
    "Sums",
    "UserBlock",
    "UserData",
    "UserFit",
    "UserPosterior",
    "UserState",
    "UserStatistics",
]


class Observations(NamedTuple):
    """Observations of all users, an entry each, in any order.

    Attributes
    ----------
    users
        Number of the user, shape (K,), from 0 to ``num_users - 1``.
    items
        Numbers of the items seen, shape (K, w): one for a rating, two for a comparison.
    weights
        What each is multiplied by in the predictor, shape (w,): 1, or 1 and -1.
    levels
        The outcome: a level from 0, a number, or 1 for a comparison won by the first; shape (K,).
    num_users, num_items
        Numbers of users and items.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    weights: tuple[float, ...]
    levels: NDArray[np.float64]
    num_users: int
    num_items: int


class UserBlock(NamedTuple):
    """Users with at most ``s`` observations, in ``c`` batches of ``b``.

    Attributes
    ----------
    items, weights
        Shape (c, b, s, w); weights are zero in empty rows.
    levels
        Shape (c, b, s).
    users
        Numbers of the users, shape (c, b); the number of users where there is none.
    entries
        Places of the observations among all, shape (c, b, s); the number of all where there is
        none.
    """

    items: ArrayLike
    weights: ArrayLike
    levels: ArrayLike
    users: ArrayLike
    entries: ArrayLike

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
    """Parameters of a likelihood, shape (p,), and the spread of users' own about them.

    The spread is a standard deviation, shape (p,); zero where users do not differ.
    """

    shared: Array
    spread: Array


class UserState(NamedTuple):
    """What a user keeps between iterations; arrays have further leading axes in a block.

    Attributes
    ----------
    tau, nu
        Sites of the observations, shape (s,).
    theta
        Parameters of the likelihood, see `bayesrank.solvers.collaborative.likelihoods`.
    level, scale
        Of individual models: the prior is ``N(h + level, scale * Sigma)``; 0 and 1 in
        collaborative ones.
    """

    tau: Array
    nu: Array
    theta: Array
    level: Array
    scale: Array


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
    """Sums over users for the M-step of what they share.

    Attributes
    ----------
    shift
        ``sum_j P_j' a_j``, shape (m,).
    spread
        ``sum_j P_j' (a_j a_j' - G_j) P_j``, shape (m, m).
    log_evidence
        Of all users.
    delta
        Largest change of a predictor's mean by this sweep, in standard deviations of its cavity.
    """

    shift: Array
    spread: Array
    log_evidence: Array
    delta: Array


class EStep(NamedTuple):
    """What the E-step found: of each block states and statistics, the sums, and the base process.

    ``conditional`` is how items outside of the core follow it, see
    `bayesrank.solvers.collaborative.kernel_prior`.
    """

    users: tuple[UserState, ...]
    statistics: tuple[UserStatistics, ...]
    sums: Sums
    conditional: Any
