"""What every command is: its files, the options that it shares, and the frame it runs in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank._names import shown

if TYPE_CHECKING:
    from bayesrank.cli.steps import Steps

__all__ = ["FILE", "Job", "job", "options", "out", "quiet", "rows", "seed"]

Decorator = Callable[[Any], Any]


class _File(click.Path):
    """The path of a file or a folder; an empty one, which would mean this folder, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a path as it was given."""
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path, allow_dash=True)

out = click.option(
    "--out",
    type=FILE,
    default=Path("bayesrank-out"),
    metavar="FOLDER",
    help="Where the results go. Results of an earlier run are replaced.",
)


def seed(what: str) -> Decorator:
    """Return the option of a seed."""
    kind = click.IntRange(0, 2**32 - 1)
    return click.option("--seed", type=kind, default=0, help=what)


def quiet(shows: str = "only the table and any warnings") -> Decorator:
    """Return the option that shows no progress."""
    return click.option("--quiet", is_flag=True, help=f"Show no progress, {shows}.")


def rows(count: int, least: int, what: str) -> Decorator:
    """Return the option of how much is printed."""
    kind = click.IntRange(min=least)
    return click.option("--rows", type=kind, default=count, help=what)


def options(*given: Decorator) -> Decorator:
    """Add options in their order."""

    def add(command: Any) -> Any:
        for option in reversed(given):
            command = option(command)
        return command

    return add


class Job:
    """A run of a command: its steps, the results it writes, and what it prints."""

    def __init__(self, place: Path, folder: Path, steps: Steps) -> None:
        self.steps, self._place, self._folder = steps, place, folder
        self._written: list[str] = []
        self._begun = False

    def write(self, things: Mapping[str, Any]) -> None:
        """Write results by the names of their files; what is None is none."""
        from bayesrank.cli.outputs import write

        with self.steps.step("Writing the results"):
            for name, thing in things.items():
                if thing is not None:
                    write(self._folder / name, thing)
                    self._written.append(name)

    def show(self, *things: Any) -> None:
        """Print sentences and tables, with a blank line between them."""
        from bayesrank.cli.steps import stdout_console

        console = stdout_console()
        for thing in things:
            if self._begun:
                console.print()
            self._begun = True
            if isinstance(thing, str):
                console.print(shown(thing), markup=False, highlight=False)
            else:
                console.print(thing)
        console.file.flush()

    @property
    def where(self) -> str:
        """Sentence on where the results are."""
        return f"Results are in {self._place}: {', '.join(self._written)}."


@contextmanager
def job(
    place: Path, files: Sequence[str], inputs: Sequence[Path | None], *, quiet: bool
) -> Iterator[Job]:
    """Give the frame of a run, and publish what it wrote if all went well."""
    from rich.console import Console

    from bayesrank.cli.outputs import output_folder
    from bayesrank.cli.steps import Steps

    steps = Steps(Console(stderr=True), quiet=quiet)
    read = [path for path in inputs if path is not None]
    with output_folder(place, files, read) as folder:
        yield Job(place, folder, steps)
