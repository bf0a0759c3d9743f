r"""Distributions of an ordinal rating.

A predictor plus an error falls into one of the intervals between cutpoints
:math:`b_1 < \dots < b_{r-1}`, which is the rating. With :math:`b_0 = -\infty`,
:math:`b_r = \infty` and :math:`F` the error's distribution function, normal or logistic,

.. math::
    P(y) = F\left(\frac{b_{y+1} - \eta}{\sigma}\right)
         - F\left(\frac{b_y - \eta}{\sigma}\right), \quad y = 0, \dots, r - 1.

References
----------
.. [1] McCullagh, P. (1980). Regression models for ordinal data. Journal of the Royal Statistical
   Society B, 42, 109-142.
.. [2] Chu, W. and Ghahramani, Z. (2005). Gaussian processes for ordinal regression. Journal of
   Machine Learning Research, 6, 1019-1041.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.nn import log_sigmoid
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample
from scipy.special import ndtri

from bayesrank.distributions import _moments
from bayesrank.distributions._logistic import logistic_interval_moments
from bayesrank.distributions._moments import Outcomes, TiltedMoments

# Of thresholds, in units of what lies between them: how far their middle may be from zero, how much
# wider or narrower than a normal's quantiles they may lie, and each for itself.
_MIDDLE_SD, _WIDTH_SD, _OWN_SD = 1.0, 0.5, 0.25


def centred_thresholds(gaps: Array) -> Array:
    """Thresholds of mean zero from their gaps, shape (..., r - 2) to (..., r - 1)."""
    above = jnp.cumsum(gaps, axis=-1)
    edges = jnp.concatenate([jnp.zeros((*above.shape[:-1], 1), above.dtype), above], axis=-1)
    return edges - edges.mean(axis=-1, keepdims=True)


def threshold_prior(num_levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean (k - 1,) and covariance (k - 1, k - 1) of ordered thresholds of k levels, none rare.

    Means are the normal's quantiles, in units of the scores' standard deviation, noise included;
    the middle, the width and each threshold vary about these.
    """
    mean = ndtri(np.arange(1, num_levels) / num_levels)
    own = _OWN_SD**2 * np.eye(num_levels - 1)
    return mean, _MIDDLE_SD**2 + _WIDTH_SD**2 * np.outer(mean, mean) + own


class _Ordered(Outcomes):
    """Ordinal rating: levels ``0, ..., r - 1`` between ``r - 1`` cutpoints."""

    arg_constraints = {
        "loc": constraints.real,
        "cutpoints": constraints.ordered_vector,
        "noise": constraints.positive,
    }
    predictor = "loc"
    loc: Array
    cutpoints: Array
    noise: Array
    _draw_error: ClassVar[Callable[..., Array]]

    def __init__(
        self,
        loc: ArrayLike,
        cutpoints: ArrayLike,
        noise: ArrayLike = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loc = jnp.asarray(loc)
        self.cutpoints = jnp.asarray(cutpoints)
        self.noise = jnp.asarray(noise)
        if self.cutpoints.ndim == 0 or self.cutpoints.shape[-1] == 0:
            raise ValueError(
                f"cutpoints has shape {self.cutpoints.shape}; give at least one edge between "
                "levels along its last axis"
            )
        shapes = self.loc.shape, self.cutpoints.shape[:-1], self.noise.shape
        super().__init__(lax.broadcast_shapes(*shapes), validate_args=validate_args)

    @property
    def num_outcomes(self) -> int:
        """Number of levels."""
        return self.cutpoints.shape[-1] + 1

    def sample(self, key: Array | None, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw levels: how many cutpoints the predictor plus noise exceeds."""
        error = self._errors(type(self)._draw_error, key, sample_shape)
        latent = self.loc + self.noise * error
        return (latent[..., None] > self.cutpoints).sum(-1)

    def _edges(self, value: Array) -> tuple[Array, Array]:
        """Look up the ends of each level's interval; a gather would have a slow gradient."""
        lower, upper = jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)
        for level in range(self.num_outcomes - 1):
            edge = self.cutpoints[..., level]
            upper = jnp.where(value == level, edge, upper)
            lower = jnp.where(value == level + 1, edge, lower)
        return lower, upper


class OrderedProbit(_Ordered):
    """Ordinal rating with normal noise: levels ``0, ..., r - 1`` between ``r - 1`` cutpoints.

    Parameters
    ----------
    loc : ArrayLike
        The predictor.
    cutpoints : ArrayLike
        Increasing edges between the levels along the last axis, on the scale of ``loc``.
    noise : ArrayLike, default 1.0
        Standard deviation of the error, positive.
    validate_args : bool, optional
        Whether to check the parameters and the values.

    Raises
    ------
    ValueError
        If ``cutpoints`` is a scalar or has no entry.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> OrderedProbit(loc=0.0, cutpoints=jnp.array([-1.0, 0.0, 1.0])).probs.round(3)
    Array([0.159, 0.341, 0.341, 0.159], dtype=float64)
    """

    _draw_error = staticmethod(random.normal)

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of the level, exact in the far tails."""
        return self.tilted_moments(value, self.loc, 0.0).log_z

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate the level's probability over normal values of ``loc``, exactly."""
        lower, upper = self._edges(jnp.asarray(value))
        return _moments.interval(lower, upper, mean, self.noise**2 + variance)


class OrderedLogit(_Ordered):
    """Ordinal rating with logistic noise: levels ``0, ..., r - 1`` between ``r - 1`` cutpoints.

    NumPyro's ``OrderedLogistic`` with a scale of the noise, exact in the far tails and between
    cutpoints that nearly meet.

    Parameters
    ----------
    loc, cutpoints, validate_args
        As for `OrderedProbit`.
    noise : ArrayLike, default 1.0
        Scale of the error, positive.

    Raises
    ------
    ValueError
        If ``cutpoints`` is a scalar or has no entry.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> OrderedLogit(loc=0.0, cutpoints=jnp.array([-1.0, 0.0, 1.0])).probs.round(3)
    Array([0.269, 0.231, 0.231, 0.269], dtype=float64)
    """

    _draw_error = staticmethod(random.logistic)

    @validate_sample
    def log_prob(self, value: ArrayLike, intermediates: list[Any] | None = None) -> Array:
        """Log of the probability of the level; that of a middle one is a product."""
        lower, upper = self._edges(jnp.asarray(value))
        below, above = (jnp.isfinite(edge) for edge in (lower, upper))
        # Stand-ins for infinite edges keep the gradient finite.
        low = (jnp.where(below, lower, 0.0) - self.loc) / self.noise
        high = (jnp.where(above, upper, 0.0) - self.loc) / self.noise
        inside = below & above
        width = (jnp.where(inside, upper, 1.0) - jnp.where(inside, lower, 0.0)) / self.noise
        return (
            jnp.where(above, log_sigmoid(high), 0.0)
            + jnp.where(below, log_sigmoid(-low), 0.0)
            + jnp.where(inside, jnp.log(-jnp.expm1(-width)), 0.0)
        )

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate the level's probability over normal values of ``loc``, right to 1e-9."""
        edges = self._edges(jnp.asarray(value))
        return logistic_interval_moments(*edges, mean, variance, self.noise)


LIKELIHOODS = {"probit": OrderedProbit, "logit": OrderedLogit}  #: by what programs call them
