"""Terms of a comparison: what each column of a log is to a reader, to the program, and to come.

A column that a log does not have is a term that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesrank._tables import column_names, plain_array
from bayesrank._validate import check_column, check_position, check_row_weights, refuse_rows
from bayesrank.datasets import ComparisonData
from bayesrank.models.comparisons import SCALES

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
    shares
        Shares (C,) of the categories that skills are averaged over, whose sum is one; None for
        skills before what categories add.
    judge
        Number of the judge of all comparisons, if any.
    covariates
        By how much the first item has more of each covariate, shape (P, D); nothing if None.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.solvers.comparisons import Asked
    >>> Asked(np.array([0]), np.array([1]), position=1.0).judge is None
    True
    """

    first: Ints
    second: Ints
    position: float = 0.0
    shares: Floats | None = None
    judge: int | None = None
    covariates: Floats | None = None


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
        The field of `ComparisonData`, and the argument of the program.
    name, argument
        Name of the table's column, and of the argument of `fit` that says the same.
    draws
        The sites that the program draws if the term is there.
    in_logs
        Whether it says where, by whom or about what a comparison was.

    Examples
    --------
    >>> from bayesrank.solvers.comparisons import TERMS
    >>> [term.column for term in TERMS]
    [...]
    """

    column = name = argument = ""
    draws: tuple[str, ...] = ()
    in_logs = False

    def there(self, data: ComparisonData) -> bool:
        """Whether the column says anything."""
        return getattr(data, self.column) is not None

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        """Names of what the program draws for it."""
        return self.draws if self.there(data) else ()

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        """Arguments of `bayesrank.models.comparisons.observe_comparisons`."""
        return {self.column: getattr(data, self.column)} if self.there(data) else {}

    def read(self, cells: Any, kept: NDArray[np.bool_]) -> dict[str, Any]:
        """Fields of `ComparisonData` by a column's cells, (K,), in the rows that are kept."""
        raise NotImplementedError

    def rows(self, asked: Asked, at: At) -> Places:
        """Values and columns of its latents in margins; `at` has the latents of each site."""
        return []


class _SkillTerm(Term):
    """The skills themselves, which are always there."""

    def rows(self, asked: Asked, at: At) -> Places:
        return [(1.0, at["f"][asked.first]), (-1.0, at["f"][asked.second])]


class _TieTerm(Term):
    column, name, argument = "tied", "tie", "ties"
    draws = ("tie_width",)

    def there(self, data: ComparisonData) -> bool:
        return bool(data.tied.any())

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        return {"outcomes": np.where(data.tied, 1, 2)} if self.there(data) else {}

    def read(self, cells: Any, kept: NDArray[np.bool_]) -> dict[str, Any]:
        return {"tied": _read_ties(cells, kept.size)[kept]}


class _WeightTerm(Term):
    column, name, argument = "weights", "weight", "sample_weight"

    def read(self, cells: Any, kept: NDArray[np.bool_]) -> dict[str, Any]:
        weights = read_weights(cells, kept.size)[kept]
        return {} if (weights == 1.0).all() else {"weights": weights}


class _LabelTerm(Term):
    """Numbers of judges or categories, and their names."""

    in_logs = True

    def names(self, data: ComparisonData) -> tuple[str, ...]:
        """Names of the labels."""
        return getattr(data, f"{self.name}_names")

    def arguments(self, data: ComparisonData) -> dict[str, Any]:
        number = {f"num_{self.column}": len(self.names(data))}
        return super().arguments(data) | number if self.there(data) else {}

    def read(self, cells: Any, kept: NDArray[np.bool_]) -> dict[str, Any]:
        labels = np.asarray(cells, object)
        if labels.shape != kept.shape:
            raise ValueError(
                f"{self.name} has shape {labels.shape}; pass a name for each row of comparisons"
            )
        codes, values = pd.factorize(labels[kept], sort=False)
        if (codes < 0).any():
            raise ValueError(f"{self.name} is missing in some rows; name it or leave them out")
        return {self.column: codes.astype(np.int64), f"{self.name}_names": tuple(values)}


