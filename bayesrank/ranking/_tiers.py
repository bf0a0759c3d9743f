r"""Tiers: which items cannot be told apart, and what it would take to tell them.

The first tier holds the items that cannot be told from the first item. An item is in it

* if its chance of being better than the first is above :math:`1 - level`, or
* if the smallest set of items that holds the best of all with probability ``level``, filled by
  falling probability of being the best, needs it.

The first rule asks of each item by itself; the second allows for there being many of them. By the
two together, the first item stands alone in its tier exactly where its probability of being the
best reaches ``level``. The tier is then set aside, and the next one is made of the other items in
the same way. An item of which little is known can be far below and still in a tier near the top:
it has not been told from the items there.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from bayesrank._validate import check_level
from bayesrank.ranking._ranks import Array, by_mean, check_samples

_ROUNDING = 1e-9


def tiers(samples: ArrayLike, level: float = 0.95) -> Array:
    """Put items that cannot be told from the first of them into one tier, and so on.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    level
        How sure one has to be that one item is better than another to tell them apart.

    Returns
    -------
    Array
        Tier of each item, from 1 on, shape ``(n,)``. The first item of a tier is the one of the
        highest mean skill among those that are in no earlier tier.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array or ``level`` is out of range.

    Examples
    --------
    >>> tiers([[3.0, 2.0, 0.0], [2.0, 3.0, 1.0], [4.0, 3.0, 0.0]])
    array([1, 1, 2])
    """
    array, level = check_samples(samples), check_level(level)
    order = by_mean(array)
    tier = np.zeros(len(order), np.int64)
    number, left = 0, order
    while left.size:
        number += 1
        inside = _not_told_from_first(array[:, left], level)
        tier[left[inside]] = number
        left = left[~inside]
    return tier


def _not_told_from_first(skills: Array, level: float) -> Array:
    """Which columns cannot be told from the first one, shape ``(n,)``."""
    first = skills[:, :1]
    better = np.mean(first > skills, axis=0) + 0.5 * np.mean(first == skills, axis=0)
    inside = better < level - _ROUNDING
    inside[0] = True
    best = _share_of_best(skills)
    falling = np.argsort(-best, kind="stable")
    before = np.cumsum(best[falling]) - best[falling]
    inside[falling[before < level - _ROUNDING]] = True
    return inside


def _share_of_best(skills: Array) -> Array:
    """Probability that each column is the best, equals sharing evenly."""
    top = skills == skills.max(axis=1, keepdims=True)
    return np.mean(top / top.sum(axis=1, keepdims=True), axis=0)


def prob_better_than_next(samples: ArrayLike) -> Array:
    """Probability that the skill of each column exceeds that of the next one.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``, the best item first.

    Returns
    -------
    Array
        Shape ``(n,)``; NaN for the last column, which has none after it. Draws in which the two are
        equal count one half.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array.

    Examples
    --------
    >>> prob_better_than_next([[2.0, 1.0, 1.0], [3.0, 4.0, 0.0]])
    array([0.5 , 0.75,  nan])
    """
    array = check_samples(samples)
    step = np.mean(np.sign(array[:, :-1] - array[:, 1:]), axis=0, dtype=np.float64)
    return np.append((1.0 + step) / 2.0, np.nan)


def is_provisional(rank_lower: ArrayLike, rank_upper: ArrayLike, level: float) -> Array:
    """Whether an item's rank is hardly better known than without any comparison.

    Before any comparison all ranks are equally probable. An item is provisional while the interval
    of its rank spans more than half of what it would span then.

    Parameters
    ----------
    rank_lower, rank_upper
        Ends of the intervals of all items, shape ``(n,)``.
    level
        Probability of these intervals.

    Returns
    -------
    Array
        Shape ``(n,)``, bool.
    """
    lower, upper = np.asarray(rank_lower), np.asarray(rank_upper)
    n = len(lower)
    unknown = n - 1 - 2 * int(np.floor(n * (1.0 - check_level(level)) / 2.0 + _ROUNDING))
    return (upper - lower > unknown / 2) | (n == 1)


def comparisons_needed(
    samples: ArrayLike,
    chance: Callable[[float], float],
    *,
    level: float = 0.95,
) -> float:
    r"""Roughly how many more comparisons would tell the first item from those of its tier.

    The rule supposes that skills differ by what is estimated now. A comparison of two items whose
    skills differ by :math:`d` brings the information :math:`p'(d)^2 / (p(d) (1 - p(d)))` about it,
    where :math:`p(d)` is the chance that the better one wins. Told apart they are when the standard
    deviation of the difference is no larger than :math:`d / \Phi^{-1}(level)`.

    Parameters
    ----------
    samples
        Posterior draws of skill of the items of the tier, shape ``(draws, k)``, the first item
        first.
    chance
        Chance that an item wins against another, by how much its skill is higher.
    level
        How sure one wants to be of each.

    Returns
    -------
    float
        Number of comparisons of the first item with others, added up over these; infinite where
        one of them is estimated to be as good as the first.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array or ``level`` is out of range.
    """
    array, quantile = check_samples(samples), float(ndtri(check_level(level)))
    differences = array[:, :1] - array[:, 1:]
    total, step = 0.0, 1e-4
    for d, sd in zip(differences.mean(axis=0), differences.std(axis=0), strict=True):
        if d <= 0.0:
            return np.inf
        if sd * quantile <= d:
            continue
        p = chance(float(d))
        slope = (chance(float(d) + step) - chance(float(d) - step)) / (2.0 * step)
        total += ((quantile / d) ** 2 - 1.0 / sd**2) * p * (1.0 - p) / slope**2
    return float(total)
