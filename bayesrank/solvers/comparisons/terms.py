"""Terms of a comparison: what each column of a log is to the program, and to comparisons to come.

A column that a log does not have is a term that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import ComparisonData

__all__ = ["TERMS", "Asked", "MarginRows", "Term", "arguments_of", "margin_rows"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """Comparisons to come.

    Attributes
    ----------
    first, second
        Numbers of the items, shape (P,).
    position
        1 where the first item is shown first or at home, -1 where the second is, else 0.
    category, judge
        Numbers of category and judge, where they are named; of all of the comparisons.
    """

    first: Ints
    second: Ints
    position: float = 0.0
    category: int | None = None
    judge: int | None = None


class MarginRows(NamedTuple):
    """Margins as sums of few latents: their values and numbers, both of shape (P, w)."""

    values: Floats
    columns: Ints

    @classmethod
    def of(cls, count: int, *parts: tuple[Any, Any]) -> MarginRows:
        """Rows of pairs of a value and a column, both of shape (P,) or one for all rows."""
        values, columns = (
            np.stack([np.broadcast_to(each, (count,)) for each in side], axis=1)
            for side in zip(*parts, strict=True)
        )
        return cls(values.astype(np.float64), columns.astype(np.int64))


At = Mapping[str, Ints]
Places = list[tuple[Any, Any]]


class Term:
    """What a column of a log is, in one place.

    Attributes
    ----------
    column
        The field of `ComparisonData`; where it says nothing, the term is absent.
    """

    column = ""

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        """Names of what the program draws for it."""
        return ()

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        """Arguments of `bayesrank.models.comparisons.compare`."""
        return {}

    def rows(self, asked: Asked, at: At) -> Places:
        """Values and columns of its latents in margins; `at` has the latents of each site."""
        return []


class _SkillTerm(Term):
    """The skills themselves, which are always there."""

    def rows(self, asked: Asked, at: At) -> Places:
        return [(1.0, at["f"][asked.first]), (-1.0, at["f"][asked.second])]


class _TieTerm(Term):
    column = "tied"

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        return ("tie_width",) if data.tied.any() else ()

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        return {"outcomes": np.where(data.tied, 1, 2)} if data.tied.any() else {}


class _WeightTerm(Term):
    column = "weights"

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        return {} if data.weights is None else {"weights": data.weights}


class _PositionTerm(Term):
    column = "position"

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        return () if data.position is None else ("position_effect",)

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        return {} if data.position is None else {"position": data.position}

    def rows(self, asked: Asked, at: At) -> Places:
        return [(asked.position, at["position_effect"])] if "position_effect" in at else []


class _CategoryTerm(Term):
    """What a category adds to skills; one category alone cannot be told from the overall skill."""

    column = "categories"

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        return ("category_scale", "category_skill") if len(data.category_names) > 1 else ()

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        number = len(data.category_names)
        return {"categories": data.categories, "num_categories": number} if number > 1 else {}

    def rows(self, asked: Asked, at: At) -> Places:
        if asked.category is None or "category_skill" not in at:
            return []
        added = at["category_skill"][asked.category]
        return [(1.0, added[asked.first]), (-1.0, added[asked.second])]


class _JudgeTerm(Term):
    """Reliabilities, which multiply differences of skills, and order biases where there are any."""

    column = "judges"

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        biases = () if data.position is None else ("bias_scale", "bias")
        return () if data.judges is None else ("reliability_scale", "reliability", *biases)

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        number = len(data.judge_names)
        return {} if data.judges is None else {"judges": data.judges, "num_judges": number}

    def rows(self, asked: Asked, at: At) -> Places:
        if asked.judge is None or "bias" not in at:
            return []
        return [(asked.position, at["bias"][asked.judge])]


TERMS: tuple[Term, ...] = (
    _TieTerm(),
    _WeightTerm(),
    _CategoryTerm(),
    _JudgeTerm(),
    _PositionTerm(),
)
"""All terms, in the order in which the program draws them."""


def arguments_of(data: ComparisonData) -> dict[str, Any]:
    """Arguments of a program of comparisons by the columns that there are."""
    return {k: v for term in TERMS for k, v in term.arguments(data).items()}


def margin_rows(asked: Asked, at: At) -> MarginRows:
    """Rows of the margins of comparisons to come; `at` has the numbers of each site's latents."""
    parts = [part for term in (_SkillTerm(), *TERMS) for part in term.rows(asked, at)]
    return MarginRows.of(len(asked.first), *parts)
