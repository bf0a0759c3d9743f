"""Whether the order depends on how widely skills are taken to differ before any comparison.

Where items mostly meet their equals, few comparisons say how far the strong are from the weak, and
what is left open is filled by the prior, whose scale is then learned too small. Where data decide,
a wide prior leaves the order as it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bayesrank.datasets import ComparisonData
from bayesrank.ranking import connected_components
from bayesrank.solvers.comparisons import fit_arena
from bayesrank.solvers.comparisons.terms import arguments_of

_WIDE = 3.0  # standard deviation of skills, in units of the noise of a performance


def order_under_wide_prior(
    data: ComparisonData, scale: float, skills: NDArray[np.float64] | None = None
) -> float:
    """Kendall's tau between the order at a scale of skills, and at one of 3.

    Pairs and ties alone count, and the items of the largest component.

    Parameters
    ----------
    data
        The comparisons.
    scale
        The scale that was learned.
    skills
        Skills (n,) by another prior, whose order is held against that at the wide scale instead.

    Returns
    -------
    float
        From -1 to 1; NaN of one item.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.datasets import ComparisonData
    >>> games = np.array([[0, 1], [1, 2], [0, 2]])
    >>> data = ComparisonData(tuple("abc"), games, np.zeros(3, bool))
    >>> bool(np.isclose(order_under_wide_prior(data, 1.0), 1.0))
    True
    """
    plain = ComparisonData(data.names, data.comparisons, data.tied, weights=data.weights)
    rows, n = plain.distinct(), data.num_items
    said = arguments_of(rows)
    inside = connected_components(data.comparisons, data.num_items) == 0

    def under(each: float) -> NDArray[np.float64]:
        return fit_arena(n, rows.comparisons, scales={"scale": each}, **said).skills()[0]

    own, wide = under(scale) if skills is None else skills, under(_WIDE)
    tau: Any = kendalltau(own[inside], wide[inside])[0]
    return float(tau)
