"""The product of a Gaussian prior and Gaussian sites, without inverting the prior covariance."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

__all__ = ["Posterior", "gaussian_posterior", "log_normaliser"]


class Posterior(NamedTuple):
    """A Gaussian posterior.

    Attributes
    ----------
    mean
        Shape (n,), measured from the prior mean.
    covariance
        Shape (n, n).
    log_det
        ``log |I + S K|``.
    valid
        Whether the covariance is finite and the determinant positive.
    """

    mean: Array
    covariance: Array
    log_det: Array
    valid: Array


def gaussian_posterior(covariance: Array, precision: Array, shift: Array) -> Posterior:
    """Multiply ``N(0, K)`` by ``exp(psi' x - x' S x / 2)``.

    Parameters
    ----------
    covariance
        ``K``, shape (n, n) or, for a diagonal one, (n,).
    precision, shift
        ``S`` (n, n) and ``psi`` (n,).

    Returns
    -------
    Posterior
        By one LU factorisation of ``I + K S``, or for a diagonal ``K = D D`` a Cholesky
        factorisation of ``I + D S D``; both are well conditioned whether or not ``K`` is.
    """
    identity = jnp.eye(precision.shape[0], dtype=precision.dtype)
    if covariance.ndim == 1:
        root = jnp.sqrt(covariance)
        factor = jnp.linalg.cholesky(identity + root[:, None] * precision * root)
        inverse = jax.scipy.linalg.cho_solve((factor, True), identity)
        posterior = root[:, None] * inverse * root
        pivots = jnp.diagonal(factor) ** 2
        positive = jnp.all(pivots > 0)
    else:
        factors, swaps, _ = lax.linalg.lu(identity + covariance @ precision)
        posterior = jax.scipy.linalg.lu_solve((factors, swaps), covariance)
        posterior = 0.5 * (posterior + posterior.T)
        pivots = jnp.diagonal(factors)
        swapped = jnp.sum(swaps != jnp.arange(swaps.shape[0], dtype=swaps.dtype))
        positive = (jnp.prod(jnp.sign(pivots)) * (1 - 2 * (swapped % 2)) > 0) & jnp.all(
            jnp.diagonal(posterior) >= 0
        )
    valid = positive & jnp.all(jnp.isfinite(posterior))
    return Posterior(posterior @ shift, posterior, jnp.sum(jnp.log(jnp.abs(pivots))), valid)


def log_normaliser(
    covariance: Array, precision: Array, shift: Array, posterior: Posterior
) -> Array:
    r"""Integrate ``exp(psi' x - x' S x / 2)`` over ``N(0, K)``, and take the log.

    With the posterior's mean :math:`\mu` and covariance :math:`C`, it is
    :math:`(\psi' \mu - \log |I + S K|) / 2`, and its derivative costs two products of matrices:

    .. math:: \tfrac12 \operatorname{tr}((b b' - S + S C S)\, dK)
        - \tfrac12 \operatorname{tr}((C + \mu \mu')\, dS) + \mu' d\psi, \qquad b = \psi - S \mu .

    Parameters
    ----------
    covariance, precision, shift
        As in `gaussian_posterior`.
    posterior
        What that returns for them; nothing is differentiated through it.
    """
    parts = lax.stop_gradient((posterior.mean, posterior.covariance, posterior.log_det))
    return _log_normaliser(covariance, precision, shift, *parts)


@jax.custom_jvp
def _log_normaliser(
    covariance: Array, precision: Array, shift: Array, mean: Array, spread: Array, log_det: Array
) -> Array:
    del covariance, precision, spread
    return 0.5 * (shift @ mean - log_det)


@_log_normaliser.defjvp
def _log_normaliser_jvp(
    primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
    covariance, precision, shift, mean, spread, _ = primals
    d_covariance, d_precision, d_shift = tangents[:3]
    pull, product = shift - precision @ mean, precision @ spread
    if covariance.ndim == 1:
        slope = pull**2 - jnp.diagonal(precision) + jnp.sum(product * precision, axis=1)
    else:
        slope = jnp.outer(pull, pull) - precision + product @ precision
    change = jnp.sum(slope * d_covariance)
    change -= jnp.sum((spread + jnp.outer(mean, mean)) * d_precision)
    return _log_normaliser(*primals), 0.5 * change + mean @ d_shift
