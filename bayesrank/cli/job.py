"""The frame that commands run in: their steps, the results they write, and what they print."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from bayesrank._names import shown
from bayesrank.cli.outputs import PrintError, output_folder, write
from bayesrank.cli.progress import Steps, stdout_console


class Job:
    """A run of a command: its steps, the results it writes, and what it prints."""

    def __init__(self, place: Path, folder: Path, steps: Steps) -> None:
        self.steps, self._place, self._folder = steps, place, folder
        self._written: list[str] = []
        self._begun = False

    def write(self, things: Mapping[str, Any]) -> None:
        """Write results by the names of their files; what is None is none."""
        with self.steps.step("Writing the results"):
            for name, thing in things.items():
                if thing is not None:
                    write(self._folder / name, thing)
                    self._written.append(name)

    def show(self, *things: Any) -> None:
        """Print sentences and tables, with a blank line between them."""
        try:
            self._show(things)
        except OSError as error:
            raise PrintError(error) from None

    def _show(self, things: Sequence[Any]) -> None:
        console, text = stdout_console(), ""
        for thing in things:
            text += "\n" if self._begun else ""
            self._begun = True
            with console.capture() as printed:
                if isinstance(thing, str):
                    for line in thing.splitlines():
                        console.print(shown(line), markup=False, highlight=False)
                else:
                    console.print(thing)
            text += "".join(f"{line.rstrip()}\n" for line in printed.get().splitlines())
        console.file.write(text)  # by Rich, the process would end where nobody reads
        console.file.flush()

    @property
    def width(self) -> int:
        """Columns of standard output."""
        return stdout_console().width

    @property
    def where(self) -> str:
        """Sentence on the place of the results."""
        return f"Saved to {self._place}: {', '.join(self._written)}"


@contextmanager
def job(
    place: Path, files: Sequence[str], inputs: Sequence[Path | None], *, quiet: bool
) -> Iterator[Job]:
    """Give the frame of a run, and publish what it wrote if all went well."""
    steps = Steps(Console(stderr=True), quiet=quiet)
    read = [path for path in inputs if path is not None]
    with output_folder(place, files, read) as folder:
        yield Job(place, folder, steps)
