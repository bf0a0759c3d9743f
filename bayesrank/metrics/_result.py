"""What a metric returns: one value a query, and the mean on top."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._validate import check_level


@dataclass(frozen=True, eq=False)
class PerQuery:
    """A metric for each query, in each draw where the scores had draws.

    Parameters
    ----------
    values
        Shape ``(queries,)``, or ``(draws, queries)`` for scores with a leading axis; NaN where the
        metric is not defined and such queries are skipped.
    query
        Shape ``(queries,)``: their names, in order of first appearance.

    Examples
    --------
    >>> from bayesrank.metrics import pairwise_error
    >>> error = pairwise_error([3.0, 2.0, 1.0, 1.0], [1, 0, 0, 1], query=["a", "a", "b", "b"])
    >>> error
    PerQuery(mean=0.25, queries=2)
    >>> error.values
    array([0. , 0.5])
    """

    values: Any
    query: NDArray[Any]

    @property
    def mean(self) -> Any:
        """Mean over the queries in which the metric is defined, one a draw; NaN without any."""
        kept = ~np.isnan(self.values)
        count = kept.sum(axis=-1)
        total = np.where(kept, self.values, 0.0).sum(axis=-1)
        mean = np.where(count > 0, total / np.where(count > 0, count, 1), np.nan)
        return float(mean) if self.values.ndim == 1 else mean

    @property
    def num_undefined(self) -> int:
        """Number of queries that the mean leaves out, in the first draw where there are draws."""
        values = np.asarray(self.values)
        first = values.reshape(-1, values.shape[-1])[:1]
        return int(np.isnan(first).sum())

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Ends of the equal-tailed credible interval of the mean, from the draws.

        Parameters
        ----------
        level
            Posterior probability of the interval.

        Raises
        ------
        ValueError
            If `level` is not between 0 and 1, or the scores had no draws.
        """
        check_level(level)
        if np.ndim(self.values) < 2:
            raise ValueError(
                "interval needs draws: give scores of shape (draws, n), or use "
                "bayesrank.bounds.bootstrap_queries for the spread over queries"
            )
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(np.asarray(self.mean), [tail, 1.0 - tail])
        return float(low), float(high)

    def __float__(self) -> float:
        if np.ndim(self.values) > 1:
            raise TypeError("a metric of draws is a distribution: take .mean, one value a draw")
        return float(self.mean)

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        shape = list(self.values.shape)
        parts = [f"mean={np.mean(self.mean):.6g}"]
        if len(shape) > 1:
            parts.append(f"draws={int(np.prod(shape[:-1]))}")
        parts.append(f"queries={shape[-1]}")
        if self.num_undefined:
            parts.append(f"undefined={self.num_undefined}")
        return f"PerQuery({', '.join(parts)})"