class _JudgeTerm(_LabelTerm):
    """Reliabilities, which multiply differences of skills, and order biases where there are any."""

    column, name, argument = "judges", "judge", "judge"
    draws = ("reliability_scale", "reliability")

    def sites(self, data: ComparisonData) -> tuple[str, ...]:
        biases = () if data.position is None else ("bias_scale", "bias")
        return (*self.draws, *biases) if self.there(data) else ()

    def rows(self, asked: Asked, at: At) -> Places:
        if asked.judge is None or "bias" not in at:
            return []
        return [(asked.position, at["bias"][asked.judge])]


class _CategoryTerm(_LabelTerm):
    """What a category adds to skills; one category alone is the same as the overall skill.

    Margins do not have it: a posterior gives skills by the shares of the categories asked for.
    """

    column, name, argument = "categories", "category", "category"
    draws = ("category_scale", "category_skill")

    def there(self, data: ComparisonData) -> bool:
        return len(data.category_names) > 1


class _PositionTerm(Term):
    column = name = argument = "position"
    draws = ("position_effect",)
    in_logs = True

    def read(self, cells: Any, kept: NDArray[np.bool_]) -> dict[str, Any]:
        place = check_position(plain_array(cells), kept.size)
        return {"position": place[kept].astype(np.float64)}

    def rows(self, asked: Asked, at: At) -> Places:
        return [(asked.position, at["position_effect"])] if "position_effect" in at else []


class _CovariateTerm(Term):
    """What one item has more of than the other, such as the length of its answer."""

    column = name = argument = "covariates"
    draws = ("covariate_effect",)
    in_logs = True

    def read(self, cells: Any, kept: NDArray[np.bool_]) -> dict[str, Any]:
        values, names = read_covariates(cells, kept.size)
        return {"covariates": values[kept], "covariate_names": names}

    def rows(self, asked: Asked, at: At) -> Places:
        if asked.covariates is None or "covariate_effect" not in at:
            return []
        return list(zip(asked.covariates.T, at["covariate_effect"], strict=True))


TERMS: tuple[Term, ...] = (
    _TieTerm(),
    _WeightTerm(),
    _JudgeTerm(),
    _CategoryTerm(),
    _PositionTerm(),
    _CovariateTerm(),
)
"""All terms: what a log may say of a comparison."""


def arguments_of(data: ComparisonData) -> dict[str, Any]:
    """Arguments of a program of comparisons by the columns that there are."""
    return {k: v for term in TERMS for k, v in term.arguments(data).items()}


def scales_of(data: ComparisonData) -> tuple[str, ...]:
    """Hyperparameters of the terms that there are."""
    return tuple(name for term in TERMS for name in term.sites(data) if name in SCALES)


def margin_rows(asked: Asked, at: At) -> MarginRows:
    """Rows of the margins of comparisons to come; `at` has the numbers of each site's latents."""
    parts = [part for term in (_SkillTerm(), *TERMS) for part in term.rows(asked, at)]
    return MarginRows.of(len(asked.first), *parts)


def read_covariates(cells: Any, count: int) -> tuple[Floats, tuple[str, ...]]:
    """Differences (K, D) of covariates and their names, of a table, a mapping or an array."""
    named = column_names(cells)
    if isinstance(cells, Mapping):
        named = list(cells)
    columns: Any = plain_array(cells) if named is None else [plain_array(cells[n]) for n in named]
    try:
        values = np.asarray(columns, np.float64) if named is None else np.stack(columns, axis=1)
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("covariates are not numbers of one length; pass (K, D) of them") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != count:
        raise ValueError(
            f"covariates has shape {values.shape}; pass ({count}, D), how much more the first has"
        )
    odd = ~np.isfinite(values)
    if odd.any():
        row, column = np.argwhere(odd)[0]
        raise ValueError(f"covariates has {values[row, column]} in row {row}; pass finite numbers")
    names = [f"covariate {d + 1}" for d in range(values.shape[1])] if named is None else named
    return values, tuple(map(str, names))


def read_weights(weights: Any, count: int) -> Floats:
    """How often each of K comparisons counts, from zero on."""
    return check_row_weights(plain_array(weights), "sample_weight", count)


def _read_ties(ties: Any, count: int) -> NDArray[np.bool_]:
    """Which of K comparisons were tied."""
    tied, wanted = plain_array(ties), "True or False for each row of comparisons"
    check_column(tied, "ties", count, "biuf", wanted)
    refuse_rows(tied, lambda v: ~np.isin(v, (0, 1)), "ties", f"pass {wanted}")
    return tied.astype(bool)
