"""What the distributions over a few ordered outcomes have in common."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayesrank.distributions._moments import TiltedMoments


class Outcomes(Distribution):
    """Base of distributions over ``0, ..., num_outcomes - 1``; `predictor` names its argument."""

    predictor: ClassVar[str]
    has_enumerate_support = True

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes."""
        raise NotImplementedError

    def tilted_moments(
        self, value: ArrayLike, mean: ArrayLike, variance: ArrayLike
    ) -> TiltedMoments:
        """Integrate an outcome's probability over a normal predictor, of mean and variance."""
        raise NotImplementedError

    @property
    def support(self) -> constraints.Constraint:
        """Outcomes from 0 to ``num_outcomes - 1``."""
        return constraints.integer_interval(0, self.num_outcomes - 1)

    def enumerate_support(self, expand: bool = True) -> Array:
        """List the outcomes along a new leading axis, of batch shape if ``expand``."""
        shape = (-1,) + (1,) * len(self.batch_shape)
        values = jnp.arange(self.num_outcomes).reshape(shape)
        if expand:
            values = jnp.broadcast_to(values, (self.num_outcomes, *self.batch_shape))
        return values

    @property
    def probs(self) -> Array:
        """Probabilities of the outcomes along a new trailing axis."""
        log_probs = jnp.asarray(self.log_prob(self.enumerate_support()))
        return jnp.moveaxis(jnp.exp(log_probs), 0, -1)

    @property
    def mean(self) -> Array:
        """Expected outcome number."""
        return self.probs @ jnp.arange(self.num_outcomes)

    @property
    def variance(self) -> Array:
        """Variance of the outcome number."""
        outcomes = jnp.arange(self.num_outcomes)
        return jnp.sum(self.probs * (outcomes - self.mean[..., None]) ** 2, axis=-1)

    def _errors(
        self, draw: Callable[..., Array], key: Array | None, sample_shape: tuple[int, ...]
    ) -> Array:
        """Draw one standard error for each outcome to be sampled."""
        if key is None:
            raise ValueError("key is None; give a key of jax.random to sample with")
        return draw(key, self.shape(sample_shape), jnp.result_type(float))
