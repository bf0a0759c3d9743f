"""The table that answers "who is best, and how sure are we?"."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._names import check_names, shown
from bayesrank.ranking._ranks import equal_tailed, mean_rank, rank_bounds, top_k_share
from bayesrank.ranking._validate import Array, check_k, check_prob, check_samples

if TYPE_CHECKING:
    import pandas as pd

_MAX_ROWS = 40


@dataclass(frozen=True)
class RankSummary:
    """Ranking with uncertainty; every array is in ranked order, best first.

    Attributes
    ----------
    item
        Item indices, shape ``(n,)``.
    name
        Item names.
    mean, sd
        Posterior mean and standard deviation of skill, in the units of the draws.
    skill_lower, skill_upper
        Equal-tailed credible interval of skill: draws that leave at most half of ``1 - prob``
        outside either end.
    prob_best, prob_top_k
        Probability of being the best, and among the best ``k``.
    expected_rank
        Posterior mean rank, 1 = best. The order of the table.
    rank_lower, rank_upper
        Equal-tailed credible interval of the rank, see `rank_interval`.
    prob
        Probability of both intervals.
    k
        The ``k`` of ``prob_top_k``.
    """

    item: Array
    name: list[str]
    mean: Array
    sd: Array
    skill_lower: Array
    skill_upper: Array
    prob_best: Array
    prob_top_k: Array
    expected_rank: Array
    rank_lower: Array
    rank_upper: Array
    prob: float
    k: int

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.name)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return the table as a pandas data frame, one row an item, best first.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_dataframe needs pandas: pip install pandas (print the summary to do without)"
            ) from error
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(self) + 1),
                "item": self.name,
                "skill_mean": self.mean,
                "skill_sd": self.sd,
                "skill_lower": self.skill_lower,
                "skill_upper": self.skill_upper,
                "prob_best": self.prob_best,
                f"prob_top_{self.k}": self.prob_top_k,
                "expected_rank": self.expected_rank,
                "rank_lower": self.rank_lower,
                "rank_upper": self.rank_upper,
            }
        )

    def _row(self, i: int) -> tuple[str, ...]:
        """Return the cells of row ``i`` as text."""
        return (
            str(i + 1),
            shown(self.name[i]),
            f"{self.mean[i]:.3f} ± {self.sd[i]:.3f}",
            f"{self.prob_best[i]:.1%}",
            f"{self.prob_top_k[i]:.1%}",
            f"{self.expected_rank[i]:.1f}",
            f"{self.rank_lower[i]} to {self.rank_upper[i]}",
        )

    def __str__(self) -> str:
        """Return a text table; the middle of a long one is left out, and that is said."""
        n = len(self)
        head = n if n <= _MAX_ROWS else _MAX_ROWS - 10
        shown = [*range(head), *range(max(head, n - 10), n)]
        titles = (
            "rank",
            "item",
            "skill ± sd",
            "P(best)",
            f"P(top {self.k})",
            "mean rank",
            f"{100 * self.prob:g}% rank interval",
        )
        rows = [titles, *(self._row(i) for i in shown)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(titles))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 1 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        if len(shown) < n:
            lines.insert(head + 1, f"... {n - len(shown)} more ...")
        return "\n".join(lines)


def summarize(
    samples: ArrayLike,
    names: Sequence[object] | None = None,
    *,
    prob: float = 0.9,
    k: int | None = None,
) -> RankSummary:
    """Summarise posterior draws of skill as a ranking with uncertainty.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    names
        One name per item; the item's index if not given.
    prob
        Probability of the skill and rank intervals, strictly between 0 and 1.
    k
        Report the probability of being among the best ``k``; 3 if not given (``n`` if smaller).

    Returns
    -------
    RankSummary
        One entry per item, sorted by expected rank. ``print`` it, or call ``to_dataframe()``.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array, or ``names``, ``prob`` or ``k`` do not
        fit.
    """
    array = check_samples(samples)
    n = array.shape[1]
    prob = check_prob(prob)
    k = check_k(min(3, n) if k is None else k, n)
    labels = check_names(names, n)
    low, high = rank_bounds(array)
    ranks = mean_rank(low, high)
    order = np.argsort(ranks, kind="stable")
    rank_lower, rank_upper = equal_tailed(low, high, prob)
    lower, upper = equal_tailed(array, array, prob)
    return RankSummary(
        item=order,
        name=[labels[i] for i in order],
        mean=array.mean(axis=0, dtype=np.float64)[order],
        sd=array.std(axis=0, dtype=np.float64)[order],
        skill_lower=lower[order],
        skill_upper=upper[order],
        prob_best=top_k_share(low, high, 1)[order],
        prob_top_k=top_k_share(low, high, k)[order],
        expected_rank=ranks[order],
        rank_lower=rank_lower[order].astype(np.int64),
        rank_upper=rank_upper[order].astype(np.int64),
        prob=prob,
        k=k,
    )
