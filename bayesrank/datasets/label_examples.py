"""Examples of label ranking from comma-separated files: features, and columns of labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import no_rank
from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Table, read_table

_RANK, _RELEVANT = "rank:", "relevant:"


@dataclass(frozen=True)
class LabelExamples:
    r"""Examples with features, and targets of their labels.

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
        Rank of each label, 1 for the best, NaN if unknown, shape (n, c).
    relevant
        1 for relevant, 0 for irrelevant, NaN if unknown, shape (n, c).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesrank.datasets import read_label_examples
    >>> path = Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("x,rank:sea,rank:hills\n0.5,1,2\n")
    >>> read_label_examples(path).labels
    ('sea', 'hills')
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
        Names of the features wanted, in their order, beside which other columns do not count. By
        default all columns that hold no labels.

    Raises
    ------
    DataError
        If the file is not such a table, or a feature is missing.
    """
    table = read_table(path)
    said = [name for name in table.header if name.startswith((_RANK, _RELEVANT))]
    if features is None:
        features = tuple(name for name in table.header if name not in said)
    if not features:
        raise DataError(path, "there is no column of features", "add some", row=1)
    known = {column.name: column for column in table.columns}
    missing = next((name for name in features if name not in known), None)
    if missing is not None:
        raise DataError(path, f"there is no column {missing!r}", "add that feature", row=1)
    X = np.stack([cells.number(table, known[name]) for name in features], axis=1)
    named = [
        n.removeprefix(kind) for kind in (_RANK, _RELEVANT) for n in said if n.startswith(kind)
    ]
    labels = tuple(dict.fromkeys(named))
    if "" in labels:
        raise DataError(path, "a column names no label", "as in rank:sea or relevant:sea", row=1)
    ranks, relevant = np.full((2, len(table.rows), len(labels)), np.nan)
    for values, kind in ((ranks, _RANK), (relevant, _RELEVANT)):
        for place, name in enumerate(labels):
            if kind + name in known:
                values[:, place] = cells.number(table, known[kind + name], gaps=True)
    fix = "or leave it empty"
    wrong = no_rank(ranks)
    if wrong is not None:
        problem = f"{ranks[wrong]:g} is not a rank among {len(labels)} labels"
        fix = f"give 1 for the best to {len(labels)} for the worst, {fix}"
        raise _error(table, problem, fix, wrong[0], _RANK + labels[wrong[1]])
    for k, place in np.argwhere(~(np.isnan(relevant) | (relevant == 0) | (relevant == 1))):
        problem = f"{relevant[k, place]:g} is neither 0 nor 1"
        fix = f"give 1 for relevant, 0 for irrelevant, {fix}"
        raise _error(table, problem, fix, k, _RELEVANT + labels[place])
    return LabelExamples(Path(path), features, X, labels, ranks, relevant)


def _error(table: Table, problem: str, fix: str, k: int, column: str) -> DataError:
    return table.error(problem, fix, table.column(column), np.arange(len(table.rows)) == k)
