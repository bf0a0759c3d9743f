r"""A Gaussian as a covariance matrix; the prior is never inverted.

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
from jax.custom_batching import custom_vmap

from bayesrank.infer.gaussian.protocol import Margins, SiteTerm
from bayesrank.infer.gaussian.rows import Rows

# LAPACK inverts blocks of this size. Products take a quarter of its time a flop, and compiling
# them half a second.
LARGEST_BLOCK = 400


class DenseGaussian(NamedTuple):
    """A Gaussian with all its covariances, see `bayesrank.infer.gaussian.protocol.Gaussian`."""

    mean: Array  # shape (n,), measured from the prior mean
    covariance: Array  # shape (n, n)
    log_normaliser: Array  # log of the integral of the prior times the sites that made it
    valid: Array  # whether the covariance is finite and the determinant positive

    @property
    def core(self) -> DenseGaussian:
        """Itself: no latents of groups stand behind it."""
        return self

    def margins(self, rows: Rows, block: int = 0) -> tuple[Array, Array]:
        """Means and variances of predictors, shapes (G,)."""
        return rows.apply(self.mean), rows.quadratic(self.covariance)

    def ready(self, rows: Sequence[Rows]) -> DenseGaussian:
        """Itself."""
        return self

    def watched(self, rows: Sequence[Rows]) -> Margins:
        """The margins of all sites."""
        return tuple(self.margins(block) for block in rows)


class DensePrior(NamedTuple):
    """``N(0, K)`` with a full covariance."""

    covariance: Array  # ``K``, shape (n, n); it may be singular

    on_host, keeps_covariances = False, True
    serves = ()

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

    def prepared(self) -> Any:
        """With its inverse; of few latents, compiling that would take longer than all sweeps."""
        if len(self.covariance) <= LARGEST_BLOCK:
            return self
        return InvertedPrior(self, *_inverted(self.covariance))

    def multiply(self, precision: Array, shift: Array) -> DenseGaussian:
        """Multiply by ``exp(psi' x - x' S x / 2)``, ``S`` (n, n) and ``psi`` (n,)."""
        identity = jnp.eye(len(self.covariance), dtype=self.covariance.dtype)
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
    """Whether pivots are more than rounding leaves of `terms`: not where a prior is too wide."""
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


@jax.custom_jvp
def _normaliser(
    covariance: Array, precision: Array, shift: Array, posterior: DenseGaussian
) -> Array:
    """The log normaliser, of a prior covariance (n, n) or its diagonal (n,)."""
    del covariance, precision, shift
    return posterior.log_normaliser


@_normaliser.defjvp
def _normaliser_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    _, precision, shift, posterior = primals
    d_covariance, d_precision, d_shift, _ = tangents
    mean, seen = posterior.mean, precision @ posterior.covariance
    pull = shift - precision @ mean
    if d_covariance.ndim == 1:
        slope = pull**2 - jnp.diagonal(precision) + jnp.sum(seen * precision, axis=1)
    else:
        slope = jnp.outer(pull, pull) - precision + seen @ precision
    second = posterior.covariance + jnp.outer(mean, mean)
    by_sites = mean @ d_shift - 0.5 * jnp.sum(second * d_precision)
    return _normaliser(*primals), 0.5 * jnp.sum(slope * d_covariance) + by_sites


class DiagonalPrior(NamedTuple):
    """``N(0, D D)`` with a diagonal ``D``, see `bayesrank.infer.gaussian.protocol.Prior`."""

    variances: Array  # the diagonal of ``D D``, shape (n,)

    on_host, keeps_covariances = False, True
    serves = ("factorised", "probes")

    def dense(self) -> DensePrior:
        """The same with all covariances."""
        return DensePrior(jnp.diag(self.variances))

    def prepared(self) -> DiagonalPrior:
        """Itself."""
        return self

    def alone(self, terms: Sequence[SiteTerm] = ()) -> DenseGaussian:
        """The prior as a posterior."""
        return unmultiplied(jnp.diag(self.variances))

    def times(self, terms: Sequence[SiteTerm], before: Any = None) -> DenseGaussian:
        """Multiply by sites, by a Cholesky factorisation of ``I + D S D``."""
        precision, shift = summed(terms)
        root = jnp.sqrt(self.variances)
        scaled = jnp.eye(root.size, dtype=root.dtype) + root[:, None] * precision * root
        inverse, pivots = inverse_and_pivots(scaled)
        known = exceeds_rounding(pivots, jnp.diagonal(scaled))
        return product(root[:, None] * inverse * root, shift, pivots, known)

    def log_normaliser(self, terms: Sequence[SiteTerm], posterior: DenseGaussian) -> Array:
        """The normaliser, differentiable, as that of a dense prior."""
        fixed = lax.stop_gradient(posterior)
        return _normaliser(self.variances, *summed(terms), fixed)


class InvertedPrior(NamedTuple):
    """A `DensePrior` with its inverse, twice as fast; the former serves if digits would be lost."""

    prior: DensePrior  # the prior
    precision: Array  # the inverse of its covariance, shape (n, n)
    pivots: Array  # of the covariance, shape (n,); see `inverse_and_pivots`
    trusted: Array  # whether the inverse is good enough

    on_host, keeps_covariances = False, True

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


def inverse_and_pivots(matrix: Array) -> tuple[Array, Array]:
    r"""Inverse of a positive definite matrix (n, n), and squared pivots (n,), NaN if it is none.

    By halves, with the roots ``U U' = A^-1`` and ``V V' = (D - X X')^-1``, and ``X = B U``:

    .. math:: \begin{pmatrix} A & B' \\ B & D \end{pmatrix}^{-1} = R R', \quad
        R = \begin{pmatrix} U & -U X' V \\ 0 & V \end{pmatrix}

    Products with ``A^-1`` in place of its root would lose as many digits again.
    """
    _, inverse, pivots = _by_halves(matrix)
    return inverse, pivots


def _by_halves(matrix: Array) -> tuple[Array, Array, Array]:
    """An upper triangular root of the inverse, the inverse and the pivots."""
    size = matrix.shape[0]
    if size <= LARGEST_BLOCK:
        factor = lax.linalg.cholesky(matrix, symmetrize_input=False)
        root = lax.linalg.triangular_solve(
            factor,
            jnp.eye(size, dtype=matrix.dtype),
            left_side=True,
            lower=True,
            transpose_a=True,
        )
        return root, root @ root.T, jnp.diagonal(factor) ** 2
    half = size // 2
    upper, first, pivots = _by_halves(matrix[:half, :half])
    below = matrix[half:, :half] @ upper
    lower, second, more = _by_halves(matrix[half:, half:] - below @ below.T)
    # A product whose left side is transposed would take XLA twice as long on a CPU.
    across = -(upper @ below.T) @ lower
    corner = across @ lower.T
    inverse = jnp.block([[first + across @ across.T, corner], [corner.T, second]])
    root = jnp.block([[upper, across], [jnp.zeros_like(across.T), lower]])
    return root, inverse, jnp.concatenate([pivots, more])
