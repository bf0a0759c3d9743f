r"""A Gaussian prior of latents each of which is drawn given few others: walks, chains, hierarchies.

Latent k is ``N(c_k + sum_j J_kj z_j, q_k)``. The joint precision
:math:`(I - J)' \operatorname{diag}(1 / q) (I - J)` is sparse, and has the form of what sites add to
one: row k of :math:`I - J` is a margin, and :math:`1 / q_k` the precision of a Gaussian site of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayesrank.infer.gaussian.factorised import FactorisedGaussian
from bayesrank.infer.gaussian.protocol import Large
from bayesrank.infer.gaussian.rows import Rows

__all__ = ["LinkedPrior", "linked"]


class LinkedPrior(NamedTuple):
    """``N(0, K)`` by its sparse precision, see `bayesrank.infer.gaussian.protocol.Prior`.

    It is multiplied by sites outside of compiled code, by `SparseGaussian`.

    Attributes
    ----------
    links
        The rows of ``I - J``, sparse.
    spread
        ``q``, shape (n,).
    variances
        Of the latents, shape (n,); of one that depends on several, as if these were independent.
    """

    links: Rows
    spread: Array
    variances: Array

    @property
    def size(self) -> int:
        """Number of latents."""
        return self.links.size

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return self.spread.dtype

    def alone(self) -> FactorisedGaussian:
        """The margins of the prior."""
        return FactorisedGaussian(jnp.zeros(self.size, self.dtype), self.variances, ())

    def packed(self, mean: Array, variances: Array, rows: tuple[tuple[Array, Array], ...]) -> Large:
        """What compiled code returns, see `bayesrank.infer.gaussian.protocol.LargePrior`."""
        links: Any = self.links.values, self.links.columns
        return Large(mean, self.spread, variances, rows, links=links)


def linked(slopes: Rows, loc: Array, spread: Array) -> tuple[Array, LinkedPrior]:
    """Mean (n,) of latents that are drawn given one another, and the Gaussian about it.

    Parameters
    ----------
    slopes
        ``J``, sparse, of latents that depend on one another in no circle.
    loc, spread
        ``c`` and ``q``, shape (n,).
    """
    squares = slopes._replace(values=slopes.values**2)

    def unfinished(state: tuple[Array, ...]) -> Array:
        mean, variances, old_mean, old_variances = state
        return jnp.any(_differ(mean, old_mean) | _differ(variances, old_variances))

    def follow(state: tuple[Array, ...]) -> tuple[Array, ...]:
        mean, variances, *_ = state
        return loc + slopes.apply(mean), spread + squares.apply(variances), mean, variances

    none = jnp.full_like(loc, jnp.nan)
    mean, variances, *_ = lax.while_loop(unfinished, follow, (loc, spread, none, none))
    own = jnp.arange(slopes.size, dtype=jnp.int32)[:, None]
    if slopes.columns is None:
        raise ValueError("the slopes are not sparse")
    links = slopes._replace(
        values=jnp.concatenate([jnp.ones_like(loc)[:, None], -slopes.values], axis=1),
        columns=jnp.concatenate([own, slopes.columns], axis=1),
    )
    return mean, LinkedPrior(links, spread, variances)


def _differ(new: Array, old: Array) -> Array:
    """Where numbers are others; what is not a number stays so, and is no other one."""
    return (new != old) & ~(jnp.isnan(new) & jnp.isnan(old))
