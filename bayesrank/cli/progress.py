"""Progress on standard error while the work goes on."""

import re
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bayesrank._names import shown
from bayesrank.cli.compiled import forgets_damaged_code
from bayesrank.cli.interrupt import look

# Advice on arguments that commands do not have.
_IN_PYTHON = re.compile(r"\. (?:Try power=|See result\.accuracy|Give it more max_iter).*")
_WIDE = 10_000  # a file or a pipe has no edge to fold at


def stdout_console() -> Console:
    """Return a console on standard output that folds lines on a terminal only."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


class Advance(Protocol):
    """Moves the bar of a step."""

    def __call__(self, share: float | None, note: str = "") -> None:
        """Show the share that is done, from 0 to 1 (None if not known), and a note."""


class Steps:
    """One progress bar a step on a terminal, one line a step elsewhere, only warnings if quiet."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._said: set[str] = set()
        self._bars = self._new_bars()

    def _new_bars(self) -> Progress:
        return Progress(
            SpinnerColumn(finished_text="[green]done[/green]"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=self._console,
        )

    def say(self, text: str) -> None:
        """Print a sentence beside the progress, unless quiet."""
        if not self._quiet:
            self._console.print(shown(text), markup=False)

    def end(self) -> None:
        """Keep what follows apart from the bars on a terminal."""
        if self._console.is_terminal and not self._quiet:
            self._console.print()

    @contextmanager
    def running(self) -> Iterator["Steps"]:
        """Show the steps taken inside the block; there may be several blocks, one after another."""
        with warnings.catch_warnings():
            warnings.showwarning = self._show_warning
            if self._quiet or not self._console.is_terminal:
                yield self
            else:
                self._bars = self._new_bars()
                with self._bars:
                    yield self

    @contextmanager
    def step(self, title: str) -> Iterator[Advance]:
        """Show one step; call what it gives to move the bar, or leave it going to and fro."""
        start = time.perf_counter()
        look()
        if self._quiet:
            yield _only_look
        elif self._console.is_terminal:
            task = self._bars.add_task(title, total=None, note="")

            def advance(share: float | None, note: str = "") -> None:
                _only_look(share, note)
                total = None if share is None else 1.0
                self._bars.update(task, completed=share, total=total, note=note)

            yield advance
            self._bars.update(task, completed=1.0, total=1.0)
        else:
            yield _only_look
            elapsed = time.perf_counter() - start
            self._console.print(f"{title}: {elapsed:.1f} s", markup=False, highlight=False)
        look()

    def _show_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: object = None,
        line: str | None = None,
    ) -> None:
        text = _IN_PYTHON.sub("", shown(" ".join(str(message).split())))
        if text.startswith("Glyph") and "missing from font" in text:  # one for each letter
            text = "pictures lack some letters of the names, for which the font has no glyphs"
        if text in self._said or forgets_damaged_code(text):
            return
        self._said.add(text)
        self._console.print(f"Warning: {text}", markup=False, highlight=False, soft_wrap=True)


def _only_look(share: float | None, note: str = "") -> None:
    """Show no progress, but end here if the process is to end."""
    if threading.current_thread() is threading.main_thread():
        look()
