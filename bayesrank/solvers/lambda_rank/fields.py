r"""Fields of lambda: which way, and how hard, each item of a list is to move.

For one list, ``field(scores, labels, where)`` gives ``(lam, curvature)``, both of shape (n,), pure
and fit for ``jit``, ``vmap`` and derivatives. With a weight :math:`w_{ij}` of each pair,

.. math:: \lambda_i = \sum_j \mathrm{sign}(l_i - l_j)\, w_{ij}\, \frac{\sigma}
    {1 + \exp(\sigma\, \mathrm{sign}(l_i - l_j) (s_i - s_j))} .

Training moves scores along lambda, which is minus the gradient of a cost only where there is one.

References
----------
.. [1] Burges, C. J. C. (2005). Ranking as learning structured outputs. NIPS Workshop on Learning to
   Rank.
.. [2] Wang, X., Li, C., Golbandi, N., Bendersky, M. and Najork, M. (2018). The LambdaLoss framework
   for ranking metric optimization. CIKM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

__all__ = ["FIELDS", "Field", "check_labels"]

FIELDS = ("ranknet", "ndcg", "loss2", "loss2++")
_ROWS = 64  # of a list's matrix of pairs that are in memory at once


@dataclass(frozen=True)
class Field:
    """A field by the weights of its pairs.

    Parameters
    ----------
    name
        "ranknet": all pairs of a list alike; "ndcg": the change of NDCG if the two changed places;
        "loss2": the gains' difference times a discount of the distance of ranks; "loss2++": "ndcg"
        plus ``mu`` times "loss2".
    k
        Ranks that count in "ndcg"; all without it.
    sigma
        Steepness of the logistic, positive.
    mu
        Weight of "loss2" in "loss2++".

    Raises
    ------
    ValueError
        If the name is unknown, or a number out of range.
    """

    name: str = "ranknet"
    k: int | None = None
    sigma: float = 1.0
    mu: float = 10.0

    def __post_init__(self) -> None:
        if self.name not in FIELDS:
            raise ValueError(f"field is {self.name!r}; choose one of {FIELDS}, or pass a function")
        if self.k is not None and self.k < 1:
            raise ValueError(f"k is {self.k}; pass a whole number from 1 on, or None")
        if not 0 < self.sigma < float("inf"):
            raise ValueError(f"sigma is {self.sigma}; pass a positive number")

    def __call__(self, scores: Array, labels: Array, where: Array) -> tuple[Array, Array]:
        """Lambda and curvature of one list, both of shape (n,); zero where `where` is False."""
        known = self._of_list(scores, labels, where)

        def row(i: Array) -> tuple[Array, Array]:
            weight, sign = self._weights(i, known, labels, where)
            push = self.sigma * jax.nn.sigmoid(-self.sigma * sign * (scores[i] - scores))
            return (sign * weight * push).sum(), (weight * push * (self.sigma - push)).sum()

        return lax.map(row, jnp.arange(scores.shape[0]), batch_size=_ROWS)

    def pair_weights(self, scores: Array, labels: Array, where: Array) -> Array:
        """Weight of each pair (better, worse) of one list, shape (n, n); zero for other pairs."""
        known = self._of_list(scores, labels, where)

        def row(i: Array) -> Array:
            weight, sign = self._weights(i, known, labels, where)
            return jnp.where(sign > 0, weight, 0.0)

        return lax.map(row, jnp.arange(scores.shape[0]), batch_size=_ROWS)

    def _of_list(self, scores: Array, labels: Array, where: Array) -> tuple[Array, ...]:
        """Ranks, gains, discounts of items, and what normalises the list."""
        place = jnp.argsort(-jnp.where(where, scores, -jnp.inf), stable=True)
        rank = jnp.argsort(place)
        gain = jnp.where(where, 2.0**labels - 1.0, 0.0)
        counted = jnp.arange(scores.shape[0])
        discount = 1.0 / jnp.log2(2.0 + counted)
        discount = jnp.where(counted < (self.k or scores.shape[0]), discount, 0.0)
        ideal = (-jnp.sort(-gain) * discount).sum()
        # Pairs of two grades are all pairs but those of one grade: no matrix is needed.
        ordered = jnp.sort(jnp.where(where, labels, jnp.inf))
        below = jnp.searchsorted(ordered, labels)
        pairs = jnp.where(where, below, 0).sum()
        scale = pairs if self.name == "ranknet" else ideal
        return rank, gain, discount[rank], 1.0 / jnp.where(scale > 0, scale, jnp.inf)

    def _weights(
        self, i: Array, known: tuple[Array, ...], labels: Array, where: Array
    ) -> tuple[Array, Array]:
        """Weights of the pairs of one item, and the signs of its differences of grade."""
        rank, gain, discount, scale = known
        sign = jnp.sign(labels[i] - labels) * (where & where[i])
        if self.name == "ranknet":
            return jnp.abs(sign) * scale, sign
        swap = jnp.abs(discount[i] - discount)
        apart = jnp.abs(rank[i] - rank)
        near = 1.0 / jnp.log2(1.0 + jnp.maximum(apart, 1)) - 1.0 / jnp.log2(2.0 + apart)
        factor = {"ndcg": swap, "loss2": near, "loss2++": swap + self.mu * near}[self.name]
        return jnp.abs(sign) * scale * jnp.abs(gain[i] - gain) * factor, sign


def check_labels(labels: Any) -> None:
    """Refuse grades that the exponential gain has no use for.

    Raises
    ------
    ValueError
        If a grade is negative, fractional or above 30; the message names the row.
    """
    values = np.asarray(labels)
    odd = (values < 0) | (values != np.round(values)) | (values > 30)
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(
            f"y is {values[row]:g} in row {row}; the gain 2**y - 1 takes whole grades "
            "from 0 to 30: number the grades, or use field='ranknet'"
        )
