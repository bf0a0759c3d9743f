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

from collections.abc import Callable
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
        return self.at(scores, labels, where, *self.prepared(labels, where))

    def prepared(self, labels: Any, where: Any, xp: Any = jnp) -> tuple[Any, Any]:
        """What the grades alone say: gains, shape (..., n), and what scales the list, (...)."""
        count = labels.shape[-1]
        if self.name == "ranknet":
            # In sorted order the first of a grade stands behind all items that its grade beats.
            ordered = xp.sort(xp.where(where, labels, xp.inf), axis=-1)
            new = (ordered[..., 1:] > ordered[..., :-1]) & (ordered[..., 1:] < xp.inf)
            largest = np.maximum.accumulate if xp is np else lax.cummax
            first = largest(xp.where(new, xp.arange(1, count), 0), axis=new.ndim - 1)
            pairs = xp.where(ordered[..., 1:] < xp.inf, first, 0).sum(axis=-1)
            return labels, 1.0 / xp.maximum(pairs, 1)
        gain = xp.where(where, 2.0**labels - 1.0, 0.0)
        ideal = (-xp.sort(-gain, axis=-1) * self._discount(xp.arange(count), xp)).sum(axis=-1)
        return gain, 1.0 / xp.where(ideal > 0, ideal, xp.inf)

    def at(
        self, scores: Array, labels: Array, where: Array, gain: Array, scale: Array
    ) -> tuple[Array, Array]:
        """Lambda and curvature of one list whose grades are `prepared`."""
        weights = self._weights(scores, labels, where, gain, scale)

        def row(i: Array) -> tuple[Array, Array]:
            weight, sign = weights(i)
            push = self.sigma * jax.nn.sigmoid(-self.sigma * sign * (scores[i] - scores))
            return (sign * weight * push).sum(), (weight * push * (self.sigma - push)).sum()

        return _each_row(row, scores.shape[0])

    def pair_weights(self, scores: Array, labels: Array, where: Array) -> Array:
        """Weight of each pair (better, worse) of one list, shape (n, n); zero for other pairs."""
        weights = self._weights(scores, labels, where, *self.prepared(labels, where))

        def row(i: Array) -> Array:
            weight, sign = weights(i)
            return jnp.where(sign > 0, weight, 0.0)

        return _each_row(row, scores.shape[0])

    def _discount(self, rank: Any, xp: Any = jnp) -> Any:
        discount = 1.0 / xp.log2(2.0 + rank)
        return discount if self.k is None else xp.where(rank < self.k, discount, 0.0)

    def _weights(
        self, scores: Array, labels: Array, where: Array, gain: Array, scale: Array
    ) -> Callable[[Array], tuple[Array, Array]]:
        """Return a function of an item: weights of its pairs, and signs of their grades."""
        rank = _ranks(scores, where)
        discount = self._discount(rank)

        def of_item(i: Array) -> tuple[Array, Array]:
            sign = jnp.sign(labels[i] - labels) * (where & where[i])
            if self.name == "ranknet":
                return jnp.abs(sign) * scale, sign
            swap = jnp.abs(discount[i] - discount)
            apart = jnp.abs(rank[i] - rank)
            near = 1.0 / jnp.log2(1.0 + jnp.maximum(apart, 1)) - 1.0 / jnp.log2(2.0 + apart)
            factor = {"ndcg": swap, "loss2": near, "loss2++": swap + self.mu * near}[self.name]
            return jnp.abs(sign) * scale * jnp.abs(gain[i] - gain) * factor, sign

        return of_item


def _ranks(values: Array, where: Array) -> Array:
    """Rank from 0 of each item, the first of equals first; by counting, as sorts compile slowly."""
    place = jnp.arange(len(values))

    def row(i: Array) -> Array:
        ahead = (values > values[i]) | ((values == values[i]) & (place < i))
        return (ahead & where).sum()

    return _each_row(row, len(values))


def _each_row(row: Callable[[Array], Any], count: int) -> Any:
    """Map over the items of a list, a bounded number of them at once."""
    items = jnp.arange(count)
    return jax.vmap(row)(items) if count <= _ROWS else lax.map(row, items, batch_size=_ROWS)


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
