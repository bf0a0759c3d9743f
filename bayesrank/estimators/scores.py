"""`ScoreRanker`: which system is best, from its results task by task."""

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy import special
from sklearn.utils.validation import check_is_fitted

from bayesrank._fitted import Fitted
from bayesrank._memory import check_memory
from bayesrank._names import meant
from bayesrank._validate import check_choice, check_level, check_share
from bayesrank.datasets import ScoreTable, read_scores
from bayesrank.estimators.base import check_options, seed_of
from bayesrank.estimators.score_answers import (
    FEWEST,
    QUESTIONS,
    ScoreQuestion,
    cell_scores,
    score_draws,
)
from bayesrank.ranking import RankSummary, summarize
from bayesrank.solvers.scores import Board, ScoreResult, fit_scores

Array = Any


class ScoreWinner(NamedTuple):
    """The system that leads.

    Attributes
    ----------
    name
        The system with the highest expected score.
    observed
        Its mean score over the cells that were run; who leads by it was in part lucky.
    score, lower, upper
        Its expected score, which allows for that, and the ends of the interval.
    prob_best
        Probability that it is the best.
    tied
        Systems that are statistically tied with it, itself included.
    """

    name: Hashable
    observed: float
    score: float
    lower: float
    upper: float
    prob_best: float
    tied: tuple[Hashable, ...]


