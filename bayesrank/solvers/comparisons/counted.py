"""A log of comparisons with equal rows counted once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import (
    check_comparisons,
    check_numbered,
    check_outcomes,
    check_position,
    check_weights,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class ArenaData(NamedTuple):
    """Distinct comparisons and how often each occurs.

    Attributes
    ----------
    num_items, num_judges, num_categories
        How many there are; 0 judges or categories if the log has none.
    first, second
        Items, shape (K,); with positions, ``first`` was shown first.
    outcome
        2 if the first won, 1 for a tie, 0 if the second won, shape (K,).
    position
        1 where being first is an advantage, 0 where not, shape (K,).
    judge, category
        Numbers of judge and category, shape (K,), zero where there is none.
    counts
        How often the comparison counts, positive, shape (K,).
    with_ties, with_position
        Whether ties are possible, and whether positions are known.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.comparisons import arena_data
    >>> games = np.array([[0, 1], [0, 1], [1, 2], [2, 0]])
    >>> data = arena_data(3, games, judges=np.array([0, 1, 0, 1]), num_judges=2)
    >>> data.num_judges, int(data.counts.sum())
    (2, 4)
    """

    num_items: int
    num_judges: int
    num_categories: int
    first: Ints
    second: Ints
    outcome: Ints
    position: Floats
    judge: Ints
    category: Ints
    counts: Floats
    with_ties: bool
    with_position: bool


def arena_data(
    num_items: int,
    comparisons: ArrayLike,
    *,
    outcomes: ArrayLike | None = None,
    position: ArrayLike | None = None,
    judges: ArrayLike | None = None,
    categories: ArrayLike | None = None,
    num_judges: int | None = None,
    num_categories: int | None = None,
    weights: ArrayLike | None = None,
) -> ArenaData:
    """Count equal comparisons.

    Parameters
    ----------
    num_items, comparisons, outcomes, position, judges, categories, weights
        As for `bayesrank.models.judged_comparisons`.
    num_judges, num_categories : int, optional
        How many there are; by default the largest number and one.

    Returns
    -------
    ArenaData
        Each distinct comparison once, and how often it counts.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> data = arena_data(2, [(0, 1), (1, 0), (0, 1)], position=[1, -1, 1])
    >>> data.first.tolist(), data.outcome.tolist(), data.counts.tolist()
    ([0, 0], [0, 2], [1.0, 2.0])
    """
    pairs = np.asarray(check_comparisons(comparisons, num_items), np.int64)
    size = len(pairs)
    outcome = np.full(size, 2) if outcomes is None else np.asarray(check_outcomes(outcomes, size))
    place = np.zeros(size) if position is None else check_position(position, size)
    judge, num_judges = _numbers(judges, "judges", size, num_judges)
    category, num_categories = _numbers(categories, "categories", size, num_categories)
    if weights is not None:
        check_weights(weights, size)
    # With no position the item of the lower number stands first, so that equal rows meet.
    turned = (place < 0) | ((place == 0) & (pairs[:, 0] > pairs[:, 1]))
    first, second = np.where(turned, pairs[:, ::-1].T, pairs.T)
    outcome = np.where(turned, 2 - outcome, outcome)
    columns = (category, first, second, judge, outcome, np.abs(place).astype(np.int64))
    sizes = [int(column.max()) + 1 for column in columns]
    if np.prod(sizes, dtype=float) > 2.0**62:
        keys, at = np.unique(np.stack(columns, 1), axis=0, return_inverse=True)
        distinct = tuple(keys.T)
    else:
        keys, at = np.unique(np.ravel_multi_index(columns, sizes), return_inverse=True)
        distinct = np.unravel_index(keys, sizes)
    category, first, second, judge, outcome, place = (
        column.astype(np.int64) for column in distinct
    )
    count = np.bincount(at.ravel(), None if weights is None else np.asarray(weights, float))
    return ArenaData(
        num_items=num_items,
        num_judges=num_judges,
        num_categories=num_categories,
        first=first,
        second=second,
        outcome=outcome,
        position=place.astype(float),
        judge=judge,
        category=category,
        counts=count.astype(float),
        with_ties=outcomes is not None,
        with_position=position is not None,
    )


def _numbers(labels: Any, name: str, size: int, number: int | None) -> tuple[Ints, int]:
    """Numbers of judges or categories, zero without them, and how many there are."""
    if labels is None:
        return np.zeros(size, np.int64), 0
    values = check_numbered(labels, name, size, number)
    return values, int(values.max()) + 1 if number is None else number
