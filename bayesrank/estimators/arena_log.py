"""Comparisons by name with their covariates, from arguments or the columns of a table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayesrank._tables import column_names
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.comparisons import read_comparisons, read_pairs

__all__ = ["read_log"]

_LABELS = ("judge", "group")


def read_log(
    comparisons: Any,
    items: Sequence[Hashable] | None,
    ties: ArrayLike | None,
    sample_weight: ArrayLike | None,
    given: dict[str, Any],
) -> ComparisonData:
    """Return what `ArenaRanker.fit` was given as arrays.

    Parameters
    ----------
    comparisons, items, ties, sample_weight
        As of `ArenaRanker` and its `fit`.
    given
        Its arguments ``position``, ``judge`` and ``group``.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it.
    """
    columns = column_names(comparisons) or []
    for name, value in given.items():
        if name in columns and value is not None:
            raise ValueError(
                f"comparisons has a column {name!r} and {name} is given; leave one out"
            )
        if name in columns:
            given[name] = np.asarray(comparisons[name])
    if columns:
        comparisons = _without(comparisons, given)
    named = [np.asarray(side, object) for side in read_pairs(comparisons, "comparisons")]
    seen = pd.unique(np.concatenate(named)).tolist()
    names: Any = list(items) if items is not None else _sorted(seen)
    known = {name: number for number, name in enumerate(names)}
    if sample_weight is None and "weight" not in columns:
        sample_weight = np.ones(len(named[0]))
    weight = np.asarray(comparisons["weight"] if "weight" in columns else sample_weight, float)
    rows = read_comparisons(
        comparisons, known, ties, None if "weight" in columns else sample_weight
    )
    kept = weight > 0.0
    labelled: dict[str, Any] = {}
    for name in _LABELS:
        if given[name] is not None:
            labels = np.asarray(given[name], object)
            if labels.shape != kept.shape:
                raise ValueError(f"{name} has shape {labels.shape}; pass a name for each row")
            codes, values = pd.factorize(labels[kept], sort=False)
            if (codes < 0).any():
                raise ValueError(f"{name} is missing in some rows; name it or leave them out")
            labelled[f"{name}s"], labelled[f"{name}_names"] = codes, tuple(values)
    place = None if given["position"] is None else np.asarray(given["position"], float)
    if place is not None:
        if place.shape != kept.shape or not np.isin(place, (-1, 0, 1)).all():
            raise ValueError("position has to be 1, 0 or -1 for each row")
        place = place[kept]
    weights = None if (weight == 1.0).all() else rows.weights
    return ComparisonData(
        tuple(names), rows.pairs, rows.tied, weights=weights, position=place, **labelled
    )


def _without(table: Any, given: dict[str, Any]) -> Any:
    """A table of pandas or any other library without the columns of covariates."""
    names = [name for name in column_names(table) or [] if name not in given]
    return {name: table[name] for name in names} if isinstance(table, dict) else table[names]


def _sorted(names: list[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:
        return names
