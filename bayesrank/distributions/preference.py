r"""Distributions of the outcome of comparing two items.

The predictor is the margin :math:`f_a - f_b` between the skills of the first and the second item.
Each item performs at its skill plus noise, and the better performance wins. Normal noise of
standard deviation :math:`\sigma` on each item gives Thurstone's model,
:math:`P(a \succ b) = \Phi((f_a - f_b) / (\sqrt 2 \sigma))`. Logistic noise on the difference gives
Bradley and Terry's. With ties, performances less than a tie width apart are a draw.

References
----------
.. [1] Thurstone, L. L. (1927). A law of comparative judgement. Psychological Review, 34, 273-286.
.. [2] Bradley, R. A. and Terry, M. E. (1952). Rank analysis of incomplete block designs.
   Biometrika, 39, 324-345.
.. [3] Glenn, W. A. and David, H. A. (1960). Ties in paired-comparison experiments using a modified
   Thurstone-Mosteller model. Biometrics, 16, 86-109.
.. [4] Rao, P. V. and Kupper, L. L. (1967). Ties in paired-comparison experiments: a generalization
   of the Bradley-Terry model. Journal of the American Statistical Association, 62, 194-204.
.. [5] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array, lax, random
from jax.nn import log_sigmoid
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from bayesrank.distributions import _moments
from bayesrank.distributions._logistic import logistic_interval_moments
from bayesrank.distributions._moments import Outcomes, TiltedMoments

SQRT_2 = math.sqrt(2.0)


class _PairOutcome(Outcomes):
    """Who wins a comparison: 1 if the first item does, 0 if the second does."""

    predictor = "margin"
    margin: Array

    @property
    def support(self) -> constraints.Constraint:
        """Outcomes 0 and 1."""
        return constraints.boolean

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes: two."""
        return 2


