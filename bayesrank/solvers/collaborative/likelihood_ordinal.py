"""Levels: which of the intervals between a user's thresholds the function plus noise is in."""

from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm
from scipy import stats

from bayesrank.distributions import OrderedLogit, OrderedProbit, TiltedMoments
from bayesrank.distributions.ordinal import centred_thresholds
from bayesrank.infer.spi import jit
from bayesrank.solvers.collaborative.likelihoods import Likelihood, Parameters, Start, in_pieces

# In units of the noise's: tastes may vary more than one rating scatters. Where that is too much,
# what is too much goes to single items, the part of the base that is like noise.
_BASE_VARIANCE = 4.0
_LONGEST_STEP = 0.5
# Scores are those at the sites of the sweep before, which follow a user's parameters one iteration
# later: whole steps of the users' own swing to and fro, half steps do not.
_SHARE = 0.5
_RIDGE = 1e-6  # keeps the step finite where nothing is known: a gap beside a level nobody used
_LEAST_PROBABILITY = 1e-12


class Ordinal(Likelihood):
    """Levels between thresholds; at EP's fixed point the evidence has the slopes of ``log Z``."""

    distribution: ClassVar[type[OrderedProbit] | type[OrderedLogit]]
    probit_scale: ClassVar[float] = 1.0  # of the normal noise that is most alike

    def moments(self, theta: Array, level: Array, mean: Array, variance: Array) -> TiltedMoments:
        """``log Z`` of a level at a normal predictor, and its derivatives in `mean`."""
        edges, noise = thresholds(theta[:-1]), jnp.exp(theta[-1])
        outcome = self.distribution(0.0, edges, noise, validate_args=False)
        return outcome.tilted_moments(level, mean, variance)

    def start(self, levels: np.ndarray, num_levels: int | None, *, collaborative: bool) -> Start:
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

    def spread(self, size: int, user_spread: float, *, collaborative: bool) -> np.ndarray:
        """Individual models have a scale, so that their noise is the unit."""
        return user_spread * np.append(np.ones(size - 1), float(collaborative))

    def program_params(self, shared: np.ndarray, factors: np.ndarray | None) -> dict[str, Any]:
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

    def information(self, theta: Array, mean: Array, variance: Array) -> Array:
        """Fisher's information of an observation at a normal predictor, shape (p, p)."""

        def below(theta: Array) -> Array:
            noise = self.probit_scale * jnp.exp(theta[-1])
            return norm.cdf((thresholds(theta[:-1]) - mean) / jnp.sqrt(noise**2 + variance))

        slopes = jnp.pad(jax.jacfwd(below)(theta), ((1, 1), (0, 0)))
        probability = jnp.diff(jnp.pad(below(theta), (1, 1), constant_values=(0.0, 1.0)))
        each = jnp.diff(slopes, axis=0)
        return each.T @ (each / jnp.maximum(probability, _LEAST_PROBABILITY)[:, None])

    def m_step(
        self,
        params: Parameters,
        count: np.ndarray,
        statistics: tuple[np.ndarray, ...],
        *,
        pooled: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Make a step of Fisher's scoring, with users' deviations maximised out.

        With scores :math:`\gamma_j`, informations :math:`I_j`, deviations :math:`e_j` of precision
        :math:`\Lambda` and :math:`R_j = (I_j + \Lambda)^{-1}`, the shared step :math:`\delta`
        solves

        .. math:: \sum_j (I_j - I_j R_j I_j) \delta =
            \sum_j [\gamma_j - I_j R_j (\gamma_j - \Lambda e_j)],

        and users' own are :math:`R_j (\gamma_j - \Lambda e_j - I_j \delta)`.
        """
        (score, information), (shared, spread, theta) = statistics, params
        free, gaps = spread > 0, len(shared) - 1
        precision = np.where(free, 1.0 / np.where(free, spread, 1.0) ** 2, 0.0)
        deviation = theta - shared
        inside = np.where(free[:, None] & free, information, 0.0)
        inside += np.diag(np.where(free, precision, 1.0))
        pulled = (score - deviation * precision)[..., None]
        right = np.where(free[:, None], np.concatenate([information, pulled], axis=-1), 0.0)
        solved = np.linalg.solve(inside, right)
        reach, gain = solved[..., :-1], solved[..., -1]
        step = np.zeros_like(shared)
        if pooled and gaps:  # two levels have none
            matrix = (information - information @ reach).sum(axis=0) + _RIDGE * np.eye(gaps + 1)
            total = (score - np.einsum("npq,nq->np", information, gain)).sum(axis=0)
            # The shared noise, the last, is the unit.
            step[:-1] = _limited(np.linalg.solve(matrix[:-1, :-1], total[:-1]))
        deviation += _SHARE * _limited(gain - reach @ step)
        return shared + step, shared + step + np.where(free, deviation, 0.0)

    def probabilities(self, theta: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Any:
        """Probability of each level, (K, p + 1), at theta (K, p) and moments of functions (K,)."""
        with jax.enable_x64(True):
            return np.exp(in_pieces(_log_probabilities, self, theta, mean, variance))


@partial(jit, static_argnums=0)
def _log_probabilities(likelihood: Ordinal, theta: Array, mean: Array, variance: Array) -> Array:
    levels = jnp.arange(theta.shape[1] + 1)

    def row(*args: Array) -> Array:
        return jax.vmap(lambda y: likelihood.moments(args[0], y, *args[1:]).log_z)(levels)

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


def thresholds(log_gaps: Array) -> Array:
    """Thresholds from the logs of their gaps, mean zero; shape (..., r - 2) to (..., r - 1)."""
    return centred_thresholds(jnp.exp(log_gaps))


def _frequencies(levels: np.ndarray, num_levels: int | None) -> np.ndarray:
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


def _limited(step: np.ndarray) -> np.ndarray:
    """Shorten steps that no quadratic model is good for."""
    longest = np.abs(step).max(axis=-1, keepdims=True)
    return step * np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, 1e-300))
