"""`ArenaRanker`: skills from a log of comparisons, with its judges, positions and categories."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from bayesrank._validate import check_choice
from bayesrank.estimators.base import ScaleChoice
from bayesrank.estimators.columns import numbers_of, read_pairs
from bayesrank.estimators.effects import Effect, effects_of, judges_of, sentences_on
from bayesrank.estimators.ranker import NamedRanker, Outcome
from bayesrank.estimators.skills import fit_log
from bayesrank.inferencedata.draws import draws_to_arviz
from bayesrank.ranking import RankSummary
from bayesrank.solvers.comparisons import ArenaFit, Asked
from bayesrank.solvers.comparisons.skills import Independent

Array = NDArray[np.float64]


class ArenaRanker(NamedRanker):
    """Rank named items from a log of comparisons, by who judged, in which order and category.

    Every part is optional: an advantage of being shown first or at home, ties as a third outcome,
    and a skill in each category. Judges have an order bias and a reliability. Judges and categories
    are partially pooled (`bayesrank.models.judged_comparisons`). For items with features, or skills
    that change with time, see `bayesrank.PairwiseRanker`.

    Skill is in units of the noise of a performance, as the typical judge sees it; only differences
    matter. A million comparisons take about a minute.

    Parameters
    ----------
    items : sequence or None, default None
        Names of all items; by default those that are compared.
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        How to treat the prior scales and the tie width. "integrate" averages over them where the
        data leave them open. It becomes "map" if that would move no skill by more than 0.1
        posterior standard deviations and widen none by more than 3%. It is "map" with judges, over
        600 skills (overall and in each category) or over 2,000 different comparisons. "map" takes
        the most probable values, "prior" the prior medians. A mapping fixes what it names; "map"
        learns the rest.
    num_samples, random_state
        As for `bayesrank.PairwiseRanker`.
    overall : {"average", "unseen"}, default "average"
        What the skills of no category are, if there are categories. "average" is the average over
        the categories of the log, weighted by their comparisons. "unseen" is what is expected in a
        category that the log does not have; more comparisons in the same categories hardly narrow
        its intervals.

    Attributes
    ----------
    names_, judge_names_, category_names_ : list
        Names of items, judges and categories.
    category_shares_ : ndarray
        Share of the comparisons in each category.
    result_ : bayesrank.infer.EPResult or bayesrank.solvers.comparisons.ArenaFit
        The posterior, with the scales averaged over or not; also as `result`.
    hyperparameters_ : str
        What was done about the scales: "integrate", "map" or "prior".
    params_ : dict
        Scales of the priors, and the tie width; their means if they were averaged over.
    components_ : ndarray
        Which items comparisons link, see `bayesrank.ranking.connected_components`.
    num_judged_ : ndarray
        Number of comparisons of each judge.

    Notes
    -----
    In simulated leagues of 12 teams and 40 games, 90% intervals of skill cover 90% with "integrate"
    and 84% with "map". In logs of 5,000 comparisons with judges ("map") they cover 88.5%. Intervals
    include the uncertainty of reliabilities and of the tie width, by the delta method.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesrank.estimators import ArenaRanker
    >>> log = pd.DataFrame({
    ...     "winner": ["x", "x", "y", "x", "z", "x"],
    ...     "loser": ["y", "z", "z", "y", "y", "y"],
    ...     "judge": ["Eve", "Eve", "Eve", "Dan", "Dan", "Dan"],
    ... })
    >>> ranker = ArenaRanker().fit(log)
    >>> ranker.rank().names[0]
    'x'
    >>> ranker.judges().index.tolist()
    ['Eve', 'Dan']
    """

    _at_once = ("overall",)

    def __init__(
        self,
        *,
        items: Sequence[Hashable] | None = None,
        hyperparameters: ScaleChoice = "integrate",
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
        overall: Literal["average", "unseen"] = "average",
    ) -> None:
        self.items = items
        self.overall = overall
        self.hyperparameters = hyperparameters
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        comparisons: Any,
        y: None = None,
        *,
        ties: ArrayLike | None = None,
        position: ArrayLike | None = None,
        judge: ArrayLike | None = None,
        category: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the scales and reliabilities, then skills, biases and effects.

        Parameters
        ----------
        comparisons : ComparisonData, table, or array-like of shape (K, 2)
            What `bayesrank.datasets.read_comparisons` returns; or a table with the columns
            ``winner`` and ``loser``, and perhaps ``tie``, ``weight``, ``position``, ``judge`` and
            ``category``; or names of winner and loser.
        y, ties, sample_weight
            As for `bayesrank.PairwiseRanker.fit`.
        position : array-like of shape (K,), optional
            1 where the winner (of a tie, the item named first) was shown first or at home, -1 where
            the loser was, 0 where neither.
        judge, category : array-like of shape (K,), optional
            Names of judge and category.
        callback : callable, optional
            Called with the number of values tried and the best objective if scales are averaged
            over; else with the number of each round and its largest change.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If the fit has not converged.
        """
        given = {"ties": ties, "sample_weight": sample_weight}
        given |= {"position": position, "judge": judge, "category": category}
        log = self._data(comparisons, given)
        if log.orders is not None or log.features is not None or log.times is not None:
            raise ValueError(
                "comparisons has orders, features of items or times, which this model does not "
                "take; use OrderRanker or PairwiseRanker"
            )
        check_choice(self.overall, "overall", "average", "unseen")
        skills = Independent(log.num_items)
        self._keep(fit_log(log, skills, self._settings(), callback), {})
        self.names_ = list(log.names)
        self.judge_names_ = list(log.judge_names)
        # One category alone cannot be told from the overall skill.
        self.category_names_ = list(log.category_names) if len(log.category_names) > 1 else []
        within = np.zeros(log.num_comparisons, int) if log.categories is None else log.categories
        counts = np.bincount(within, log.weights, len(self.category_names_))
        self.category_shares_ = counts / counts.sum()
        self.position_label_ = log.position_label or "being shown first"
        self._count(log)
        judged = np.zeros(log.num_comparisons, int) if log.judges is None else log.judges
        self.num_judged_ = np.bincount(judged, log.weights, max(len(log.judge_names), 1))
        return self

    def samples(self, category: Hashable | None = None) -> Array:
        """Posterior draws of skills, the same at every call if `random_state` is a number.

        Parameters
        ----------
        category : hashable, optional
            A category; without it, of the overall skills. Draws of categories are joint.

        Returns
        -------
        ndarray of shape (num_samples, n)
            Their averages are the posterior means.
        """
        return self._draws(self._shares(category))

    def rank(
        self,
        names: Sequence[object] | None = None,
        *,
        category: Hashable | None = None,
        level: float = 0.9,
        k: int | None = None,
        anchor: Hashable | None = None,
    ) -> RankSummary:
        """Rank the items, with uncertainty.

        Parameters
        ----------
        names, level, k, anchor
            As for `bayesrank.PairwiseRanker.rank`.
        category : hashable, optional
            A category, to rank by the skills in it.
        """
        self._posterior()
        records = self.records_ if category is None else None
        return self._ranked(self._shares(category), records, names, level, k, anchor)

    def predict(
        self, items: Sequence[Hashable] | None = None, *, category: Hashable | None = None
    ) -> tuple[Array, Array]:
        """Skills and how well they are known: posterior means and standard deviations.

        Parameters
        ----------
        items : sequence, optional
            Names; without it all, in the order of ``names_``.
        category : hashable, optional
            A category, for the skills in it.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an item or a category is not known.
        """
        mean, sd = self._posterior().skills(self._shares(category))
        at = self._numbers(items, "name an item of fit")
        return mean[at], sd[at]

    def predict_proba(
        self,
        pairs: Any,
        *,
        position: float = 0.0,
        category: Hashable | None = None,
        judge: Hashable | None = None,
        outcome: Outcome = "win",
    ) -> Array:
        """Probability of an outcome of new comparisons.

        It includes the joint uncertainty of skills, position effect, tie width, and the judge's
        order bias and reliability.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items.
        position : {1, 0, -1}, default 0
            1 if the first item of each pair is shown first or at home, -1 if the second is.
        category : hashable, optional
            The category; without it, skills are the overall ones.
        judge : hashable, optional
            The judge; without it, one who is as reliable as the typical judge and has no order
            bias of its own.
        outcome : {"win", "tie", "loss"}, default "win"
            What the first item is to do.

        Returns
        -------
        ndarray of shape (P,)

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name is not known, `outcome` is not possible, or
            nothing is known of positions.
        """
        posterior = self._posterior()
        if position not in (-1, 0, 1):
            raise ValueError(f"position is {position!r}; pass 1, 0 or -1")
        if position != 0 and posterior.effects().position_effect is None:
            raise ValueError(
                f"position is {position!r}, but fit was given no positions, so their effect is "
                "unknown; leave it out"
            )
        named = read_pairs(pairs, "pairs")
        first, second = numbers_of(named, self.names_, "name an item of fit", "pairs").T
        number = None if judge is None else self._number(judge, self.judge_names_, "judge")
        asked = Asked(first, second, position, self._shares(category), number)
        return self._chance(posterior.chances(asked), outcome)

    def effects(self, level: float = 0.9) -> list[Effect]:
        """Effects of position and ties.

        Parameters
        ----------
        level : float, default 0.9
            Probability of the intervals.

        Returns
        -------
        list of Effect
            That of the position, if it is known: how often the item shown first wins, in 100
            comparisons of equal items without ties. That of the tie width, if there are ties: how
            often equal items tie.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if `level` is not between 0 and 1.
        """
        return effects_of(self._posterior(), self.position_label_, level)

    def judges(self, level: float = 0.9) -> pd.DataFrame:
        """Reliability and order bias of each judge.

        Reliability 1 is the typical judge's, 0 that of one who answers without regard to the items;
        biases are on the scale of skill.

        Parameters
        ----------
        level
            As for `effects`, with the same errors.

        Returns
        -------
        pandas.DataFrame
            A row a judge, the least reliable first; ``_lower`` and ``_upper`` are ends of
            intervals.
        """
        return judges_of(self._posterior(), self.judge_names_, self.num_judged_, level)

    def notes(self, level: float = 0.9) -> tuple[str, ...]:
        """Sentences on the effects, the judges and the categories, for a person.

        Parameters
        ----------
        level
            As for `effects`, with the same errors.
        """
        judges, num_categories = self.judges(level), len(self.category_names_)
        return sentences_on(self.effects(level), judges, num_categories, self.params_, level)

    def to_arviz(self) -> Any:
        """Draws for ArviZ, see `bayesrank.to_arviz`.

        Judges, and scales that were not averaged over, are estimates instead of draws.
        """
        fit: Any = self.result
        return super().to_arviz() if hasattr(fit, "model") else self._estimates(fit)

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Names of items, judges and categories, and the sites that have them."""
        coords = {"item": self.names_, "judge": self.judge_names_, "category": self.category_names_}
        labels = {name: [str(each) for each in names] for name, names in coords.items() if names}
        within = {"category_skill": ["category", "item"]} if self.category_names_ else {}
        return labels, {"f": ["item"], **within}

    def _estimates(self, fit: ArenaFit) -> Any:
        """Draws of overall skills and effects; of judges and scales, what was estimated."""
        n, random = fit.num_items, check_random_state(self.random_state)
        known = np.diagonal(fit.covariance) == 0.0
        draws = np.tile(fit.mean, (self.num_samples, 1))
        root = np.linalg.cholesky(fit.covariance[np.ix_(~known, ~known)])
        draws[:, ~known] += random.standard_normal((self.num_samples, len(root))) @ root.T
        skills, *within = np.split(
            draws[:, : n * (1 + fit.num_categories)], 1 + fit.num_categories, 1
        )
        named: dict[str, Any] = {"f": (("item",), skills)}
        if within:
            named["category_skill"] = (("category", "item"), np.stack(within, axis=1))
        if fit.with_position:
            named["position_effect"] = ((), draws[:, n * (1 + fit.num_categories)])
        if fit.with_ties:
            named["tie_width"] = ((), np.exp(draws[:, -1]))
        judged: dict[str, Any] = {"reliability": np.exp(fit.log_reliability), "bias": fit.bias}
        constant: dict[str, Any] = {k: (("judge",), v) for k, v in judged.items() if len(v)}
        constant |= {k: ((), v) for k, v in self.params_.items() if k != "tie_width"}
        return draws_to_arviz(draws=named, constant=constant, coords=self._axes()[0])

    def _number(self, name: Hashable, names: Sequence[Any], what: str) -> int:
        if not names:
            raise ValueError(
                f"{what} is {name!r}, but fit was given no column of that name; leave it out"
            )
        if name not in names:
            raise ValueError(f"{what} {name!r} was not in fit; choose one of {names[:5]!r}")
        return names.index(name)

    def _shares(self, category: Hashable | None = None) -> Array | None:
        """Shares of categories: all of one that is named, or those of the overall skills."""
        self._posterior()
        if category is not None:
            own = self._number(category, self.category_names_, "category")
            return np.eye(len(self.category_names_))[own]
        return self.category_shares_ if self.category_names_ and self.overall == "average" else None
