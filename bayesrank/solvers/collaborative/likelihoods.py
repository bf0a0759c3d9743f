"""What a likelihood is to EM: an object with its prior, sufficient statistics and M-step.

- ``GaussianNoise`` sees ``a + c (x - a)`` plus normal noise, with ``theta`` the anchor ``a``,
  ``log c`` and the log noise. The anchor is the mean of all numbers.
- ``Probit`` sees the two thresholds that x plus normal noise lies between; ``Logit`` has logistic
  noise. Their ``theta`` is the log gaps between thresholds, and the log noise.
- ``Pairwise`` sees the first item win, by the logistic of ``x = f(a) - f(b)``, without ``theta``.

Thresholds have mean zero, and users' shared noise of levels is one: ``f`` carries level and scale.
A user's ``theta`` is the shared one plus normal deviations, as in `bayesrank.models.collaborative`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm

from bayesrank.distributions import BradleyTerry, TiltedMoments
from bayesrank.solvers.collaborative.posterior import sweep
from bayesrank.solvers.collaborative.types import (
    LikelihoodParams,
    Observations,
    SharedPrior,
    UserBlock,
    UserData,
    UserFit,
    UserState,
    UserStatistics,
)

Users = tuple[UserState, ...]
Inferred = tuple[UserState, UserFit, Any]


class Start(NamedTuple):
    """Where EM starts: parameters (p,), level and variance of the functions."""

    theta: np.ndarray
    level: float
    variance: float


@dataclass(frozen=True)
class Likelihood:
    """One kind of observation."""

    name: ClassVar[str]  # what `EM` knows it by
    exact: ClassVar[bool] = False  # whether posterior and evidence are exact; if not, they are EP's
    sets_unit: ClassVar[bool] = True  # whether noise is the unit: only ratios are learned
    sees_level: ClassVar[bool] = True  # whether an observation depends on the level of a function

    def start(
        self, observations: Observations, num_levels: int | None, *, collaborative: bool
    ) -> Start:
        """Values to start from."""
        return Start(np.zeros(0), 0.0, 1.0)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> np.ndarray:
        """Spread of users' parameters, shape (p,), where that of those that may differ is given."""
        return np.full(size, user_spread)

    def program_params(self, shared: np.ndarray, factors: np.ndarray | None) -> dict[str, Any]:
        """Sites of the program: shared parameters, and users' factors (n, p) where they differ."""
        return {}

    def log_prior(self, params: LikelihoodParams, theta: Array, known: Array) -> Array:
        """Log density of users' deviations, those of no user left out; a scalar."""
        free = params.spread > 0
        spread = jnp.where(free, params.spread, 1.0)
        density = norm.logpdf(theta, params.shared, spread)
        return jnp.sum(jnp.where(free & known[..., None], density, 0.0))

    def sufficient_statistics(self, data: UserData, state: UserState) -> Inferred:
        """Make one user's E-step: the next state, the fit, and statistics for `m_step`."""
        raise NotImplementedError

    def m_step(
        self,
        params: LikelihoodParams,
        users: Users,
        statistics: tuple[UserStatistics, ...],
        known: tuple[Array, ...],
        *,
        pooled: bool,
    ) -> tuple[LikelihoodParams, Users]:
        """Improve what users share, if `pooled`, and what is their own; of all blocks together."""
        return params, users

    def alone(
        self, params: LikelihoodParams, prior: SharedPrior, users: UserState, block: UserBlock
    ) -> tuple[UserState, Array]:
        """Maximise in users' own parameters first, if better than EM; users, and the last step."""
        return users, jnp.zeros(())


class Pairwise(Likelihood):
    """Comparisons of two items by the logistic of their difference; nothing to learn."""

    name = "pairwise"
    sees_level = False

    def sufficient_statistics(self, data: UserData, state: UserState) -> Inferred:
        """Make a sweep of EP."""

        def tilt(level: Array, mean: Array, variance: Array) -> tuple[TiltedMoments, tuple[()]]:
            return BradleyTerry(0.0, validate_args=False).tilted_moments(1, mean, variance), ()

        return sweep(tilt, data, state)


def join(parts: list[Array]) -> Array:
    """Users of all blocks, one after the other."""
    return jnp.concatenate([x.reshape(-1, *x.shape[2:]) for x in parts])


def split(theta: Array, users: Users) -> Users:
    """Undo `join`."""
    ends = np.cumsum([user.theta.shape[0] * user.theta.shape[1] for user in users])
    return tuple(
        user._replace(theta=x.reshape(user.theta.shape))
        for user, x in zip(users, jnp.split(theta, ends[:-1]), strict=True)
    )
