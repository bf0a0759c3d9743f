r"""Features for any kernel: a basis of stored examples, made orthonormal as it changes.

The examples :math:`b_1, b_2, \dots` of the stream span all that a Gaussian process of kernel
:math:`K` says about them. Gram-Schmidt turns them into features :math:`\varphi(x) = R\, K(B, x)`
with :math:`R K(B, B) R^T = I`. So :math:`\varphi(x) \cdot \varphi(x') = K(x, x')` if one of both is
in the basis, and independent standard normal weights are the process. Any other example has

.. math:: \gamma(x) = K(x, x) - |\varphi(x)|^2

of its variance in a direction of its own, of which nothing is known yet. A free slot is always
there for that direction. An example enters with the feature :math:`\sqrt{\gamma}`, and the learner
learns from it exactly. It stays if :math:`\gamma` counts beside :math:`K(x, x)`.

If the store is then over its budget, the example leaves without which the mean function would
change least at its own place. That change is :math:`|\alpha_i| / (K(B, B)^{-1})_{ii}`, with
:math:`\alpha = R^T E[w]` the coefficients of the mean. A reflection turns the direction that no
other example of the basis spans into the slot's axis, and the belief about it is forgotten. This is
the only approximation: the function at the other examples keeps its belief. An example costs
:math:`O(B^2)`, whether one leaves or not.

The projection onto the basis and the score of its vectors come from Csato and Opper (2002),
Sparse on-line Gaussian processes, Neural Computation 14, 641-668.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from tinygp.kernels import Kernel

from bayesrank.online._kernel_form import Store, kernel_row, put

# Share of an example's variance that has to be its own, or it is not new.
NEW = 1e-6


class Basis(NamedTuple):
    """Stored examples, and features made of them."""

    support: Any  # as in `Store`, shapes (S, d) and (S,), with a slot more than the budget
    stamps: Any
    whitening: Any  # the matrix R, (S, S); rows and columns of free slots are zero


def empty_basis(budget: int, num_features: int) -> Basis:
    """Basis without an example; without a budget it has no slot."""
    slots = budget + 1 if budget else 0
    return Basis(
        np.zeros((slots, num_features if budget else 0)),
        np.zeros(slots, np.int64),
        np.zeros((slots, slots)),
    )


def features(kernel: Kernel, basis: Basis, x: Array) -> Array:
    """Features of an example, the free slot's included; (S,)."""
    row = basis.whitening @ kernel_row(kernel, Store(basis.support, basis.stamps), x)
    variance = kernel(x[None])[0]
    own = variance - row @ row
    own = jnp.where(own > NEW * variance, own, 0.0)
    return row.at[jnp.argmin(basis.stamps)].set(jnp.sqrt(own))


@jax.jit
def feature_block(kernel: Kernel, basis: Basis, X: ArrayLike) -> Array:
    """Features of each example of a block, shape (B, S)."""
    return jax.lax.map(lambda x: features(kernel, basis, x), jnp.asarray(X))


def enter(basis: Basis, x: Array, row: Array, stamp: Array) -> Basis:
    """Put an example of features ``row`` into the free slot, if it is new."""
    slot = jnp.argmin(basis.stamps)
    own = row[slot]
    new = own > 0.0
    known = -(row.at[slot].set(0.0) @ basis.whitening)
    prior_scale = known.at[slot].set(1.0) / jnp.where(new, own, 1.0)
    store = put(Store(basis.support, basis.stamps), slot, x, stamp, new)
    whitening = basis.whitening.at[slot].set(jnp.where(new, prior_scale, 0.0))
    return Basis(*store, whitening)


def leaver(basis: Basis, weights: Array) -> Array:
    """The slot whose example leaves a full basis, given the mean of the weights, (S,)."""
    change = jnp.abs(basis.whitening.T @ weights) / jnp.sum(basis.whitening**2, axis=0)
    return jnp.argmin(change)


def leave(basis: Basis, slot: Array) -> tuple[Basis, Array]:
    """The basis without a slot, and the reflection ``I - v v'`` of its features as v, (S,)."""
    own = basis.whitening[:, slot]
    own = own / jnp.sqrt(own @ own)
    mirror = own.at[slot].add(jnp.where(own[slot] < 0.0, -1.0, 1.0))
    mirror = mirror * jnp.sqrt(2.0 / (mirror @ mirror))
    turned = basis.whitening - mirror[:, None] * (mirror @ basis.whitening)
    turned = turned.at[slot].set(0.0).at[:, slot].set(0.0)
    return Basis(basis.support, basis.stamps.at[slot].set(0), turned), mirror
