"""`PairwiseRanker`: skills of named items, from comparisons."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_choice
from bayesrank.datasets import ComparisonData
from bayesrank.estimators.base import ScaleChoice
from bayesrank.estimators.columns import (
    TimeRange,
    numbers_of,
    read_columns,
    read_pairs,
    read_times,
    refuse_columns,
    refuse_times,
    time_of,
)
from bayesrank.estimators.ranker import NamedRanker, Outcome, by_gap
from bayesrank.estimators.skills import fit_skills
from bayesrank.models.dynamic import PROCESSES, Process
from bayesrank.solvers.comparisons import Asked
from bayesrank.solvers.comparisons.dynamic import check_room
from bayesrank.solvers.comparisons.posterior import chances_by, moments_of
from bayesrank.solvers.comparisons.skills import Moving, Skills, at_later_times
from bayesrank.solvers.comparisons.terms import MarginRows

Array = NDArray[np.float64]
Unknown = Literal["error", "population"]


class PairwiseRanker(NamedRanker):
    """Rank named items from comparisons of two at a time.

    With features, skill is a Gaussian process of them (`bayesrank.models.preference_gp`). Without,
    skills are independent (`bayesrank.models.thurstone`), and may change with time
    (`bayesrank.models.dynamic_thurstone`). Skill is in units of the noise of a performance; only
    differences matter. Intervals of skill presuppose that unit; ranks and chances do not.

    Parameters
    ----------
    item_features : table, mapping, array-like of shape (n, d) or None, default None
        Features of all items, compared or not: a DataFrame indexed by name, or a mapping from names
        to rows. Or an array with a row for each of `items` (else of items ``0 .. n - 1``).
    items : sequence or None, default None
        Names of all items, text or numbers. By default those of `item_features`, or those compared.
    ard, laplacian, standardize
        For items with features, see `bayesrank.PreferenceGP`.
    time : {"walk", "matern12", "matern32"} or None, default None
        How skills change between comparisons: as a random walk, or drawn back to the average,
        roughly ("matern12") or smoothly ("matern32"). Results are then as of the last comparison.
    likelihood : {"probit", "logit"}, default "probit"
        Normal noise (Thurstone) or logistic noise (Bradley-Terry).
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        "integrate" averages over them, by some dozens of fits. "map" takes the most probable
        values; intervals are then too narrow with few data. Beyond 3,000 items, without graph or
        `time`, "integrate" is "map". "prior" takes the prior medians. A mapping fixes what it
        names, and "map" learns the rest: with features ``amplitude``, ``lengthscale``, ``noise``,
        ``graph_weight``, else ``scale``; ``tie_width``; with `time`, ``drift`` or ``lengthscale``,
        in units of the observed period.
    num_restarts : int, default 0
        Number of further random starts of the search for hyperparameters.
    num_samples : int, default 2000
        Number of posterior draws behind `rank`.
    random_state : int, RandomState instance or None, default 0
        Seed of these draws and starts.

    Attributes
    ----------
    names_ : list
        Names of the items, in the order of the result's entries.
    result_ : EPResult
        The posterior of the skills, site ``f``; also as `result`.
    params_ : dict
        Values of the hyperparameters that were used; their means if they were integrated over.
    hyperparameters_ : str
        What was done about them: "integrate", "map" or "prior", where nothing is learned.
    log_evidence_ : float
        EP's log evidence at them, in nats; of the program as a whole if they were integrated over.
    time_range_ : TimeRange
        With `time`: the times ``first`` and ``last`` of the comparisons in `fit`, and whether they
        are ``dates``, which are in days since 1970.

    Notes
    -----
    Beyond 3,000 items, without a graph or times, no joint covariance is kept. Items with features
    are then fitted by inducing points (`bayesrank.gp.inducing_point_prior`); see
    ``result_.approximation``. Draws take the most time there: try ``num_samples=200``.

    A row of data is a comparison, so scikit-learn's ``cross_val_score`` and ``GridSearchCV`` hold
    comparisons out. Rankers share compiled code: folds of one size compile once.

    Examples
    --------
    >>> from bayesrank import PairwiseRanker
    >>> wins = [("tea", "milk"), ("coffee", "tea"), ("coffee", "milk"), ("tea", "milk")]
    >>> ranker = PairwiseRanker(hyperparameters="prior").fit(wins)
    >>> ranker.rank().names
    ['coffee', 'tea', 'milk']
    >>> ranker.predict_proba([("coffee", "milk")]).round(2)
    array([0.81])
    """

    time_range_: TimeRange

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
        hyperparameters: ScaleChoice = "integrate",
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
        comparisons : ComparisonData, table, or array-like of shape (K, 2)
            What `bayesrank.datasets.read_comparisons` returns, or names of winner and loser;
            repeats count. A table has the columns ``winner``, ``loser`` and perhaps ``tie``,
            ``weight`` and ``time``, or any layout of files; a `bayesrank.datasets.ReadingNote` then
            says how it is read.
        y : None
            Not used; scikit-learn passes it.
        ties : array-like of shape (K,), optional
            True where the two were judged equal. A tie is then a third outcome, of a learned width.
        sample_weight : array-like of shape (K,), optional
            How often each comparison counts, from zero on.
        time : array-like of shape (K,), optional
            When each comparison was, in any order: numbers, or dates such as 2024-05-31.
        callback : callable, optional
            Called with the number of values tried and the best objective so far.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        """
        given = {"ties": ties, "sample_weight": sample_weight, "time": time}
        data = self._data(comparisons, given)
        refuse_columns(data)
        skills, kept = self._skills(data)
        self._keep(fit_skills(data, skills, self._settings(), callback), kept)
        self._count(data)
        self.names_ = list(data.names)
        return self

    def _skills(self, data: ComparisonData) -> tuple[Skills, dict[str, Any]]:
        """What is known of the items' skills, and what the ranker keeps of it."""
        if self.time is not None:
            if data.features is not None:
                raise ValueError(
                    "item_features and time are both given, and skills of features stand still; "
                    "leave one of them out"
                )
            self._refuse_graph()
            span, moving = _moving(self.time, data)
            return moving, {"time_range_": span, "feature_names_in_": None}
        refuse_times(data)
        return self._known_of(data.num_items, data.features, data.feature_names)

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
            With ``time=``, when; by default, and at the earliest, at the last comparison.
        return_std : bool, default True
            Whether to return the standard deviations.

        Returns
        -------
        ndarray of shape (m,), or two of them
            Posterior means of the skills, and posterior standard deviations.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an item is not known, or the time is too early.
        """
        posterior = self._posterior()
        at = self._numbers(items, self._fix("error"))
        if time is None:
            mean, sd = posterior.skills()
        else:
            [(_, gap)] = by_gap(self._ahead(time), 1)
            parts = at_later_times(posterior, gap)
            mean, sd = moments_of(parts, MarginRows.of(len(self.names_), (1.0, self._all)))
        return (mean[at], sd[at]) if return_std else mean[at]

    def predict_proba(
        self,
        pairs: Any,
        *,
        time: Any = None,
        outcome: Outcome = "win",
        unknown: Unknown = "error",
    ) -> Array:
        """Probability that the first item of each pair wins a comparison with the second.

        It includes the uncertainty of skills and the noise of a comparison. For the probability
        that the first item's skill is higher, see `bayesrank.ranking`.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items; the columns of a table as for `fit`.
        time : number or date, or array-like of shape (P,), optional
            With ``time=``, when the comparisons are; by default, and at the earliest, at the last
            one in `fit`.
        outcome : {"win", "tie", "loss"}, default "win"
            What the first item is to do. The probabilities of the three add up to one; those of a
            win and a loss do where no comparison in `fit` was tied.
        unknown : {"error", "population"}, default "error"
            Whether to refuse an item that was not in `fit`, or to draw its skill from the prior.

        Returns
        -------
        ndarray of shape (P,)
            Probabilities.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if an item is not known, a time is too early, or `outcome`
            is not possible.
        """
        fix = self._fix(unknown)
        self._posterior()
        numbers = numbers_of(read_pairs(pairs, "pairs"), self.names_, fix, "pairs")
        return self._chance(self._chances(numbers, time_of(pairs, time)), outcome)

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
        self._posterior()
        given = {"ties": ties, "sample_weight": sample_weight, "time": time}
        data = read_columns(comparisons, self.names_, given, self._fix("population"))
        refuse_columns(data)
        return self._score(self._chances(data.comparisons, data.times), data)

    def suggest(
        self, n: int = 1, *, candidates: Any = None, again: bool = True
    ) -> list[tuple[Hashable, Hashable]]:
        """Pairs whose comparison is expected to tell most about the skills (BALD).

        `bayesrank.active.QueryLoop` asks one question after the other, with a journal.

        Parameters
        ----------
        n, candidates
            As for `bayesrank.ArenaRanker.suggest`, with the same result and errors.
        again : bool, default True
            Whether pairs may be suggested that `fit` was given.
        """
        return self._named_questions(n, candidates, again)

    def _chances(self, pairs: NDArray[np.int64], time: Any) -> Array:
        """Chances of each outcome of pairs of numbers at these times, shape (P, 3)."""
        posterior = self._posterior()
        asked = Asked(*pairs.T)
        gaps = self._ahead(time)
        if self.time is None:
            return posterior.chances(asked)
        chances = np.zeros((len(pairs), 3))
        for rows, gap in by_gap(gaps, len(pairs)):
            parts, some = at_later_times(posterior, gap), Asked(*pairs[rows].T)
            chances[rows] = chances_by(parts, {"f": self._all}, some, self.likelihood)
        return chances

    def _ahead(self, time: Any) -> Array | None:
        """How far ahead of the last comparison times are."""
        if self.time is None:
            if time is not None:
                raise ValueError(
                    "time is given, but skills stand still; pass PairwiseRanker(time=)"
                )
            return None
        return None if time is None else self.time_range_.ahead(time)

    @property
    def _all(self) -> NDArray[np.int64]:
        return np.arange(len(self.names_))

    def _fix(self, unknown: Unknown) -> str | None:
        """What to do about an item that is not known, if anything has to be done."""
        check_choice(unknown, "unknown", "error", "population")
        if self.feature_mean_ is not None:
            return "fit the ranker with its features among item_features"
        return None if unknown == "population" else "pass unknown='population' to have a guess"


def _moving(process: Any, data: ComparisonData) -> tuple[TimeRange, Moving]:
    """The range of times, and skills that move in it."""
    if process not in PROCESSES:
        raise ValueError(f"time is {process!r}; choose None or one of {PROCESSES}")
    if data.times is None:
        raise ValueError(
            f"PairwiseRanker(time={process!r}) has to know when each comparison was; pass time to "
            "fit, or a column time"
        )
    check_room(data.num_items, data.num_comparisons, process)
    times, dates = read_times(data.times, "time")
    span = TimeRange(float(times.min()), float(times.max()), dates)
    distinct, period = np.unique(span.scaled(times), return_inverse=True)
    return span, Moving(data.num_items, process, distinct, period)
