"""Whether the order depends on how widely skills are taken to differ before any comparison.

Where items mostly meet their equals, few comparisons say how far the strong are from the weak, and
what is left open is filled by the prior, whose scale is then learned too small. Where data decide,
a wide prior leaves the order as it is, but for items that nobody could tell apart.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import kendalltau

from bayesrank.datasets import ComparisonData
from bayesrank.ranking import connected_components
from bayesrank.solvers.comparisons import fit_arena
from bayesrank.solvers.comparisons.terms import arguments_of

_WIDE = 3.0  # standard deviation of skills, in units of the noise of a performance
_UNTOLD = 1e-6  # of the probability that a pair is in its order, above that of chance


class Agreement(NamedTuple):
    """How far two orders agree."""

    tau: float  #: Kendall's tau, from -1 to 1; NaN of one item
    sure: float  #: the same, where each pair counts as it is told apart; NaN where none is


def order_under_wide_prior(
    data: ComparisonData, scale: float, skills: NDArray[np.float64] | None = None
) -> Agreement:
    """Hold the order at a scale of skills against that at one of 3.

    Pairs and ties alone count, and the items of the largest component.

    Parameters
    ----------
    data
        The comparisons.
    scale
        The scale that was learned.
    skills
        Draws (draws, n) of skills by another prior, whose order is held against that at the wide
        scale instead.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.datasets import ComparisonData
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])
    >>> data = ComparisonData(tuple("abc"), games, np.zeros(3, bool))
    >>> bool(np.isclose(order_under_wide_prior(data, 1.0).sure, 1.0))
    True
    """
    plain = ComparisonData(data.names, data.comparisons, data.tied, weights=data.weights)
    rows, n = plain.distinct(), data.num_items
    said = arguments_of(rows)
    inside = connected_components(data.comparisons, data.num_items) == 0

    def under(each: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return fit_arena(n, rows.comparisons, scales={"scale": each}, **said).skills()

    drawn = None if skills is None else (skills.mean(axis=0), np.cov(skills, rowvar=False))
    own, covariance = under(scale) if drawn is None else drawn
    wide = under(_WIDE)[0][inside]
    own, covariance = own[inside], np.atleast_2d(covariance)[np.ix_(inside, inside)]
    tau: Any = kendalltau(own, wide)[0]
    one, other = np.triu_indices(len(own), 1)
    variance = np.diagonal(covariance)
    sd = np.sqrt(variance[one] + variance[other] - 2.0 * covariance[one, other])
    gap = own[one] - own[other]
    told = 2.0 * ndtr(np.abs(gap) / sd) - 1.0
    told[told < _UNTOLD] = 0.0  # rounding of equal items has an order, too
    same = np.sign(gap) * np.sign(wide[one] - wide[other])
    sure = float(told @ same / told.sum()) if told.any() else float("nan")
    return Agreement(float(tau), sure)