class ScoreRanker(Fitted):
    """Rank systems by their scores on tasks: solved or not, k of n runs, grades, or numbers.

    Abilities and difficulties explain the cells (`bayesrank.models.score_table`), so missing ones
    do no harm if these explain why they are missing. Repeated runs of a cell share what is peculiar
    to it. With clusters of tasks, a system may be better or worse within one.

    Parameters
    ----------
    question : {"tasks like these", "these tasks"}, default "tasks like these"
        What is asked: the mean score on all tasks of which these are a sample, or the one on these
        very tasks, of which only the runs are random. `set_params` changes it without another fit,
        and methods take it, too.
    num_samples : int, default 2000
        Number of posterior draws.
    random_state : int, RandomState or None, default 0
        Seed of the draws.

    Attributes
    ----------
    names_, task_names_ : tuple
        Names of systems and tasks.
    table_ : bayesrank.datasets.ScoreTable
        What was fitted.
    result_ : bayesrank.solvers.scores.ScoreResult
        Posterior of the abilities.
    params_ : dict
        The most probable scales.

    Notes
    -----
    Intervals allow for the sampling of tasks unless these very tasks are asked about. In boards
    that the model has not drawn, 90% intervals cover 87-97% of the scores and 84-94% of the
    differences (``python -m benchmarks scores``). If systems of one family err together, intervals
    of differences within it are wider than they need be.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from bayesrank.estimators import ScoreRanker
    >>> solved = np.random.default_rng(0).random((3, 40)) < [[0.9], [0.5], [0.4]]
    >>> table = pd.DataFrame(solved.astype(int), columns=[f"task{t}" for t in range(40)])
    >>> table.insert(0, "system", ["x", "y", "z"])
    >>> ranker = ScoreRanker().fit(table)
    >>> ranker.winner().name
    'x'
    """

    _at_once = ("question",)
    table_: ScoreTable
    result_: ScoreResult

    def __init__(
        self,
        *,
        question: ScoreQuestion = "tasks like these",
        num_samples: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.question = question
        self.num_samples = num_samples
        self.random_state = random_state

    def fit(self, table: Any, y: None = None) -> Self:
        """Learn scales, abilities and difficulties.

        Parameters
        ----------
        table : ScoreTable, path, data frame or mapping
            What `bayesrank.datasets.read_scores` returns, or what it reads.
        y
            Not used.

        Raises
        ------
        DataError, ValueError
            If the table cannot be used; the message names the cell, or the option.

        Warns
        -----
        ConvergenceWarning
            If the fit has not converged.
        """
        check_options(self)
        check_choice(self.question, "question", *QUESTIONS)
        data = table if isinstance(table, ScoreTable) else read_scores(table)
        n, count = data.scores.shape
        need = 8.0 * (12 * n * count + self.num_samples * (n + count))
        check_memory(need, f"{n:,} systems and {count:,} tasks", "rank fewer systems or tasks")
        self.names_, self.task_names_, self.table_ = data.names, data.task_names, data
        values, self.center_, self.unit_ = None, 0.0, 1.0
        scores = data.scores
        if data.kind == "grade":
            values, levels = np.unique(scores[data.runs > 0], return_inverse=True)
            scores = np.zeros(scores.shape)
            scores[data.runs > 0] = levels
        elif data.kind == "number":
            there = scores[data.runs > 0]
            self.center_, self.unit_ = float(there.mean()), float(there.std())
            scores = (scores - self.center_) / self.unit_
        self.result_ = fit_scores(Board(scores, data.runs, data.kind, data.clusters, values))
        self.params_ = dict(self.result_.scales)
        self.seed_ = seed_of(self.random_state)
        return self

    @property
    def result(self) -> ScoreResult:
        """The posterior of the abilities; a `NotFittedError` before `fit`."""
        check_is_fitted(self)
        return self.result_

    def samples(self, question: ScoreQuestion | None = None) -> Array:
        """Posterior draws of the scores, the same at every call.

        Parameters
        ----------
        question : optional
            What is asked; by default the option of this name.

        Returns
        -------
        ndarray of shape (num_samples, n)

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if there are too few tasks or clusters to say anything of
            others like them.
        """
        result = self.result
        said = self.question if question is None else question
        asked: ScoreQuestion = check_choice(said, "question", *QUESTIONS)
        clusters = self.table_.clusters
        count = len(self.task_names_) if clusters is None else int(clusters.max()) + 1
        if asked == "tasks like these" and count < FEWEST:
            what = "tasks" if clusters is None else "clusters of tasks"
            raise ValueError(
                f"{count} {what} say nothing of others like them; add more, or ask about these by "
                "question='these tasks'"
            )
        random = np.random.default_rng(self.seed_)
        draws = score_draws(result, asked, self.num_samples, random)
        return self.center_ + self.unit_ * draws

    def rank(
        self,
        names: Sequence[object] | None = None,
        *,
        level: float = 0.9,
        k: int | None = None,
        question: ScoreQuestion | None = None,
    ) -> RankSummary:
        """Rank the systems by their expected scores, with uncertainty.

        Parameters
        ----------
        names : sequence, optional
            One name for each system, in place of those of `fit`.
        level : float, default 0.9
            Probability of the intervals of scores and ranks.
        k : int, optional
            Report the probability of being among the best `k`; 3 at most if not given.
        question : optional
            As for `samples`, with the same errors.

        Returns
        -------
        RankSummary
            Its skills are scores. ``print`` it, or call ``to_dataframe()``.
        """
        draws = self.samples(question)
        k = min(3, draws.shape[1]) if k is None else k
        return summarize(draws, self.names_ if names is None else names, level=level, k=k)

    def predict(
        self, systems: Sequence[Hashable] | None = None, *, question: ScoreQuestion | None = None
    ) -> tuple[Array, Array]:
        """Scores and how well they are known: posterior means and standard deviations.

        Parameters
        ----------
        systems : sequence, optional
            Names; without it all, in the order of ``names_``.
        question : optional
            As for `samples`, with the same errors.
        """
        draws = self.samples(question)[:, self._numbers(systems)]
        return draws.mean(0), draws.std(0)

    def predict_proba(self, cells: Sequence[tuple[Hashable, Hashable]]) -> Array:
        """Probability that the next run of a cell succeeds, be it missing so far or not.

        Parameters
        ----------
        cells : sequence of pairs
            Names of system and task, shape (P, 2).

        Returns
        -------
        ndarray of shape (P,)

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name is not known, or scores are not successes.
        """
        result = self.result
        if self.table_.kind != "solved":
            raise ValueError(f"scores are {self.table_.kind}s, which have no chance of success")
        found = cell_scores(result, result.tasks(), "these tasks").mean
        pairs = [tuple(pair) for pair in cells]
        who = self._numbers([pair[0] for pair in pairs])
        tasks = {str(name): t for t, name in enumerate(self.task_names_)}
        what = [_number(pair[1], tasks, "cells", "task") for pair in pairs]
        return found[who, what]

    def prob_better(
        self, pairs: Sequence[tuple[Hashable, Hashable]], *, question: ScoreQuestion | None = None
    ) -> Array:
        """Probability that the first system of each pair has the higher score, shape (P,).

        Parameters
        ----------
        pairs : sequence of pairs
            Names of systems.
        question : optional
            As for `samples`, with the same errors.
        """
        draws, both = self.samples(question), [tuple(pair) for pair in pairs]
        first, second = (self._numbers([pair[side] for pair in both]) for side in (0, 1))
        gap = draws[:, first] - draws[:, second]
        return ((gap > 0) + 0.5 * (gap == 0)).mean(0)

    def winner(self, level: float = 0.9, *, question: ScoreQuestion | None = None) -> ScoreWinner:
        """The system that leads, its score corrected for having been picked, and who is tied.

        Parameters
        ----------
        level : float, default 0.9
            Probability of the interval, and that of ties.
        question : optional
            As for `samples`, with the same errors.
        """
        summary = self.rank(level=level, question=question)
        at = int(summary.indices[0])
        return ScoreWinner(
            self.names_[at],
            float(self.observed()[at]),
            float(summary.mean[0]),
            float(summary.skill_lower[0]),
            float(summary.skill_upper[0]),
            float(summary.prob_best[0]),
            tuple(n for n, tier in zip(summary.names, summary.tier, strict=True) if tier == 1),
        )

    def observed(self) -> Array:
        """Mean score of each system over the cells that were run, shape (n,)."""
        check_is_fitted(self)
        table = self.table_
        share = table.scores / np.maximum(table.runs, 1.0)
        return (share * (table.runs > 0)).sum(1) / (table.runs > 0).sum(1)

    def smallest_difference(
        self, level: float = 0.9, power: float = 0.8, *, question: ScoreQuestion | None = None
    ) -> float:
        """The smallest difference between typical systems that this board can tell.

        A difference of that size has an interval without zero with probability `power`.

        Parameters
        ----------
        level, power : float
            Probability of the interval, and of telling the difference.
        question : optional
            As for `samples`, with the same errors.
        """
        covariance = np.cov(self.samples(question).T)
        own, (i, j) = np.diagonal(covariance), np.triu_indices(len(covariance), 1)
        spread = np.sqrt(np.maximum(own[i] + own[j] - 2.0 * covariance[i, j], 0.0))
        return _reach(level, power) * float(np.median(spread))

    def more_tasks(
        self,
        first: Hashable,
        second: Hashable,
        level: float = 0.9,
        power: float = 0.8,
        *,
        difference: float | None = None,
    ) -> int:
        """How many more tasks like these would tell two systems apart; 0 if these do.

        Parameters
        ----------
        first, second : hashable
            Names of systems.
        level, power
            As for `smallest_difference`, with the same errors.
        difference : float, optional
            The difference to be told; by default the expected one of the two.
        """
        draws, both = self.samples("tasks like these"), self._numbers([first, second])
        gap = draws[:, both[0]] - draws[:, both[1]]
        size = abs(float(gap.mean()) if difference is None else float(difference))
        if not size:
            raise ValueError("difference is 0, which no number of tasks tells; pass another")
        count = len(self.task_names_)
        needed = count * (_reach(level, power) * gap.std() / size) ** 2
        return max(math.ceil(needed) - count, 0)

    def next_tasks(self, system: Hashable | None = None, num_tasks: int = 5) -> pd.DataFrame:
        """Which tasks to run next: those that say most of a system's ability, for their cost.

        Parameters
        ----------
        system : hashable, optional
            One of `fit`, for its cells without runs; without it, of a new system.
        num_tasks : int, default 5
            How many to name at most.

        Returns
        -------
        pandas.DataFrame
            Tasks, the best first: ``information`` is what a run is expected to add to the precision
            of the ability. With costs, tasks are sorted by the information a unit of cost.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if the name is not known, or scores are numbers, whose
            tasks all say the same.
        """
        result, table = self.result, self.table_
        tasks = result.tasks()
        if tasks.nodes is None or tasks.weights is None or table.kind != "solved":
            raise ValueError(
                f"scores are {table.kind}s, of which all tasks are taken to say as much"
            )
        open_ = np.ones(len(self.task_names_), bool)
        mean, sd = result.mode.mean(), result.scales["ability"]
        if system is not None:
            at = int(self._numbers([system])[0])
            open_ = table.runs[at] == 0
            mean, sd = result.mode[at], result.moments()[1][at]
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        chance = special.expit(mean + sd * nodes[:, None] - tasks.nodes)
        said = (weights / weights.sum()) @ (chance * (1.0 - chance)) @ tasks.weights.T
        frame = pd.DataFrame({"task": self.task_names_, "information": said})
        worth = said
        if table.costs is not None:
            frame["cost"], worth = table.costs, said / np.maximum(table.costs, 1e-300)
        order = [t for t in np.argsort(-worth, kind="stable") if open_[t]]
        return frame.iloc[order[:num_tasks]].reset_index(drop=True)

    def _numbers(self, systems: Sequence[Hashable] | None) -> Array:
        """Numbers of systems by their names."""
        check_is_fitted(self)
        known = {str(name): i for i, name in enumerate(self.names_)}
        named = self.names_ if systems is None else systems
        return np.array([_number(each, known, "systems", "system") for each in named], np.int64)


def _number(name: Hashable, known: dict[str, int], argument: str, what: str) -> int:
    if str(name) not in known:
        fix = meant(str(name), [*known], f"name a {what} of fit")
        raise ValueError(f"{argument} names {name!r}, which is no {what} of fit; {fix}")
    return known[str(name)]


def _reach(level: float, power: float) -> float:
    """Standard deviations between zero and a difference that is told with probability `power`."""
    share = check_share(power, "power")
    return float(special.ndtri((1.0 + check_level(level)) / 2.0) + special.ndtri(share))
