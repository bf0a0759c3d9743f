r"""Tiers: which items are statistically tied, and what it would take to separate them.

Tiers follow the order of mean skill. An item is tied with the first item of a tier

* if its chance of being better than that one is above :math:`1 - level`, or
* if the smallest set that contains the best of those left with probability ``level`` needs it;
  items enter that set by falling probability of being the best.

The first rule looks at each item alone; the second allows for there being many of them. A tier ends
before the first item that is not tied, which begins the next one. Provisional items, of which the
comparisons say little, are in no tier: they are tied with nearly everybody.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from bayesrank._validate import check_level
from bayesrank.ranking._ranks import Array, by_mean, check_samples

_ROUNDING = 1e-9
_LEFT = 0.75


def tiers(samples: ArrayLike, level: float = 0.9, *, provisional: ArrayLike | None = None) -> Array:
    """Put neighbours in the ranking that are statistically tied into one tier.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    level
        Probability that one item is better than another from which on they are separated.
    provisional
        Items that are left out, bool of shape ``(n,)``; by default none.

    Returns
    -------
    Array
        Tier of each item, from 1 on, shape ``(n,)``; 0 of provisional ones. The first item of a
        tier is the one of the highest mean skill among those that are in no earlier tier.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array, ``level`` is out of range, or
        ``provisional`` has another shape.

    Examples
    --------
    >>> tiers([[3.0, 2.0, 0.0], [2.0, 3.0, 1.0], [4.0, 3.0, 0.0]])
    array([1, 1, 2])
    """
    array, level = check_samples(samples), check_level(level)
    n = array.shape[1]
    out = np.zeros(n, bool) if provisional is None else np.asarray(provisional, bool)
    if out.shape != (n,):
        raise ValueError(f"provisional has shape {out.shape}; there are {n} items")
    order = by_mean(array)
    left = order[~out[order]]
    tier = np.zeros(n, np.int64)
    number = 0
    while left.size:
        number += 1
        tied = _tied_with_first(array[:, left], level)
        end = left.size if tied.all() else int(np.argmin(tied))
        tier[left[:end]] = number
        left = left[end:]
    return tier


def _tied_with_first(skills: Array, level: float) -> Array:
    """Which columns are not separated from the first one, shape ``(n,)``."""
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
    lead = np.sign(array[:, :-1] - array[:, 1:]).sum(axis=0, dtype=np.float64)
    draws = len(array)  # of two items, the chance of the better one is that of being best
    return np.append((draws + lead) / (2 * draws), np.nan)


def is_provisional(sd: ArrayLike, prior_sd: ArrayLike) -> Array:
    """Whether little is known of each item: most of its prior variance is left.

    Parameters
    ----------
    sd
        Posterior standard deviations of skills, shape ``(n,)``.
    prior_sd
        Those before any comparison, shape ``(n,)`` or one for all.

    Returns
    -------
    Array
        Shape ``(n,)``, bool: True where more than three quarters of the variance are left.
    """
    return np.square(np.asarray(sd)) > _LEFT * np.square(np.asarray(prior_sd))


def comparisons_needed(
    samples: ArrayLike, chance: Callable[[float], float], *, level: float = 0.9
) -> float:
    r"""Roughly how many more comparisons would separate the first item from those of its tier.

    The rule supposes that skills differ by what is estimated now. A comparison of two items whose
    skills differ by :math:`d` has the information :math:`p'(d)^2 / (p(d) (1 - p(d)))`, with
    :math:`p(d)` the better one's chance to win. They are separated when the standard deviation of
    the difference is no larger than :math:`d / \Phi^{-1}(level)`.

    Parameters
    ----------
    samples
        Posterior draws of skill of the items of the tier, shape ``(draws, k)``, the first item
        first.
    chance
        Chance that an item wins against another, by how much its skill is higher.
    level
        Probability that one item is better than another from which on they are separated.

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
