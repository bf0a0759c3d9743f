r"""Many items: the kernel is learned for some of them, and the base carries it to the others.

With core items :math:`C`, others :math:`R` and the base process's :math:`\Psi`, others follow the
core as new items do (see `bayesrank.solvers.collaborative.extend`), but for a mean of their own,
and given the core they are independent of each other:

.. math::
    f_R = h_R + W'(f_C - h_C) + \epsilon, \quad W = \Psi_{CC}^{-1} \Psi_{CR}, \quad
    \epsilon \sim N(0, D), \quad D = \mathrm{diag}(\Psi_{RR} - W' \Psi_{CR}).

The kernel of all items is then :math:`\Sigma = A \Sigma_{CC} A' + \mathrm{diag}(0, D)` with
:math:`A' = [I, W]`, and quadratic forms in its inverse are

.. math:: u' \Sigma^{-1} v = u_C' \Sigma_{CC}^{-1} v_C + (u_R - W' u_C)' D^{-1} (v_R - W' v_C).

The M-step takes matrices of the size of the core apart, not of all items.

References
----------
.. [1] Yu, K., Tresp, V. and Schwaighofer, A. (2005). Learning Gaussian processes from multiple
   tasks. ICML.
.. [2] Snelson, E. and Ghahramani, Z. (2006). Sparse Gaussian processes using pseudo-inputs. NIPS.
   Others are independent given the core as there: the fully independent training conditional.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from bayesrank.solvers.collaborative.posterior import Prior

__all__ = [
    "Carried",
    "CoreKernels",
    "carry",
    "columns",
    "inverse_product",
    "mix",
    "multiply",
    "whole",
]


class CoreKernels(NamedTuple):
    """What is needed of the base kernels; the core items come first.

    Attributes
    ----------
    core
        Of the core items, shape (C, c, c).
    across
        Between core and other items, shape (C, c, k).
    own
        Variances of the other items, shape (C, k).
    """

    core: Array
    across: Array
    own: Array


class Carried(NamedTuple):
    """The base process at its scales, and how the other items follow the core by it.

    Attributes
    ----------
    factor
        Cholesky factor of ``Psi_CC``, shape (c, c).
    weights
        ``W``, shape (c, k).
    own
        The diagonal of ``D``, shape (k,).
    """

    factor: Array
    weights: Array
    own: Array


def mix(scales: Array, kernels: Array) -> Array:
    """Mix base kernels, stacked along the first axis, by their scales."""
    return jnp.einsum("c,cij->ij", scales, kernels)


def carry(scales: Array, kernels: CoreKernels) -> Carried:
    """Mix the base kernels by their scales, and carry the core over to the other items."""
    factor = jnp.linalg.cholesky(mix(scales, kernels.core))
    across, own = mix(scales, kernels.across), scales @ kernels.own
    weights = cho_solve((factor, True), across) if across.shape[1] else across
    return Carried(factor, weights, own - jnp.sum(across * weights, axis=0))


def columns(kernel: Array, carried: Carried) -> Array:
    """``A Sigma_CC``, the columns of the core in the kernel of all items, shape (c + k, c)."""
    return jnp.concatenate([kernel, carried.weights.T @ kernel])


def whole(prior: Prior, carried: Carried) -> Prior:
    """Return mean and kernel of all items, from the mean of all and the kernel of the core."""
    across = prior.kernel @ carried.weights
    rest = carried.weights.T @ across + jnp.diag(carried.own)
    return prior._replace(kernel=jnp.block([[prior.kernel, across], [across.T, rest]]))


def multiply(kernel: Array, carried: Carried, vector: Array) -> Array:
    """Multiply the kernel of all items by a vector, shape (c + k,)."""
    core, rest = jnp.split(vector, [kernel.shape[0]])
    found = kernel @ (core + carried.weights @ rest)
    return jnp.concatenate([found, found @ carried.weights + carried.own * rest])


def inverse_product(factor: Array, carried: Carried, u: Array, v: Array) -> Array:
    """``u' Sigma^-1 v``, with the Cholesky factor of ``Sigma_CC``."""
    (core, rest), (other, its_rest) = (jnp.split(x, [factor.shape[0]]) for x in (u, v))
    left, right = rest - core @ carried.weights, its_rest - other @ carried.weights
    return core @ cho_solve((factor, True), other) + jnp.sum(left * right / carried.own)
