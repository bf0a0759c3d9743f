"""Is there one order at all? Cycles among three items, against what the model expects of them.

A ranking supposes that one number an item says who beats whom. Chance alone makes some circles
(A beats B, B beats C, C beats A); where there are more of them than in data that the fitted model
makes up, who wins depends on who meets whom, and no single order says it. This is a posterior
predictive check [1]_ whose figure is the share of circles among all triads, as in [2]_.

References
----------
.. [1] Gelman, A., Meng, X.-L. and Stern, H. (1996). Posterior predictive assessment of model
   fitness via realized discrepancies. Statistica Sinica, 6, 733-760.
.. [2] Kendall, M. G. and Babington Smith, B. (1940). On the method of paired comparisons.
   Biometrika, 31, 324-345.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

Array = NDArray[Any]

_FEWEST = 10
_LEVEL = 0.05


@dataclass(frozen=True)
class Transitivity:
    """Cycles that were observed, and those that the model expects.

    Attributes
    ----------
    num_triads
        Number of triads of items each two of which have a winner, by the majority of their
        decisive comparisons.
    num_circles
        Number of triads in which these winners go round in a circle.
    share
        ``num_circles / num_triads``; NaN without triads.
    expected_lower, expected_upper
        Ends of the 90% interval of that share in data that the model makes up.
    p_value
        Share of these data that have as many cycles or more.

    Examples
    --------
    >>> import numpy as np
    >>> from jax.scipy.stats.norm import cdf
    >>> from bayesrank.diagnostics import transitivity
    >>> games = np.array([[0, 1], [1, 2], [2, 0]])  # a cycle
    >>> found = transitivity(games, np.zeros((1, 3)), cdf)
    >>> found.num_circles, found.num_triads
    (1, 1)
    """

    num_triads: int
    num_circles: int
    share: float
    expected_lower: float
    expected_upper: float
    p_value: float

    @property
    def is_known(self) -> bool:
        """Whether there are enough triads to tell: ten."""
        return self.num_triads >= _FEWEST

    @property
    def is_good(self) -> bool:
        """Whether there are no more cycles than the model expects, at a level of 5%."""
        return self.is_known and self.p_value >= _LEVEL


def transitivity(
    comparisons: ArrayLike,
    skills: ArrayLike,
    win_chance: Callable[[Array], Array],
    *,
    tied: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    num_replicates: int = 200,
    max_items: int = 200,
    seed: int = 0,
) -> Transitivity:
    """Compare the cycles among three items with those in data of the fitted model.

    Parameters
    ----------
    comparisons
        Numbers of winner and loser of each comparison, shape ``(K, 2)``.
    skills
        Posterior draws of skill, shape ``(draws, n)``.
    win_chance
        Chance that an item wins a decisive comparison, by how much its skill is higher.
    tied
        True where the two were judged equal, shape ``(K,)``; these are left out.
    weights
        How often each comparison counts, shape ``(K,)``.
    num_replicates
        Number of data sets that the model makes up, each from another draw.
    max_items
        Most items to look at: of more, those with the most opponents.
    seed
        Of the made-up data.

    Returns
    -------
    Transitivity

    Examples
    --------
    >>> from scipy.special import expit
    >>> games = [(0, 1), (1, 2), (2, 0)]
    >>> transitivity(games, np.zeros((10, 3)), expit).num_circles
    1
    """
    pairs, draws = np.asarray(comparisons), np.asarray(skills)
    count = np.ones(len(pairs)) if weights is None else np.rint(np.asarray(weights, float))
    if tied is not None:
        pairs, count = pairs[~np.asarray(tied, bool)], count[~np.asarray(tied, bool)]
    first, second, wins, number = _meetings(pairs, count, draws.shape[1], max_items)
    kept, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, other = place[: len(first)], place[len(first) :]
    circles, triads = _circles(one, other, 2.0 * wins - number, len(kept))
    if triads == 0:
        return Transitivity(0, 0, np.nan, np.nan, np.nan, np.nan)
    rng = np.random.default_rng(seed)
    shares = []
    with threadpool_limits(1):  # small products, for which threads wait on each other
        for row in np.resize(rng.permutation(len(draws)), num_replicates):
            chance = win_chance(draws[row, first] - draws[row, second])
            made_up = rng.binomial(number.astype(int), chance)
            again, of = _circles(one, other, 2.0 * made_up - number, len(kept))
            shares.append(again / of if of else 0.0)
    share = circles / triads
    lower, upper = np.quantile(shares, [0.05, 0.95])
    p_value = float(np.mean(np.array(shares) >= share - 1e-12))
    return Transitivity(triads, circles, share, float(lower), float(upper), p_value)


def _meetings(
    pairs: Array, count: Array, num_items: int, max_items: int
) -> tuple[Array, Array, Array, Array]:
    """Who met whom: of each two items, first < second, the first's wins and all comparisons."""
    low, high = pairs.min(axis=1, initial=num_items), pairs.max(axis=1, initial=-1)
    key, inverse = np.unique(low * num_items + high, return_inverse=True)
    first, second = key // num_items, key % num_items
    number = np.bincount(inverse, count, len(key))
    wins = np.bincount(inverse, count * (pairs[:, 0] == low), len(key))
    opponents = np.bincount(np.concatenate([first, second]), minlength=num_items)
    busy = np.zeros(num_items, bool)
    busy[np.argsort(-opponents, kind="stable")[:max_items]] = True
    kept = busy[first] & busy[second] & (number > 0)
    return first[kept], second[kept], wins[kept], number[kept]


def _circles(first: Array, second: Array, margin: Array, size: int) -> tuple[int, int]:
    """Number of circles and of triads, where `first` beat `second` by `margin`."""
    beats = np.zeros((size, size), np.float32)
    beats[first[margin > 0], second[margin > 0]] = 1.0
    beats[second[margin < 0], first[margin < 0]] = 1.0
    met = beats + beats.T
    circles = np.sum(beats @ beats * beats.T, dtype=float) / 3.0
    return round(circles), round(float(np.sum(met @ met * met, dtype=float)) / 6.0)
