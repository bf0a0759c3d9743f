"""A Gaussian prior of independent latents, of which the data make a dense posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.gaussian.dense import (
    DenseGaussian,
    DensePrior,
    exceeds_rounding,
    product,
    rest_of_derivative,
    summed,
    unmultiplied,
)
from bayesrank.infer.gaussian.factorised import FactorisedPrior
from bayesrank.infer.gaussian.inverse import inverse_and_pivots
from bayesrank.infer.gaussian.protocol import SiteTerm

__all__ = ["DiagonalPrior"]


class DiagonalPrior(NamedTuple):
    """``N(0, D D)`` with a diagonal ``D``, see `bayesrank.infer.gaussian.protocol.Prior`.

    Attributes
    ----------
    variances
        The diagonal of ``D D``, shape (n,).
    """

    variances: Array

    on_host, keeps_covariances = False, True
    serves = ("factorised", "probes")

    @property
    def size(self) -> int:
        """Number of latents."""
        return self.variances.shape[0]

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.variances.dtype

    def dense(self) -> DensePrior:
        """The same with all covariances."""
        return DensePrior(jnp.diag(self.variances))

    def without_covariances(self) -> FactorisedPrior:
        """The same, whose posterior is kept latent by latent."""
        return FactorisedPrior(self.variances)

    def alone(self, terms: Sequence[SiteTerm] = ()) -> DenseGaussian:
        """The prior as a posterior."""
        return unmultiplied(jnp.diag(self.variances))

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> DenseGaussian:
        """Multiply by sites, by a Cholesky factorisation of ``I + D S D``."""
        precision, shift = summed(terms)
        identity, root = jnp.eye(self.size, dtype=self.dtype), jnp.sqrt(self.variances)
        scaled = identity + root[:, None] * precision * root
        inverse, pivots = inverse_and_pivots(scaled)
        known = exceeds_rounding(pivots, jnp.diagonal(scaled))
        return product(root[:, None] * inverse * root, shift, pivots, known)

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: DenseGaussian) -> Array:
        """The normaliser, differentiable, as that of a dense prior."""
        fixed = lax.stop_gradient(posterior)
        return _normaliser(self.variances, *summed(terms), fixed)


@jax.custom_jvp
def _normaliser(variances: Array, precision: Array, shift: Array, posterior: Any) -> Array:
    del variances, precision, shift
    return posterior.log_normaliser


@_normaliser.defjvp
def _normaliser_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    _, precision, shift, posterior = primals
    d_variances, d_precision, d_shift, _ = tangents
    pull = shift - precision @ posterior.mean
    widened = jnp.sum((precision @ posterior.covariance) * precision, axis=1)
    slope = pull**2 - jnp.diagonal(precision) + widened
    change = 0.5 * slope @ d_variances
    return _normaliser(*primals), change + rest_of_derivative(posterior, d_precision, d_shift)
