"""Examples of label ranking from comma-separated files: features, and columns of labels."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import no_rank
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Table, read_table

__all__ = ["LabelExamples", "read_label_examples"]

_RANK, _RELEVANT = "rank:", "relevant:"


class LabelExamples(NamedTuple):
    """Examples with features, and what is said of their labels.

    Attributes
    ----------
    path
        The file.
    features
        Names of the features.
    X
        Their values, shape (n, d).
    labels
        Names of the labels.
    ranks
        Rank of each label, 1 for the best, NaN where nothing is said, shape (n, c).
    relevant
        1 for relevant, 0 for irrelevant, NaN where nothing is said, shape (n, c).
    """

    path: Path
    features: tuple[str, ...]
    X: NDArray[np.float64]
    labels: tuple[str, ...]
    ranks: NDArray[np.float64]
    relevant: NDArray[np.float64]


def read_label_examples(path: str | Path, features: tuple[str, ...] | None = None) -> LabelExamples:
    """Read examples.

    Columns ``rank:NAME`` hold ranks of the label NAME, columns ``relevant:NAME`` 1 or 0; an empty
    cell says nothing. All other columns are features.

    Parameters
    ----------
    path
        The file.
    features
        Names of the features that are wanted, in their order; without it, all there are. With it,
        other columns are passed over.

    Raises
    ------
    DataError
        If the file is not such a table, or a feature is missing.
    """
    table = read_table(path)
    if features is None:
        prefixes = (_RANK, _RELEVANT)
        features = tuple(name for name in table.header if not name.startswith(prefixes))
    if not features:
        raise DataError(path, "there is no column of features", "add some", row=1)
    missing = next((name for name in features if name not in table.header), None)
    if missing is not None:
        raise DataError(path, f"there is no column {missing!r}", "add that feature", row=1)
    X = np.stack([_numbers(table, name, empty=False) for name in features], axis=1)
    labels = tuple(
        dict.fromkeys(
            name.removeprefix(prefix)
            for prefix in (_RANK, _RELEVANT)
            for name in table.header
            if name.startswith(prefix)
        )
    )
    ranks, relevant = (
        np.stack(
            [
                _numbers(table, prefix + name)
                if prefix + name in table.header
                else np.full(len(table.rows), np.nan)
                for name in labels
            ],
            axis=1,
        )
        if labels
        else np.zeros((len(table.rows), 0))
        for prefix in (_RANK, _RELEVANT)
    )
    if "" in labels:
        raise DataError(path, "a column names no label", "as in rank:sea or relevant:sea", row=1)
    _refuse_other_ranks(table, labels, ranks)
    _refuse_other_flags(table, labels, relevant)
    return LabelExamples(Path(path), features, X, labels, ranks, relevant)


def _numbers(table: Table, name: str, *, empty: bool = True) -> NDArray[np.float64]:
    """A column of finite numbers, in which an empty cell may say nothing."""
    column, values = table.header.index(name), np.full(len(table.rows), np.nan)
    for number, row in enumerate(table.rows):
        cell = row.cells[column]
        if empty and not cell:
            continue
        try:
            values[number] = float(cell)
        except ValueError:
            values[number] = np.inf
        if not np.isfinite(values[number]):
            cure = "give a finite number, or leave it empty" if empty else "give a finite number"
            raise DataError(table.path, f"{cell!r} is no number", cure, row=row.number, column=name)
    return values


def _refuse_other_ranks(table: Table, labels: tuple[str, ...], ranks: NDArray[np.float64]) -> None:
    wrong = no_rank(ranks)
    if wrong is not None:
        raise DataError(
            table.path,
            f"{ranks[wrong]:g} is no rank among {len(labels)} labels",
            f"give 1 for the best to {len(labels)} for the worst, or leave it empty",
            row=table.rows[wrong[0]].number,
            column=_RANK + labels[wrong[1]],
        )


def _refuse_other_flags(
    table: Table, labels: tuple[str, ...], relevant: NDArray[np.float64]
) -> None:
    wrong = ~np.isnan(relevant) & (relevant != 0) & (relevant != 1)
    if wrong.any():
        number, label = np.argwhere(wrong)[0]
        raise DataError(
            table.path,
            f"{relevant[number, label]:g} says nothing of relevance",
            "give 1 for relevant, 0 for irrelevant, or leave it empty",
            row=table.rows[number].number,
            column=_RELEVANT + labels[label],
        )
