"""What the records of a journal add up to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.active.store import JournalError

__all__ = ["Answer", "Event", "History", "replay"]


class Answer(NamedTuple):
    """Who won, by name, and who said so."""

    winner: Hashable
    loser: Hashable
    annotator: str | None


class Event(NamedTuple):
    """An answer (the first item won) or a skipped question, and the record that it came with."""

    record: int
    kind: str
    first: int
    second: int
    annotator: str | None


@dataclass(frozen=True)
class History:
    """All that was said and not undone.

    Attributes
    ----------
    events
        Answers and skipped questions, in order.
    learned
        Hyperparameters that were last learned, or None.
    learned_at
        Number of answers that they were learned from.
    records
        Number of records that this adds up.
    """

    events: tuple[Event, ...] = ()
    learned: Mapping[str, Any] | None = None
    learned_at: int = 0
    records: int = 0

    @cached_property
    def answers(self) -> tuple[Event, ...]:
        """The answers."""
        return tuple(event for event in self.events if event.kind == "answer")

    @cached_property
    def comparisons(self) -> NDArray[np.intp]:
        """Winner and loser of each answer, shape (K, 2)."""
        pairs = [(event.first, event.second) for event in self.answers]
        return np.array(pairs, np.intp).reshape(-1, 2)

    def pairs(self, annotator: str | None) -> NDArray[np.intp]:
        """Pairs that an annotator has answered or skipped, (m, 2)."""
        pairs = [(e.first, e.second) for e in self.events if e.annotator == annotator]
        return np.array(pairs, np.intp).reshape(-1, 2)

    def last(self, annotator: str | None) -> Event | None:
        """The last event, or the last of one annotator."""
        own = [e for e in self.events if annotator is None or e.annotator == annotator]
        return own[-1] if own else None


def replay(records: Iterable[Mapping[str, Any]], before: History | None = None) -> History:
    """Add up records.

    Parameters
    ----------
    records
        In order.
    before
        What the records before them add up to.

    Raises
    ------
    JournalError
        If a record is of a kind that this program does not know, or takes back what is not there.
    """
    before = before or History()
    events = {event.record: event for event in before.events}
    learned, learned_at, number = before.learned, before.learned_at, before.records
    for record in records:
        number, kind = record["n"], record["event"]
        if kind == "answer":
            pair = record["winner"], record["loser"]
            events[number] = Event(number, kind, *pair, record["annotator"])
        elif kind == "skip":
            pair = record["first"], record["second"]
            events[number] = Event(number, kind, *pair, record["annotator"])
        elif kind == "undo":
            if events.pop(record["of"], None) is None:
                raise JournalError(
                    f"record {number} of the journal takes back record {record['of']}, which is no "
                    "answer that stands; restore the file from a copy, or remove that record and "
                    "those below it"
                )
        elif kind == "learned":
            learned, learned_at = record["params"], record["answers"]
        else:
            raise JournalError(
                f"record {number} of the journal is a {kind!r}, which this version does not know; "
                "use the version that wrote it"
            )
    return History(tuple(events.values()), learned, learned_at, number)
