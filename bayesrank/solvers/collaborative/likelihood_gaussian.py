"""Numbers: a user's function, stretched about the mean of all numbers, and normal noise."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank.solvers.collaborative.likelihoods import (
    Inferred,
    Likelihood,
    Start,
    Users,
    join,
    split,
)
from bayesrank.solvers.collaborative.newton import newton
from bayesrank.solvers.collaborative.posterior import condition, user_data
from bayesrank.solvers.collaborative.types import (
    LikelihoodParams,
    Observations,
    SharedPrior,
    UserBlock,
    UserData,
    UserState,
    UserStatistics,
)

_NEWTON_STEPS, _NEWTON_STEPS_ALONE = 4, 30


class GaussianStatistics(NamedTuple):
    """Expected sums of ``(z - f)^2``, ``(z - a)(f - a)``, ``(f - a)^2``; z = a + (y - a) / c."""

    residual: Array
    cross: Array
    square: Array


class GaussianNoise(Likelihood):
    """Numbers: the function, stretched about the anchor, and normal noise."""

    name = "gaussian"
    exact = True
    sets_unit = False

    def start(
        self, observations: Observations, num_levels: int | None, *, collaborative: bool
    ) -> Start:
        """Half of what varies in numbers is the users' taste, and half is noise."""
        variance, mean = float(np.var(observations.levels)) or 1.0, observations.levels.mean()
        theta = np.array([mean, 0.0, 0.5 * np.log(0.5 * variance)])
        return Start(theta, float(mean), 0.5 * variance)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> np.ndarray:
        """The anchor is everybody's; individual models learn scale and noise anyway."""
        return np.array([0.0, 1.0, 1.0]) * (user_spread if collaborative else 0.0)

    def program_params(self, shared: np.ndarray, factors: np.ndarray | None) -> dict[str, Any]:
        """Noise, and users' scales and noise relative to it."""
        values = {"noise": np.exp(shared[2])}
        if factors is not None:
            values |= {"scale_factor": factors[:, 1], "noise_factor": factors[:, 2]}
        return values

    def sufficient_statistics(self, data: UserData, state: UserState) -> Inferred:
        """Condition on the numbers."""
        anchor, log_scale, log_noise = state.theta
        data = data._replace(levels=anchor + (data.levels - anchor) * jnp.exp(-log_scale))
        precision = jnp.where(data.filled, jnp.exp(2.0 * (log_scale - log_noise)), 0.0)
        fit = condition(data, precision)
        # Of z, now of y.
        log_evidence = fit.log_evidence - log_scale * jnp.sum(data.filled)
        given = data.levels - anchor
        height, variance = data.mean + fit.posterior.mean - anchor, fit.posterior.variance
        sums = (given - height) ** 2 + variance, given * height, height**2 + variance
        statistics = GaussianStatistics(*(jnp.sum(jnp.where(data.filled, x, 0.0)) for x in sums))
        state = state._replace(tau=precision, nu=precision * data.levels)
        return state, fit._replace(log_evidence=log_evidence), statistics

    def m_step(
        self,
        params: LikelihoodParams,
        users: Users,
        statistics: tuple[UserStatistics, ...],
        known: tuple[Array, ...],
        *,
        pooled: bool,
    ) -> tuple[LikelihoodParams, Users]:
        """Maximise the expected log density, by Newton's method where users differ."""
        theta, there = join([user.theta for user in users]), join(list(known))
        sums: UserStatistics = jax.tree.map(lambda *x: join(list(x)), *statistics)
        count = sums.num_observations
        alike = sums.likelihood.residual * jnp.exp(2.0 * theta[:, 1])
        if not pooled:
            noise = 0.5 * jnp.log(jnp.where(there, alike / jnp.maximum(count, 1), 1.0))
            return params, split(theta.at[:, -1].set(noise), users)
        common = params.shared.at[2].set(0.5 * jnp.log(jnp.sum(alike) / jnp.sum(count)))
        centre, spread = params.shared[1:], params.spread[1:]
        free = spread > 0

        def density(x: Array, at: Array, sums: UserStatistics) -> Array:
            deviation = jnp.where(free, (x - centre) / jnp.where(free, spread, 1.0), 0.0)
            misfit = _misfit(sums.likelihood, at[1], x[0]) * jnp.exp(-2.0 * x[1])
            return -sums.num_observations * x[1] - 0.5 * (misfit + deviation @ deviation)

        def maximize(at: Array, sums: UserStatistics) -> Array:
            return newton(lambda x: density(x, at, sums), at[1:], free, _NEWTON_STEPS)[0]

        own = jnp.where(there[:, None], jax.vmap(maximize)(theta, sums), centre)
        mean = jnp.sum(jnp.where(there, own[:, 1], 0.0)) / jnp.sum(there)
        differ = free[1]
        shared = jnp.where(differ, params.shared.at[2].set(mean), common)
        new = jnp.where(differ, theta.at[:, 1:].set(own), shared)
        return params._replace(shared=shared), split(new, users)

    def alone(
        self, params: LikelihoodParams, prior: SharedPrior, users: UserState, block: UserBlock
    ) -> tuple[UserState, Array]:
        """Maximise in each user's scale and noise; where noise is small, EM would take too long."""

        def one(items: Array, weights: Array, levels: Array, user: UserState) -> Any:
            return _most_probable(params, user_data(prior, items, weights, levels, user))

        data = tuple(jnp.asarray(x) for x in (block.items, block.weights, block.levels))
        theta, last = lax.map(lambda batch: jax.vmap(one)(*batch), (*data, users))
        return users._replace(theta=theta), jnp.max(last)


def _misfit(sums: GaussianStatistics, before: Array, after: Array) -> Array:
    """Expected sum of squared residuals of the numbers, at another log scale."""
    old, new = jnp.exp(before), jnp.exp(after)
    total = old**2 * (sums.residual + 2.0 * sums.cross - sums.square)
    return total - 2.0 * old * new * sums.cross + new**2 * sums.square


def _most_probable(params: LikelihoodParams, data: UserData) -> tuple[Array, Array]:
    """One user's parameters (3,), and the last step; by eigenvectors, numbers are independent."""
    anchor, centre, spread = params.shared[0], params.shared[1:], params.spread[1:]
    free = spread > 0
    # Empty rows get eigenvalues below zero, and so eigenvectors of their own.
    apart = jnp.max(jnp.diagonal(data.covariance))
    widths, axes = jnp.linalg.eigh(data.covariance - jnp.diag(jnp.where(data.filled, 0.0, apart)))
    there, widths = widths > -0.5 * apart, jnp.maximum(widths, 0.0)
    given, mean = (jnp.where(data.filled, x - anchor, 0.0) @ axes for x in (data.levels, data.mean))

    def density(x: Array) -> Array:
        scale, noise = jnp.exp(x)
        variance = jnp.where(there, scale**2 * widths + noise**2, 1.0)
        square = (given - scale * mean) ** 2 / variance + jnp.log(variance)
        deviation = jnp.where(free, (x - centre) / jnp.where(free, spread, 1.0), 0.0)
        return -0.5 * (jnp.sum(jnp.where(there, square, 0.0)) + deviation @ deviation)

    found, last = newton(density, centre, free, _NEWTON_STEPS_ALONE)
    return jnp.append(anchor, found), last
