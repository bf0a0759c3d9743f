r"""Fields of lambda: which way, and how hard, each item of a list is to move.

For one list, ``field(scores, labels, where)`` gives ``(lam, curvature)``, both of shape (n,), pure
and fit for ``jit``, ``vmap`` and derivatives. With a weight :math:`w_{ij}` of each pair [1]_ [2]_,

.. math:: \lambda_i = \sum_j \mathrm{sign}(l_i - l_j)\, w_{ij}\, \frac{\sigma}
    {1 + \exp(\sigma\, \mathrm{sign}(l_i - l_j) (s_i - s_j))} .

The field "margin" has the paper's slope instead of the logistic's. With the better item ahead by
:math:`x`, the push is :math:`\delta` for :math:`x < 0`, falls to zero at :math:`x = \delta`, and is
zero beyond. The paper prints 1 for :math:`x < 0`, where (4) to (6) then jump.

Training moves scores along lambda. That is minus the gradient of a cost only if there is a cost.

References
----------
.. [1] Burges, C. J. C. (2005). Ranking as learning structured outputs. NIPS Workshop on Learning to
   Rank.
.. [2] Wang, X., Li, C., Golbandi, N., Bendersky, M. and Najork, M. (2018). The LambdaLoss framework
   for ranking metric optimization. CIKM.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayesrank._validate import check_count, check_positive, refuse_rows

FIELDS = ("ranknet", "margin", "ndcg", "loss2", "loss2++", "mrr", "wta")
# Fields without gains: all pairs of unlike grades count alike.
_ALIKE = ("ranknet", "margin")
_BINARY = ("mrr", "wta")
_ROWS = 64  # of a list's matrix of pairs that are in memory at once


@dataclass(frozen=True)
class Field:
    """A field by the weights of its pairs.

    Parameters
    ----------
    name
        "ranknet": all pairs of a list alike; "ndcg": the change of NDCG if the two changed places;
        "loss2": the gains' difference times a discount of the distance of ranks; "loss2++": "ndcg"
        plus ``mu`` times "loss2"; "mrr" and "wta": the change of the reciprocal rank, or of whether
        the first item is relevant (above 0), if the two swap; "margin": all pairs alike, with the
        paper's slope up to a margin.
    k
        Ranks that count in "ndcg"; all without it.
    sigma, mu
        Steepness of the logistic, positive, and weight of "loss2" in "loss2++".
    delta
        Margin of "margin", positive, on the scale of scores.

    Raises
    ------
    ValueError
        If the name is unknown, or a number out of range.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank.solvers.lambda_rank import Field
    >>> scores, grades = jnp.array([0.0, 1.0]), jnp.array([1, 0])
    >>> lam, curvature = Field("ndcg")(scores, grades, jnp.array([True, True]))
    >>> bool(lam[0] > 0)  # the better item moves up
    True
    """

    name: str = "ranknet"
    k: int | None = None
    sigma: float = 1.0
    mu: float = 10.0
    delta: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in FIELDS:
            raise ValueError(f"field is {self.name!r}; choose one of {FIELDS}, or pass a function")
        if self.k is not None:
            check_count(self.k, "k")
        for name in ("sigma", "delta"):
            check_positive(getattr(self, name), name)

    def __call__(self, scores: Array, labels: Array, where: Array) -> tuple[Array, Array]:
        """Lambda and curvature of one list, both of shape (n,); zero where `where` is False."""
        return self.at(scores, labels, where, *self.prepared(labels, where))

    def check_labels(self, labels: Any) -> None:
        """Refuse grades, shape (m,), that the field cannot use.

        Raises
        ------
        ValueError
            For a field with gains, if a grade is negative, fractional or above 30; for "mrr" and
            "wta", if all items are relevant or none is.
        """
        values = np.asarray(labels)
        if self.name in _BINARY:
            if (values > 0).all() or not (values > 0).any():
                raise ValueError(
                    f"y has {'only' if (values > 0).all() else 'no'} grades above 0; "
                    f"field={self.name!r} needs relevant items (above 0) and others (0)"
                )
            return
        if self.name not in _ALIKE:
            why = "the gain 2**y - 1 takes whole grades from 0 to 30"
            fix = f"{why}: number the grades, or use field='ranknet'"
            refuse_rows(values, lambda v: (v < 0) | (v != np.round(v)) | (v > 30), "y", fix)

    def prepared(self, labels: Any, where: Any, xp: Any = jnp) -> tuple[Any, Any]:
        """What the grades alone say: gains, shape (..., n), and what scales the list, (...)."""
        count = labels.shape[-1]
        if self.name in _BINARY:
            return xp.where(where & (labels > 0), 1.0, 0.0), xp.ones(labels.shape[:-1])
        if self.name in _ALIKE:
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
            push, bend = self._slope(sign * (scores[i] - scores))
            return (sign * weight * push).sum(), (weight * bend).sum()

        return _each_row(row, scores.shape[0])

    def pair_weights(self, scores: Array, labels: Array, where: Array) -> Array:
        """Weight of each pair (better, worse) of one list, shape (n, n); zero for other pairs."""
        weights = self._weights(scores, labels, where, *self.prepared(labels, where))

        def row(i: Array) -> Array:
            weight, sign = weights(i)
            return jnp.where(sign > 0, weight, 0.0)

        return _each_row(row, scores.shape[0])

    def _slope(self, ahead: Array) -> tuple[Array, Array]:
        """Push and curvature of a pair whose better item is ahead by so much, shape (n,)."""
        if self.name != "margin":
            push = self.sigma * jax.nn.sigmoid(-self.sigma * ahead)
            return push, push * (self.sigma - push)
        push = jnp.clip(self.delta - ahead, 0.0, self.delta)
        # Where the push is constant, the parabola that touches the cost and lies above it bends so.
        missing = jnp.where(push > 0, self.delta - ahead, 1.0)
        return push, push / missing

    def _discount(self, rank: Any, xp: Any = jnp) -> Any:
        discount = 1.0 / xp.log2(2.0 + rank)
        return discount if self.k is None else xp.where(rank < self.k, discount, 0.0)

    def _weights(
        self, scores: Array, labels: Array, where: Array, gain: Array, scale: Array
    ) -> Callable[[Array], tuple[Array, Array]]:
        """Return a function of an item: weights of its pairs, and signs of their grades."""
        rank = _ranks(scores, where)
        discount = self._discount(rank)
        change = self._change_of_first(rank, gain, where) if self.name in _BINARY else None

        def of_item(i: Array) -> tuple[Array, Array]:
            sign = jnp.sign(labels[i] - labels) * (where & where[i])
            if self.name in _ALIKE:
                return jnp.abs(sign) * scale, sign
            if change is not None:
                return jnp.abs(sign * (gain[i] - gain)) * change(i), sign
            swap = jnp.abs(discount[i] - discount)
            apart = jnp.abs(rank[i] - rank)
            near = 1.0 / jnp.log2(1.0 + jnp.maximum(apart, 1)) - 1.0 / jnp.log2(2.0 + apart)
            factor = {"ndcg": swap, "loss2": near, "loss2++": swap + self.mu * near}[self.name]
            return jnp.abs(sign) * scale * jnp.abs(gain[i] - gain) * factor, sign

        return of_item

    def _change_of_first(
        self, rank: Array, relevant: Array, where: Array
    ) -> Callable[[Array], Array]:
        """Change of the measure if item i and each other changed places, shape (n,)."""
        last = len(rank)
        places = jnp.where((relevant > 0) & where, rank, last)
        first = places.min()
        second = jnp.where(places == first, last, places).min()
        others = jnp.where(places == first, second, first)  # best place of the other relevant ones

        def measure(place: Array) -> Array:
            return 1.0 / (1.0 + place) if self.name == "mrr" else jnp.where(place == 0, 1.0, 0.0)

        def change(i: Array) -> Array:
            goes_to = jnp.where(relevant[i] > 0, rank, rank[i])  # where the relevant one would go
            best = jnp.minimum(jnp.where(relevant[i] > 0, others[i], others), goes_to)
            return jnp.abs(measure(best) - measure(first))

        return change


@dataclass(frozen=True)
class Regularized:
    """A field with every score pulled to zero: ``lambda_i - alpha s_i``.

    A conservative field stays conservative, and the Hessian of its cost gains `alpha` on the
    diagonal. The paper prints a plus, which is for minus lambda.

    Parameters
    ----------
    field, alpha
        ``(scores, labels, where) -> (lam, curvature)`` of one list, and the strength, positive.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from bayesrank.solvers.lambda_rank import Field, Regularized
    >>> field = Regularized(Field("ranknet"), 0.1)
    >>> lam, curvature = field(jnp.array([0.0, 1.0]), jnp.array([1, 0]), jnp.array([True, True]))
    """

    field: Callable[[Array, Array, Array], tuple[Array, Array]]
    alpha: float

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")

    def __call__(self, scores: Array, labels: Array, where: Array) -> tuple[Array, Array]:
        """Lambda and curvature of one list, both of shape (n,); zero where `where` is False."""
        lam, curvature = self.field(scores, labels, where)
        pull = jnp.where(where, self.alpha, 0.0)
        return lam - pull * scores, curvature + pull


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
