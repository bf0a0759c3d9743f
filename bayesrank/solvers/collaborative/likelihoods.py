r"""What a likelihood is to EM: an object with its start, prior, sites, and M-step.

- ``GaussianNoise`` sees ``a + c (x - a)`` plus normal noise, with ``theta`` the anchor ``a``,
  ``log c`` and the log noise. The anchor is the mean of all numbers.
- ``Ordinal`` sees the two thresholds that x plus noise lies between, the noise of a probit normal,
  of a logit logistic. Its ``theta`` is the log gaps between thresholds, and the log noise.
- ``Pairwise`` sees the first item win, by the logistic of ``x = f(a) - f(b)``, without ``theta``.

Thresholds have mean zero, and users' shared noise of levels is one: ``f`` carries level and scale.
A user's ``theta`` is the shared one plus normal deviations, as in `bayesrank.models.collaborative`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from numpy.typing import NDArray
from scipy import stats

from bayesrank._sizes import next_size
from bayesrank._validate import unit_of
from bayesrank.distributions import BradleyTerry, OrderedLogit, OrderedProbit, TiltedMoments
from bayesrank.distributions.ordinal import centred_thresholds
from bayesrank.infer.spi import cavity, jit, log_sites, match

Array = NDArray[Any]

_FEWEST_ROWS, _MOST_ROWS = 32, 32_768  # of what is compiled: shapes are powers of two in between
# In units of the noise's: tastes may vary more than one rating scatters. Where that is too much,
# what is too much goes to single items, the part of the base that is like noise.
_BASE_VARIANCE = 4.0
_LONGEST_STEP = 0.5
# Scores of levels are those at the sites of the sweep before, which follow a user's parameters one
# iteration later: whole steps of the users' own swing to and fro, half steps do not.
_SHARE = 0.5
_RIDGE = 1e-6  # keeps the step finite where nothing is known: a gap beside a level nobody used
_LEAST_PROBABILITY = 1e-12


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
    # Of the user's `posteriors.Stack.gain`, where the likelihood is exact: sums of squares of rows,
    # products with the prior mean, and sums.
    squares: Any = ()
    pull: Any = ()
    sums: Any = ()


class Update(NamedTuple):
    """What a likelihood makes of these."""

    tau: Array  # new sites, (K,)
    nu: Array
    log_evidence: Array  # terms of it, but for the users' log determinants, (K,)
    delta: float  # how far a posterior mean is from the tilted, in the cavity's deviations
    statistics: tuple[Array, ...]  # score (K, p), information (K, p, p); `m_step` gets users' sums


@dataclass(frozen=True)
class Likelihood:
    """One kind of observation."""

    name: ClassVar[str]  # what `EM` knows it by
    exact: ClassVar[bool] = False  # whether posterior and evidence are exact; if not, they are EP's
    sets_unit: ClassVar[bool] = True  # whether noise is the unit: only ratios are learned
    sees_level: ClassVar[bool] = True  # whether an observation depends on the level of a function
    least: float = -np.inf  # of the last of the shared parameters

    def start(self, levels: Array, num_levels: int | None, *, collaborative: bool) -> Start:
        """Values to start from."""
        return Start(np.zeros(0), 0.0, 1.0)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> Array:
        """Spread of users' parameters, shape (p,), where that of those that may differ is given."""
        return np.full(size, user_spread)

    def held(self, size: int) -> Array:
        """Which of the shared parameters are not learned, (p,): the last, the noise."""
        return np.arange(size) == size - 1

    def program_params(self, shared: Array, factors: Array | None) -> dict[str, Any]:
        """Sites of the program: shared parameters, and users' factors (n, p) where they differ."""
        return {}

    def log_prior(self, params: Parameters) -> float:
        """Log density of the deviations of users."""
        free = params.spread > 0
        deviations = (params.theta - params.shared)[:, free]
        return float(stats.norm.logpdf(deviations, scale=params.spread[free]).sum())

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
        r"""Improve what users share (p,), if `pooled`, and their own (u, p); `count` is (u,).

        A step of Fisher's scoring, with users' deviations maximised out. With scores
        :math:`\gamma_j`, informations :math:`I_j`, deviations :math:`e_j` of precision
        :math:`\Lambda` and :math:`R_j = (I_j + \Lambda)^{-1}`, the shared step :math:`\delta`
        solves

        .. math:: \sum_j (I_j - I_j R_j I_j) \delta =
            \sum_j [\gamma_j - I_j R_j (\gamma_j - \Lambda e_j)],

        and users' own are :math:`R_j (\gamma_j - \Lambda e_j - I_j \delta)`.
        """
        (score, information), (shared, spread, theta) = statistics, params
        free, learned = spread > 0, ~self.held(len(shared))
        precision = np.where(free, 1.0 / np.where(free, spread, 1.0) ** 2, 0.0)
        deviation = theta - shared
        inside = np.where(free[:, None] & free, information, 0.0)
        inside += np.diag(np.where(free, precision, 1.0))
        pulled = (score - deviation * precision)[..., None]
        right = np.where(free[:, None], np.concatenate([information, pulled], axis=-1), 0.0)
        solved = np.linalg.solve(inside, right)
        reach, gain = solved[..., :-1], solved[..., -1]
        step = np.zeros_like(shared)
        if pooled and learned.any():
            matrix = (information - information @ reach).sum(0) + _RIDGE * np.eye(len(shared))
            total = (score - np.einsum("npq,nq->np", information, gain)).sum(0)
            step[learned] = _limited(np.linalg.solve(matrix[learned][:, learned], total[learned]))
        deviation += _SHARE * _limited(gain - reach @ step)
        return shared + step, shared + step + np.where(free, deviation, 0.0)


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


