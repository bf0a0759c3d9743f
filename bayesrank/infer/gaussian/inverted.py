"""A full covariance that is inverted once, for many products with sites.

Then prior times sites has the covariance ``(K^-1 + S)^-1``, in half the time that ``I + K S``
takes to solve with. Rounding leaves enough of ``K^-1`` where no latent is nearly determined by the
others; where one is, or ``K`` is singular, `DensePrior` serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from bayesrank.infer.gaussian.dense import (
    DenseGaussian,
    DensePrior,
    product,
    summed,
)
from bayesrank.infer.gaussian.inverse import LARGEST_BLOCK, inverse_and_pivots
from bayesrank.infer.gaussian.protocol import Prior, SiteTerm

__all__ = ["InvertedPrior", "for_many_sweeps"]


class InvertedPrior(NamedTuple):
    """A `DensePrior` with its inverse; it is multiplied, not differentiated.

    Attributes
    ----------
    prior
        The prior.
    precision
        The inverse of its covariance, shape (n, n).
    pivots
        Of the covariance, shape (n,); see `inverse_and_pivots`.
    trusted
        Whether the inverse is good enough.
    """

    prior: DensePrior
    precision: Array
    pivots: Array
    trusted: Array

    on_host, keeps_covariances = False, True

    @property
    def size(self) -> int:
        """Number of latents."""
        return self.prior.size

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.prior.dtype

    def alone(self, terms: Sequence[SiteTerm] = ()) -> DenseGaussian:
        """The prior as a posterior."""
        return self.prior.alone()

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> DenseGaussian:
        """Multiply by sites."""
        return lax.cond(self.trusted, self._multiply, self.prior.multiply, *summed(terms))

    def _multiply(self, precision: Array, shift: Array) -> DenseGaussian:
        total = self.precision + precision
        covariance, pivots = inverse_and_pivots(total)
        # Precise data of differences leave the level known as the prior knows it, which rounding
        # has taken from the sum. Sites that leave no proper posterior are NaN, and go to LU too.
        return lax.cond(
            _trustworthy(total, covariance),
            self._inverted,
            lambda covariance, pivots, shift, precision: self.prior.multiply(precision, shift),
            *(covariance, pivots, shift, precision),
        )

    def _inverted(
        self, covariance: Array, pivots: Array, shift: Array, precision: Array
    ) -> DenseGaussian:
        del precision
        covariance = 0.5 * (covariance + covariance.T)
        return product(covariance, shift, pivots * self.pivots, jnp.all(pivots > 0))

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: DenseGaussian) -> Array:
        """The normaliser, differentiable, as that of the prior."""
        return self.prior.log_normaliser(terms, posterior)


def for_many_sweeps(prior: Prior) -> Prior:
    """A prior in the form in which it is soonest multiplied by sites again and again.

    Of few latents, compiling another way would take longer than all sweeps.
    """
    if not isinstance(prior, DensePrior) or prior.size <= LARGEST_BLOCK:
        return prior
    return InvertedPrior(prior, *_inverted(prior.covariance))


@custom_vmap
def _inverted(covariance: Array) -> tuple[Array, Array, Array]:
    precision, pivots = inverse_and_pivots(covariance)
    return precision, pivots, _trustworthy(precision, covariance)


def _trustworthy(precision: Array, covariance: Array) -> Array:
    """Whether rounding has left enough of one of these, computed as the other's inverse."""
    # A latent's variance, as a multiple of what is left of it given all others, and so of rounding.
    determined = jnp.max(jnp.diagonal(precision) * jnp.diagonal(covariance))
    eps = jnp.finfo(covariance.dtype).eps
    return determined * covariance.shape[0] * eps < eps**0.375


@_inverted.def_vmap
def _not_inverted(
    axis_size: int, in_batched: list[bool], covariance: Array
) -> tuple[tuple[Array, Array, Array], tuple[bool, bool, bool]]:
    """None of a batch is trusted: `lax.cond` would go both ways for all, were some."""
    del axis_size, in_batched
    precision = jnp.zeros(covariance.shape[1:], covariance.dtype)
    return (precision, precision[0], jnp.zeros((), bool)), (False, False, False)
