"""What every command is: its files, the options that it shares, and the frame it runs in."""

from __future__ import annotations

import shutil
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank._memory import PREDICTS, check_start
from bayesrank._names import shown

if TYPE_CHECKING:
    from bayesrank.cli.progress import Steps

__all__ = [
    "OUT", "QUIET", "SEED", "Job", "blamed", "choice", "command", "count", "file", "help_of", "job",
    "level", "option", "say",
]  # fmt: skip

Option = Callable[[Mapping[str, str]], click.Option]


class _File(click.Path):
    """The path of a file or a folder; an empty one, which would mean this folder, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a path as it was given."""
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class _Seed(click.ParamType):
    """A seed, whose range is in its error and not in the help."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Take a whole number of 32 bits."""
        return click.IntRange(0, 2**32 - 1).convert(value, param, ctx)


FILE = _File(path_type=Path, allow_dash=True)


@cache
def _book() -> dict[str, Any]:
    return tomllib.loads(files("bayesrank.cli").joinpath("pages/commands.toml").read_text("utf-8"))


def help_of(name: str) -> str:
    """What `--help` says of a command."""
    return _book()[name]["help"]


def command(
    name: str, *parts: str | Option, room: float = PREDICTS
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command by its arguments, its options and the GiB of addresses that it takes.

    An argument ``name`` is a file, ``name?`` one that may be missing, and ``name!`` a text. What
    `--help` says of them is in ``pages/commands.toml``.
    """
    said = {**_book()["options"], **_book()[name].get("options", {})}
    parameters: list[click.Parameter] = []
    for part in parts:
        if isinstance(part, str):
            kind, needed = None if part.endswith("!") else FILE, not part.endswith("?")
            parameters.append(click.Argument([part.strip("?!")], type=kind, required=needed))
        else:
            parameters.append(part(said))

    def declare(run: Callable[..., Any]) -> click.Command:
        def start(**given: Any) -> Any:
            check_start(room)
            return run(**given)

        return click.Command(name, callback=start, params=parameters, help=help_of(name))

    return declare


def option(name: str, kind: Any = None, **more: Any) -> Option:
    """Declare an option, called as in ``--format form`` where its argument has another name."""
    names = name.split()

    def part(said: Mapping[str, str]) -> click.Option:
        text = said.get(names[0].split("/")[0].lstrip("-"), "")
        if str(more.get("default")) in ("", "-"):
            more["show_default"] = False  # the help says what is done without it
        return click.Option(names, type=kind, help=" ".join(text.split()) or None, **more)

    return part


def file(name: str, default: str | None = None, **more: Any) -> Option:
    """Declare the option of a file."""
    if default is not None:
        more["default"] = Path(default)
    return option(name, FILE, **{"metavar": "FILE", **more})


def choice(name: str, *values: str, **more: Any) -> Option:
    """Declare a choice between words, the first being the default."""
    return option(name, click.Choice(values), **{"default": values[0], **more})


def count(name: str, default: int | None = None, least: int = 1) -> Option:
    """Declare a whole number."""
    return option(name, click.IntRange(min=least), default=default, metavar="N")


def level() -> Option:
    """Declare a probability."""
    between = click.FloatRange(0, 1, min_open=True, max_open=True)
    return option("--level", between, default=0.9, metavar="P")


OUT = file("--out", "bayesrank-out", metavar="FOLDER")
SEED = option("--seed", _Seed(), default=0)
QUIET = option("--quiet -q", is_flag=True)


def say(text: str) -> None:
    """Print a sentence on standard error, folded between words at a terminal."""
    text = shown(" ".join(text.split()))
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    click.echo(text, err=True)


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Lay it on a file where what was read of it cannot be learned from."""
    from bayesrank.datasets.errors import DataError

    try:
        yield
    except DataError:
        raise
    except ValueError as error:
        raise DataError(path, str(error), "correct the file") from None


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
        from bayesrank.cli.outputs import PrintError

        try:
            self._show(things)
        except OSError as error:
            raise PrintError(error) from None

    def _show(self, things: Sequence[Any]) -> None:
        from bayesrank.cli.progress import stdout_console

        console = stdout_console()
        for thing in things:
            if self._begun:
                console.print()
            self._begun = True
            with console.capture() as printed:
                if isinstance(thing, str):
                    for line in thing.splitlines():
                        console.print(shown(line), markup=False, highlight=False)
                else:
                    console.print(thing)
            lines = (line.rstrip() for line in printed.get().splitlines())
            console.file.write("".join(f"{line}\n" for line in lines))
        console.file.flush()

    @property
    def width(self) -> int:
        """Columns of standard output."""
        from bayesrank.cli.progress import stdout_console

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
    from rich.console import Console

    from bayesrank.cli.outputs import output_folder
    from bayesrank.cli.progress import Steps

    steps = Steps(Console(stderr=True), quiet=quiet)
    read = [path for path in inputs if path is not None]
    with output_folder(place, files, read) as folder:
        yield Job(place, folder, steps)
