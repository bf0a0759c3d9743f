"""What is known after the answers so far: everything follows from the records of a log."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.active.acquisition.beliefs import Beliefs
from bayesrank.active.history import Answer, Event, History, replay
from bayesrank.active.items import NamedItems
from bayesrank.active.learning import SkillPosterior
from bayesrank.active.settle import Settled
from bayesrank.active.store import Journal, MemoryLog
from bayesrank.infer import EPResult
from bayesrank.ranking import RankSummary, summarize


class Session:
    """The answers in a log, and what they say of the skills of its items."""

    def __init__(
        self, items: NamedItems, posterior: SkillPosterior, log: Journal | MemoryLog
    ) -> None:
        self._items, self._posterior, self.log = items, posterior, log
        self._cached: dict[str, tuple[int, Any]] = {}
        self._turn = threading.RLock()  # threads take turns

    @property
    def items(self) -> tuple[Hashable, ...]:
        """Names of the items."""
        return self._items.names

    @property
    def answers(self) -> list[Answer]:
        """Answers that were not undone, in order."""
        return [self._answer(event) for event in self._history.answers]

    @property
    def comparisons(self) -> NDArray[np.intp]:
        """Answers with a winner as numbers of items, (winner, loser), shape (K, 2)."""
        return self._history.compared[~self._history.tied]

    @property
    def ties(self) -> NDArray[np.intp]:
        """Pairs that were answered as about equal as numbers of items, shape (K, 2)."""
        return self._history.compared[self._history.tied]

    @property
    def retired(self) -> tuple[Hashable, ...]:
        """Items that are asked about no more."""
        return tuple(self.items[number] for number in sorted(self._history.retired))

    @property
    def skipped(self) -> list[tuple[Hashable, Hashable]]:
        """Questions that were skipped and not undone, in order."""
        events = [event for event in self._history.events if event.kind == "skip"]
        return [(self.items[event.first], self.items[event.second]) for event in events]

    @property
    def judges(self) -> dict[str | None, int]:
        """Number of answers of each judge; None for those of nobody named."""
        return dict(Counter(event.judge for event in self._history.answers))

    @property
    def judge_noise(self) -> dict[str, float]:
        """How many times as noisy as nobody named each judge is taken to be."""
        named = dict.fromkeys(event.judge for event in self._history.answers)
        noise = self._posterior.judges
        return {name: noise.of(self._history, name) for name in named if name is not None}

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Hyperparameters in use."""
        return self._posterior.params(self._history)

    @property
    def is_learning(self) -> bool:
        """Whether hyperparameters are being learned in the background."""
        return self._posterior.is_learning

    @property
    def beliefs(self) -> Beliefs:
        """What the acquisition sees: mean, covariance, and the noise of an answer."""
        return self._beliefs_about(None)

    @property
    def result(self) -> EPResult:
        """The posterior, as `bayesrank.infer.EP` gives it on the same program and answers."""
        return self._remember("result", lambda: self._posterior.result(self._history, self._fit))

    def ranking(self, *, level: float = 0.9, k: int | None = None) -> RankSummary:
        """Rank the items at the hyperparameters in use; skills are relative to the average's.

        Retired items are left out. Intervals allow for what the answers leave open about the
        skills; those of `final_ranking` allow for the hyperparameters as well.

        Parameters
        ----------
        level, k
            As for `bayesrank.ranking.summarize`.

        Returns
        -------
        RankSummary
            ``print`` it, or call ``to_dataframe()``.
        """
        return self._summary(self.result, level, k)

    def final_ranking(self, *, level: float = 0.9, k: int | None = None) -> RankSummary:
        """Rank the items as `ranking` does, averaged over hyperparameters if the loop integrates.

        That takes some seconds, and widens the intervals by what the answers leave open about the
        hyperparameters.

        Warns
        -----
        ConvergenceWarning
            If the average over the hyperparameters cannot be relied on.
        """
        integrated = self._remember("final", lambda: self._posterior.integrated(self._history))
        return self._summary(integrated or self.result, level, k)

    def _summary(self, result: EPResult, level: float, k: int | None) -> RankSummary:
        left = self._left
        draws = result.get_samples()["f"][:, left]
        draws = draws - draws.mean(axis=1, keepdims=True)
        return summarize(draws, [self.items[number] for number in left], level=level, k=k)

    @property
    def _left(self) -> NDArray[np.intp]:
        """Numbers of the items that were not retired."""
        return np.setdiff1d(np.arange(len(self.items)), list(self._history.retired))

    @property
    def _history(self) -> History:
        return self._remember("history", self._replayed)

    @property
    def _fit(self) -> Settled:
        return self._remember("fit", lambda: self._posterior.fit(self._history))

    def _remember(self, name: str, compute: Callable[[], Any]) -> Any:
        """Compute a value unless nothing was answered since it was last computed."""
        # All state follows from the records, and these change in one step: an interrupt at any
        # moment leaves memory and disk in agreement.
        with self._turn:
            number = len(self.log)
            cached = self._cached.get(name)
            if cached is None or cached[0] != number:
                cached = self._cached[name] = (number, compute())
            return cached[1]

    def _replayed(self) -> History:
        # Records are only ever added, so that those added up before need not be seen again.
        _, before = self._cached.get("history", (0, History()))
        return replay(self.log.records_from(before.records), before)

    def _answer(self, event: Event) -> Answer:
        pair = self.items[event.first], self.items[event.second]
        shown = None if event.shown is None else self.items[event.shown]
        return Answer(*pair, event.judge, event.kind == "tie", shown)

    def _beliefs_about(self, judge: str | None) -> Beliefs:
        fit, noise = self._fit, self._posterior.noise(self._history, judge)
        return Beliefs(fit.mean, fit.covariance, noise, self._posterior.tie_width(self._history))
