"""Items that were not compared, by their features, beside those that were."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.solvers.comparisons import Asked
from bayesrank.solvers.comparisons.posterior import OUTCOMES, Component, chances_by, moments_of
from bayesrank.solvers.comparisons.skills import above_average, with_new_items
from bayesrank.solvers.comparisons.terms import MarginRows

Array = NDArray[np.float64]


class Newcomers(NamedTuple):
    """Skills of the items of `fit`, and behind them of new ones."""

    parts: list[Component]  # what the posterior of all of them is made of
    num_known: int  # number of the items of `fit`

    def skills(self) -> tuple[Array, Array]:
        """Means and standard deviations of the new ones, from the average of those of `fit`."""
        new = [above_average(part, self.num_known) for part in self.parts]
        each = np.arange(len(new[0].mean))
        return moments_of(new, MarginRows.of(each.size, (1.0, each)))


def newcomers(ranker: Any, features: Array) -> Newcomers:
    """Add items to those of a fitted ranker, by their features (m, d) in its units."""
    scaled = (features - ranker.feature_mean_) / ranker.feature_scale_
    return Newcomers(with_new_items(ranker.posterior_, scaled), len(ranker.names_))


def outcome_chances(
    ranker: Any, pairs: NDArray[np.int64], new: Newcomers | None = None
) -> dict[str, Array]:
    """Probability of each possible outcome for the first item of each pair of numbers (P, 2)."""
    asked = Asked(*pairs.T)
    if new is None:
        found = ranker.posterior_.chances(asked)
    else:
        everyone = {"f": np.arange(len(new.parts[0].mean))}
        found = chances_by(new.parts, everyone, asked, ranker.likelihood)
    possible = ("win", "tie", "loss") if "tie_width" in ranker.params_ else ("win", "loss")
    return {outcome: found[:, OUTCOMES.index(outcome)] for outcome in possible}
