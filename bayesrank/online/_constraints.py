"""Targets of calibrated label ranking in general: preferences, and labels above and below zero."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bayesrank._validate import check_table
from bayesrank.online._base import check_rows

Array = NDArray[np.float64]


class LabelConstraints(NamedTuple):
    """What is known of the labels of one example, ``(R, P, N)`` [1]_.

    Attributes
    ----------
    preferred
        Pairs (r, s): label r before label s.
    positive, negative
        Labels above the zero, and below it. Each of the first is before each of the second. A label
        in neither may be anywhere.

    References
    ----------
    .. [1] Brinker, K. and Huellermeier, E. (2005). Calibrated label-ranking. NIPS Workshop on
       Learning to Rank.

    Examples
    --------
    >>> from bayesrank.online import LabelConstraints
    >>> LabelConstraints([(0, 2)], positive=[0], negative=[1])
    LabelConstraints(preferred=[(0, 2)], positive=[0], negative=[1])
    """

    preferred: Sequence[tuple[int, int]] = ()
    positive: Sequence[int] = ()
    negative: Sequence[int] = ()

    @classmethod
    def of_ranking(cls, ranking: Sequence[int], num_labels: int) -> Self:
        """Constraints of a ranking of all relevant labels, by its neighbours.

        Parameters
        ----------
        ranking
            Numbers of the relevant labels, best first; all others are irrelevant.
        num_labels
            Number of labels c.
        """
        absent = [label for label in range(num_labels) if label not in ranking]
        return cls(list(zip(ranking[:-1], ranking[1:], strict=True)), list(ranking), absent)


class ConstraintTables(NamedTuple):
    """Constraints of n examples: pairs (n, c, c), labels above and below zero (n, c)."""

    pairs: NDArray[np.bool_]
    above: NDArray[np.bool_]
    below: NDArray[np.bool_]


def tabulate(targets: Sequence[LabelConstraints], num_labels: int) -> ConstraintTables:
    """Write constraints into tables, those of P x N too; a `ValueError` if they clash."""
    shape = (len(targets), num_labels)
    tables = ConstraintTables(
        np.zeros((*shape, num_labels), bool), np.zeros(shape, bool), np.zeros(shape, bool)
    )
    for row, target in enumerate(targets):
        preferred = _labels(target.preferred, num_labels, row).reshape(-1, 2)
        tables.above[row, _labels(target.positive, num_labels, row)] = True
        tables.below[row, _labels(target.negative, num_labels, row)] = True
        tables.pairs[row, preferred[:, 0], preferred[:, 1]] = True
        tables.pairs[row] |= tables.above[row][:, None] & tables.below[row]
        if _contradicts(*(part[row] for part in tables)):
            raise ValueError(
                f"y contradicts itself in row {row}: some label would be before itself. Nothing "
                "of the chunk was learned"
            )
    return tables


def constraint_loss(utility: ArrayLike, targets: Sequence[LabelConstraints]) -> Array:
    """Share of the constraints of each example that utilities break, shape (n,).

    Equal utilities break a constraint, too. An example without constraints has loss 0.

    Parameters
    ----------
    utility : array-like of shape (n, c)
        Utilities of the labels; that of the zero is zero.
    targets : sequence of n LabelConstraints
        What is known of the labels.

    Raises
    ------
    ValueError
        If utilities or constraints cannot be used.
    """
    values = check_table(utility, "utility")
    if len(values) != len(targets):
        raise ValueError(f"utility has {len(values)} rows; pass one for each of {len(targets)}")
    pairs, above, below = tabulate(targets, values.shape[1])
    broken = (pairs & (values[:, :, None] <= values[:, None, :])).sum(axis=(1, 2))
    broken += (above & (values <= 0)).sum(axis=1) + (below & (values >= 0)).sum(axis=1)
    count = pairs.sum(axis=(1, 2)) + above.sum(axis=1) + below.sum(axis=1)
    return broken / np.maximum(count, 1)


def expand_constraints(
    X: ArrayLike, targets: Sequence[LabelConstraints], num_labels: int
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Binary examples, two for each constraint, from which any linear learner learns to rank.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features.
    targets : sequence of n LabelConstraints
        What is known of the labels of each example.
    num_labels : int
        Number of labels c.

    Returns
    -------
    tuple of csr_array and ndarray
        Examples, shape (m, c d): features in the block of the preferred label, and their negative
        in that of the other; and classes, 1 or -1, of the example and of its mirror image. Weights
        of a classifier without intercept, as ``(c, d)``, are those of the labels.

    Raises
    ------
    ValueError
        If features or constraints cannot be used.
    """
    rows = check_rows(X, None)
    pairs, above, below = tabulate(targets, num_labels)
    none = np.full(int(above.sum() + below.sum()), -1)
    up, down = np.argwhere(above), np.argwhere(below)
    example, first, second = np.argwhere(pairs).T
    alone = np.split(none, [len(up)])
    source = np.concatenate([example, up[:, 0], down[:, 0]])
    blocks = [
        (np.concatenate([first, up[:, 1], alone[1]]), 1.0),
        (np.concatenate([second, alone[0], down[:, 1]]), -1.0),
    ]
    positive: Any = sum(_in_blocks(rows[source], *block, num_labels) for block in blocks)
    signs = np.repeat(np.array([1, -1]), len(source))
    return sparse.csr_array(sparse.vstack([positive, -positive])), signs


def _in_blocks(rows: Array, block: NDArray[np.intp], sign: float, count: int) -> Any:
    """Rows in the block of a label each, shape (m, c d); nothing where the label is -1."""
    here, d = np.flatnonzero(block >= 0), rows.shape[1]
    columns = block[here, None] * d + np.arange(d)
    index = (np.repeat(here, d), columns.ravel())
    return sparse.csr_array((sign * rows[here].ravel(), index), shape=(len(rows), count * d))


def _labels(given: Any, num_labels: int, row: int) -> NDArray[np.intp]:
    """Numbers of labels, checked."""
    labels = np.asarray(given).ravel()
    if labels.size and (
        labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= num_labels
    ):
        raise ValueError(
            f"y has labels {labels.tolist()} in row {row}; they are numbered 0 to "
            f"{num_labels - 1}. Nothing of the chunk was learned"
        )
    return labels.astype(np.intp)


def _contradicts(pairs: Any, above: Any, below: Any) -> bool:
    """Whether the transitive closure, the zero among the labels, has a label before itself."""
    closure = np.zeros((len(pairs) + 1, len(pairs) + 1), bool)
    closure[:-1, :-1], closure[:-1, -1], closure[-1, :-1] = pairs, above, below
    for k in range(len(closure)):
        closure |= closure[:, k, None] & closure[k]
    return bool(np.diagonal(closure).any())
