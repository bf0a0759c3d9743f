"""Comparisons of named items, as plain arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

ScoreKind = Literal["solved", "grade", "number"]


@dataclass(frozen=True)
class OrderEvents:
    """Orders of items, each of which was given some number of times.

    Attributes
    ----------
    groups
        For each order, the numbers of the items, group by group, best first. Items in one group are
        not compared.
    counts
        How often each was given, shape (N,).
    answers
        For each row of a file, the number of its order and how often the row counts, shape (R, 2);
        None if orders have no rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesrank.datasets import read_comparisons
    >>> data = read_comparisons(pd.DataFrame({"order": ["tea > milk > water"]}))
    >>> data.orders.groups, data.orders.counts
    ((((0,), (1,), (2,)),), array([1]))
    """

    groups: tuple[tuple[tuple[int, ...], ...], ...]
    counts: np.ndarray
    answers: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of systems on tasks.

    Parameters
    ----------
    names, task_names
        Names of the n systems and of the T tasks, in the order of their first appearance.
    scores
        Shape (n, T): runs that succeeded, grades as in the file, or (mean) numbers; 0 where there
        are no runs.
    runs
        Shape (n, T): number of runs; 0 where the cell is missing.
    kind
        What scores are: "solved", "grade" or "number".
    clusters, cluster_names
        Cluster of each task, shape (T,), and names of the clusters; None and empty without these.
    families, family_names
        Family of each system, shape (n,), and names of the families, likewise.
    costs
        Mean cost of a run of each task, shape (T,), if there is such a column.
    notes
        Sentences on how the table was understood.
    ignored_columns
        Columns that were not used.

    Examples
    --------
    >>> from bayesrank.datasets import read_scores
    >>> table = {"system": ["x", "x", "y", "y"], "task": [1, 2, 1, 2], "score": [1, 0, 1, 1]}
    >>> read_scores(table).scores
    array([[1., 0.],
           [1., 1.]])
    """

    names: tuple[str, ...]
    task_names: tuple[str, ...]
    scores: np.ndarray
    runs: np.ndarray
    kind: ScoreKind
    clusters: np.ndarray | None = None
    cluster_names: tuple[str, ...] = ()
    families: np.ndarray | None = None
    family_names: tuple[str, ...] = ()
    costs: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.scores, self.runs):
            array.setflags(write=False)


_BY_ROW = (
    "comparisons",
    "tied",
    "times",
    "weights",
    "position",
    "judges",
    "categories",
    "covariates",
)


