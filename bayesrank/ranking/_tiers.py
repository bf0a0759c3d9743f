r"""Tiers: which items are statistically tied, and what it would take to separate them.

Tiers follow the order of mean skill. An item is tied with the first item of a tier

* if its chance of being better than that one is above :math:`1 - level`, or
* if the smallest set that contains the best of those left with probability ``level`` needs it;
  items enter that set by falling probability of being the best.

The first rule looks at each item alone; the second allows for there being many of them. A tier ends
before the first item that is not tied, which begins the next one. Tiers are honest one by one: an
item of a lower tier is worse than the first of the tier before it with the stated probability, and
that no item of a lower tier is better is less probable. Provisional items, of which the comparisons
say little, are in no tier, as they are tied with nearly everybody; only the first item always leads
the first one.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._validate import check_level
from bayesrank.ranking._ranks import Array, SkillMixture, by_mean, check_samples

_ROUNDING = 1e-9
_LEFT = 0.75
_SIMULATED, _BEYOND = 400, 1e9


def tiers(
    samples: ArrayLike,
    level: float = 0.9,
    *,
    provisional: ArrayLike | None = None,
    posterior: SkillMixture | None = None,
) -> Array:
    """Put neighbours in the ranking that are statistically tied into one tier.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    level
        Probability that one item is better than another from which on they are separated.
    provisional
        Items that are left out unless they lead, bool of shape ``(n,)``; by default none.
    posterior
        The mixture that `samples` come from, which says exactly who is better than whom.

    Returns
    -------
    Array
        Tier of each item, from 1 on, shape ``(n,)``; 0 of provisional ones but the first. The first
        item of a tier is the one of the highest mean skill among those in no earlier tier.

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
    left = order[~out[order] | (order == order[0])]
    tier = np.zeros(n, np.int64)
    number = 0
    while left.size:
        number += 1
        better = None if posterior is None else posterior.better(left[0], left)
        tied = _tied_with_first(array[:, left], better, level)
        end = left.size if tied.all() else int(np.argmin(tied))
        tier[left[:end]] = number
        left = left[end:]
    return tier


def _tied_with_first(skills: Array, better: Array | None, level: float) -> Array:
    """Which columns are not separated from the first one, shape ``(n,)``."""
    first = skills[:, :1]
    drawn = np.mean(first > skills, axis=0) + 0.5 * np.mean(first == skills, axis=0)
    inside = (drawn if better is None else better) < level - _ROUNDING
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
    """Whether most of the prior variance of each item's skill is left.

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
    samples: ArrayLike,
    chance: Callable[[float], float],
    *,
    level: float = 0.9,
    powers: Sequence[float] = (0.5, 0.8),
) -> tuple[float, ...]:
    r"""How many more comparisons leave the first item alone in its tier, with some probabilities.

    Skills are supposed to differ by what is estimated now. A comparison of two items whose skills
    differ by :math:`d` has the information :math:`I = p'(d)^2 / (p(d) (1 - p(d)))`, with
    :math:`p(d)` the better one's chance to win. The first item meets each other one in proportion
    to :math:`1 / (d^2 I)`. What would be estimated then is simulated for all of them together, and
    counts if the first item is the best with probability `level`.

    Parameters
    ----------
    samples
        Posterior draws of skill of the items of the tier, shape ``(draws, k)``, the first item
        first.
    chance
        Chance that an item wins against another, by how much its skill is higher.
    level
        Probability of being the best from which on an item is alone in its tier.
    powers
        Probabilities with which the comparisons are to suffice.

    Returns
    -------
    tuple of float
        Number of comparisons of the first item with others, added up over these, for each of
        `powers`; infinite where one of them is estimated to be as good as the first, or beyond a
        billion.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, k)`` array or ``level`` is out of range.
    """
    array, level = check_samples(samples), check_level(level)
    gaps = array[:, :1] - array[:, 1:]
    mean, step = gaps.mean(axis=0), 1e-4
    if (mean <= 0.0).any():
        return (np.inf,) * len(powers)
    if (gaps > 0.0).all(axis=1).mean() >= level:
        return (0.0,) * len(powers)
    win, up, down = (np.array([chance(d + s) for d in mean]) for s in (0.0, step, -step))
    information = ((up - down) / (2.0 * step)) ** 2 / (win * (1.0 - win))
    share = 1.0 / (mean**2 * information)
    share /= share.sum()
    before = np.linalg.inv(np.atleast_2d(np.cov(gaps.T)) + 1e-12 * np.eye(len(mean)))
    to_come, to_judge = np.random.default_rng(0).standard_normal((2, _SIMULATED, len(mean)))

    def ahead(number: float) -> Array:
        told = number * share * information
        after = np.linalg.inv(before + np.diag(told))
        estimates = mean + (to_come * np.sqrt(told)) @ after
        noise = to_judge @ np.linalg.cholesky(after).T
        return np.array([(noise > -estimate).all(axis=1).mean() for estimate in estimates])

    # So few draws may say today that the first is the best, which all of them deny.
    least = max(level, float(ahead(0.0)[0]) + 0.5 / _SIMULATED)

    def power(number: float) -> float:
        return float(np.mean(ahead(number) >= least))

    return tuple(_least(power, wanted) for wanted in powers)


def _least(power: Callable[[float], float], wanted: float) -> float:
    """The least number, to a hundredth of it, that has the power wanted."""
    high = 1.0
    while power(high) < wanted:
        high *= 2.0
        if high > _BEYOND:
            return np.inf
    low = high / 2.0
    while high > 1.01 * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return high
