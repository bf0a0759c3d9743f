"""Ask, tell, and never forget: a loop of questions that a person answers.

A loop says which pair of items to compare next, and takes the answer. Its journal holds all that it
knows of the answers: opening it again, with the same items, gives the same loop.
"""

import os
import reprlib
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesrank._validate import check_count
from bayesrank.active.acquisition import Acquisition
from bayesrank.active.history import Answer, JudgeNoise
from bayesrank.active.items import NamedItems, as_items
from bayesrank.active.learning import SkillPosterior, now
from bayesrank.active.open_journal import open_journal
from bayesrank.active.program import skill_program
from bayesrank.active.questions import Question, QuestionChooser, acquisition_for
from bayesrank.active.session import Session
from bayesrank.active.stopping import Progress, StoppingRule, check_rule, top_settled
from bayesrank.active.store import JournalError, MemoryLog


class QueryLoop(Session):
    """Choose pairs to compare, learn from the answers, and rank the items.

    Skills are a Gaussian process of the features (`bayesrank.models.preference_gp`), or independent
    without features (`bayesrank.models.thurstone`). An answer is on disk before `tell` returns, and
    costs a few warm-started sweeps of EP; nothing compiles as answers grow. Two items may be
    recorded as about equal: from the first such answer on, the programs are those with ties.

    Parameters
    ----------
    items : sequence or int
        Names of the items: texts, numbers or tuples. Or their number n: names are 0 to n - 1.
    features : array-like of shape (n, d), optional
        Features of the items, in any unit: they are standardised.
    journal : path, optional
        File of the answers. If it exists, the loop continues from it, and adds further items to it.
        Without a journal, answers are in memory only.
    acquisition : {"bald", "entropy", "margin_variance", "random"} or callable, optional
        How to score questions for goal "pair", see `bayesrank.active.acquisition`.
    candidates : int or sequence of pairs of names, default 10000
        Number of pairs to draw anew for each question and choose from, or the pairs themselves.
    hyperparameters : {"integrate", "map", "prior"} or mapping, default "integrate"
        "integrate" and "map" learn them after `refit_after` answers, and again whenever the answers
        have doubled. Until then they are prior medians, which "prior" keeps. In `final_ranking`
        "integrate" averages over them. A mapping fixes what it names, and integrates over the rest.
    again : bool, default True
        Whether a judge may be asked about a pair again, after other questions: a noisy answer is
        worth repeating. Without it the questions end once all pairs are answered.
    refit_after : int, default 40
        Number of answers after which to learn them first.
    background : bool, default False
        Whether to learn them in a thread, and use them from the first question after it is done.
    ard : bool, default False
        Whether each feature has a lengthscale of its own.
    laplacian : sparse or dense array of shape (n, n), optional
        Laplacian of a graph of items (`bayesrank.gp`) along which skills vary little.
    judge_noise : mapping or "learn", optional
        How many times as noisy as others a judge is, by name; 1 if not named. "learn" learns it
        with the hyperparameters, once two judges have answered, so that careless ones count less.
    goal : {"pair", "order", "top"}, optional
        What to learn: the skills of two items ("pair", by "bald"), the order of all items ("order",
        by `pool_variance`), or the best k items ("top", by `top_gain`). By default it is "top" with
        `stop_top`, and "pair" without, or with an `acquisition` or `stop_gain`.
    k : int, optional
        Number of items at the top, for goal "top"; by default `stop_top`, or 3 without.
    stop_gain : float, optional
        Stop when no question has a score above this.
    stop_top : int, optional
        Stop when the best `stop_top` items are known with probability `stop_level`.
    stop_level : float, default 0.95
        See `stop_top`.
    seed : int, default 0
        Seed of everything random.

    Attributes
    ----------
    log
        The open journal, or what stands in for it.
    rule
        When to stop.

    Raises
    ------
    ValueError, JournalError
        If an argument cannot be used; if the journal is open elsewhere, belongs to other items, is
        damaged, or cannot be written. The message says what to do.

    Notes
    -----
    The journal records the judge of each answer. All judge the same skills, with their own
    `judge_noise`. Nobody is asked again about a pair that they skipped. Threads of one process may
    share a loop.

    The covariance of all items is in memory, which suits a few thousand items. With more, ask about
    a sample, and predict the others by `bayesrank.PreferenceGP`: ``fit(features of the sample,
    loop.comparisons).predict(features of all)``.

    Examples
    --------
    >>> from bayesrank.active import QueryLoop
    >>> loop = QueryLoop(["tea", "coffee", "milk"], seed=1)
    >>> question = loop.ask()[0]
    >>> loop.tell(question.first, question.second)
    >>> loop.tell("coffee", "tea", judge="Ann")
    >>> loop.undo()
    Answer(winner='coffee', loser='tea', judge='Ann', tie=False, shown_first=None)
    >>> len(loop.answers)
    1
    """

    def __init__(
        self,
        items: int | Sequence[Hashable],
        features: ArrayLike | None = None,
        *,
        journal: str | os.PathLike[str] | None = None,
        acquisition: str | Acquisition | None = None,
        candidates: int | Sequence[tuple[Hashable, Hashable]] = 10_000,
        hyperparameters: Literal["integrate", "map", "prior"] | Mapping[str, Any] = "integrate",
        again: bool = True,
        refit_after: int = 40,
        background: bool = False,
        ard: bool = False,
        laplacian: Any = None,
        judge_noise: Mapping[str, float] | Literal["learn"] | None = None,
        goal: Literal["pair", "order", "top"] | None = None,
        k: int | None = None,
        stop_gain: float | None = None,
        stop_top: int | None = None,
        stop_level: float = 0.95,
        seed: int = 0,
    ) -> None:
        named, noise = as_items(items, features), JudgeNoise(judge_noise)
        if noise.learned and hyperparameters == "prior":
            raise ValueError(
                "judge_noise is 'learn', but with hyperparameters='prior' nothing is learned; "
                "pass the noise as a mapping, or leave hyperparameters as 'integrate'"
            )
        n, seed = len(named.names), check_count(seed, "seed", 0)
        refit_after = check_count(refit_after, "refit_after")
        self._program_of = partial(
            skill_program, hyperparameters=hyperparameters, ard=ard, laplacian=laplacian
        )
        pairs = _in_numbers(named, candidates)
        if acquisition is not None and goal not in (None, "pair"):
            raise ValueError(f"goal is {goal!r} and acquisition is given; pass one of the two")
        rule = StoppingRule(stop_gain, stop_top, stop_level)
        self.rule = check_rule(rule, n, acquisition != "random")
        asked = acquisition_for(goal, k, self.rule, n)
        self._chooser_of = partial(
            QuestionChooser,
            candidates=pairs,
            acquisition=acquisition or asked,
            again=again,
            seed=seed,
        )
        self._chooser = self._chooser_of(n)
        posterior = SkillPosterior(
            self._program_of(n, named.features),
            noise,
            refit_after=None if hyperparameters == "prior" else refit_after,
            integrate=hyperparameters not in ("map", "prior"),
            background=background,
            seed=seed,
        )
        log = MemoryLog() if journal is None else open_journal(journal, named)
        super().__init__(named, posterior, log)
        try:
            self._history  # noqa: B018  records that cannot be added up are refused now
        except JournalError:
            self.close()
            raise

    def ask(self, n: int = 1, *, judge: str | None = None) -> list[Question]:
        """Choose the next questions; the same ones until an answer comes.

        Parameters
        ----------
        n : int, default 1
            Number of questions. More than one are chosen jointly, each for what it tells beyond
            those before it. Code is compiled for each new number.
        judge : str, optional
            Who will answer.

        Returns
        -------
        list of Question
            Best first; fewer than `n` if there are no more, and none if no pair is left to ask.

        Raises
        ------
        ValueError
            If `n` is not a positive whole number, the judge is not a name, or the acquisition gives
            no numbers.
        """
        n = check_count(n, "n")
        _check_judge(judge)
        with self._turn:
            learned = self._posterior.newly_learned(self._history)
            if learned is not None:
                self.log.append(learned)
            return self._questions(n, judge)

    def tell(
        self,
        winner: Hashable,
        loser: Hashable,
        *,
        judge: str | None = None,
        tie: bool = False,
        shown_first: Hashable | None = None,
    ) -> None:
        """Take an answer, to a question that was asked or to any other.

        When this returns, the answer is on disk. When it raises, it is not, and the loop is as
        before.

        Parameters
        ----------
        winner, loser
            Names of two items.
        judge : str, optional
            Who answered.
        tie : bool, default False
            Whether the two are about equal; then their order means nothing.
        shown_first : optional
            The item that was shown first. The loop does not learn from it; the answers have it, so
            that a ranker can tell the judges' order bias from skill.

        Raises
        ------
        ValueError, JournalError
            If there is no such item, or they are the same; if the answer cannot be written.
        """
        first, second = self._items.pair(winner, loser)
        if shown_first not in (None, winner, loser):
            raise ValueError(f"shown_first is {shown_first!r}; pass the winner or the loser")
        said = {} if shown_first is None else {"shown": self._items.find(shown_first)}
        if tie:
            self._append("tie", judge, said, first=first, second=second)
        else:
            self._append("answer", judge, said, winner=first, loser=second)

    def skip(self, first: Hashable, second: Hashable, *, judge: str | None = None) -> None:
        """Take "can't say" for an answer: the loop learns nothing, and does not ask it again.

        Parameters
        ----------
        first, second
            Names of the two items.
        judge : str, optional
            Who could not say; others may still be asked.

        Raises
        ------
        ValueError, JournalError
            As for `tell`.
        """
        one, other = self._items.pair(first, second)
        self._append("skip", judge, {}, first=one, second=other)

    def undo(self, *, judge: str | None = None) -> Answer | tuple[Hashable, Hashable]:
        """Take back the last answer or skipped question, or the last one of a judge.

        It stays in the journal, with a record that it was undone.

        Parameters
        ----------
        judge : str, optional
            Whose last answer or skipped question to take back; by default the last of all.

        Returns
        -------
        Answer or tuple
            The answer, or the two items of a skipped question.

        Raises
        ------
        ValueError, JournalError
            If there is nothing to take back; as for `tell`.
        """
        with self._turn:
            event = self._history.last(judge)
            if event is None:
                whose = "" if judge is None else f" by {judge!r}"
                raise ValueError(f"there is no answer{whose} to undo")
            self.log.append({"event": "undo", "of": event.record, "time": now()})
        answer = self._answer(event)
        return (answer.winner, answer.loser) if event.kind == "skip" else answer

    def add_items(self, items: Sequence[Hashable], features: ArrayLike | None = None) -> None:
        """Add items in the middle of a study; every answer stays.

        To open the journal again, give them after the items that were there.

        Parameters
        ----------
        items : sequence
            Their names.
        features : array-like of shape (k, d), optional
            Their features, if the other items have some. All are standardised anew.

        Raises
        ------
        ValueError, JournalError
            If names or features do not fit; if the journal cannot be written; if the loop has a
            graph of items. Then open a new loop with all items on the same journal.
        """
        with self._turn:
            together = self._items.with_more(items, features)
            if self._program_of.keywords["laplacian"] is not None:
                raise ValueError(
                    "items cannot be added to a loop with a laplacian; make the loop again with "
                    "all items and their graph, on the same journal"
                )
            program = self._program_of(len(together.names), together.features)
            chooser = self._chooser_of(len(together.names))
            self.log.append({**together.addition(len(self.items)), "time": now()})
            self._items, self._chooser = together, chooser
            self._posterior.change(program)

    def retire(self, item: Hashable) -> None:
        """Stop asking about an item, and leave it out of the ranking; its answers still count.

        Parameters
        ----------
        item
            Its name.

        Raises
        ------
        ValueError, JournalError
            If there is no such item, or fewer than two would be left; as for `tell`.
        """
        number = self._items.find(item)
        with self._turn:
            if number not in self._history.retired and len(self._left) < 3:
                raise ValueError(
                    f"without {item!r} there would be fewer than two items to ask about; add "
                    "others first"
                )
            self._append_item("retire", number)

    def restore(self, item: Hashable) -> None:
        """Ask again about a retired item.

        Parameters
        ----------
        item
            Its name.

        Raises
        ------
        ValueError, JournalError
            If there is no such item; as for `tell`.
        """
        self._append_item("restore", self._items.find(item))

    def learn(self) -> dict[str, np.ndarray]:
        """Learn the hyperparameters from the answers now, whatever the schedule.

        Returns
        -------
        dict
            Their values, which the journal keeps.

        Raises
        ------
        ValueError
            If there is no answer, or no hyperparameter is free.
        """
        with self._turn:
            self.log.append(self._posterior.learn(self._history))
            return self.params

    def candidates(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Pairs to choose the next question from, as numbers of items (m, 2), and scores (m,)."""
        return self._chooser.scored(self.beliefs, self._history)

    def progress(self, *, judge: str | None = None) -> Progress:
        """How many answers there are, and whether the stopping rule says that they are enough.

        It changes nothing: what is due to be learned waits for `ask`.

        Parameters
        ----------
        judge : str, optional
            Who would answer the next question: what is left to be asked differs by judge.

        Raises
        ------
        ValueError
            If the judge is not a name.
        """
        _check_judge(judge)
        history, best = self._history, self._questions(1, judge)
        settled = None
        if self.rule.top is not None:
            result = self.result
            mean, draws = result.mean["f"], result.get_samples()["f"]
            left = self._left
            settled = top_settled(mean[left], draws[:, left], self.rule.top)
        skipped = len(history.events) - len(history.answers)
        gain = best[0].gain if best else None
        return self.rule.judge(len(history.answers), skipped, gain, settled)

    def close(self) -> None:
        """Release the journal. Nothing is left to be written."""
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _append(self, kind: str, judge: str | None, more: Mapping[str, int], **items: int) -> None:
        _check_judge(judge)
        labels = [str(self.items[number]) for number in items.values()]
        record = {"event": kind, **items, **more, "labels": labels, "judge": judge}
        with self._turn:
            self.log.append({**record, "time": now()})

    def _append_item(self, kind: str, item: int) -> None:
        labels = [str(self.items[item])]
        with self._turn:
            if (item in self._history.retired) != (kind == "retire"):
                self.log.append({"event": kind, "item": item, "labels": labels, "time": now()})

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a loop cannot be copied or pickled: it holds the journal's lock and compiled code; "
            "make another with the same arguments, which reads the journal, or tell it the answers "
            "of this one"
        )

    def _questions(self, n: int, judge: str | None) -> list[Question]:
        return self._remember(f"ask {n} {judge!r}", lambda: self._choose(n, judge))

    def _choose(self, n: int, judge: str | None) -> list[Question]:
        chosen = self._chooser.choose(self._beliefs_about(judge), n, self._history, judge)
        return [Question(self.items[i], self.items[j], *scores) for i, j, *scores in chosen]


def _in_numbers(items: NamedItems, candidates: Any) -> Any:
    if isinstance(candidates, (int, np.integer)):
        return int(candidates)
    try:
        pairs = [(first, second) for first, second in candidates]
    except (TypeError, ValueError):
        raise ValueError(
            f"candidates is {reprlib.repr(candidates)}; pass how many pairs to choose from, or "
            "pairs of names"
        ) from None
    return [items.pair(first, second) for first, second in pairs]


def _check_judge(judge: Any) -> None:
    if judge is not None and not isinstance(judge, str):
        raise ValueError(f"judge is {judge!r}; pass a name as text, or None")
