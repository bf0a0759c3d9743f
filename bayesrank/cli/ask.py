"""The command `ask`: which of two, again and again, until the ranking is settled."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import shlex
import signal
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from bayesrank._names import count_of, shown
from bayesrank.cli.ask_screen import (
    View,
    draw_screen,
    feature_table,
    leaders_table,
    progress_line,
    shortened,
)
from bayesrank.cli.interrupt import Interrupted, keep, look, waiting
from bayesrank.cli.outputs import OutputError, give_tables, refuse_no_file, refuse_to_replace
from bayesrank.cli.progress import stdout_console
from bayesrank.cli.tables import ranking_table
from bayesrank.datasets.items import Items, read_items

if TYPE_CHECKING:
    from bayesrank.active import Progress, QueryLoop, Question
    from bayesrank.ranking import RankSummary

_TABLE = 76  # columns that the whole table takes

_LEFT, _RIGHT = ("\x1b[D", "\x1bOD"), ("\x1b[C", "\x1bOC")
_OPEN = re.compile(rb"\x1b([\[O][0-9;]*)?")  # the beginning of an arrow, or of another such key
_MANY = 40  # answers from which the last ranking averages over the hyperparameters in any case
_WORDS = {"=": "tie", "s": "skip", "u": "undo", "q": "quit"}
_HELP = (
    "Press 1 or 2 for the better one, = if they are about equal, s if you can't say, u to undo, "
    "q to quit."
)


class AskSession:
    """A session at the terminal, which asks the `judge` the `question` again and again.

    `loop` has its journal open, whose path the person gave as `journal`.
    """

    def __init__(
        self, loop: QueryLoop, items: Items, journal: Path, judge: str | None, question: str
    ) -> None:
        self._loop, self._items, self._journal = loop, items, journal
        self._judge, self._question = judge, shown(question)
        self._shown = items._replace(
            names=tuple(map(shown, items.names)),
            feature_names=tuple(map(shown, items.feature_names)),
        )
        self._console = stdout_console()
        self._on_screen = (
            sys.stdin.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
        )
        self._before = len(loop.answers)
        self._go_on = False
        self._note = ""

    def run(self) -> int:
        """Ask until it is over, then say what is saved and what it adds up to."""
        code = 0
        keep(f"the answers are saved in {self._journal}")
        self._greet()
        try:
            with self._screen():
                while self._one_question():
                    pass
        except Interrupted as error:
            code = error.code
        except (KeyboardInterrupt, click.Abort):
            code = 130
        except EOFError:
            if not self._on_screen:
                self._console.print()
        self._say_goodbye()
        return code

    def _one_question(self) -> bool:
        """Ask one question; return whether to ask another."""
        look()
        questions = self._loop.ask(judge=self._judge)
        progress = self._loop.progress(judge=self._judge)
        if not questions:
            self._note = "Every question has been asked."
            return False
        if progress.done and not self._go_on:
            return self._stop_or_go_on(progress)
        question = questions[0]
        word = self._read(question, progress)
        pair = question.first, question.second
        if word == "quit":
            return False
        if word == "undo":
            self._undo()
        elif word == "skip":
            self._loop.skip(question.first, question.second, judge=self._judge)
            self._note = "Skipped; it will not be asked again."
        elif word in ("first", "second"):
            winner, loser = pair if word == "first" else pair[::-1]
            self._loop.tell(winner, loser, judge=self._judge, shown_first=question.first)
            self._note = self._saved(winner, "over", loser)
        elif word == "tie":
            self._loop.tell(*pair, tie=True, judge=self._judge, shown_first=question.first)
            self._note = self._saved(question.first, "and", question.second, " are about equal")
        else:
            self._note = _HELP
        return True

    def _saved(self, first: Hashable, between: str, second: Hashable, end: str = "") -> str:
        return f"Saved: {' '.join(self._names(first, second, between))}{end}."

    def _names(self, first: Hashable, second: Hashable, between: str) -> tuple[str, str, str]:
        """Two names with a word between them, short enough for a note on the screen."""
        size = self._console.width // 2 if self._on_screen else None
        one, other = shortened((shown(str(first)), shown(str(second))), size)
        return one, between, other

    def _undo(self) -> None:
        try:
            undone = self._loop.undo(judge=self._judge)
        except ValueError:
            self._note = "There is nothing to undo."
            return
        self._note = f"Taken back: {' '.join(self._names(undone[0], undone[1], 'and'))}."

    def _stop_or_go_on(self, progress: Progress) -> bool:
        text = f"Enough: {progress.reason}."
        if self._on_screen:
            key, note = "", self._note

            def draw() -> None:
                self._console.clear()
                self._console.print(Text(note))
                self._console.print(Text(text, style="bold green"))
                self._console.print("\nEnter or q to finish, c to go on all the same, u to undo.")

            while key not in ("\r", "\n", "q", "c", "u"):
                key = _key(draw)
        else:
            if self._note:
                self._console.print(Text(self._note))
            self._console.print(f"{text} c to go on all the same, u to undo.", markup=False)
            key = _line()[:1]
        self._note = text if self._on_screen else ""  # lines that were printed are still there
        if key == "u":
            self._undo()
        elif key == "c":
            self._go_on, self._note = True, ""
        return key in ("c", "u")

    # ------------------------------------------------------------ showing and reading

    @contextlib.contextmanager
    def _screen(self) -> Iterator[None]:
        """The terminal's other screen, so that what the person had on theirs comes back."""
        if not self._on_screen:
            yield
            return
        with self._console.screen():
            yield

    def _read(self, question: Question, progress: Progress) -> str:
        names = self._items.names
        pair = names.index(str(question.first)), names.index(str(question.second))
        return (self._read_key if self._on_screen else self._read_line)(pair, progress)

    def _read_key(self, pair: tuple[int, int], progress: Progress) -> str:
        ranking = self._ranking() if progress.answers else None
        top, sure = self._loop.rule.top or 1, self._loop.rule.level
        view = View(self._shown, self._question, pair, progress, sure, top, ranking, self._note)

        def draw() -> None:
            self._console.clear()
            self._console.print(draw_screen(view, self._console))

        key = _key(draw)
        self._console.print(Text("Choosing the next question ...", style="dim"), end="")
        if key in ("1", *_LEFT):
            return "first"
        if key in ("2", *_RIGHT):
            return "second"
        return _WORDS.get(key[:1].lower(), "")

    def _read_line(self, pair: tuple[int, int], progress: Progress) -> str:
        show: Callable[..., None] = self._console.print
        if self._note:
            show(self._note, markup=False, highlight=False)
        top, sure = self._loop.rule.top or 1, self._loop.rule.level
        show(
            f"\n{progress.answers} answered; {progress_line(progress, top, sure)}", highlight=False
        )
        show(Text(self._question))
        show(feature_table(self._shown, pair, room=20))
        show(
            "1, 2, = (about equal), s (can't say), u (undo) or q (quit): ", end="", highlight=False
        )
        line = _line()
        show()
        first, second = (self._items.names[item] for item in pair)
        # Keys come first: an item may be called 2, too, and is then answered for by its key.
        keys = {"1": "first", "2": "second", **_WORDS}
        return keys.get(line.lower()) or {first: "first", second: "second"}.get(line, "")

    def _ranking(self, *, final: bool = False) -> RankSummary:
        ranking = self._loop.final_ranking() if final else self._loop.ranking()
        return dataclasses.replace(ranking, names=[shown(name) for name in ranking.names])

    def _greet(self) -> None:
        from bayesrank.active import Journal

        log = self._loop.log
        if isinstance(log, Journal) and log.torn:
            Console(stderr=True).print(
                f"{self._journal}: an unfinished last line was dropped; it was cut off while it was"
                " written, and its answer had not been confirmed.",
                markup=False,
                highlight=False,
            )

    def _say_goodbye(self) -> None:
        count = len(self._loop.answers)
        show: Callable[..., None] = self._console.print
        finished = self._note.startswith(("Enough", "Every"))
        if finished:
            show(self._note, markup=False, highlight=False)
        if count:
            # Who leaves early need not wait for seconds.
            final = finished or count >= _MANY
            with Console(stderr=True).status("Ranking by all answers"):
                ranking, width = self._ranking(final=final), self._console.width
            wide = width >= _TABLE
            show(ranking_table(ranking, rows=10) if wide else leaders_table(ranking, 10, width))
            show()
        new = "" if count == self._before else f" ({count - self._before:,} new)"
        show(
            f"{count_of(count, 'answer')} saved to {self._journal}{new}. Run the same command to "
            "continue.",
            markup=False,
            highlight=False,
        )


