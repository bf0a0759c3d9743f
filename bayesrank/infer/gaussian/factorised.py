r"""Many independent latents that sites see few at a time: a Gaussian for each latent alone.

A site of the margin :math:`s = \sum_e a_e x_e` tells each of its latents what it would tell it if
the others were independent of it without this site: a message
:math:`\exp(\rho_e x_e - \pi_e x_e^2 / 2)`. A latent is its prior times its messages. On a tree this
is the posterior; where there are short loops, as among players who all meet each other, it leaves
out what skills have in common, and standard deviations of differences between players who never met
can be far too narrow, though those of players who met are nearly right.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from bayesrank.infer.gaussian.protocol import Large
from bayesrank.infer.gaussian.rows import Rows

__all__ = ["FactorisedGaussian", "FactorisedPrior", "Messages", "merged"]


class Messages(NamedTuple):
    """What the sites of one block tell each latent that they see.

    Attributes
    ----------
    pi, rho
        Precisions and precision-means, shape (G, r).
    """

    pi: Array
    rho: Array


class FactorisedPrior(NamedTuple):
    """``N(0, D D)`` with a diagonal ``D``, whose posterior is kept latent by latent.

    Attributes
    ----------
    variances
        The diagonal of ``D D``, shape (n,).
    """

    variances: Array

    @property
    def size(self) -> int:
        """Number of latents."""
        return self.variances.shape[0]

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.variances.dtype

    def packed(self, mean: Array, variances: Array, rows: tuple[tuple[Array, Array], ...]) -> Large:
        """What compiled code returns, see `bayesrank.infer.gaussian.protocol.LargePrior`."""
        return Large(mean, self.variances, variances, rows)


class FactorisedGaussian(NamedTuple):
    """The posterior, latent by latent.

    Attributes
    ----------
    mean, variances
        Shape (n,).
    messages
        Of each block of sites.
    """

    mean: Array
    variances: Array
    messages: tuple[Messages, ...]


def merged(rows: Rows) -> Rows:
    """Sparse rows in which a column stands once: its entries are added up, the rest are zeros."""
    if rows.columns is None:
        raise ValueError("dense rows have each column once")
    same = rows.columns[:, :, None] == rows.columns[:, None, :]
    earlier = jnp.tril(jnp.ones(same.shape[1:], bool), -1)
    first = ~jnp.any(same & earlier, axis=2)
    total = jnp.sum(jnp.where(same, rows.values[:, None, :], 0.0), axis=2)
    return rows._replace(values=jnp.where(first, total, 0.0))