def _limited(step: Array) -> Array:
    """Shorten steps that no quadratic model is good for."""
    longest = np.abs(step).max(axis=-1, keepdims=True)
    return step * np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, 1e-300))


@dataclass(frozen=True)
class GaussianNoise(Likelihood):
    """Numbers: the function, stretched about the anchor, and normal noise.

    Nobody rates an item twice, so only the priors tell noise from what functions have of single
    items, and the most probable noise may be next to none. As a `share` of the variance of all
    numbers, the shared noise is held. Its log is never below `least`, where rounding begins.
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

    def held(self, size: int) -> Array:
        """The anchor, the scale, and noise that is given."""
        return np.array([True, True, self.share is not None])

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
        """Terms of the evidence, of numbers as they were given, and derivatives of it.

        With the numbers' covariance ``V = c**2 / G``, and ``G`` that of `posteriors`.
        """
        anchor, log_scale, _ = rows.theta.T
        given = (rows.levels - anchor) * np.exp(-log_scale)
        error = given + anchor - rows.prior_mean
        terms = 0.5 * np.log(tau / (2.0 * np.pi)) - 0.5 * error * rows.shift - log_scale
        # Of the noise in units of the scale: its share of the variance, given all other numbers.
        kept = 1.0 - tau * rows.variance
        noise = rows.shift**2 / tau - kept
        score = np.stack([0.0 * noise, given * rows.shift - 1.0 - noise, noise], axis=-1)
        information = np.zeros((*noise.shape, 3, 3))
        squares = rows.squares / tau**2
        height = rows.prior_mean - anchor
        information[:, 1, 1] = 2.0 * (1.0 - 2.0 * kept + squares)
        information[:, 1, 1] += height * (rows.pull - anchor * rows.sums)
        information[:, 1, 2] = information[:, 2, 1] = 2.0 * (kept - squares)
        information[:, 2, 2] = 2.0 * squares
        return Update(tau, nu, terms, 0.0, (score, information))

    def m_step(
        self, params: Parameters, count: Array, statistics: tuple[Array, ...], *, pooled: bool
    ) -> tuple[Array, Array]:
        """Where users do not differ by a prior, that of EM: the mean square of what is left."""
        shared, theta, score = params.shared.copy(), params.theta.copy(), statistics[0][:, 2]
        if params.spread.any():
            shared, theta = super().m_step(params, count, statistics, pooled=pooled)
        elif not pooled:
            theta[:, 2] += 0.5 * np.log1p(score / count)
        elif self.share is None:
            shared[2] += 0.5 * np.log1p(score.sum() / count.sum())
            theta[:] = shared
        raised = np.array([0.0, 0.0, max(self.least - shared[2], 0.0)])
        return shared + raised, theta + raised


class Ordinal(Likelihood):
    """Levels between thresholds; at EP's fixed point the evidence has the slopes of ``log Z``."""

    distribution: ClassVar[type[OrderedProbit] | type[OrderedLogit]]
    probit_scale: ClassVar[float] = 1.0  # of the normal noise that is most alike

    def moments(self, theta: Any, level: Any, mean: Any, variance: Any) -> TiltedMoments:
        """``log Z`` of a level at a normal predictor, and its derivatives in `mean`."""
        edges, noise = centred_thresholds(jnp.exp(theta[:-1])), jnp.exp(theta[-1])
        outcome = self.distribution(0.0, edges, noise, validate_args=False)
        return outcome.tilted_moments(level, mean, variance)

    def start(self, levels: Array, num_levels: int | None, *, collaborative: bool) -> Start:
        """Thresholds that give all levels their frequencies."""
        frequencies = _frequencies(levels, num_levels)
        logistic = self.name == "logit"
        variance = np.pi**2 / 3 if logistic else 1.0
        # Individual models learn their scale, and start small; what users share keeps its size.
        ratio = _BASE_VARIANCE if collaborative else 1.0
        edges = (stats.logistic if logistic else stats.norm).ppf(np.cumsum(frequencies)[:-1])
        edges *= np.sqrt(1.0 + ratio)
        theta = np.append(np.log(np.diff(edges)), 0.0)
        return Start(theta, float(-edges.mean()), ratio * variance)

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> Array:
        """Individual models have a scale, so that their noise is the unit."""
        return user_spread * np.append(np.ones(size - 1), float(collaborative))

    def program_params(self, shared: Array, factors: Array | None) -> dict[str, Any]:
        """Gaps, and users' gaps and noise relative to the shared."""
        values = {"gaps": np.exp(shared[:-1])}
        if factors is not None:
            values |= {"gap_factor": factors[:, :-1], "noise_factor": factors[:, -1]}
        return values

    def tilted(self, theta: Any, level: Any, mean: Any, variance: Any) -> tuple[Any, tuple]:
        """Moments, the gradient of ``log Z`` in theta (p,), and its expected information (p, p)."""

        def log_z(theta: Any) -> tuple[Any, TiltedMoments]:
            moments = self.moments(theta, level, mean, variance)
            return moments.log_z, moments

        score, moments = jax.grad(log_z, has_aux=True)(theta)
        return moments, (score, self.information(theta, mean, variance))

    def information(self, theta: Any, mean: Any, variance: Any) -> Any:
        """Fisher's information of an observation at a normal predictor, shape (p, p)."""

        def below(theta: Any) -> Any:
            noise = self.probit_scale * jnp.exp(theta[-1])
            edges = centred_thresholds(jnp.exp(theta[:-1]))
            return norm.cdf((edges - mean) / jnp.sqrt(noise**2 + variance))

        slopes = jnp.pad(jax.jacfwd(below)(theta), ((1, 1), (0, 0)))
        probability = jnp.diff(jnp.pad(below(theta), (1, 1), constant_values=(0.0, 1.0)))
        each = jnp.diff(slopes, axis=0)
        return each.T @ (each / jnp.maximum(probability, _LEAST_PROBABILITY)[:, None])

    def probabilities(self, theta: Array, mean: Array, variance: Array) -> Array:
        """Probability of each level, (K, p + 1), at theta (K, p) and moments of functions (K,)."""
        with jax.enable_x64(True):
            return np.exp(in_pieces(_log_probabilities, self, theta, mean, variance))


