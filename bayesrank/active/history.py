"""What the records of a journal add up to."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._validate import check_positive
from bayesrank.active.store import JournalError


class Answer(NamedTuple):
    """An answer: names of winner and loser, in no order if `tie`, who gave it, and who was first.

    `shown_first` is the item that was shown first, or None if nobody said it.

    Examples
    --------
    >>> from bayesrank.active import Answer
    >>> Answer("tea", "milk", judge="Eve").winner
    'tea'
    """

    winner: Hashable
    loser: Hashable
    judge: str | None
    tie: bool = False
    shown_first: Hashable | None = None


class Event(NamedTuple):
    """An answer (the first item won), a tie or a skipped question, and the record it came with.

    `shown` is the number of the item that was shown first, if it is known.
    """

    record: int
    kind: str
    first: int
    second: int
    judge: str | None
    shown: int | None = None


@dataclass(frozen=True)
class History:
    """All answers and skips that were not undone.

    Attributes
    ----------
    events
        Answers, ties and skipped questions, in order.
    retired, added
        Items that are asked about no more, and records of items that were added, in order.
    learned, learned_at
        Hyperparameters last learned, or None, and from how many answers.
    learned_noise
        How many times as noisy as nobody named each judge is, learned with them.
    records
        Number of records that this adds up.

    Examples
    --------
    >>> from bayesrank.active import History
    >>> History().answers
    ()
    """

    events: tuple[Event, ...] = ()
    retired: frozenset[int] = frozenset()
    added: tuple[Mapping[str, Any], ...] = ()
    learned: Mapping[str, Any] | None = None
    learned_at: int = 0
    learned_noise: Mapping[str, float] = field(default_factory=dict)
    records: int = 0

    @cached_property
    def answers(self) -> tuple[Event, ...]:
        """The answers, ties included."""
        return tuple(event for event in self.events if event.kind != "skip")

    @cached_property
    def compared(self) -> NDArray[np.intp]:
        """Two items of each answer, (K, 2): winner and loser, or a tie."""
        return _pairs(self.answers)

    @cached_property
    def tied(self) -> NDArray[np.bool_]:
        """Whether each answer is a tie, (K,)."""
        return np.array([event.kind == "tie" for event in self.answers], bool)

    def answered_by(self, judge: str | None) -> NDArray[np.intp]:
        """Pairs that a judge has answered, in order, (m, 2)."""
        return _pairs(event for event in self.answers if event.judge == judge)

    def skipped_by(self, judge: str | None) -> NDArray[np.intp]:
        """Pairs that a judge has skipped, in order, (m, 2)."""
        skips = (event for event in self.events if event.kind == "skip")
        return _pairs(event for event in skips if event.judge == judge)

    def last(self, judge: str | None) -> Event | None:
        """The last event, or the last of one judge."""
        own = [e for e in self.events if judge is None or e.judge == judge]
        return own[-1] if own else None


def _pairs(events: Iterable[Event]) -> NDArray[np.intp]:
    return np.array([(event.first, event.second) for event in events], np.intp).reshape(-1, 2)


def replay(records: Iterable[Mapping[str, Any]], before: History | None = None) -> History:
    """Add up records in order, from what those before them add up to."""
    before = before or History()
    events = {event.record: event for event in before.events}
    after = before
    for record in records:
        number, kind = record["n"], record["event"]
        if kind in ("answer", "tie", "skip"):
            first, second = ("winner", "loser") if kind == "answer" else ("first", "second")
            pair = record[first], record[second]
            events[number] = Event(number, kind, *pair, record["judge"], record.get("shown"))
        elif kind == "undo":
            if events.pop(record["of"], None) is None:
                raise JournalError(
                    f"record {number} of the journal takes back record {record['of']}, which "
                    "is not an answer that stands; restore the file from a copy, or remove that "
                    "record and those below it"
                )
        elif kind == "learned":
            after = replace(
                after,
                learned=record["params"],
                learned_at=record["answers"],
                learned_noise=record.get("judge_noise", {}),
            )
        elif kind == "items":
            after = replace(after, added=(*after.added, record))
        elif kind == "retire":
            after = replace(after, retired=after.retired | {record["item"]})
        elif kind == "restore":
            after = replace(after, retired=after.retired - {record["item"]})
        else:
            raise JournalError(
                f"record {number} of the journal is a {kind!r}, which this version does not know; "
                "use the version that wrote it"
            )
        after = replace(after, records=number)
    return replace(after, events=tuple(events.values()))


class JudgeNoise:
    """How many times as noisy as nobody named each judge is: given by name (else 1) or learned."""

    def __init__(self, given: Mapping[str, float] | str | None) -> None:
        self.learned = given == "learn"
        if not self.learned and not isinstance(given, Mapping | None):
            raise ValueError(
                f"judge_noise is {given!r}; pass 'learn', or a mapping from judges to how "
                "many times as noisy as the others they are"
            )
        self._given = dict(given) if isinstance(given, Mapping) else {}
        for name, factor in self._given.items():
            if not isinstance(name, str):
                raise ValueError(f"judge_noise names {name!r}; judges have names that are texts")
            check_positive(factor, f"judge_noise[{name!r}]")

    def of(self, history: History, judge: str | None) -> float:
        """The factor of one judge, or of nobody named."""
        known = history.learned_noise if self.learned else self._given
        return 1.0 if judge is None else float(known.get(judge, 1.0))

    def names(self, history: History) -> list[str]:
        """Judges whose factors can be learned; none if all answers are of one."""
        seen = dict.fromkeys(event.judge for event in history.answers)
        if not self.learned or len(seen) < 2:
            return []
        return [name for name in seen if name is not None]
