"""Numbers: a user's function, stretched about the mean of all numbers, and normal noise."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bayesrank._sizes import next_size
from bayesrank._validate import unit_of
from bayesrank.infer.spi import jit
from bayesrank.solvers.collaborative.likelihoods import (
    Likelihood,
    Observations,
    ObservedMoments,
    Parameters,
    Start,
    Update,
    UserGroup,
    in_pieces,
)
from bayesrank.solvers.collaborative.shared import newton

Array = NDArray[Any]
_NEWTON_STEPS, _NEWTON_STEPS_ALONE = 4, 30
_FEWEST = 4  # numbers of a user


class Misfit(NamedTuple):
    """Expected sums of ``(z - f)^2``, ``(z - a)(f - a)``, ``(f - a)^2``; z = a + (y - a) / c."""

    residual: Any
    cross: Any
    square: Any

    def at(self, before: Any, after: Any) -> Any:
        """Expected sum of squared residuals of the numbers, at another log scale."""
        old, new = jnp.exp(before), jnp.exp(after)
        total = old**2 * (self.residual + 2.0 * self.cross - self.square)
        return total - 2.0 * old * new * self.cross + new**2 * self.square


@dataclass(frozen=True)
class GaussianNoise(Likelihood):
    """Numbers: the function, stretched about the anchor, and normal noise.

    Nobody rates an item twice, so only the priors tell noise from what functions have of single
    items, and the most probable noise may be next to none. As a `share` of the variance of all
    numbers, the shared noise is held.
    """

    share: float | None = None

    name = "gaussian"
    exact = True
    sets_unit = False

    def start(self, levels: Array, num_levels: int | None, *, collaborative: bool) -> Start:
        """A share of what varies in numbers is noise, half if it is learned, and the rest taste."""
        variance, mean = unit_of(levels) ** 2, float(levels.mean())
        share = 0.5 if self.share is None else self.share
        theta = np.array([mean, 0.0, 0.5 * np.log(share * variance)])
        return Start(theta, mean, (1.0 - share) * variance)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> Array:
        """The anchor is everybody's; individual models learn scale and noise anyway."""
        return np.array([0.0, 1.0, 1.0]) * (user_spread if collaborative else 0.0)

    def program_params(self, shared: Array, factors: Array | None) -> dict[str, Any]:
        """Noise, and users' scales and noise relative to it."""
        values = {"noise": np.exp(shared[2])}
        if factors is not None:
            values |= {"scale_factor": factors[:, 1], "noise_factor": factors[:, 2]}
        return values

    def sites(self, tau: Array, nu: Array, levels: Array, theta: Array) -> tuple[Array, Array]:
        """The numbers themselves, in the functions' scale."""
        anchor, log_scale, log_noise = theta.T
        precision = np.exp(2.0 * (log_scale - log_noise))
        return precision, precision * (anchor + (levels - anchor) * np.exp(-log_scale))

    def update(self, tau: Array, nu: Array, rows: ObservedMoments) -> Update:
        """Terms of the evidence, of numbers as they were given, and of `Misfit`."""
        anchor, log_scale, _ = rows.theta.T
        given = (rows.levels - anchor) * np.exp(-log_scale)
        height = rows.prior_mean + rows.mean - anchor
        error = given + anchor - rows.prior_mean
        terms = 0.5 * np.log(tau / (2.0 * np.pi)) - 0.5 * error * rows.shift - log_scale
        misfit = (given - height) ** 2, given * height, height**2
        residual, cross, square = misfit
        statistics = residual + rows.variance, cross, square + rows.variance
        return Update(tau, nu, terms, 0.0, statistics)

    def m_step(
        self, params: Parameters, count: Array, statistics: tuple[Array, ...], *, pooled: bool
    ) -> tuple[Array, Array]:
        """Maximise the expected log density, by Newton's method where users differ."""
        shared, theta = params.shared.copy(), params.theta
        alike = statistics[0] * np.exp(2.0 * theta[:, 1])
        if not pooled:
            own = theta.copy()
            own[:, 2] = 0.5 * np.log(alike / count)
            return shared, own
        differ = bool(params.spread[2] > 0)
        if differ:
            own = in_pieces(
                _most_probable,
                self,
                *_of_each(params, len(theta)),
                theta,
                count,
                Misfit(*statistics),
            )
            theta = np.column_stack([theta[:, 0], own])
        if self.share is None:
            shared[2] = theta[:, 2].mean() if differ else 0.5 * np.log(alike.sum() / count.sum())
        return shared, theta if differ else np.tile(shared, (len(theta), 1))

    def alone(
        self,
        params: Parameters,
        observations: Observations,
        priors: list[tuple[UserGroup, Array, Array]],
    ) -> tuple[Array, float]:
        """Maximise in each user's scale and noise; where noise is small, EM would take too long."""
        anchor = params.shared[0]
        theta, last = np.tile(params.shared, (observations.num_users, 1)), 0.0
        for group, mean, covariance in priors:
            # By eigenvectors, a user's numbers are independent.
            widths, axes = np.linalg.eigh(covariance)
            given, mean = (
                np.einsum("bs,bst->bt", x - anchor, axes)
                for x in (observations.levels[group.rows], mean)
            )
            size = group.rows.shape[1]
            fill = ((0, 0), (0, next_size(size, _FEWEST) - size))
            columns = (
                np.pad(x, fill)
                for x in (np.ones_like(widths), np.maximum(widths, 0.0), given, mean)
            )
            same = _of_each(params, len(mean))
            own, step = in_pieces(_most_probable_alone, self, *same, *columns)
            theta[group.users, 1:], last = own, max(last, float(step.max()))
        return theta, last