@partial(jit, static_argnums=0)
def _log_probabilities(likelihood: Ordinal, theta: Any, mean: Any, variance: Any) -> Any:
    def row(*at: Any) -> Any:
        each = jax.vmap(lambda level: likelihood.moments(at[0], level, *at[1:]).log_z)
        return each(jnp.arange(theta.shape[1] + 1))

    return jax.vmap(row)(theta, mean, variance)


class Probit(Ordinal):
    """Levels with normal noise."""

    name = "probit"
    distribution = OrderedProbit


class Logit(Ordinal):
    """Levels with logistic noise."""

    name = "logit"
    distribution = OrderedLogit
    probit_scale = 1.7


def _frequencies(levels: Array, num_levels: int | None) -> Array:
    used, counts = np.unique(levels, return_counts=True)
    top = int(used[-1])
    r = top + 1 if num_levels is None else num_levels
    if isinstance(r, bool) or not isinstance(r, Integral):
        raise ValueError(f"num_levels is {r!r}; pass a whole number from 2")
    if r < 2 or top >= r:
        raise ValueError(f"num_levels is {r}, but levels go up to {used[-1]:g}; pass at least two")
    if len(used) < r:
        unused = int(np.argmax(np.append(used, -1) != np.arange(len(used) + 1)))
        raise ValueError(f"nobody used level {unused}; number the levels in use without gaps")
    return counts / counts.sum()


LIKELIHOODS: dict[str, Likelihood] = {
    each.name: each for each in (GaussianNoise(), Probit(), Logit(), Pairwise())
}