class _Resized(Exception):
    """The terminal has another size."""


def _key(draw: Callable[[], None]) -> str:
    """The next key on a screen that is drawn anew whenever the terminal is resized."""
    while True:
        draw()
        try:
            with waiting(), _told_of_resizing():
                return _pressed()
        except _Resized:
            continue


def _pressed() -> str:
    """The next key of the terminal, which keeps those that were pressed before they are read."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)
    try:
        key = os.read(terminal, 1)
        while _OPEN.fullmatch(key) and select.select([terminal], [], [], 0.05)[0]:
            key += os.read(terminal, 1)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    if key == b"\x03":
        raise KeyboardInterrupt
    if key in (b"", b"\x04"):
        raise EOFError
    return key.decode(errors="replace")


@contextlib.contextmanager
def _told_of_resizing() -> Iterator[None]:
    """Raise where the terminal is resized: waiting for a key goes on through any other signal."""

    def resized(number: int, frame: object) -> None:
        raise _Resized

    if not hasattr(signal, "SIGWINCH"):  # Windows
        yield
        return
    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _line() -> str:
    """The next line of standard input."""
    with waiting():
        line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def ask(items: Path, journal: Path, export: Path | None, **options: Any) -> int:
    """Read the items, then ask, or export the answers."""
    known = read_items(items)
    refuse_no_file("--journal", journal)
    refuse_to_replace({"--journal": journal, "--export": export}, (items,))
    if export is not None:
        _export(known, journal, export)
        return 0
    return _ask(known, journal, **options)


def _ask(
    items: Items,
    journal: Path,
    *,
    judge: str | None,
    question: str,
    top: int,
    level: float,
    min_gain: float | None,
    retire: Sequence[str],
    restore: Sequence[str],
    seed: int,
) -> int:
    # Loading and compiling take a few seconds, once; after that a question takes some hundredths.
    with contextlib.ExitStack() as open_files:
        with Console(stderr=True).status("Choosing the first question"):
            from bayesrank.active import JournalError, QueryLoop

            try:
                loop = QueryLoop(
                    items.names,
                    items.features,
                    journal=journal,
                    background=True,
                    judge_noise="learn",
                    ard=items.features is not None,
                    stop_top=min(top, len(items.names) - 1),
                    stop_level=level,
                    stop_gain=min_gain,
                    seed=seed,
                )
            except JournalError as error:
                raise OutputError(str(error)) from error
            open_files.enter_context(loop)
            _come_and_go(loop, retire, restore)
            loop.ask(judge=judge)
            loop.progress(judge=judge)
        try:
            code = AskSession(loop, items, journal, judge, question).run()
        except JournalError as error:
            raise OutputError(str(error)) from error
    if loop.is_learning:
        # XLA cannot be told to stop compiling, and Python would wait for it. Nothing is lost: every
        # answer is on disk, and what is being learned is learned again when it is needed.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _come_and_go(loop: QueryLoop, retire: Sequence[str], restore: Sequence[str]) -> None:
    """Restore and retire items as the person asks."""
    from bayesrank.active import JournalError

    try:
        for name in restore:
            loop.restore(name)
        for name in retire:
            loop.retire(name)
    except (ValueError, JournalError) as error:
        raise OutputError(str(error)) from error


def _export(items: Items, journal: Path, export: Path) -> None:
    """Write the answers, without disturbing a process that is asking."""
    from bayesrank.active import JournalError, read_history

    try:
        answers = read_history(journal, items.names, items.features).answers
    except JournalError as error:
        raise OutputError(str(error)) from error
    if not answers:
        raise OutputError(f"{journal}: there is no answer to export yet; answer questions first")
    several = len({answer.judge for answer in answers}) > 1
    unknown = any(answer.shown is None for answer in answers)
    said = ["first", "second", "preference", *["neutral"] * unknown, *["judge"] * several]
    rows = [said]
    for answer in answers:
        pair = answer.first, answer.second
        better = "tie" if answer.kind == "tie" else "first"
        if answer.shown == answer.second:
            pair, better = pair[::-1], "tie" if better == "tie" else "second"
        row = [*(items.names[item] for item in pair), better]
        row += [str(int(answer.shown is None))] if unknown else []
        rows.append([*row, *([answer.judge or "unnamed"] if several else [])])
    give_tables([(export, rows)], "give another --export")
    said = f"{len(answers)} answers are in {export}; rank them with: {_rank(export, items)}"
    click.echo(shown(said), err=str(export) == "-")


def _rank(export: Path, items: Items) -> str:
    features = [] if items.features is None else ["--items", str(items.path), "--no-home"]
    return shlex.join(["python", "-m", "bayesrank", "rank", str(export), *features])
