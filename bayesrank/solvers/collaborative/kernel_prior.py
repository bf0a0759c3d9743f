r"""How much the kernel's prior is worth, which need not be the same for all items.

With items in the order of how much was said of them, in tiers, the kernel of all is that of the
first tier and, tier by tier, how items follow those of the tiers before:

.. math::
    f_k = h_k + W_k'(f_{<k} - h_{<k}) + \epsilon_k, \quad
    W_k = \Sigma_{<k}^{-1} \Sigma_{<k,k}, \quad
    \epsilon_k \sim N(0, \Sigma_{k \mid <k}).

The logarithms of determinants, and the divergence of the base process from the users', are sums
over tiers, and each tier's part may be worth a number :math:`\tau_k` of users of its own: a
generalised inverse Wishart density [1]_. With second moments :math:`T`, the part of tier :math:`k`
is greatest at the :math:`W_k` and :math:`\Sigma_{k \mid <k}` of the matrix

.. math:: \frac{T + \tau_k \Psi}{n + \tau_k},

as if that were the kernel of all items up to this tier. One tier is the inverse Wishart density.
In the limit of large :math:`\tau_k` the tier follows the others as the base process has it, as
items do that are not in the core, see `bayesrank.solvers.collaborative.carry`.

An item that few have rated has as many weights on others as one that many have: where both are
learned with one strength, it is too large for the one, or too small for the other.

References
----------
.. [1] Brown, P. J., Le, N. D. and Zidek, J. V. (1994). Inference for a covariance matrix. In
   Aspects of Uncertainty: a Tribute to D. V. Lindley, 77-92. Wiley.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

__all__ = ["Tier", "divergence", "draw_as", "draw_towards", "make_tiers"]

# Where nothing else is asked for: the first items' prior is worth as many users as they are, that
# of how further ones follow them so many. Chosen on ratings of 1,303 films by 671 users, where
# 2,500 to 8,000 are about as good, and confirmed on 1,128 lecturers rated by 2,972 students.
_FIRST_ITEMS = 500
_FURTHER = 5000.0


class Tier(NamedTuple):
    """Items `start` to `end`, and how many users the prior of what they add to the kernel is worth.

    All known when code is compiled.
    """

    start: int
    end: int
    worth: float


def make_tiers(size: int, strength: float | None = None) -> tuple[Tier, ...]:
    """Tiers of so many items: one if a strength is given, else by the number of items."""
    if strength is not None:
        return (Tier(0, size, float(strength)),)
    first = min(size, _FIRST_ITEMS)
    tiers = (Tier(0, first, float(first)), Tier(first, size, _FURTHER))
    return tiers[: 1 if first == size else 2]


def divergence(factor: Array, target: Array, tiers: tuple[Tier, ...]) -> Array:
    """Twice the divergence of the base process from the users', each tier's times its worth.

    Parameters
    ----------
    factor, target
        Cholesky factors of ``Sigma`` and ``Psi``, shape (c, c).
    tiers
        Tiers.
    """
    root = solve_triangular(factor, target, lower=True)
    log_ratio = 2.0 * (jnp.log(jnp.diagonal(factor)) - jnp.log(jnp.diagonal(target)))
    each = log_ratio + jnp.sum(root**2, axis=1) - 1.0
    parts = [tier.worth * jnp.sum(each[tier.start : tier.end]) for tier in tiers]
    return sum(parts, jnp.zeros((), factor.dtype))


def draw_as(tier: Tier, moments: Array, target: Array, num_users: Array) -> Array:
    """Return what `draw_towards` would, had all items up to this tier its strength."""
    part = slice(tier.end), slice(tier.end)
    return (moments[part] + tier.worth * target[part]) / (num_users + tier.worth)


def draw_towards(moments: Array, target: Array, num_users: Array, tiers: tuple[Tier, ...]) -> Array:
    """Return the kernel that is most probable given second moments, summed over users.

    Parameters
    ----------
    moments, target
        ``T`` and ``Psi``, shape (c, c).
    num_users
        ``n``.
    tiers
        Tiers.
    """
    kernel = draw_as(tiers[0], moments, target, num_users)
    for tier in tiers[1:]:
        both = draw_as(tier, moments, target, num_users)
        before, here = jnp.split(both, [tier.start], axis=1)
        known, (across, own) = before[: tier.start], jnp.split(here, [tier.start])
        weights = cho_solve((jnp.linalg.cholesky(known), True), across)
        follows = kernel @ weights
        own += weights.T @ follows - across.T @ weights
        kernel = jnp.block([[kernel, follows], [follows.T, own]])
    return 0.5 * (kernel + kernel.T)
