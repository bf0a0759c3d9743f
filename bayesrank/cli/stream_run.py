"""One stream, predicted, learned and stored: from its lines to its checkpoints."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from bayesrank._files import reason_of
from bayesrank.cli.interrupt import keep, undivided, waiting
from bayesrank.cli.outputs import refused
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.stream import Example, StreamLayout, parse_line
from bayesrank.datasets.svmlight import BadLine

TallyReport = Callable[["Tally"], None]


class Tally(NamedTuple):
    """Place of a run in its stream, and how it has done so far."""

    lines: int = 0  #: lines read, of any kind
    offset: int = 0  #: bytes of these
    examples: int = 0  #: examples predicted and learned
    skipped: int = 0  #: bad lines
    levels_off: int = 0  #: sum of the rank losses
    nats: float = 0.0  #: sum of the log losses, where the learner gives probabilities

    @property
    def rank_loss(self) -> float:
        """Average rank loss so far."""
        return self.levels_off / max(self.examples, 1)

    @property
    def log_loss(self) -> float:
        """Average log loss so far, in nats."""
        return self.nats / max(self.examples, 1)


class StreamRun:
    """One run over a stream, which messages call `source`.

    `checkpoint` is the file of learner and tally, `every` the number of examples between two of
    them. Each calls `report` with the tally. A bad line ends the run; with `skip`, `complain` gets
    a sentence on it instead.
    """

    def __init__(
        self,
        model: Any,
        layout: StreamLayout,
        source: str,
        checkpoint: Path,
        *,
        skip: bool,
        every: int,
        report: TallyReport,
        complain: Callable[[str], None],
    ) -> None:
        self.model, self.layout, self.source = model, layout, source
        self.checkpoint, self.skip, self.every = checkpoint, skip, every
        self.report, self.complain = report, complain
        self.tally = Tally()
        self._waiting: list[Example] = []
        self._reached = self.tally  # with the lines behind `_waiting`

    @property
    def _left_behind(self) -> str:
        return f"{self.checkpoint} holds what was last reported"

    def resume(self) -> bool:
        """Take up an earlier run's checkpoint, if there is one."""
        if not self.checkpoint.exists():
            return False
        try:
            self.model.load(self.checkpoint)
            notes = self.model.notes_
            same = notes["source"] == self.source and notes["layout"] == list(self.layout)
            tally = Tally(**notes["tally"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._other(str(error)) from None
        if not same:
            known = f"{notes['source']} with {notes['layout'][1]} levels"
            raise self._other(f"it was saved for {known}, {notes['layout'][2]} features")
        self.tally = self._reached = tally
        keep(self._left_behind)
        return True

    def _other(self, reason: str) -> DataError:
        problem = f"this checkpoint is not one of this run ({reason})"
        return DataError(self.checkpoint, problem, "use the same options, or another --checkpoint")

    def follow(self, lines: IO[bytes]) -> None:
        """Predict and learn the lines that are left, and keep the state at the end."""
        for raw in self._left(lines):
            self._reached = self._reached._replace(
                lines=self._reached.lines + 1, offset=self._reached.offset + len(raw)
            )
            try:
                example = parse_line(raw, self._reached.lines, self.layout)
            except BadLine as error:
                self._refuse_or_skip(str(error), len(raw))
                continue
            if example is not None:
                self._waiting.append(example)
            if (self.tally.examples + len(self._waiting)) % self.every == 0 and self._waiting:
                self.keep()
        self.keep()
        if not hasattr(self.model, "state_"):
            fix = "write a level, then the features, on each line"
            raise DataError(self.source, "there is no line to learn from", fix)

    def keep(self) -> None:
        """Learn the examples that wait, and write the checkpoint."""
        if self._waiting:
            self._learn()
        changed = self._reached != self.tally
        self.tally = self._reached
        if changed and hasattr(self.model, "state_"):
            notes = {
                "source": self.source,
                "layout": list(self.layout),
                "tally": self.tally._asdict(),
            }
            place = f"{self.checkpoint}: the checkpoint"
            with refused("use --checkpoint", place), undivided():
                self.model.save(self.checkpoint, notes=notes)
            keep(self._left_behind)
        if changed and self.tally.examples:
            self.report(self.tally)

    def _left(self, lines: IO[bytes]) -> Iterator[bytes]:
        """Give the lines that follow those of the run so far."""
        try:
            if lines.seekable():
                self._refuse_unless_continued(lines)
                lines.seek(self.tally.offset)
            else:
                for _ in range(self.tally.lines):
                    with waiting():
                        lines.readline()
            while True:
                with waiting():
                    raw = lines.readline()
                if not raw:
                    return
                yield raw
        except OSError as error:
            problem = f"it cannot be read ({reason_of(error)})"
            raise DataError(self.source, problem, "check it") from None

    def _refuse_unless_continued(self, lines: IO[bytes]) -> None:
        """Refuse a file that has become shorter, or whose last line has become longer."""
        if not self.tally.offset:
            return
        end = lines.seek(0, os.SEEK_END)
        lines.seek(self.tally.offset - 1)
        last, following = lines.read(1), lines.read(1)
        if end < self.tally.offset or (last != b"\n" and following not in (b"", b"\r", b"\n")):
            raise DataError(
                self.source,
                "it is no longer what it was up to here",
                "use another --checkpoint to begin anew",
                row=self.tally.lines,
            )

    def _refuse_or_skip(self, problem: str, size: int) -> None:
        number = self._reached.lines
        if self.skip:
            self._reached = self._reached._replace(skipped=self._reached.skipped + 1)
            self.complain(f"{self.source}: line {number}: {problem}; skipped")
            return
        self._reached = self._reached._replace(lines=number - 1, offset=self._reached.offset - size)
        self.keep()
        raise DataError(
            self.source,
            f"{problem} (all before it is learned and kept)",
            "fix the line and run again, or use --on-error skip",
            row=number,
        )

    def _learn(self) -> None:
        X = np.stack([example.features for example in self._waiting])
        y = np.array([example.level for example in self._waiting])
        try:
            levels, nats = _predict_and_learn(self.model, X, y)
        except ValueError as error:
            raise DataError(
                self.source,
                f"the examples before line {self._reached.lines + 1} cannot be learned: {error}",
                "all before these are kept",
            ) from None
        total = self._reached.nats
        for surprise in nats:  # one by one, so that the sum does not depend on the chunks
            total += float(surprise)
        self._reached = self._reached._replace(
            examples=self._reached.examples + len(y),
            levels_off=self._reached.levels_off + int(np.abs(levels - y).sum()),
            nats=total,
        )
        self._waiting = []


def _predict_and_learn(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Predicted levels, and log losses where the learner gives probabilities."""
    if not hasattr(model, "prequential_proba"):
        return model.prequential(X, y), []
    probs = model.prequential_proba(X, y)
    levels = 1 + (probs.cumsum(1)[:, :-1] < 0.5).sum(1)
    return levels, -np.log(probs[np.arange(len(y)), y - 1])
