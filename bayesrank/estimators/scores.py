"""Answers of a score table that `bayesrank.Ranker` was fitted to: scores, and what would tell more.

Scores are asked for on tasks like these, or on these very tasks, see `score_draws`.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from bayesrank._memory import check_memory
from bayesrank._names import meant, shown
from bayesrank._validate import check_choice, check_level, check_share, unit_of
from bayesrank.datasets import ScoreTable
from bayesrank.estimators.checks import check_hyperparameters
from bayesrank.estimators.score_answers import (
    FEWEST,
    QUESTIONS,
    ScoreQuestion,
    cell_scores,
    score_draws,
)
from bayesrank.inferencedata.draws import draws_to_arviz
from bayesrank.ranking import RankSummary, summarize
from bayesrank.ranking.columns import score_text, span
from bayesrank.solvers.scores import Board, ScoreResult, fit_scores

Array = Any
_NAMED = 3  # tasks to run next, in a sentence


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


class FittedScores(NamedTuple):
    """Answers of a fitted score table, `bayesrank.Ranker.scores`.

    Attributes
    ----------
    table : bayesrank.datasets.ScoreTable
        What was fitted.
    result : bayesrank.solvers.scores.ScoreResult
        Posterior of the abilities.
    drawn : dict
        Draws of the scores by question, shape (num_samples, n) each.
    question : str
        What is asked, an option of the ranker.
    """

    table: ScoreTable
    result: ScoreResult
    drawn: dict[ScoreQuestion, Array]
    question: ScoreQuestion

    def asked(self, question: ScoreQuestion) -> "FittedScores":
        """The answers to a question."""
        check_choice(question, "question", *QUESTIONS)
        return self._replace(question=question)

    def samples(self) -> Array:
        """Posterior draws of the scores, shape (num_samples, n), the same at every call.

        Raises
        ------
        ValueError
            If there are too few tasks or clusters to say anything of others like them.
        """
        if self.question in self.drawn:
            return self.drawn[self.question]
        clusters = self.table.clusters
        count, what = len(self.table.task_names), "tasks"
        if clusters is not None:
            count, what = int(clusters.max()) + 1, "clusters of tasks"
        raise ValueError(
            f"{count} {what} say nothing of others like them; add more, or ask about these by "
            "question='these tasks'"
        )

    def skills(self, shares: None = None) -> tuple[Array, Array]:
        """Posterior means and standard deviations of the scores, shape (n,)."""
        draws = self.samples()
        return draws.mean(0), draws.std(0)

    def mixture(self, *_: Any) -> None:
        """Scores are no mixture of Gaussians, as skills are: questions go by draws."""

    def rank(
        self, names: Sequence[object] | None = None, level: float = 0.9, k: int | None = None
    ) -> RankSummary:
        """Rank the systems by their scores, see `bayesrank.Ranker.rank`."""
        draws = self.samples()
        k = min(3, draws.shape[1]) if k is None else k
        named = self.table.names if names is None else names
        return summarize(draws, named, level=level, k=k, measure=self.measure)

    @property
    def measure(self) -> Literal["share", "score"]:
        """What a score is: the "share" of runs that succeed, or a "score"."""
        return "share" if self.table.kind == "solved" else "score"

    def chances(self, cells: Sequence[tuple[Hashable, Hashable]]) -> Array:
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
        ValueError
            If a name is not known, or scores are not successes.
        """
        if self.table.kind != "solved":
            raise ValueError(f"scores are {self.table.kind}s, which have no chance of success")
        found = cell_scores(self.result, self.result.tasks(), "these tasks").mean
        pairs = [tuple(pair) for pair in cells]
        who = _numbers([pair[0] for pair in pairs], self.table.names, "system")
        return found[who, _numbers([pair[1] for pair in pairs], self.table.task_names, "task")]

    def winner(self, level: float = 0.9) -> ScoreWinner:
        """The system that leads, its score corrected for having been picked, and who is tied.

        Parameters
        ----------
        level : float, default 0.9
            Probability of the interval, and that of ties.
        """
        summary = self.rank(level=level)
        at = int(summary.indices[0])
        return ScoreWinner(
            self.table.names[at],
            float(self.observed()[at]),
            float(summary.mean[0]),
            float(summary.skill_lower[0]),
            float(summary.skill_upper[0]),
            float(summary.prob_best[0]),
            tuple(n for n, tier in zip(summary.names, summary.tier, strict=True) if tier == 1),
        )

    def observed(self) -> Array:
        """Mean score of each system over the cells that were run, shape (n,)."""
        there = self.table.runs > 0
        share = self.table.scores / np.maximum(self.table.runs, 1.0)
        return (share * there).sum(1) / there.sum(1)

    def smallest_difference(self, level: float = 0.9, power: float = 0.8) -> float:
        """The smallest difference between typical systems that this board can tell.

        A difference of that size has an interval without zero with probability `power`.

        Parameters
        ----------
        level, power : float
            Probability of the interval, and of telling the difference.
        """
        covariance = np.cov(self.samples().T)
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
        draws = self.asked("tasks like these").samples()
        one, other = _numbers([first, second], self.table.names, "system")
        gap = draws[:, one] - draws[:, other]
        size = abs(float(gap.mean()) if difference is None else float(difference))
        if not size:
            raise ValueError("difference is 0, which no number of tasks tells; pass another")
        count = len(self.table.task_names)
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
        ValueError
            If the name is not known, or scores are not successes.
        """
        result, table = self.result, self.table
        tasks = result.tasks()
        if tasks.nodes is None or tasks.weights is None or table.kind != "solved":
            raise ValueError(f"scores are {table.kind}s, and which task says most is not known")
        open_ = np.ones(len(table.task_names), bool)
        mean, sd = result.mode.mean(), result.scales["ability"]
        if system is not None:
            [at] = _numbers([system], table.names, "system")
            open_ = table.runs[at] == 0
            mean, sd = result.mode[at], result.moments()[1][at]
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        chance = special.expit(mean + sd * nodes[:, None] - tasks.nodes)
        said = (weights / weights.sum()) @ (chance * (1.0 - chance)) @ tasks.weights.T
        frame = pd.DataFrame({"task": table.task_names, "information": said})
        worth = said
        if table.costs is not None:
            frame["cost"], worth = table.costs, said / np.maximum(table.costs, 1e-300)
        order = [t for t in np.argsort(-worth, kind="stable") if open_[t]]
        return frame.iloc[order[:num_tasks]].reset_index(drop=True)

    def family_agreement(self) -> tuple[float, float]:
        """Mean correlation of residuals of systems of one family, and of other systems.

        Residuals are what the model leaves of a system's score at each task; NaN where there are no
        two such systems.
        """
        tasks, families = self.result.tasks(), self.table.families
        n = len(self.table.names)
        same = np.eye(n, dtype=bool) if families is None else families[:, None] == families
        residual = tasks.gradient / np.sqrt(np.maximum(tasks.curvature, 1e-12))
        both = (self.table.runs > 0) * 1.0
        residual *= both
        found = (residual @ residual.T) / np.sqrt(
            np.maximum((residual**2 @ both.T) * (both @ (residual**2).T), 1e-300)
        )
        pairs = ~np.eye(n, dtype=bool)
        groups = (pairs & same, pairs & ~same)
        inside, outside = (found[g].mean() if g.any() else np.nan for g in groups)
        return float(inside), float(outside)

    def notes(self, level: float = 0.9) -> tuple[str, ...]:
        """Sentences on the question, the winner's score, and what would tell more.

        Parameters
        ----------
        level
            Probability of the intervals.
        """
        table, winner = self.table, self.winner(level)
        sd = np.ptp([winner.lower, winner.upper]) / 3.0

        def said(score: float) -> str:
            return score_text(score, self.measure, sd)

        ends = span(said(winner.lower), said(winner.upper))
        told = said(self.smallest_difference(level)).replace("%", " points")
        has = f"{said(winner.score)} ({100 * level:g}% interval {ends})"
        sentences = [
            f"{shown(str(winner.name))} has {said(winner.observed)} in the cells that were run; "
            f"corrected for having been picked, it has {has}.",
            f"The smallest difference that this board can tell with a chance of 80%: {told}.",
        ]
        if table.kind == "solved":
            best = ", ".join(map(shown, self.next_tasks(num_tasks=_NAMED).task))
            sentences.append(
                f"Tasks that say most of a new system, for their cost if known: {best}."
            )
        if table.kind == "number" and self._passes_bounds(level):
            sentences.append(
                "Scores lie from 0 to 1, which the model of numbers does not know: read ends of "
                "intervals beyond as 0 or 1, or write shares of runs as in 3/5."
            )
        return tuple(sentences)

    def _passes_bounds(self, level: float) -> bool:
        """Whether intervals of scores that lie from 0 to 1 do not."""
        scores, summary = self.table.scores, self.rank(level=level)
        beyond = summary.skill_lower.min() < 0.0 or summary.skill_upper.max() > 1.0
        return bool(beyond and scores.min() >= 0.0 and scores.max() <= 1.0)

    def to_arviz(self, params: Mapping[str, Any]) -> Any:
        """Draws of abilities and scores for ArviZ; difficulties and scales are estimates."""
        draws = self.samples()
        random = np.random.default_rng(0)
        named = {
            "score": (("item",), draws),
            "ability": (("item",), self.result.draws(len(draws), random)),
        }
        constant: dict[str, Any] = {"difficulty": (("task",), self.result.tasks().mean)}
        constant |= {k: ((), v) if np.ndim(v) == 0 else (("gap",), v) for k, v in params.items()}
        coords = {"item": self.table.names, "task": self.table.task_names}
        return draws_to_arviz(draws=named, constant=constant, coords=coords)


def fitted_scores(
    table: ScoreTable, question: ScoreQuestion, hyperparameters: Any, num_samples: int, seed: int
) -> tuple[FittedScores, dict[str, Array], str]:
    """Learn scales, abilities and difficulties; also values of the scales, and what was done."""
    check_choice(question, "question", *QUESTIONS)
    n, count = table.scores.shape
    kinds = 1 if table.kind == "number" else len(np.unique(table.scores + 1j * table.runs))
    need = 8.0 * ((12 + kinds) * n * count + 2 * num_samples * (n + count))
    check_memory(need, f"{n:,} systems and {count:,} tasks", "rank fewer systems or tasks")
    values, center, unit = None, 0.0, 1.0
    scores, there = table.scores, table.runs > 0
    if table.kind == "grade":
        values, levels = np.unique(scores[there], return_inverse=True)
        scores = np.zeros(scores.shape)
        scores[there] = levels
    elif table.kind == "number":
        center, unit = float(scores[there].mean()), unit_of(scores[there])
        scores = (scores - center) / unit
    board = Board(scores, table.runs, table.kind, table.clusters, values)
    shapes = {name: np.shape(value) for name, value in board.sites(board.start()).items()}
    fixed, choice = check_hyperparameters(hyperparameters, shapes, ("integrate", "map", "prior"))
    known = board.start() if choice == "prior" else {}
    result = fit_scores(board, known | board.scales(fixed))
    if choice == "map":
        result = fit_scores(board, result.scales)
    clusters = count if table.clusters is None else int(table.clusters.max()) + 1
    drawn: dict[ScoreQuestion, Array] = {
        asked: center + unit * score_draws(result, asked, num_samples, np.random.default_rng(seed))
        for asked in QUESTIONS
        if asked != "tasks like these" or clusters >= FEWEST
    }
    params = {name: np.asarray(v) for name, v in board.sites(result.scales).items()}
    return FittedScores(table, result, drawn, question), params, choice


def _numbers(names: Sequence[Hashable], known: Sequence[Hashable], what: str) -> Array:
    """Numbers of systems or tasks by their names."""
    number = {str(name): i for i, name in enumerate(known)}
    for name in names:
        if str(name) not in number:
            fix = meant(str(name), [*number], f"name a {what} of fit")
            raise ValueError(f"{name!r} is no {what} of fit; {fix}")
    return np.array([number[str(name)] for name in names], np.int64)


def _reach(level: float, power: float) -> float:
    """Standard deviations between zero and a difference that is told with probability `power`."""
    share = check_share(power, "power")
    return float(special.ndtri((1.0 + check_level(level)) / 2.0) + special.ndtri(share))