class Thurstone(_PairOutcome):
    r"""Who wins a comparison, by Thurstone's model: :math:`P(1) = \Phi(m / (\sqrt 2 \sigma))`.

    Parameters
    ----------
    margin : ArrayLike
        Skill of the first item less that of the second, :math:`m`.
    noise : ArrayLike, default 1.0
        Standard deviation :math:`\sigma > 0` of one item's performance about its skill, on the
        scale of the skills.
    validate_args : bool, optional
        Whether to check the parameters and the values.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> Thurstone(margin=jnp.array([0.0, 2.0])).probs[..., 1].round(3)
    Array([0.5  , 0.921], dtype=float64)
    """

    arg_constraints = {"margin": constraints.real, "noise": constraints.positive}
    noise: Array

    def __init__(
        self,
        margin: ArrayLike,
        noise: ArrayLike = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.margin, self.noise = jnp.asarray(margin), jnp.asarray(noise)
        batch_shape = lax.broadcast_shapes(self.margin.shape, self.noise.shape)
        super().__init__(batch_shape, validate_args=validate_args)

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw outcomes: 1 where the first item's performance is the better one."""
        error = self._errors(random.normal, key, sample_shape)
        return (self.margin + SQRT_2 * self.noise * error > 0).astype(int)

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of the outcome, exact in the far tails."""
        sign = jnp.where(jnp.asarray(value) == 1, 1.0, -1.0)
        return _moments.half_line(-sign * self.margin / (SQRT_2 * self.noise)).log_z

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate the outcome's probability over normal values of ``margin``, exactly."""
        total = 2.0 * self.noise**2 + variance
        sign = jnp.where(jnp.asarray(value) == 1, 1.0, -1.0)
        log_z, first, second = _moments.half_line(-sign * mean / jnp.sqrt(total))
        return TiltedMoments(log_z, sign * first / jnp.sqrt(total), second / total)


class BradleyTerry(_PairOutcome):
    """Who wins a comparison, by Bradley and Terry's model: ``P(1) = sigmoid(margin / scale)``.

    Parameters
    ----------
    margin, validate_args
        As for `Thurstone`.
    scale : ArrayLike, default 1.0
        Scale of the logistic noise on the margin, positive, on the scale of the skills.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> BradleyTerry(margin=jnp.array([0.0, 2.0])).probs[..., 1].round(3)
    Array([0.5  , 0.881], dtype=float64)
    """

    arg_constraints = {"margin": constraints.real, "scale": constraints.positive}
    scale: Array

    def __init__(
        self,
        margin: ArrayLike,
        scale: ArrayLike = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.margin, self.scale = jnp.asarray(margin), jnp.asarray(scale)
        batch_shape = lax.broadcast_shapes(self.margin.shape, self.scale.shape)
        super().__init__(batch_shape, validate_args=validate_args)

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw outcomes: 1 where the margin plus logistic noise is positive."""
        error = self._errors(random.logistic, key, sample_shape)
        return (self.margin + self.scale * error > 0).astype(int)

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of the outcome."""
        sign = jnp.where(jnp.asarray(value) == 1, 1.0, -1.0)
        return log_sigmoid(sign * self.margin / self.scale)

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate the outcome's probability over normal values of ``margin``, right to 1e-9."""
        sign = jnp.where(jnp.asarray(value) == 1, 1.0, -1.0)
        moments = logistic_interval_moments(0.0, jnp.inf, sign * mean, variance, self.scale)
        return moments._replace(d1=sign * moments.d1)


class _PairOutcomeWithTies(Outcomes):
    """How a comparison ends: the second item wins (0), no difference (1), the first wins (2)."""

    predictor = "margin"
    margin: Array
    tie_width: Array

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes: three."""
        return 3

    def _edges(self, value: ArrayLike) -> tuple[Array, Array]:
        """Between which differences of performances a comparison ends so."""
        value = jnp.asarray(value)
        lower = jnp.where(value == 1, -self.tie_width, -jnp.inf)
        upper = jnp.where(value == 1, self.tie_width, jnp.inf)
        lower = jnp.where(value == 2, self.tie_width, lower)
        return lower, jnp.where(value == 0, -self.tie_width, upper)

    def _outcome(self, difference: Array) -> Array:
        """How a comparison ends in which the performances differ by so much."""
        return (difference > -self.tie_width).astype(int) + (difference > self.tie_width)


class ThurstoneTies(_PairOutcomeWithTies):
    r"""How a comparison ends if performances within ``tie_width`` of each other are a tie.

    The outcomes are 0 (the second item wins), 1 (no difference) and 2 (the first item wins), with
    :math:`P(2) = \Phi((m - w) / (\sqrt 2 \sigma))` and
    :math:`P(0) = \Phi((-m - w) / (\sqrt 2 \sigma))`.

    Parameters
    ----------
    margin, noise, validate_args
        As for `Thurstone`, with the symbols :math:`m` and :math:`\sigma`.
    tie_width : ArrayLike
        Largest difference :math:`w > 0` of performances that counts as a tie, on the scale of the
        skills.

    Examples
    --------
    >>> ThurstoneTies(margin=1.0, tie_width=0.5).probs.round(3)
    Array([0.144, 0.217, 0.638], dtype=float64)
    """

    arg_constraints = {
        "margin": constraints.real,
        "tie_width": constraints.positive,
        "noise": constraints.positive,
    }
    noise: Array

    def __init__(
        self,
        margin: ArrayLike,
        tie_width: ArrayLike,
        noise: ArrayLike = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.margin = jnp.asarray(margin)
        self.tie_width = jnp.asarray(tie_width)
        self.noise = jnp.asarray(noise)
        shapes = self.margin.shape, self.tie_width.shape, self.noise.shape
        super().__init__(lax.broadcast_shapes(*shapes), validate_args=validate_args)

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw outcomes by comparing the performances of the two items."""
        error = self._errors(random.normal, key, sample_shape)
        return self._outcome(self.margin + SQRT_2 * self.noise * error)

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of the outcome, exact in the far tails."""
        return self.tilted_moments(value, self.margin, 0.0).log_z

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate the outcome's probability over normal values of ``margin``, exactly."""
        total = 2.0 * self.noise**2 + variance
        return _moments.interval(*self._edges(value), mean, total)


class BradleyTerryTies(_PairOutcomeWithTies):
    r"""How a comparison ends, by Rao and Kupper's extension of the Bradley-Terry model.

    The outcomes are 0 (the second item wins), 1 (no difference) and 2 (the first item wins), with
    :math:`P(2) = \mathrm{sigmoid}((m - w) / s)` and :math:`P(0) = \mathrm{sigmoid}((-m - w) / s)`.
    Rao and Kupper's threshold parameter is :math:`\theta = e^{w / s}`.

    Parameters
    ----------
    margin, tie_width, validate_args
        As for `ThurstoneTies`, with the symbols :math:`m` and :math:`w`.
    scale : ArrayLike, default 1.0
        Scale :math:`s > 0` of the logistic noise on the margin.

    Examples
    --------
    >>> BradleyTerryTies(margin=1.0, tie_width=0.5).probs.round(3)
    Array([0.182, 0.195, 0.622], dtype=float64)
    """

    arg_constraints = {
        "margin": constraints.real,
        "tie_width": constraints.positive,
        "scale": constraints.positive,
    }
    scale: Array

    def __init__(
        self,
        margin: ArrayLike,
        tie_width: ArrayLike,
        scale: ArrayLike = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.margin = jnp.asarray(margin)
        self.tie_width = jnp.asarray(tie_width)
        self.scale = jnp.asarray(scale)
        shapes = self.margin.shape, self.tie_width.shape, self.scale.shape
        super().__init__(lax.broadcast_shapes(*shapes), validate_args=validate_args)

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw outcomes by comparing the margin plus logistic noise with the tie width."""
        error = self._errors(random.logistic, key, sample_shape)
        return self._outcome(self.margin + self.scale * error)

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of the outcome; that of a tie is a product, so nothing cancels."""
        value = jnp.asarray(value)
        margin, width = self.margin / self.scale, self.tie_width / self.scale
        not_first, not_second = log_sigmoid(width - margin), log_sigmoid(width + margin)
        tie = not_first + not_second + jnp.log(-jnp.expm1(-2.0 * width))
        win = log_sigmoid(jnp.where(value == 2, margin, -margin) - width)
        return jnp.where(value == 1, tie, win)

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate the outcome's probability over normal values of ``margin``, right to 1e-9."""
        return logistic_interval_moments(*self._edges(value), mean, variance, self.scale)
