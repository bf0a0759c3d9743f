"""The table of a ranking: who is best, and how certain that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesrank._names import check_names
from bayesrank._validate import check_level
from bayesrank.ranking._observed import ItemRecords
from bayesrank.ranking._ranks import (
    Array,
    SkillMixture,
    by_mean,
    check_num_places,
    check_samples,
    equal_tailed,
    mean_rank,
    rank_bounds,
    top_k_share,
)
from bayesrank.ranking._tiers import is_provisional, prob_better_than_next, tiers
from bayesrank.ranking.columns import EloScale, file_columns, html_table, text_table

if TYPE_CHECKING:
    import pandas as pd

Measure = Literal["skill", "share", "score"]
_MAX_ROWS = 40
_ALIKE = 1e-4  # of the largest spread of a skill; fits leave differences below


@dataclass(frozen=True)
class RankSummary:
    """Ranking with uncertainty; every array is in ranked order, best first.

    Items stand in the order of their mean skill. Components without comparisons between them stand
    one below the other; ranks, probabilities and tiers are then those within a component.

    Attributes
    ----------
    indices
        Item indices, shape ``(n,)``.
    names
        Item names.
    rank
        Place in the order of mean skill, 1 = best.
    mean, sd
        Posterior mean and standard deviation of skill, in the units of the draws.
    skill_lower, skill_upper
        Equal-tailed credible interval of skill: draws that leave at most half of ``1 - level``
        outside either end.
    prob_best, prob_top_k
        Probability of being the best, and among the best ``k``.
    prob_better_than_next
        Probability that the item's skill exceeds that of the next; NaN where there is no next.
    expected_rank
        Posterior mean rank, 1 = best.
    rank_lower, rank_upper
        Equal-tailed credible interval of the rank, see `rank_interval`.
    tier
        Items of one tier are statistically tied with its first one, see `tiers`; 0 if provisional,
        but for the first item.
    provisional
        Whether comparisons say little of the item: most of the prior variance of its skill is left
        (`is_provisional`), and its rank interval holds more than half of the ranks.
    component
        0 for the items of the largest component, and so on; all 0 where none were given.
    records
        Comparisons won, lost and tied; None where none were given.
    level
        Probability of both intervals, and that of tiers.
    k
        The ``k`` of ``prob_top_k``.
    measure
        What "skill" is: "skill", or "share" or "score" of a score table.
    elo
        Elo points of skills, where those of some items are known. A skill of zero then has the
        points of the first of these.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.ranking import summarize
    >>> draws = np.random.default_rng(0).normal([0.0, 9.0, 3.0], 0.1, size=(100, 3))
    >>> summary = summarize(draws, ["tea", "milk", "water"])
    >>> [str(name) for name in summary.names]
    ['milk', 'water', 'tea']
    >>> summary.rank_upper
    array([1, 2, 3])
    """

    indices: Array
    names: list[str]
    rank: Array
    mean: Array
    sd: Array
    skill_lower: Array
    skill_upper: Array
    prob_best: Array
    prob_top_k: Array
    prob_better_than_next: Array
    expected_rank: Array
    rank_lower: Array
    rank_upper: Array
    tier: Array
    provisional: Array
    component: Array
    records: ItemRecords | None
    level: float
    k: int
    measure: Measure = "skill"
    elo: EloScale | None = None

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.names)

    @property
    def num_components(self) -> int:
        """Number of components that the items fall into."""
        return int(self.component.max()) + 1

    def to_dataframe(self) -> "pd.DataFrame":
        """Return the table as a pandas data frame, a row an item."""
        import pandas as pd  # a summary is printed without it

        return pd.DataFrame(file_columns(self))

    def __str__(self) -> str:
        """Return a text table, which leaves out the middle of a long ranking and says so."""
        return text_table(self, _MAX_ROWS)

    def _repr_html_(self) -> str:
        return html_table(self, _MAX_ROWS)


def summarize(
    samples: ArrayLike,
    names: Sequence[object] | None = None,
    *,
    level: float = 0.9,
    k: int | None = None,
    records: ItemRecords | None = None,
    components: ArrayLike | None = None,
    prior_sd: ArrayLike | None = None,
    posterior: SkillMixture | None = None,
    measure: Measure = "skill",
) -> RankSummary:
    """Summarise posterior draws of skill as a ranking with uncertainty.

    Parameters
    ----------
    samples
        Posterior draws of skill, shape ``(draws, n)``.
    names
        One name per item; the item's index if not given.
    level
        Probability of the skill and rank intervals, strictly between 0 and 1.
    k
        Report the probability of being among the best ``k``; 3 if not given.
    records
        Comparisons won, lost and tied, of `count_records`, to be shown beside the ranking.
    components
        Component of each item, of `connected_components`, shape ``(n,)``: each is ranked by
        itself. By default all items are in one.
    prior_sd
        Standard deviations of the skills before any comparison, shape ``(n,)`` or one for all, by
        which items are provisional; by default no item is, unless it is alone in its component.
    posterior
        The mixture of Gaussians that `samples` come from. It says without draws how well skills
        are known and which of two items is better, and which items have the same evidence: their
        ranks are the same, too.
    measure
        What `samples` are: skills, shares of runs that succeed, or other scores.

    Returns
    -------
    RankSummary
        One entry per item, sorted by mean skill, which is what is shown; items of equal means stay
        in the order of `samples`. ``print`` it, or call ``to_dataframe()``.

    Raises
    ------
    ValueError
        If ``samples`` is not a finite ``(draws, n)`` array, or another argument does not fit.
    """
    array = check_samples(samples)
    n = array.shape[1]
    level = check_level(level)
    k = 3 if k is None else check_num_places(k, n)
    labels = check_names(names, n)
    component = _check_components(components, n)
    if records is not None and len(records.wins) != n:
        raise ValueError(f"records are of {len(records.wins)} items, and samples of {n}")
    spread = array.std(axis=0, dtype=np.float64) if posterior is None else posterior.moments()[1]
    open_ = is_provisional(spread, np.inf if prior_sd is None else prior_sd)
    parts = []
    for number in range(component.max() + 1):
        inside = np.flatnonzero(component == number)
        order = inside[by_mean(array[:, inside])]
        own = None if posterior is None else posterior.of(order)
        ranked = _ranked(array[:, order], own, open_[order], level, k)
        parts.append({"indices": order, **ranked})
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    order = columns["indices"]
    columns |= {name: v[order] for name, v in skill_columns(array, posterior, level).items()}
    return RankSummary(
        **columns,
        names=[labels[i] for i in order],
        component=component[order],
        records=None if records is None else ItemRecords(*(each[order] for each in records)),
        level=level,
        k=k,
        measure=measure,
    )


def skill_columns(samples: Array, posterior: SkillMixture | None, level: float) -> dict[str, Array]:
    """Moments and intervals of skills, without draws where the mixture says them."""
    mean, spread = (each(axis=0, dtype=np.float64) for each in (samples.mean, samples.std))
    lower, upper = equal_tailed(samples, samples, level)
    if posterior is not None:
        (mean, spread), (lower, upper) = posterior.moments(), posterior.interval(level)
    return {"mean": mean, "sd": spread, "skill_lower": lower, "skill_upper": upper}


def _check_components(components: ArrayLike | None, n: int) -> Array:
    component = np.zeros(n, np.int64) if components is None else np.asarray(components)
    if component.shape != (n,) or component.dtype.kind not in "iu":
        raise ValueError(
            f"components has shape {component.shape} and dtype {component.dtype}; pass the number "
            f"of a component for each of the {n} items"
        )
    if not np.array_equal(np.unique(component), np.arange(component.max() + 1)):
        raise ValueError("components are not numbered 0, 1 and so on; use connected_components")
    return component


def _ranked(
    samples: Array, posterior: SkillMixture | None, open_: Array, level: float, k: int
) -> dict[str, Array]:
    """Summary of items that are ranked together; the first column is the best."""
    low, high = rank_bounds(samples)
    lower, upper = (each.astype(np.int64) for each in equal_tailed(low, high, level))
    chances = {
        "prob_best": top_k_share(low, high, 1),
        "prob_top_k": top_k_share(low, high, k),
        "expected_rank": mean_rank(low, high),
    }
    better = prob_better_than_next(samples)
    n = samples.shape[1]
    if posterior is not None:
        better[:-1] = posterior.better(np.arange(n - 1), np.arange(1, n))
        for same in _alike(posterior):
            best, worst = (each[:, same].reshape(-1, 1) for each in (low, high))
            lower[same], upper[same] = equal_tailed(best, worst, level)
            for each in chances.values():
                each[same] = each[same].mean()
        if n == 2:
            chances["prob_best"][:] = better[0], 1.0 - better[0]
    provisional = (open_ & (2 * (upper - lower + 1) > n)) | (n == 1)
    return {
        **chances,
        "rank": np.arange(1, n + 1),
        "prob_better_than_next": better,
        "rank_lower": lower,
        "rank_upper": upper,
        "provisional": provisional,
        "tier": tiers(samples, level, provisional=provisional, posterior=posterior),
    }


def _alike(posterior: SkillMixture) -> list[Array]:
    """Items in a row that have the same evidence, as their moments show: two or more a group."""
    moments = np.stack(posterior.moments())
    apart = (np.abs(np.diff(moments)) > _ALIKE * moments[1].max()).any(axis=0)
    groups = np.split(np.arange(moments.shape[1]), np.flatnonzero(apart) + 1)
    return [group for group in groups if len(group) > 1]
