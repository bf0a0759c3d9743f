"""Rows grouped by query: lists side by side, whatever the order they came in."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import missing, numbered, plain_array


@dataclass(frozen=True, eq=False)
class QueryLists:
    """Which rows belong to which query.

    Parameters
    ----------
    names
        Names of the queries, in the order of their first appearance.
    order
        Shape (m,): rows of the data, list after list, in each list as they came.
    starts, sizes
        Shape (q,): where a list starts in `order`, and how many rows it has.

    Examples
    --------
    >>> from bayesrank.datasets import group_queries
    >>> lists = group_queries(["q1", "q2", "q1"], 3)
    >>> lists.order.tolist(), lists.sizes.tolist()
    ([0, 2, 1], [2, 1])
    """

    names: tuple[Hashable, ...]
    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]

    @property
    def codes(self) -> NDArray[np.intp]:
        """Number of the list of each row, in the sorted order, shape (m,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def unsort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Put values of sorted rows back at the rows they belong to."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


def group_queries(query: Any, num_rows: int, *, what: str = "query") -> QueryLists:
    """Group rows by the name of their query.

    Parameters
    ----------
    query
        Shape (m,), names of any kind that can be a key: numbers, texts, tuples, dates. With None
        all rows are one list.
    num_rows
        Number of rows m.
    what
        Name of the argument in messages.

    Raises
    ------
    ValueError
        If there is not one name a row; the message says where.

    Examples
    --------
    >>> lists = group_queries(["b", "a", "b"], 3)
    >>> lists.names, lists.order, lists.sizes
    (('b', 'a'), array([0, 2, 1]), array([2, 1]))
    """
    names = [0] * num_rows if query is None else _names(query)
    if len(names) != num_rows:
        raise ValueError(
            f"{what} has {len(names)} entries and X has {num_rows} rows; name the {what} of each"
        )
    try:
        codes, known = numbered(names)
    except TypeError:
        raise ValueError(f"{what} has a name that cannot be a key; pass numbers or texts") from None
    for number, name in enumerate(known):
        if missing(name):
            row = int(np.argmax(codes == number))
            raise ValueError(f"{what} has no name in row {row}; name the {what} of each row")
    sizes = np.bincount(codes, minlength=len(known)).astype(np.intp)
    starts = np.cumsum(sizes) - sizes
    return QueryLists(known, np.argsort(codes, kind="stable"), starts, sizes)


def _names(query: Any) -> list[Any]:
    """Return the names as a list; rows of a two-dimensional array are tuples."""
    if isinstance(query, list | tuple) and any(isinstance(name, tuple) for name in query):
        return list(query)
    array = plain_array(query)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        return [tuple(row) for row in array.tolist()]
    if array.ndim != 1:
        raise ValueError(f"query has shape {array.shape}; pass one name for each row of X")
    return array.tolist()