@dataclass(frozen=True, eq=False)
class ComparisonData:
    """Who was preferred to whom, and what is known of the items.

    Every row of `comparisons` is one piece of evidence: a pair that occurs twice counts twice. With
    `orders`, these are the evidence, and `comparisons` are the pairs that they imply. The pairs are
    not independent: as evidence they would make intervals far too narrow.

    Parameters
    ----------
    names
        Name of each of the n items; item ``i`` of every array is ``names[i]``.
    comparisons
        Shape (K, 2), integer: winner and loser of each comparison.
    tied
        Shape (K,), bool: True where the two were judged equal and the order means nothing.
    features
        Shape (n, d), in the units of the file, or None if nothing is known of the items.
    feature_names
        Name of each of the d features.
    times
        Shape (K,), when each comparison was: float64 or datetime64; None if not asked for.
    ignored_columns
        Columns of the comparisons file that were not used.
    orders
        Orders that the comparisons come from, if any.
    weights
        Shape (K,), how often each comparison counts, positive; None if each counts once.
    position
        Shape (K,): 1 where the winner (or first item of a tie) was shown first or at home, -1 where
        the other was, 0 for neither; None if unknown.
    position_label
        What the position is, as in "being shown first"; empty if there is none.
    judges, categories
        Shape (K,), number of the judge and of the category of each comparison; None if the file
        says nothing of them.
    judge_names, category_names
        Their names.
    covariates
        Shape (K, D): by how much the winner (or first item of a tie) has more of each covariate, in
        the units of the file; None if none is used.
    covariate_names
        Names of the D covariates.
    layout
        Layout of the file, as an example of its header; empty for PrefLib's files.
    notes
        Sentences on how the file was understood, and what of it was left out.
    clusters
        Columns that were not used and have repeats, by name: the number of the cell of each
        comparison, shape (K,), or of each row of `orders.answers`, shape (R,).
    scores
        A score table, in place of comparisons, if that was read.
    contrasts
        What was not used of both sides, by name: the winner's number less the loser's, shape (K,).
    unused_column_hints
        Sentences on columns that look as if they should have been used, and on items that may be
        one, by their names.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesrank.datasets import read_comparisons
    >>> frame = pd.DataFrame({"winner": ["tea", "tea"], "loser": ["milk", "water"]})
    >>> data = read_comparisons(frame)
    >>> data.names, data.comparisons.tolist()
    (('tea', 'milk', 'water'), [[0, 1], [0, 2]])
    """

    names: tuple[str, ...]
    comparisons: np.ndarray
    tied: np.ndarray
    features: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    orders: OrderEvents | None = None
    times: np.ndarray | None = None
    weights: np.ndarray | None = None
    position: np.ndarray | None = None
    position_label: str = ""
    judges: np.ndarray | None = None
    categories: np.ndarray | None = None
    judge_names: tuple[str, ...] = ()
    category_names: tuple[str, ...] = ()
    covariates: np.ndarray | None = None
    covariate_names: tuple[str, ...] = ()
    layout: str = ""
    notes: tuple[str, ...] = ()
    unused_column_hints: tuple[str, ...] = ()
    clusters: Mapping[str, np.ndarray] = field(default_factory=dict)
    contrasts: Mapping[str, np.ndarray] = field(default_factory=dict)
    scores: ScoreTable | None = None

    def __post_init__(self) -> None:
        for array in (self.features, *(getattr(self, name) for name in _BY_ROW)):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def of_scores(cls, table: ScoreTable) -> "ComparisonData":
        """A score table as what rankers take."""
        none = np.zeros((0, 2), np.int64)
        layout = {"solved": "solved or not", "grade": "grades", "number": "numbers"}[table.kind]
        return cls(
            table.names,
            none,
            none[:, 0] > 0,
            ignored_columns=table.ignored_columns,
            layout=f"a score table, systems by tasks: {layout}",
            notes=table.notes,
            scores=table,
        )

    @property
    def is_log(self) -> bool:
        """Whether there are positions, judges, categories or covariates to learn of."""
        said = self.position, self.judges, self.categories, self.covariates
        return any(part is not None for part in said)

    def where(self, mask: np.ndarray) -> "ComparisonData":
        """Some of the comparisons; items, judges and categories stay.

        Parameters
        ----------
        mask : ndarray of bool, or of integers
            Which rows to keep, shape (K,); or their numbers.

        Raises
        ------
        ValueError
            If there are `orders`: they do not fall into comparisons.
        """
        if self.orders is not None:
            raise ValueError("data has orders, which stay whole; pass data.orders to fit_orders")
        if self.scores is not None:
            raise ValueError("data has a score table, which stays whole; read part of it")
        rows = {name: getattr(self, name) for name in _BY_ROW}
        rows = {n: v if v is None else v[mask] for n, v in rows.items()}
        for name in ("clusters", "contrasts"):
            rows[name] = {n: v[mask] for n, v in getattr(self, name).items()}
        return replace(self, **rows)

    def distinct(self) -> "ComparisonData":
        """Equal comparisons as one, whose weight says how often they came; a tie has no winner.

        Rows come in the order of names, so that equal evidence in another order has equal rows.
        """
        items = _places(self.names)[self.comparisons]
        turned = self.tied & (items[:, 0] > items[:, 1])
        pairs, items = (np.where(turned[:, None], p[:, ::-1], p) for p in (self.comparisons, items))
        sign = np.where(turned, -1.0, 1.0)
        more, position = self.covariates, self.position
        more = None if more is None else sign[:, None] * more + 0.0  # no zero below zero
        position = None if position is None else sign * position + 0.0
        labels = (self.judges, self.judge_names), (self.categories, self.category_names)
        said = [n if not names else _places(names)[n] for n, names in labels if n is not None]
        said += [column for column in (self.tied, self.times, position) if column is not None]
        codes = np.zeros(self.num_comparisons, np.int64)
        for column in (*items.T, *said, *(() if more is None else more.T)):
            if column.dtype != np.int64 or column is self.times:
                plain = column.astype(str) if column.dtype == object else column
                column = np.unique(plain, return_inverse=True)[1]
            width = int(column.max(initial=0)) + 1
            if width * (int(codes.max(initial=0)) + 1) >= 2**63:
                codes = np.unique(codes, return_inverse=True)[1]
            codes = codes * width + column
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        weights = np.bincount(codes, self.weights).astype(np.float64)
        whole = replace(self, comparisons=pairs, position=position, clusters={}, contrasts={})
        return replace(replace(whole, covariates=more).where(first), weights=weights)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.names)

    @property
    def num_comparisons(self) -> int:
        """Number of comparisons, ties included."""
        return len(self.comparisons)


def _places(names: tuple[str, ...]) -> np.ndarray:
    """Where each name stands in the order of their texts."""
    return np.argsort(np.argsort(np.array([*map(str, names)]), kind="stable"))