def _of_each(params: Parameters, count: int) -> tuple[Array, Array]:
    """What is shared and its spread, once for each of so many users."""
    return np.tile(params.shared, (count, 1)), np.tile(params.spread, (count, 1))


@partial(jit, static_argnums=0)
def _most_probable(
    likelihood: Likelihood, centre: Any, spread: Any, theta: Any, count: Any, misfit: Misfit
) -> Any:
    """Users' own log scale and noise (u, 2) that are most probable with their sums of misfits."""

    def one(centre: Any, spread: Any, at: Any, count: Any, misfit: Misfit) -> Any:
        def density(x: Any) -> Any:
            square = misfit.at(at[1], x[0]) * jnp.exp(-2.0 * x[1])
            return -count * x[1] - 0.5 * (square + _deviation(x, centre, spread))

        return newton(density, at[1:], spread[1:] > 0, _NEWTON_STEPS)[0]

    return jax.vmap(one)(centre, spread, theta, count, misfit)


@partial(jit, static_argnums=0)
def _most_probable_alone(likelihood: Likelihood, *columns: Any) -> Any:
    """The same with the functions integrated out: (u, 2), and the last steps (u,)."""

    def one(centre: Any, spread: Any, there: Any, widths: Any, given: Any, mean: Any) -> Any:
        def density(x: Any) -> Any:
            scale, noise = jnp.exp(x)
            variance = jnp.where(there > 0, scale**2 * widths + noise**2, 1.0)
            square = (given - scale * mean) ** 2 / variance + jnp.log(variance)
            return -0.5 * (jnp.sum(square) + _deviation(x, centre, spread))

        return newton(density, centre[1:], spread[1:] > 0, _NEWTON_STEPS_ALONE)

    return jax.vmap(one)(*columns)


def _deviation(x: Any, centre: Any, spread: Any) -> Any:
    """Squared deviation of log scale and noise from the shared, in units of the spread."""
    spread, gap = spread[1:], x - centre[1:]
    return jnp.sum(jnp.where(spread > 0, gap / jnp.where(spread > 0, spread, 1.0), 0.0) ** 2)
