"""`ArenaRanker`: skills from a log of comparisons, with its judges, positions and categories."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesrank._forks import refuse_forked_child
from bayesrank._states import read_state
from bayesrank._validate import check_count
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.arena_effects import Effect, effects_of, judges_of, sentences_on
from bayesrank.estimators.arena_log import read_log
from bayesrank.estimators.arena_posterior import ArenaPosterior
from bayesrank.estimators.arena_scales import fit_posterior
from bayesrank.estimators.arena_storage import restored, write_arena
from bayesrank.estimators.comparisons import numbers_of, read_pairs
from bayesrank.estimators.skills import OUTCOMES, Outcome, at_mean, moments_of
from bayesrank.infer import IntegratedEPResult
from bayesrank.ranking import RankSummary, connected_components, summarize
from bayesrank.solvers.comparisons import ArenaFit, arena_data

__all__ = ["ArenaRanker", "Effect"]

Array = NDArray[np.float64]


class ArenaRanker(BaseEstimator):
    """Rank named items from a log of comparisons, by who judged, in which order and category.

    Every part is optional: being shown first (or playing at home) is worth something; ties are a
    third outcome; each judge has an order bias and a reliability, so that careless judges count
    less; and items have a skill in each category, drawn to their overall one. Judges and categories
    are partially pooled: of those with few comparisons little is said. See
    `bayesrank.models.judged_comparisons`. For items with features, or skills that move, see
    `bayesrank.PairwiseRanker`.

    Skill is in units of the noise of a performance about it, as the typical judge sees it; only
    differences matter. Logs of a million comparisons are fitted within a minute or so.

    Parameters
    ----------
    items : sequence or None, default None
        Names of all items; by default those that are compared.
    hyperparameters : {"integrate", "maximum", "prior"} or mapping, default "integrate"
        What is done about the scales of the priors and the tie width. "integrate" averages over
        them, by a few dozen runs of EP; with judges, more than 600 skills (items times one more
        than categories) or more than 20,000 different comparisons it is "maximum", which takes the
        scales under which the data are most probable. "prior" takes the medians of their priors. A
        mapping fixes those that it names and learns the others by "maximum".
    num_samples : int, default 2000
        Number of posterior draws that `rank` is computed from.
    random_state : int, RandomState instance or None, default 0
        Seed of these draws.

    Attributes
    ----------
    names_, judge_names_, group_names_ : list
        Names of items, judges and categories.
    result_ : bayesrank.infer.IntegratedEPResult or bayesrank.solvers.comparisons.ArenaFit
        The posterior, with the scales averaged over or not; also as `result`.
    hyperparameters_ : str
        What was done about the scales: "integrate", "maximum" or "prior".
    params_ : dict
        Scales of the priors, and the tie width; their means if they were averaged over.
    components_ : ndarray
        Which items comparisons link, see `bayesrank.ranking.connected_components`.
    num_judged_ : ndarray
        Number of comparisons of each judge.

    Notes
    -----
    Of leagues of 12 teams and 40 games, scales drawn from their priors, 90% intervals of skills
    hold 90% where the scales are averaged over, and 84% where they are taken as known ("maximum").
    In logs of 5,000 comparisons with judges, where they are, 88.5%. The uncertainty of
    reliabilities and of the tie width is in all intervals and probabilities, by the delta method.

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
    >>> ranker.rank().name[0]
    'x'
    >>> ranker.judges().index.tolist()
    ['Eve', 'Dan']
    """

    result_: IntegratedEPResult | ArenaFit
    posterior_: ArenaPosterior
    names_: list[Hashable]

    def __init__(
        self,
        *,
        items: Sequence[Hashable] | None = None,
        hyperparameters: str | Mapping[str, Any] = "integrate",
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.items = items
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
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the scales and reliabilities, then skills, biases and effects.

        Parameters
        ----------
        comparisons : ComparisonData, table, or array-like of shape (K, 2)
            What `bayesrank.datasets.read_comparisons` returns; or a table with the columns
            ``winner`` and ``loser``, and perhaps ``tie``, ``weight``, ``position``, ``judge`` and
            ``group``; or names of winner and loser.
        y : None
            Not used; scikit-learn passes it.
        ties : array-like of shape (K,), optional
            True where the two were judged equal. If any is, a tie is a third outcome.
        position : array-like of shape (K,), optional
            1 where the winner (of a tie, the item named first) was shown first or at home, -1 where
            the loser was, 0 where neither.
        judge, group : array-like of shape (K,), optional
            Names of judge and category.
        sample_weight : array-like of shape (K,), optional
            How often each comparison counts, from zero on.
        callback : callable, optional
            Called as the fit goes on: where scales are averaged over, with the number of values
            that were tried and the best objective; else after each round, with its number and its
            largest change.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If the fit has not converged.
        """
        refuse_forked_child()
        check_count(self.num_samples, "num_samples")
        given = {"position": position, "judge": judge, "group": group}
        if isinstance(comparisons, ComparisonData):
            if any(value is not None for value in (ties, sample_weight, *given.values())):
                raise ValueError("comparisons has its columns; give no others beside it")
            log = comparisons
        else:
            log = read_log(comparisons, self.items, ties, sample_weight, given)
        if log.num_items < 2:
            raise ValueError("there are fewer than two items; compare two or more")
        if log.orders is not None or log.features is not None or log.times is not None:
            raise ValueError(
                "comparisons has orders, features of items or times, which this model does not "
                "take; use OrderRanker or PairwiseRanker"
            )
        data = arena_data(
            log.num_items,
            log.comparisons,
            outcomes=np.where(log.tied, 1, 2) if log.tied.any() else None,
            position=log.position,
            judges=log.judges,
            groups=log.groups if len(log.group_names) > 1 else None,
            num_judges=len(log.judge_names),
            num_groups=len(log.group_names),
            weights=log.weights,
        )
        self.posterior_, self.hyperparameters_ = fit_posterior(
            data,
            self.hyperparameters,
            num_samples=self.num_samples,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            callback=callback,
        )
        self.names_ = list(log.names)
        self.judge_names_ = list(log.judge_names)
        # One category alone cannot be told from the overall skill.
        self.group_names_ = list(log.group_names) if len(log.group_names) > 1 else []
        self.position_label_ = log.position_label or "being shown first"
        self.components_ = connected_components(log.comparisons, log.num_items)
        self.num_judged_ = np.bincount(data.judge, data.counts, max(len(log.judge_names), 1))
        self.result_, self.params_ = self.posterior_.result, self.posterior_.scales
        return self

    @property
    def result(self) -> IntegratedEPResult | ArenaFit:
        """The posterior.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        """
        check_is_fitted(self)
        return self.result_

    def samples(self, group: Hashable | None = None) -> Array:
        """Posterior draws of skills, the same at every call if `random_state` is a number.

        Parameters
        ----------
        group : hashable, optional
            A category; without it, of the overall skills.

        Returns
        -------
        ndarray of shape (num_samples, n)
            Their averages are the posterior means: what chance put between the two is taken off,
            so that items of the same evidence come out alike.
        """
        check_is_fitted(self)
        random = check_random_state(self.random_state)
        draws = self.posterior_.samples(self._group(group), self.num_samples, random)
        return at_mean(draws, self.predict(group=group)[0])

    def rank(
        self,
        names: Sequence[object] | None = None,
        *,
        group: Hashable | None = None,
        prob: float = 0.9,
        k: int | None = None,
    ) -> RankSummary:
        """Rank the items, with uncertainty; arguments as for `bayesrank.PairwiseRanker.rank`.

        Parameters
        ----------
        names : sequence, optional
            One name for each item, in place of those of `fit`.
        group : hashable, optional
            A category, to rank by the skills in it.
        prob : float, default 0.9
            Probability of the intervals of skills and ranks.
        k : int, optional
            Report the probability of being among the best `k`.
        """
        draws = self.samples(group)
        for number in range(int(self.components_.max()) + 1):
            inside = self.components_ == number
            draws[:, inside] -= draws[:, inside].mean(axis=1, keepdims=True)
        names = self.names_ if names is None else names
        return summarize(draws, names, prob=prob, k=k, components=self.components_)

    def predict(
        self, items: Sequence[Hashable] | None = None, *, group: Hashable | None = None
    ) -> tuple[Array, Array]:
        """Skills and how well they are known: posterior means and standard deviations.

        Parameters
        ----------
        items : sequence, optional
            Names; without it all, in the order of ``names_``.
        group : hashable, optional
            A category, for the skills in it.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an item or a category is not known.
        """
        check_is_fitted(self)
        mean, sd = moments_of(self.posterior_.parts(self._group(group)))
        ids: list[Hashable] = self.names_ if items is None else list(items)
        at = numbers_of((ids, ids), self._known(), "it was not in fit")[:, 0]
        return mean[at], sd[at]

    def predict_proba(
        self,
        pairs: Any,
        *,
        position: float = 0.0,
        group: Hashable | None = None,
        judge: Hashable | None = None,
        outcome: Outcome = "win",
    ) -> Array:
        """Probability of an outcome of new comparisons.

        It allows for all that is uncertain, and for what of it goes together: skills, the worth of
        being first, the tie width, and the judge's order bias and reliability.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items.
        position : {1, 0, -1}, default 0
            1 if the first item of each pair is shown first or at home, -1 if the second is.
        group : hashable, optional
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
        NotFittedError
            If `fit` has not been called.
        ValueError
            If a name is not known, `outcome` is not possible, or nothing is known of positions.
        """
        check_is_fitted(self)
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; choose one of {tuple(OUTCOMES)}")
        if outcome == "tie" and not self.posterior_.with_ties:
            raise ValueError("outcome is 'tie', but no comparison given to fit was tied")
        if position not in (-1, 0, 1):
            raise ValueError(f"position is {position!r}; pass 1, 0 or -1")
        if position != 0 and not self.posterior_.with_position:
            raise ValueError(
                f"position is {position!r}, but no positions were given to fit, so that nothing is "
                "known of what they are worth; leave it out"
            )
        numbers = numbers_of(read_pairs(pairs, "pairs"), self._known(), "it was not in fit")
        number = None if judge is None else self._number(judge, self.judge_names_, "judge")
        win, loss = np.zeros(len(numbers)), np.zeros(len(numbers))
        for part in self.posterior_.parts(self._group(group), number):
            won, lost = part.chances(numbers, position)
            win, loss = win + part.weight * won, loss + part.weight * lost
        return {"win": win, "loss": loss, "tie": 1.0 - win - loss}[outcome]

    def effects(self, prob: float = 0.9) -> list[Effect]:
        """What the position and ties come to, with intervals.

        For the position it is how often the item shown first wins, in 100 comparisons of equal
        items that one of them wins; for the tie width, how often equal items tie.

        Parameters
        ----------
        prob : float, default 0.9
            Probability of the intervals.
        """
        check_is_fitted(self)
        return effects_of(self.posterior_, self.position_label_, prob)

    def judges(self, prob: float = 0.9) -> pd.DataFrame:
        """Reliability and order bias of each judge, with intervals.

        Parameters
        ----------
        prob : float, default 0.9
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A row for each judge, the least reliable first. Reliability 1 is the typical judge's, 0
            that of one who answers without regard to the items; biases are on the scale of skill.
        """
        check_is_fitted(self)
        return judges_of(self.posterior_, self.judge_names_, self.num_judged_, prob)

    def notes(self, prob: float = 0.9) -> tuple[str, ...]:
        """Sentences on the effects, the judges and the categories, for a person."""
        judges, num_groups = self.judges(prob), len(self.group_names_)
        return sentences_on(self.effects(prob), judges, num_groups, self.params_, prob)

    def to_arviz(self) -> Any:
        """Draws for ArviZ; of judges, and of scales that were not averaged over, estimates.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``InferenceData`` before ArviZ 1.0, else ``DataTree``.
        """
        check_is_fitted(self)
        coords = {"item": self.names_, "judge": self.judge_names_, "group": self.group_names_}
        labels = {name: [str(each) for each in names] for name, names in coords.items()}
        return self.posterior_.to_arviz(labels, check_random_state(self.random_state))

    def save(self, path: str | Path) -> None:
        """Write the fitted ranker to a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file. Names have to be text or whole numbers.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If a name cannot be written.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self)
        write_arena(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ranker that `save` wrote.

        Raises
        ------
        ValueError
            If the file is none, or damaged; the message names it.
        FileNotFoundError
            If there is no file.
        """
        return read_state(path, f"an {cls.__name__}", {cls.__name__: cls._restored})

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        return restored(cls, state)

    def _known(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.names_)}

    def _number(self, name: Hashable, names: Sequence[Any], what: str) -> int:
        if not names:
            raise ValueError(
                f"{what} is {name!r}, but fit was given no {what}s to tell apart; leave it out"
            )
        if name not in names:
            raise ValueError(f"{what} {name!r} was not in fit; it is none of {names[:5]!r}")
        return names.index(name)

    def _group(self, group: Hashable | None) -> int | None:
        """Number of a category, if one is named."""
        return None if group is None else self._number(group, self.group_names_, "group")
