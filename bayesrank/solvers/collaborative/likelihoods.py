"""What a likelihood is to EM: an object with its start, prior, sites, and M-step.

- ``GaussianNoise`` sees ``a + c (x - a)`` plus normal noise, with ``theta`` the anchor ``a``,
  ``log c`` and the log noise. The anchor is the mean of all numbers.
- ``Probit`` sees the two thresholds that x plus normal noise lies between; ``Logit`` has logistic
  noise. Their ``theta`` is the log gaps between thresholds, and the log noise.
- ``Pairwise`` sees the first item win, by the logistic of ``x = f(a) - f(b)``, without ``theta``.

Thresholds have mean zero, and users' shared noise of levels is one: ``f`` carries level and scale.
A user's ``theta`` is the shared one plus normal deviations, as in `bayesrank.models.collaborative`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bayesrank._sizes import next_size
from bayesrank.distributions import BradleyTerry
from bayesrank.infer.spi import cavity, jit, log_sites, match
from bayesrank.solvers.collaborative.users import Observations, UserGroup

Array = NDArray[Any]
_FEWEST_ROWS, _MOST_ROWS = 32, 32_768  # of what is compiled: shapes are powers of two in between


class Start(NamedTuple):
    """Where EM starts: parameters (p,), level and variance of the functions."""

    theta: Array
    level: float
    variance: float


class Parameters(NamedTuple):
    """Parameters of a likelihood: shared, the spread of users about these, and of some users."""

    shared: Array  # (p,)
    spread: Array  # (p,), zero where users do not differ
    theta: Array  # (u, p)


class ObservedMoments(NamedTuple):
    """What the E-step found of the predictor of each observation (K,)."""

    levels: Array
    theta: Array  # of the user, (K, p)
    prior_mean: Array
    shift: Array  # derivative of the log evidence in the prior mean
    mean: Array  # the posterior's less the prior's
    variance: Array


class Update(NamedTuple):
    """What a likelihood makes of these."""

    tau: Array  # new sites, (K,)
    nu: Array
    log_evidence: Array  # terms of it, but for the users' log determinants, (K,)
    delta: float  # how far a posterior mean is from the tilted, in the cavity's deviations
    statistics: tuple[Array, ...]  # a row each; `Likelihood.m_step` gets users' sums


@dataclass(frozen=True)
class Likelihood:
    """One kind of observation."""

    name: ClassVar[str]  # what `EM` knows it by
    exact: ClassVar[bool] = False  # whether posterior and evidence are exact; if not, they are EP's
    sets_unit: ClassVar[bool] = True  # whether noise is the unit: only ratios are learned
    sees_level: ClassVar[bool] = True  # whether an observation depends on the level of a function

    def start(self, levels: Array, num_levels: int | None, *, collaborative: bool) -> Start:
        """Values to start from."""
        return Start(np.zeros(0), 0.0, 1.0)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> Array:
        """Spread of users' parameters, shape (p,), where that of those that may differ is given."""
        return np.full(size, user_spread)

    def program_params(self, shared: Array, factors: Array | None) -> dict[str, Any]:
        """Sites of the program: shared parameters, and users' factors (n, p) where they differ."""
        return {}

    def log_prior(self, params: Parameters) -> float:
        """Log density of the deviations of users."""
        free = params.spread > 0
        deviations = (params.theta - params.shared)[:, free]
        return float(norm.logpdf(deviations, scale=params.spread[free]).sum())

    def sites(self, tau: Array, nu: Array, levels: Array, theta: Array) -> tuple[Array, Array]:
        """Sites (K,) to begin the E-step with, theta (K, p) those of the observations' users."""
        return tau, nu

    def update(self, tau: Array, nu: Array, rows: ObservedMoments) -> Update:
        """Make a parallel sweep of EP, from the sites of the posterior that the rows are of."""
        before = nu - tau * rows.prior_mean  # measured from the prior mean
        new_tau, new_nu, terms, moved, statistics = in_pieces(_tilt, self, tau, before, rows)
        terms = terms + 0.5 * before * rows.mean
        nu = new_nu + new_tau * rows.prior_mean
        return Update(new_tau, nu, terms, float(moved.max()), statistics)

    def tilted(self, theta: Any, level: Any, mean: Any, variance: Any) -> tuple[Any, tuple]:
        """Moments of one observation at its cavity, and its statistics."""
        raise NotImplementedError

    def m_step(
        self, params: Parameters, count: Array, statistics: tuple[Array, ...], *, pooled: bool
    ) -> tuple[Array, Array]:
        """Improve what users share (p,), if `pooled`, and their own (u, p); `count` is (u,)."""
        return params.shared, params.theta

    def alone(
        self,
        params: Parameters,
        observations: Observations,
        priors: list[tuple[UserGroup, Array, Array]],
    ) -> tuple[Array, float] | None:
        """Own parameters (n, p) given what is shared, and the last step, if better than by EM."""
        return None


class Pairwise(Likelihood):
    """Comparisons of two items by the logistic of their difference; nothing to learn."""

    name = "pairwise"
    sees_level = False

    def tilted(self, theta: Any, level: Any, mean: Any, variance: Any) -> tuple[Any, tuple]:
        """Moments of a win of the first."""
        return BradleyTerry(0.0, validate_args=False).tilted_moments(1, mean, variance), ()


@partial(jit, static_argnums=0)
def _tilt(likelihood: Likelihood, tau: Any, nu: Any, rows: Any) -> Any:
    """New sites, terms of the evidence, how far means move, and statistics, all of (K,) rows."""
    m, v, _ = cavity(tau, nu, rows.mean, rows.variance)
    at = rows.theta, rows.levels, rows.prior_mean + m, v
    moments, statistics = jax.vmap(likelihood.tilted)(*at)
    new_tau, new_nu, _ = match(moments, m, v)
    # The tilted mean against the posterior's, which EP makes equal.
    moved = jnp.abs(m + moments.d1 * v - rows.mean) / jnp.sqrt(v)
    return new_tau, new_nu, moments.log_z - log_sites(tau, nu, m, v), moved, statistics


def in_pieces(function: Callable[..., Any], likelihood: Likelihood, *columns: Any) -> Any:
    """Apply a jitted function to rows (K, ...) of columns, in pieces of few sizes."""
    count, found = len(columns[0]), []
    for start in range(0, max(count, 1), _MOST_ROWS):
        size = min(count - start, _MOST_ROWS)
        rows = next_size(size, _FEWEST_ROWS)

        def piece(x: Array, start: int = start, size: int = size, rows: int = rows) -> Array:
            return np.resize(x[start : start + size], (rows, *x.shape[1:]))

        made = function(likelihood, *jax.tree.map(piece, columns))
        found.append(jax.tree.map(lambda x, size=size: np.asarray(x)[:size], made))
    return jax.tree.map(lambda *x: np.concatenate(x), *found)
