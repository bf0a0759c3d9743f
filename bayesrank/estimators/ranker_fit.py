"""The fit of a ranker of named items to whatever a log has."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import ComparisonData
from bayesrank.estimators.columns import linked_items
from bayesrank.estimators.design import DesignChoice, fit_by_design
from bayesrank.estimators.named_ranker import NamedRanker
from bayesrank.estimators.skill_ranker import Callback
from bayesrank.estimators.skills import fit_skills, moving
from bayesrank.models.dynamic import Process
from bayesrank.models.orders import events
from bayesrank.solvers.comparisons.skills import Independent, Skills

Array = NDArray[np.float64]


class FittingRanker(NamedRanker):
    """Learns skills from comparisons or orders, with all that is known of the items."""

    time: Process | Literal["auto"] | None
    design: DesignChoice
    tastes: bool | Literal["auto"]

    def _fit_skills(self, data: ComparisonData, callback: Callback) -> None:
        """Learn from comparisons or orders."""
        skills, kept = self._skills(data)  # which refuses times by the rows that were given
        if "time_range_" in kept:  # a filter takes rows by turns
            data = data.distinct()
            skills, kept = self._skills(data)
        settings = self._settings()._replace(tastes=self.tastes)
        if data.orders is None:
            self._keep(fit_by_design(data, skills, settings, self.design, callback), kept)
            self._count(data)
        else:
            said = events(data.orders.groups, data.num_items, data.orders.counts)
            self._keep(fit_skills(said, skills, settings, callback), kept)
            linked = data.features is None
            self.components_ = linked_items(data.num_items, *said[:3]) if linked else None
        self._widen(data)

    @staticmethod
    def _counts(data: ComparisonData, numbers: Any, names: list[Any]) -> Array:
        """How many comparisons each of these names has."""
        if not names:
            return np.zeros(0)
        return np.bincount(numbers, data.weights, len(names)).astype(np.float64)

    def _skills(self, data: ComparisonData) -> tuple[Skills, dict[str, Any]]:
        """What is known of the items' skills, and what the ranker keeps of it."""
        if data.features is None and self.laplacian is not None:
            raise ValueError(
                "laplacian is given, and the items have no features; pass item_features, or leave "
                "it out"
            )
        found = moving(self.time, data)
        if found is not None:
            span, skills = found
            return skills, {"time_range_": span}
        if data.features is None:
            return Independent(data.num_items), {}
        skills, kept = self._process(data.features)
        named = np.array(data.feature_names, object) if data.feature_names else None
        return skills, {**kept, "feature_names_in_": named}
