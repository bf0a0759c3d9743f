r"""A Gaussian kept as a covariance matrix; the prior is never inverted.

With ``S = A' diag(tau) A`` and ``psi = A' nu`` of all sites, prior times sites is

    covariance ``C = K (I + S K)^-1``,  mean ``C psi``,
    log normaliser ``(psi' C psi - log |I + S K|) / 2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.gaussian.protocol import Margins, SiteTerm
from bayesrank.infer.gaussian.rows import Rows

__all__ = [
    "DenseGaussian",
    "DensePrior",
    "exceeds_rounding",
    "product",
    "rest_of_derivative",
    "square_root",
    "summed",
    "unmultiplied",
]


class DenseGaussian(NamedTuple):
    """A Gaussian with all its covariances, see `bayesrank.infer.gaussian.protocol.Gaussian`.

    Attributes
    ----------
    mean
        Shape (n,), measured from the prior mean.
    covariance
        Shape (n, n).
    log_normaliser
        Log of the integral of the prior times the sites that made it.
    valid
        Whether the covariance is finite and the determinant positive.
    """

    mean: Array
    covariance: Array
    log_normaliser: Array
    valid: Array

    def margins(self, rows: Rows, block: int = 0) -> tuple[Array, Array]:
        """Means and variances of predictors, shapes (G,)."""
        return rows.apply(self.mean), rows.quadratic(self.covariance)

    def ready(self, rows: Sequence[Rows]) -> DenseGaussian:
        """Itself."""
        return self

    def watched(self, rows: Sequence[Rows]) -> Margins:
        """The margins of all sites."""
        return tuple(self.margins(block) for block in rows)

    def covariance_of(self, rows_a: Rows, rows_b: Rows) -> Array:
        """Covariance of two sets of predictors, shape (G_a, G_b)."""
        return rows_a.times(rows_b.times(self.covariance).T)

    def sample(self, rng_key: Array, num_samples: int) -> Array:
        """Draws, shape (num_samples, n)."""
        normal = jax.random.normal(rng_key, (num_samples, self.mean.size), self.mean.dtype)
        return self.mean + normal @ square_root(self.covariance).T


class DensePrior(NamedTuple):
    """``N(0, K)`` with a full covariance.

    Attributes
    ----------
    covariance
        ``K``, shape (n, n); it may be singular.
    """

    covariance: Array

    on_host, keeps_covariances = False, True
    serves = ()

    @property
    def size(self) -> int:
        """Number of latents."""
        return self.covariance.shape[0]

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.covariance.dtype

    @property
    def variances(self) -> Array:
        """Shape (n,)."""
        return jnp.diagonal(self.covariance)

    def dense(self) -> DensePrior:
        """Itself."""
        return self

    def alone(self, terms: Sequence[SiteTerm] = ()) -> DenseGaussian:
        """The prior as a posterior."""
        return unmultiplied(self.covariance)

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> DenseGaussian:
        """Multiply by sites, by one LU factorisation of ``I + K S``; see `multiply`."""
        return self.multiply(*summed(terms))

    def multiply(self, precision: Array, shift: Array) -> DenseGaussian:
        """Multiply by ``exp(psi' x - x' S x / 2)``.

        Parameters
        ----------
        precision, shift
            ``S`` (n, n) and ``psi`` (n,).
        """
        identity = jnp.eye(self.size, dtype=self.dtype)
        factors, swaps, _ = lax.linalg.lu(identity + self.covariance @ precision)
        covariance = jax.scipy.linalg.lu_solve((factors, swaps), self.covariance)
        covariance = 0.5 * (covariance + covariance.T)
        pivots = jnp.diagonal(factors)
        swapped = jnp.sum(swaps != jnp.arange(swaps.shape[0], dtype=swaps.dtype))
        # A determinant does not tell two negative directions from none; variances may.
        positive = (jnp.prod(jnp.sign(pivots)) * (1 - 2 * (swapped % 2)) > 0) & jnp.all(
            jnp.diagonal(covariance) >= 0
        )
        size = jnp.abs(factors)
        terms = jnp.abs(pivots) + jnp.sum(jnp.tril(size, -1) * size.T, axis=1)
        return product(covariance, shift, pivots, positive & exceeds_rounding(pivots, terms))

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: DenseGaussian) -> Array:
        r"""The normaliser, differentiable.

        With the posterior's mean :math:`\mu`, its derivative costs two products of matrices:

        .. math:: \tfrac12 \operatorname{tr}((b b' - S + S C S)\, dK)
            - \tfrac12 \operatorname{tr}((C + \mu \mu')\, dS) + \mu' d\psi,
            \qquad b = \psi - S \mu .
        """
        fixed = lax.stop_gradient(posterior)
        return _normaliser(self.covariance, *summed(terms), fixed)


def unmultiplied(covariance: Array) -> DenseGaussian:
    """A prior of this covariance as a posterior."""
    zero = jnp.zeros((), covariance.dtype)
    valid = jnp.all(jnp.isfinite(covariance))
    return DenseGaussian(jnp.zeros(covariance.shape[0], covariance.dtype), covariance, zero, valid)


def exceeds_rounding(pivots: Array, terms: Array) -> Array:
    """Whether all pivots are more than rounding has left of the terms that they are a sum of.

    They are not where a prior is so wide that nothing of it is left beside the data, in a direction
    of which the data say nothing.
    """
    return jnp.all(jnp.abs(pivots) > jnp.finfo(pivots.dtype).eps ** 0.75 * terms)


def product(covariance: Array, shift: Array, pivots: Array, positive: Array) -> DenseGaussian:
    """The posterior from its covariance, and the pivots of ``I + S K``."""
    mean = covariance @ shift
    log_normaliser = 0.5 * (shift @ mean - jnp.sum(jnp.log(jnp.abs(pivots))))
    valid = positive & jnp.all(jnp.isfinite(covariance))
    return DenseGaussian(mean, covariance, log_normaliser, valid)


def summed(terms: Sequence[SiteTerm]) -> tuple[Array, Array]:
    """Precision ``S`` (n, n) and precision-mean ``psi`` (n,) of all sites, in the latents."""
    precision = reduce(jnp.add, (term.rows.gram(term.tau) for term in terms))
    return precision, reduce(jnp.add, (term.rows.transpose_apply(term.nu) for term in terms))


def square_root(covariance: Array) -> Array:
    """``R`` with ``R R' = C``, for a covariance that may be singular to rounding."""
    values, vectors = jnp.linalg.eigh(covariance)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))


def rest_of_derivative(posterior: DenseGaussian, d_precision: Array, d_shift: Array) -> Array:
    """The derivative of the log normaliser in the sites' part."""
    mean = posterior.mean
    second = posterior.covariance + jnp.outer(mean, mean)
    return mean @ d_shift - 0.5 * jnp.sum(second * d_precision)


@jax.custom_jvp
def _normaliser(
    covariance: Array, precision: Array, shift: Array, posterior: DenseGaussian
) -> Array:
    del covariance, precision, shift
    return posterior.log_normaliser


@_normaliser.defjvp
def _normaliser_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    _, precision, shift, posterior = primals
    d_covariance, d_precision, d_shift, _ = tangents
    pull = shift - precision @ posterior.mean
    slope = jnp.outer(pull, pull) - precision + precision @ posterior.covariance @ precision
    change = 0.5 * jnp.sum(slope * d_covariance)
    return _normaliser(*primals), change + rest_of_derivative(posterior, d_precision, d_shift)
