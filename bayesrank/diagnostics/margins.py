"""Margins of a log's comparisons at posterior draws, where more than today's skill decides.

`bayesrank.diagnostics.transitivity` makes up data by them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import ComparisonData
from bayesrank.solvers.comparisons import EPSkills, JudgedSkills

Array = NDArray[np.float64]


def margins_of_log(
    data: ComparisonData,
    posterior: EPSkills | JudgedSkills,
    params: Mapping[str, Any],
    number: int,
    seed: int = 0,
) -> Callable[[int], Array]:
    """Return a function from the number of a draw to the (K,) margins that judges see.

    Skills, the advantage of the position and each judge's effects are drawn apart from each other:
    their correlations have little bearing on cycles.
    """
    skills = posterior.draws(None, number, np.random.RandomState(seed))
    categories = _Categories(data, posterior, params)
    winner, loser = data.comparisons.T
    mean, sd = posterior.effects().position_effect or (0.0, 0.0)
    own = posterior.judges
    wide = np.sqrt(own.log_reliability_variance), np.sqrt(own.bias_variance)

    def margins(draw: int) -> Array:
        noise = np.random.default_rng([seed, draw])
        seen = categories.skills(skills[draw], noise)
        at = np.zeros(len(winner), int) if len(seen) == 1 else data.categories
        margin = seen[at, winner] - seen[at, loser]
        if data.judges is not None:
            factor = np.exp(own.log_reliability + wide[0] * noise.standard_normal(len(wide[0])))
            margin *= factor[data.judges]
        if data.position is not None:
            margin += data.position * (mean + sd * noise.standard_normal())
            if len(own.bias):
                bias = own.bias + wide[1] * noise.standard_normal(len(wide[1]))
                margin += data.position * bias[data.judges]
        return margin

    return margins


class _Categories:
    """Skills in each category by overall ones, (C, n); without categories, these alone.

    One moves with the overall skill by a share k, and has a variance ``category_scale^2 k``.
    """

    def __init__(self, data: ComparisonData, posterior: Any, params: Mapping[str, Any]) -> None:
        count, self._any = len(data.category_names), len(data.category_names) > 1
        if self._any:
            self._overall, sd = posterior.skills()
            found = [posterior.skills(category) for category in range(count)]
            self._mean, own = (np.array(each) for each in zip(*found, strict=True))
            wide = float(params["category_scale"]) ** 2
            self._share = (np.sqrt(wide**2 + 4.0 * (sd * own) ** 2) - wide) / (2.0 * sd**2)
            self._sd = np.sqrt(wide * self._share)

    def skills(self, overall: Array, noise: np.random.Generator) -> Array:
        """Skills at a draw of overall ones, shape (C, n)."""
        if not self._any:
            return overall[None]
        own = self._sd * noise.standard_normal(self._sd.shape)
        return self._mean + self._share * (overall - self._overall) + own
