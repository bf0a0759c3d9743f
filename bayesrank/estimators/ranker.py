"""`Ranker`: skills of named items, from whatever is known of how they compare."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_choice
from bayesrank.estimators.base import ScaleChoice
from bayesrank.estimators.columns import numbers_of, read_columns, read_pairs, said_of
from bayesrank.estimators.coming import Coming, read_coming
from bayesrank.estimators.design import DesignChoice, check_design
from bayesrank.estimators.log import (
    covariate_names,
    in_categories,
    in_units,
    read_log,
    with_covariates,
)
from bayesrank.estimators.ranker_fit import FittingRanker
from bayesrank.estimators.score_answers import ScoreQuestion
from bayesrank.estimators.skill_ranker import Callback, Outcome
from bayesrank.estimators.skills import check_tastes
from bayesrank.models.dynamic import Process

Array = NDArray[np.float64]
Unknown = Literal["error", "population"]


class Ranker(FittingRanker):
    """Rank named items from comparisons or orders, with all that is known of each.

    Each column of a log is a term of one model. A tie is a third outcome; being shown first or at
    home may be an advantage. Items may have a skill in each category, judges an order bias and a
    reliability (`bayesrank.models.judged_comparisons`). Skills may change with time
    (`bayesrank.models.dynamic_thurstone`), or follow from features of the items and an effect of
    each item alone (`bayesrank.models.preference_gp`). An order of several items is one event, not
    many independent comparisons (`bayesrank.models.thurstone_orders`). Systems by tasks have scores
    (`bayesrank.models.score_table`), see `scores`.

    Skill is in units of the noise of a performance, as the typical judge sees it; only differences
    matter. Intervals of skill presuppose that unit; ranks and chances do not.

    Parameters
    ----------
    item_features : table, mapping, array-like of shape (n, d) or None, default None
        Features of all items, compared or not: a DataFrame indexed by name, or a mapping from names
        to rows. Or an array with a row for each of `items` (else of items ``0 .. n - 1``).
    items : sequence or None, default None
        Names of all items, text or numbers. By default those of `item_features`, or those compared.
    ard, laplacian, standardize
        For items with features, see `bayesrank.PreferenceGP`.
    time : {"auto", "walk", "matern12", "matern32"} or None, default "auto"
        How skills change between comparisons: as a random walk, or drawn back to the average,
        roughly ("matern12") or smoothly ("matern32"). Results are then as of the last comparison.
        "auto" is "matern12" where `fit` is told times; with None, skills stand still.
    likelihood : {"probit", "logit"}, default "probit"
        Normal noise (Thurstone) or logistic noise (Bradley-Terry).
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        "integrate" averages over prior scales and the tie width where the data leave them open.
        "map" takes the most probable values; intervals are then too narrow with few data.
        "integrate" is "map" with judges, uncertain about these values, and beyond 3,000 items
        without graph or times. With positions, categories or covariates it is "map", too, if that
        moves no skill by more than 0.1 posterior standard deviations and widens none by more than
        3%; and over 600 skills (overall and in each category) or 2,000 different comparisons.
        "prior" takes the prior medians. A mapping fixes what it names, and "map" learns the rest:
        with features ``amplitude``, ``lengthscale``, ``noise``, ``item_share`` (below one),
        ``graph_weight``, else ``scale``; ``tie_width``, ``category_scale``,
        ``reliability_scale``, ``bias_scale``, ``taste_scale``; with times ``drift`` or
        ``lengthscale``, in units of the observed period.
    num_restarts : int, default 0
        Number of further random starts of the search for hyperparameters.
    num_samples : int, default 2000
        Number of posterior draws behind `rank`.
    random_state : int, RandomState instance or None, default 0
        Seed of these draws and starts.
    overall : {"average", "unseen"}, default "average"
        What the skills of no category are, if there are categories. "average" is the average over
        the categories of the log, weighted by their comparisons. "unseen" is what is expected in a
        category that the log does not have; more comparisons in the same categories hardly narrow
        its intervals.
    design : {"auto", "random", "matched"}, default "auto"
        How it was decided who meets whom. "random" takes skills to be independent before any
        comparison. "matched" takes items that meet to be alike, as in matchmaking, divisions and
        Swiss draws; its ``graph_weight`` is learned (`bayesrank.models.thurstone`). "auto" does so
        where the graph of comparisons is tied together far more loosely than random draws would
        tie it, and the evidence is higher. It looks at comparisons, ties and weights alone, with
        "integrate" and up to 600 items; all else is "random".
    tastes : {"auto", True, False}, default "auto"
        Whether each judge likes each item more or less than others do, in learned measure
        (``taste_scale``). Skills are then those for judges at large, not for these alone. "auto"
        is True where judges disagree more than chance has it, in logs small enough to ask; it is
        False with "prior".
    question : {"tasks like these", "these tasks"}, default "tasks like these"
        What is asked of a score table: the mean score on all tasks of which these are a sample, or
        that on these very tasks, of which only the runs are random.

    Attributes
    ----------
    names_, judge_names_, category_names_ : list
        Names of items, judges and categories, in the order of the result's entries.
    category_shares_ : ndarray
        Share of the comparisons in each category.
    result_ : bayesrank.infer.EPResult or bayesrank.solvers.comparisons.ArenaFit
        The posterior of the skills, site ``f``; also as `result`.
    params_ : dict
        Values of the hyperparameters that were used; their means if they were averaged over.
    hyperparameters_ : str
        What was done about them: "integrate", "map" or "prior", where nothing is learned.
    log_evidence_ : float
        EP's log evidence at them, in nats; of the program as a whole if they were averaged over.
    time_range_ : TimeRange or None
        The times ``first`` and ``last`` of the comparisons in `fit`, and whether they are
        ``dates``, which are in days since 1970; None where skills stand still.
    components_ : ndarray or None
        Which items comparisons link, see `bayesrank.ranking.connected_components`; None with
        features.
    num_judged_ : ndarray
        Number of comparisons of each judge.
    widening_ : float
        What standard deviations were multiplied by, because rows agree more than the model says;
        1 where they do not.
    covariate_units_ : dict
        The unit of each covariate, by name: the root mean square of its differences in `fit`.

    Notes
    -----
    Judges do not go with features, times or "logit" yet, and orders take features
    alone; `fit` names what to leave out. Beyond 3,000 items, without graph or times, no joint
    covariance is kept. Items with features are then fitted by inducing points
    (`bayesrank.gp.inducing_point_prior`); see ``result_.approximation``. Draws take the most time
    there: try ``num_samples=200``.

    Rows that belong together (one question, session or respondent; judges, and the pairs that they
    saw) may agree more than the model says. Where their design effect on the variances of skills is
    above 1.2 and what chance makes of as many rows, standard deviations of skills and of effects of
    position and covariates are multiplied by its root, up to 2,000 items without times. Those of
    judges and the tie width, and draws of `to_arviz`, stay those of the program.

    In simulated leagues, 90% intervals of skill cover 90% with "integrate", and with ties and "map"
    79% (``python -m benchmarks calibration``). If camps of people disagree, intervals of orders are
    too narrow (``python -m benchmarks order-subsets``).

    A row of data is a comparison, so scikit-learn's ``cross_val_score`` and ``GridSearchCV`` hold
    comparisons out. Rankers share compiled code: folds of one size compile once.

    Examples
    --------
    >>> from bayesrank import Ranker
    >>> wins = [("tea", "milk"), ("coffee", "tea"), ("coffee", "milk"), ("tea", "milk")]
    >>> ranker = Ranker(hyperparameters="prior").fit(wins)
    >>> ranker.rank().names
    ['coffee', 'tea', 'milk']
    >>> ranker.predict_proba([("coffee", "milk")]).round(2)
    array([0.81])
    >>> orders = [["tea", "coffee", "milk"], ["coffee", ["tea", "milk"]], ["tea", "milk"]]
    >>> Ranker(hyperparameters="prior").fit(orders).rank().names[2]
    'milk'
    """

    _at_once = ("overall", "question")

    def __init__(
        self,
        *,
        item_features: Any = None,
        items: Sequence[Hashable] | None = None,
        ard: bool = False,
        laplacian: Any = None,
        standardize: bool = True,
        time: Process | Literal["auto"] | None = "auto",
        likelihood: Literal["probit", "logit"] = "probit",
        hyperparameters: ScaleChoice = "integrate",
        num_restarts: int = 0,
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
        overall: Literal["average", "unseen"] = "average",
        design: DesignChoice = "auto",
        tastes: bool | Literal["auto"] = "auto",
        question: ScoreQuestion = "tasks like these",
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
        self.overall = overall
        self.design = design
        self.tastes = tastes
        self.question = question

    def fit(
        self,
        comparisons: Any,
        y: None = None,
        *,
        ties: ArrayLike | None = None,
        position: ArrayLike | None = None,
        judge: ArrayLike | None = None,
        category: ArrayLike | None = None,
        time: ArrayLike | None = None,
        covariates: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback = None,
    ) -> Self:
        """Learn the hyperparameters, then the skills and all effects.

        Parameters
        ----------
        comparisons : ComparisonData, ScoreTable, table, array-like of shape (K, 2), or orders
            What `bayesrank.datasets.read_comparisons` returns, or names of winner and loser;
            repeats count. A table has the columns ``winner``, ``loser`` and perhaps ``tie``,
            ``weight``, ``position``, ``judge``, ``category`` and ``time``, or any layout of files;
            a `bayesrank.datasets.ReadingNote` then says how it is read. Orders are lists of names,
            best first. A list in place of a name is a group in no order: ``["a", "b", ["c",
            "d"]]`` is the best two of four, and ``["a", ["b", "c"]]`` a choice.
        y : None
            Not used; scikit-learn passes it.
        ties : array-like of shape (K,), optional
            True where the two were judged equal. A tie is then a third outcome, of a learned width.
        position : array-like of shape (K,), optional
            1 where the winner (of a tie, the item named first) was shown first or at home, -1 where
            the loser was, 0 where neither.
        judge, category : array-like of shape (K,), optional
            Names of judge and category.
        time : array-like of shape (K,), optional
            When each comparison was, in any order: numbers, or dates such as 2024-05-31.
        covariates : list of str, table, mapping or array-like of shape (K, D), optional
            What counts beside skill, such as the length of an answer: how much more of it the
            winner (of a tie, the first) has. Or names of what a table says of both sides:
            ``["length"]`` for the columns ``length_a`` and ``length_b``, or ``["length:category"]``
            for an effect in each category. Skills are then those at equal covariates.
        sample_weight : array-like of shape (K,), optional
            How often each comparison counts, from zero on; of orders, how many people gave each, a
            positive whole number.
        callback : callable, optional
            Called with the number of values tried and the best objective so far; with judges, with
            the number of each round and its largest change.

        Raises
        ------
        ValueError
            If an argument or an option cannot be used; the message names it.

        Warns
        -----
        ConvergenceWarning
            If EP or the search for hyperparameters has not converged.
        """
        given = {"ties": ties, "position": position, "judge": judge, "category": category}
        given |= {"time": time, "covariates": covariates, "sample_weight": sample_weight}
        data = read_log(comparisons, given, self.items, self.item_features)
        units, data = in_units(data)
        check_choice(self.overall, "overall", "average", "unseen")
        check_design(self.design, data)
        check_tastes(self.tastes, data)
        if data.scores is None:
            self._fit_skills(data, callback)
        else:
            self._fit_scores(data, data.scores)
        self.names_, self.judge_names_ = list(data.names), list(data.judge_names)
        # One category alone cannot be told from the overall skill.
        self.category_names_ = list(data.category_names) if len(data.category_names) > 1 else []
        self.category_shares_ = self._counts(data, data.categories, self.category_names_)
        self.category_shares_ /= max(self.category_shares_.sum(), 1.0)
        self.num_judged_ = self._counts(data, data.judges, self.judge_names_)
        self.covariate_units_ = units
        self.position_label_ = data.position_label or "being shown first"
        return self

    @overload
    def predict(
        self,
        items: Sequence[Hashable] | None = ...,
        *,
        category: Hashable | None = ...,
        time: Any = ...,
        return_std: Literal[True] = ...,
    ) -> tuple[Array, Array]: ...

    @overload
    def predict(
        self,
        items: Sequence[Hashable] | None = ...,
        *,
        category: Hashable | None = ...,
        time: Any = ...,
        return_std: Literal[False],
    ) -> Array: ...

    def predict(
        self,
        items: Sequence[Hashable] | None = None,
        *,
        category: Hashable | None = None,
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
        category : hashable, optional
            A category, for the skills in it.
        time : number or date, optional
            When, if skills move, from the first comparison on; by default at the last one.
        return_std : bool, default True
            Whether to return the standard deviations.

        Returns
        -------
        ndarray of shape (m,), or two of them
            Posterior means of the skills, and posterior standard deviations.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name is not known, or the time is too early.
        """
        shares = self._shares(category)
        at = self._numbers(items, "name an item of fit")
        self._scored(category=category, time=time)
        mean, sd = self._as_of(time)._posterior().skills(shares)
        return (mean[at], sd[at]) if return_std else mean[at]

    def predict_proba(
        self,
        pairs: Any,
        *,
        position: ArrayLike | None = None,
        category: Any = None,
        judge: Any = None,
        time: Any = None,
        covariates: Mapping[str, Any] | None = None,
        outcome: Outcome = "win",
        unknown: Unknown = "error",
    ) -> Array:
        """Probability of an outcome of new comparisons.

        It includes the noise of a comparison and the joint uncertainty of skills, position effect,
        tie width, and the judge's order bias and reliability. For the probability that the first
        item's skill is higher, see `prob_better`.

        Parameters
        ----------
        pairs : table, or array-like of shape (P, 2)
            Names of items. A table may have columns of the names of the arguments below.
        position : {1, 0, -1}, or array-like of these of shape (P,), optional
            1 if the first item of each pair is shown first or at home, -1 if the second is; 0, for
            neither, by default.
        category : hashable, or array-like of shape (P,), optional
            The category; without it, skills are the overall ones.
        judge : hashable, or array-like of shape (P,), optional
            The judge; without it, one who is as reliable as the typical judge, has no order bias of
            its own, and tastes as judges at large have them.
        time : number or date, or array-like of shape (P,), optional
            When the comparisons are, if skills move, from the first one in `fit` on; by default at
            the last one. Within the time of `fit`, comparisons after a time count, too.
        covariates : mapping, optional
            By name, how much more the first item has, one number or (P,); by default nothing.
        outcome : {"win", "tie", "loss"}, default "win"
            What the first item is to do. The probabilities of the three add up to one; those of a
            win and a loss do where no comparison in `fit` was tied. After orders, a win is to come
            before the other.
        unknown : {"error", "population"}, default "error"
            Whether to refuse an item that was not in `fit`, or to draw its skill from the prior.

        Returns
        -------
        ndarray of shape (P,)
            Probabilities.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name is not known, a time is too early, `outcome` is
            not possible, or nothing is known of positions.
        """
        self._refuse_scores("predict_proba", "scores.chances")
        fix = self._fix(unknown)
        given = {"position": position, "category": category, "judge": judge, "time": time}
        said = said_of(pairs, given) | {"covariates": covariates}
        numbers = numbers_of(read_pairs(pairs, "pairs"), self.names_, fix, "pairs")
        coming = self._coming(said, len(numbers))
        return self._chance(coming.chances(self._posterior(), numbers, self._shares_of), outcome)

    def score(
        self,
        comparisons: Any,
        y: None = None,
        *,
        ties: ArrayLike | None = None,
        position: ArrayLike | None = None,
        judge: ArrayLike | None = None,
        category: ArrayLike | None = None,
        time: ArrayLike | None = None,
        covariates: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean log probability of the outcomes of comparisons, in nats; higher is better.

        Items, judges and categories that were not in `fit` are predicted as their populations are,
        but items with features are refused.

        Parameters
        ----------
        comparisons, y, ties, position, judge, category, covariates, sample_weight
            As for `fit`, without orders.
        time
            As for `fit`, and no earlier than the first comparison there. By default the last one.
            Forecasts are scored at times after that alone.

        Returns
        -------
        float
            At most zero; a guess by a coin has -0.69.
        """
        self._refuse_scores("score", "scores")
        posterior = self._posterior()
        given = {"ties": ties, "position": position, "judge": judge, "category": category}
        given |= {"time": time, "covariates": covariates, "sample_weight": sample_weight}
        named, given["covariates"] = covariate_names(covariates)
        data = read_columns(comparisons, self.names_, given, self._fix("population"))
        data, _ = in_categories(with_covariates(data, named) if named else data)
        if data.orders is not None or data.scores is not None:
            raise ValueError("score takes comparisons of two items, and these are none")
        said: dict[str, Any] = {"position": data.position}
        said["time"] = None if self.time is None else data.times
        if data.covariates is not None:
            said["covariates"] = dict(zip(data.covariate_names, data.covariates.T, strict=True))
        for name, numbers in (("category", data.categories), ("judge", data.judges)):
            labels = np.array(getattr(data, f"{name}_names"), object)
            said[name] = None if numbers is None else labels[numbers]
        coming = self._coming(said, data.num_comparisons, new_names=True)
        return self._score(coming.chances(posterior, data.comparisons, self._shares_of), data)

    def _coming(self, said: Mapping[str, Any], count: int, new_names: bool = False) -> Coming:
        """Comparisons to come, by what is said of them; with `new_names` any are taken."""
        return read_coming(
            said,
            count,
            judges=self.judge_names_,
            categories=self.category_names_,
            times=self.time_range_,
            covariates=self.covariate_units_,
            with_position=self._posterior().effects().position_effect is not None,
            new_names=new_names,
        )

    def _fix(self, unknown: Unknown) -> str | None:
        """What to do about an item that is not known, if anything has to be done."""
        check_choice(unknown, "unknown", "error", "population")
        if self.feature_mean_ is not None:
            return "fit the ranker with its features among item_features"
        return None if unknown == "population" else "pass unknown='population' to have a guess"
