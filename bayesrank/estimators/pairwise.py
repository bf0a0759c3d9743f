"""`PairwiseRanker`: skills of named items, from comparisons."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank.estimators.comparisons import (
    Comparisons,
    numbers_of,
    read_comparisons,
    read_pairs,
    refuse_time,
    time_of,
)
from bayesrank.estimators.dynamic import components_at, moving
from bayesrank.estimators.named import NamedSkillEstimator
from bayesrank.estimators.query import questions
from bayesrank.estimators.skills import Outcome, SkillComponent, moments_of, with_others
from bayesrank.estimators.times import Clock
from bayesrank.models import dynamic_thurstone
from bayesrank.models.dynamic import Process

__all__ = ["PairwiseRanker"]

Array = NDArray[np.float64]
Unknown = Literal["error", "population"]


class PairwiseRanker(NamedSkillEstimator):
    """Rank named items from comparisons of two at a time.

    Where something is known of the items, their skill is a Gaussian process of their features
    (`bayesrank.models.preference_gp`); else skills are independent (`bayesrank.models.thurstone`),
    and may move as time goes by (`bayesrank.models.dynamic_thurstone`).
    Skill is in units of the noise of a performance about it; only differences matter.

    Parameters
    ----------
    item_features : table, mapping, array-like of shape (n, d) or None, default None
        Features of all items, those in no comparison included: a DataFrame whose index are the
        names of the items, a mapping from names to rows of numbers, or an array whose rows are
        those of `items`, or of items ``0 .. n - 1``.
    items : sequence or None, default None
        Names of all items. By default those of `item_features`, or, without features, those that
        are compared. A name is anything that can be told from others: text or a number.
    ard, laplacian, standardize
        Of items with features, see `bayesrank.PreferenceGP`.
    time : {"walk", "matern12", "matern32"} or None, default None
        How skills move between comparisons whose times `fit` is told: ever further ("walk"), or
        drawn back to the average, roughly ("matern12") or smoothly ("matern32"). Skills, ranks and
        questions are then of the time of the last comparison. By default they stand still.
    likelihood : {"probit", "logit"}, default "probit"
        Normal noise (Thurstone) or logistic noise (Bradley-Terry).
    hyperparameters : {"integrate", "maximum", "prior"} or mapping, default "integrate"
        "maximum" learns them as those under which the data are most probable, their priors
        included: intervals are then too narrow where the data are few. "integrate" averages over
        them, which takes some dozens of fits and widens the intervals by what is not known of them;
        of more than 3,000 items, unless they have a graph or move, it is "maximum".
        "prior" takes the medians of their priors. A mapping fixes those that it names (with
        features ``amplitude``, ``lengthscale``, ``noise``, ``graph_weight``; else ``scale``;
        ``tie_width``; with `time`, ``drift`` or ``lengthscale`` in units of the time from the first
        comparison to the last) and learns the others by "maximum".
    num_restarts : int, default 0
        Number of further starts of the search for hyperparameters, from random points.
    num_samples : int, default 2000
        Number of posterior draws that `rank` is computed from.
    random_state : int, RandomState instance or None, default 0
        Seed of these draws and starts.

    Attributes
    ----------
    names_ : list
        Names of the items, in the order of the result's entries.
    result_ : EPResult or IntegratedEPResult
        The posterior of the skills, site ``f``; also as `result`.
    params_ : dict
        Values of the hyperparameters that were used; their means if they were integrated over.
    log_evidence_ : float
        EP's log evidence at them, in nats.
    clock_ : Clock
        With `time`: the times ``first`` and ``last`` of the comparisons in `fit`, and whether they
        are ``dates``, which are in days since 1970.

    Notes
    -----
    More than 3,000 items, without a graph or times, are fitted without a joint covariance, those
    with features by inducing points (`bayesrank.gp.features`): ``result_`` is a
    `bayesrank.infer.LargeEPResult`, and ``result_.approximation`` tells how good it is. Draws of
    that many skills take the most time: `num_samples` of 200 will do for most tables.

    A row of data is a comparison, so that scikit-learn's ``GridSearchCV`` and ``cross_val_score``
    hold comparisons out: ``GridSearchCV(PairwiseRanker(), {"likelihood": ["probit", "logit"]}
    ).fit(comparisons)``. All rankers share compiled code, so that folds of one size compile once.

    Examples
    --------
    >>> from bayesrank import PairwiseRanker
    >>> wins = [("tea", "milk"), ("coffee", "tea"), ("coffee", "milk"), ("tea", "milk")]
    >>> ranker = PairwiseRanker(hyperparameters="prior").fit(wins)
    >>> ranker.rank().name
    ['coffee', 'tea', 'milk']
    >>> ranker.predict_proba([("coffee", "milk")]).round(2)
    array([0.81])
    """

    clock_: Clock

    def __init__(
        self,
        *,
        item_features: Any = None,
        items: Sequence[Hashable] | None = None,
        ard: bool = False,
        laplacian: Any = None,
        standardize: bool = True,
        time: Process | None = None,
        likelihood: Literal["probit", "logit"] = "probit",
        hyperparameters: str | Mapping[str, Any] = "integrate",
        num_restarts: int = 0,
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.item_features = item_features
        self.items = items
        self.ard = ard
        self.laplacian = laplacian
        self.standardize = standardize
        self.time = time
        self.likelihood = likelihood
        self.hyperparameters = hyperparameters
        self.num_restarts = num_restarts
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(
        self,
        comparisons: Any,
        y: None = None,
        *,
        ties: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        time: ArrayLike | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Learn the hyperparameters, then the skills.

        Parameters
        ----------
        comparisons : table, or array-like of shape (K, 2)
            Names of winner and loser of each comparison; repeats count. A table has the columns
            ``winner`` and ``loser``, and perhaps ``tie`` (1 where the two were judged equal),
            ``weight`` and ``time``.
        y : None
            Not used; scikit-learn passes it.
        ties : array-like of shape (K,), optional
            True where the two were judged equal and their order means nothing. If any is, a tie
            is a third outcome, with a width of its own to be learned.
        sample_weight : array-like of shape (K,), optional
            How often each comparison counts, from zero on.
        time : array-like of shape (K,), optional
            When each comparison was, where skills move: numbers, or dates (NumPy's, pandas',
            Python's, or text such as 2024-05-31), in any order.
        callback : callable, optional
            Called as the search for hyperparameters goes on, with the number of values that were
            tried and the best objective.

        Returns
        -------
        PairwiseRanker
            This estimator.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        """
        names, features = self._read_items(lambda: _names_in(comparisons))
        known = {name: number for number, name in enumerate(names)}
        cure = "it is not in item_features" if features is not None else "it is not in items"
        data = read_comparisons(comparisons, known, ties, sample_weight, cure, time)
        if self.time is not None:
            self._fit_moving(len(names), features is not None, data, callback)
        elif features is None:
            refuse_time(data)
            self._fit_independent(len(names), data, callback)
        else:
            refuse_time(data)
            self._fit_features(features, data, callback)
        self.names_ = names
        return self

    @overload
    def predict(
        self,
        items: Sequence[Hashable] | None = ...,
        *,
        time: Any = ...,
        return_std: Literal[True] = ...,
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(
        self,
        items: Sequence[Hashable] | None = ...,
        *,
        time: Any = ...,
        return_std: Literal[False],
    ) -> Array: ...

    def predict(
        self,
        items: Sequence[Hashable] | None = None,
        *,
        time: Any = None,
        return_std: bool = True,
    ) -> Array | tuple[Array, Array]:
        """Skills and how well they are known.

        Comparisons say nothing of the level that all skills share, and its prior mean is zero;
        `rank` reports skills above or below the average item's instead.

        Parameters
        ----------
        items : sequence of shape (m,), optional
            Names of items; without it, all in the order of ``names_``.
        time : number or date, optional
            Where skills move, when: no earlier than the last comparison, which is the default.
        return_std : bool, default True
            Whether to return the standard deviations.

        Returns
        -------
        ndarray of shape (m,), or two of them
            Posterior means of the skills, and posterior standard deviations.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an item is not known, or the time is too early.
        """
        result = self.result
        at = self._numbers(items, self._cure("error"))
        mean, stddev = result.mean["f"], result.stddev["f"]
        if time is not None:
            [(_, parts)] = self._components_at([time], 1)
            mean, stddev = moments_of(parts)
        mean, stddev = mean[at], stddev[at]
        return (mean, stddev) if return_std else mean

    def predict_proba(
        self,
        pairs: Any,
        *,
        time: Any = None,
        outcome: Outcome = "win",
        unknown: Unknown = "error",
    ) -> Array:
        """Probability that the first item of each pair wins a comparison with the second.

        It allows for all that is uncertain: the skills, and the noise of a comparison. For the
        probability that the first item's skill is higher, see `bayesrank.ranking`.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items; the columns of a table as for `fit`.
        time : number or date, or array-like of shape (P,), optional
            Where skills move, when the comparisons are: no earlier than the last one in `fit`,
            which is the default.
        outcome : {"win", "tie", "loss"}, default "win"
            What the first item is to do. The probabilities of the three add up to one; those of a
            win and a loss do where no comparison in `fit` was tied.
        unknown : {"error", "population"}, default "error"
            What an item is that was not in `fit` and of which nothing else is known: refused, or
            one drawn from the population of items, whose skill is as the prior says.

        Returns
        -------
        ndarray of shape (P,)
            Probabilities.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an item is not known, a time is too early, or `outcome` is not possible.
        """
        numbers = numbers_of(read_pairs(pairs, "pairs"), self._known(), self._cure(unknown))
        probability = np.zeros(len(numbers))
        for rows, parts in self._components_at(time_of(pairs, time), len(numbers)):
            extended = with_others(parts, numbers)
            probability[rows] = self._probability(extended, numbers[rows], outcome)
        return probability

    def score(
        self,
        comparisons: Any,
        y: None = None,
        *,
        ties: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> float:
        """Mean log probability of the outcomes of comparisons, in nats; higher is better.

        Items that were not in `fit`, and have no features, are predicted as the population is.

        Parameters
        ----------
        comparisons, y, ties, sample_weight
            As for `fit`.
        time
            As for `fit`, and no earlier than the last comparison there, which is the default.

        Returns
        -------
        float
            At most zero; a guess by a coin has -0.69.
        """
        cure = self._cure("population")
        data = read_comparisons(comparisons, self._known(), ties, sample_weight, cure, time)
        logs = np.zeros(len(data.pairs))
        for rows, parts in self._components_at(data.time, len(logs)):
            extended = with_others(parts, data.pairs)
            logs[rows] = self._log_probability(extended, data.rows(rows))
        return float(np.average(logs, weights=data.weights))

    def query(self, n: int = 1, *, candidates: Any = None) -> list[tuple[Hashable, Hashable]]:
        """Pairs of items whose comparison is expected to tell most about the skills (BALD).

        For a loop of questions, with a journal, see `bayesrank.active.QueryLoop`.

        Parameters
        ----------
        n : int, default 1
            Number of pairs, chosen jointly: each for what it tells beyond those before it.
        candidates : table, or array-like of shape (m, 2), optional
            Names in the pairs to choose from; without it, all pairs.

        Returns
        -------
        list of tuple
            Names in pairs, the best question first; fewer if there are fewer pairs. No pair that
            `fit` was given is among them.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If an argument does not fit.
        """
        result, pairs = self.result, None
        if candidates is not None:
            names = read_pairs(candidates, "candidates")
            pairs = numbers_of(names, self._known(), self._cure("error"))
        chosen = questions(result, self.likelihood, n, pairs)
        return [(self.names_[first], self.names_[second]) for first, second in chosen]

    def _fit_moving(
        self,
        num_items: int,
        has_features: bool,
        data: Comparisons,
        callback: Callable[[int, float], None] | None,
    ) -> None:
        """Learn how skills move, and what they are at the last time."""
        if has_features:
            raise ValueError(
                "item_features and time are both given, and skills of features stand still; leave "
                "one of them out"
            )
        clock, shapes, options = moving(self.time, num_items, data)
        self._fit_program(dynamic_thurstone, num_items, data, shapes, options, callback)
        self.clock_ = clock

    def _components_at(
        self, time: Any, count: int
    ) -> Iterator[tuple[NDArray[np.intp], list[SkillComponent]]]:
        """Rows of each time, with what the posterior then is made of."""
        clock = None if self.time is None else self.clock_
        return components_at(self.result, clock, time, count)

    def _cure(self, unknown: Unknown) -> str | None:
        """What to do about an item that is not known, if anything has to be done."""
        if unknown not in ("error", "population"):
            raise ValueError(f"unknown is {unknown!r}; choose 'error' or 'population'")
        if self.item_features is not None:
            return "fit the ranker with its features among item_features"
        return None if unknown == "population" else "pass unknown='population' to have a guess"


def _names_in(comparisons: Any) -> list[Hashable]:
    winners, losers = read_pairs(comparisons, "comparisons")
    if not winners:
        raise ValueError("comparisons has no rows; pass one (winner, loser) or more")
    return [*winners, *losers]
