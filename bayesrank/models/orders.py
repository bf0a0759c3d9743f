r"""Skills of items from orders, top-k lists and choices, each of which is one event.

In an event every item performs at its skill plus a noise of its own, and the performances come in
the order seen. The same two performances compare a pair of items wherever it stands in the event.
So an order of ten items is not 45 independent comparisons, which would make intervals far too
narrow.

An event is a few groups of items, best first. Every item of a group performs better than every one
of the next; nothing is said within a group. An order has groups of one. A top-k list has k groups
of one and one with the rest. A choice has two groups. The conditions between neighbouring groups
say everything: there are k - 1 in an order of k items. Each compares two performances with small
noise of its own, ``step``: with none at all EP's sites would be edges.

The noise has standard deviation one, which sets the unit of skill.

References
----------
.. [1] Thurstone, L. L. (1927). A law of comparative judgement. Psychological Review, 34, 273-286.
.. [2] Brinker, K. and Huellermeier, E. (2005). Calibrated label-ranking. NIPS Workshop on Learning
   to Rank.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank._memory import check_memory
from bayesrank._validate import check_features, check_places
from bayesrank.distributions import Thurstone
from bayesrank.models.comparisons import (
    feature_kernel,
    independent_skills,
    process_skills,
)

STEP = 0.02
"""Standard deviation of the noise of each of two performances that neighbouring groups compare."""

# Of a place or condition, and of the site of each, in an engine.
_BYTES_EACH = 48


class Events(NamedTuple):
    """Orders as arrays; what an event does not need is -1."""

    items: NDArray[np.int64]  # numbers of the items of each event, shape (N, L)
    # Places in ``items`` of the two sides of each condition, shape (N, M).
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    counts: NDArray[np.int64] | None = None  # how many events each row is, shape (N,)


def events(
    orders: Iterable[Sequence[int | Sequence[int]]],
    num_items: int,
    counts: npt.ArrayLike | None = None,
) -> Events:
    """Turn orders into arrays.

    Parameters
    ----------
    orders : iterable of sequences
        Each event's groups, best first: an item's number for a group of one, or a sequence of
        numbers. ``[3, 1, 2]`` is an order, ``[3, 1, (0, 2, 4)]`` the best two of five, and ``[3,
        (0, 1)]`` a choice.
    num_items : int
    counts : ArrayLike, optional
        How many events each order is, each with noise of its own, as when different people gave the
        same order. Without it, one.

    Raises
    ------
    ValueError
        If there is no event, or a count is not a positive whole number. If an event has fewer than
        two groups, names an item twice, or names one that does not exist.

    Examples
    --------
    >>> events([[2, 0, 1], [1, (0, 2)]], 3).better
    array([[0, 1],
           [0, 0]])
    """
    rows = [_event(number, order, num_items) for number, order in enumerate(orders)]
    if not rows:
        raise ValueError("orders is empty; pass at least one order")
    items, better, worse = (_padded([row[part] for row in rows]) for part in range(3))
    counted = None if counts is None else check_order_counts(counts, len(rows))
    return Events(items, better, worse, counted)


def check_order_counts(counts: npt.ArrayLike, size: int) -> NDArray[np.int64]:
    """How many events each of `size` orders is, as whole numbers; or a `ValueError`."""
    repeats = np.asarray(counts)
    numbers = repeats.shape == (size,) and repeats.dtype.kind in "iuf"
    if not numbers or (repeats % 1 != 0).any() or (repeats < 1).any():
        raise ValueError(
            f"counts is {counts!r}; pass a positive whole number for each of the {size} orders"
        )
    return repeats.astype(np.int64)


def _event(
    number: int, order: Sequence[int | Sequence[int]], num_items: int
) -> tuple[list[int], list[int], list[int]]:
    groups = [np.atleast_1d(np.asarray(group)) for group in order]
    if len(groups) < 2 or any(group.size == 0 for group in groups):
        raise ValueError(
            f"orders has {len(groups)} groups in event {number}, or an empty one; an event says "
            "which of two groups or more is better"
        )
    if any(group.dtype.kind not in "iu" for group in groups):
        raise ValueError(f"orders has {order!r} as event {number}; pass the items' numbers")
    items = [int(item) for group in groups for item in group]
    if len(set(items)) < len(items) or not all(0 <= item < num_items for item in items):
        raise ValueError(
            f"orders names {items} in event {number}; name different items, from 0 to "
            f"{num_items - 1}"
        )
    ends = np.cumsum([0, *(group.size for group in groups)])
    pairs = [
        (upper, lower)
        for start, middle, end in zip(ends[:-2], ends[1:-1], ends[2:], strict=True)
        for upper in range(start, middle)
        for lower in range(middle, end)
    ]
    return items, [p[0] for p in pairs], [p[1] for p in pairs]


def _padded(rows: list[list[int]]) -> NDArray[np.int64]:
    table = np.full((len(rows), max(map(len, rows))), -1)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def thurstone_orders(
    num_items: int,
    items: ArrayLike,
    better: ArrayLike,
    worse: ArrayLike,
    counts: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    step: float = STEP,
) -> None:
    """Independent skills of items, whose noisy performances are put in order event by event.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``scale``        LogNormal(0, 1)                prior sd of a skill (unless given)
    ``f``            Normal(0, scale), shape (n,)   skills, in units of the noise
    ``noise``        Normal(0, 1), shape (N, L)     of each performance in each event
    ``order``        observed, shape (N, M)         1 for each condition
    ================ ============================== ============================================

    Parameters
    ----------
    num_items : int
    items, better, worse, counts : ArrayLike
        Events, as `events` makes them: ``thurstone_orders(n, *events(orders, n))``. A row that
        counts k times is k events: the program draws noise for each.
    scale : ArrayLike, optional
        Prior standard deviation of a skill, positive. Without it ``scale`` is a site.
    step : float, default 0.02
        Standard deviation of the small noise of each side of a condition, in units of the noise.

    Raises
    ------
    ValueError
        If `num_items` is not a positive whole number, or the events are of other items.

    Examples
    --------
    >>> import jax
    >>> from bayesrank.infer import EP
    >>> data = events([[2, 0, 1], [2, (0, 1)]], 3)
    >>> result = EP(thurstone_orders).run(jax.random.key(0), 3, *data, params={"scale": 1.0})
    >>> int(result.mean["f"].argmax())
    2
    """
    _perform(independent_skills(num_items, scale), (items, better, worse), counts, step)


def preference_orders(
    X: ArrayLike,
    items: ArrayLike,
    better: ArrayLike,
    worse: ArrayLike,
    counts: ArrayLike | None = None,
    *,
    ard: bool = False,
    item_effects: bool = False,
    step: float = STEP,
) -> None:
    """Gaussian-process skills of items with features, put in order event by event.

    ================ ============================== ============================================
    site             prior                          meaning
    ================ ============================== ============================================
    ``amplitude``    LogNormal(0, 1)                prior sd of a skill
    ``lengthscale``  LogNormal(log sqrt d, 1)       distance over which skill varies
    ``item_share``   LogitNormal(-3, 1.5)           share of each item alone (`item_effects`)
    ``f``            Gaussian process, shape (n,)   skills, in units of the noise
    ``noise``        Normal(0, 1), shape (N, L)     of each performance in each event
    ``order``        observed, shape (N, M)         1 for each condition
    ================ ============================== ============================================

    Parameters
    ----------
    X : ArrayLike
        Standardised features of the items, shape (n, d).
    items, better, worse, counts, step
        As for `thurstone_orders`.
    ard : bool, default False
        Whether each feature has a lengthscale of its own.
    item_effects : bool, default False
        Whether items of the same features differ, see `bayesrank.models.preference_gp`.

    Raises
    ------
    ValueError
        If `X` is not an array of finite numbers (n, d), or the events are of other items.
    """
    X = check_features(X, "X")
    kernel, own = feature_kernel(X.shape[1], ard, item_effects)
    f = process_skills(X, kernel, own_variance=own)
    _perform(f, (items, better, worse), counts, step)


def _perform(f: Array, columns: Sequence[Any], counts: Any, step: float) -> None:
    """Perform at the skills, and observe the order of the performances."""
    if counts is not None:
        columns = _one_by_one(columns, check_order_counts(counts, len(columns[0])))
    shown = check_places(columns[0], "items", len(f))
    count, length = shown.shape
    upper, lower = (
        check_places(side, name, length)
        for side, name in zip(columns[1:], ("better", "worse"), strict=True)
    )
    with numpyro.plate("events", count, dim=-2), numpyro.plate("places", length):
        noise = numpyro.sample("noise", dist.Normal(0.0, 1.0))
    performance = f[jnp.maximum(shown, 0)] + jnp.asarray(noise)
    margin = _at(performance, upper) - _at(performance, lower)
    with numpyro.plate("events", count, dim=-2), numpyro.plate("conditions", upper.shape[1]):
        distribution = Thurstone(margin, step).mask(upper >= 0)
        numpyro.sample("order", distribution, obs=jnp.ones(upper.shape, int))


def _one_by_one(columns: Sequence[Any], counts: NDArray[np.int64]) -> list[Array]:
    """Columns with a row for each event, if there is memory for these and their performances."""
    total = int(counts.sum())
    numbers = total * (np.shape(columns[0])[1] + np.shape(columns[1])[1])
    fix = "Ranker works out equal orders once"
    check_memory(_BYTES_EACH * numbers, f"{total:,} events one by one", fix)
    return [
        jnp.repeat(jnp.asarray(column), counts, axis=0, total_repeat_length=total)
        for column in columns
    ]


def _at(performance: Array, places: Array) -> Array:
    """Performances at places of each event."""
    return jnp.take_along_axis(performance, jnp.maximum(places, 0), axis=1, mode="clip")
