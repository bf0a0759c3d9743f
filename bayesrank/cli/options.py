"""How a command is declared: its files, its options, and the function that it runs."""

import importlib
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from bayesrank._memory import PREDICTS, check_start

Option = Callable[[Mapping[str, str]], click.Option]


class _File(click.Path):
    """The path of a file or a folder; an empty one, which would mean this folder, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a path as it was given."""
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class _Command(click.Command):
    """Refuses an option that is given twice, of which the last would count."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        given = [part for part in order if isinstance(part, click.Option) and not part.multiple]
        twice = next((max(part.opts, key=len) for part in given if given.count(part) > 1), None)
        if twice is not None:
            raise click.UsageError(f"{twice} is given twice; give it once", ctx)
        return super().parse_args(ctx, args)


class Whole(click.IntRange):
    """A whole number in a range."""

    name = "integer"


class Real(click.FloatRange):
    """A number in a range."""

    name = "number"


class _Seed(click.ParamType):
    """A seed, whose range is in its error and not in the help."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Take a whole number of 32 bits."""
        return Whole(0, 2**32 - 1).convert(value, param, ctx)


FILE = _File(path_type=Path, allow_dash=True)


@cache
def _book() -> dict[str, Any]:
    return tomllib.loads(files("bayesrank.cli").joinpath("pages/commands.toml").read_text("utf-8"))


def help_of(name: str) -> str:
    """What `--help` says of a command."""
    return _book()[name]["help"]


def command(name: str, *parts: str | Option, at: str = "", room: float = PREDICTS) -> click.Command:
    """Declare a command by its arguments, its options and the GiB of addresses that it takes.

    Its function has its name, in the module `at` or that of its name, and loads when it is called.
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

    def start(**given: Any) -> Any:
        check_start(room)
        return getattr(importlib.import_module(f"bayesrank.cli.{at or name}"), name)(**given)

    return _Command(name, callback=start, params=parameters, help=help_of(name))


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
    return option(name, Whole(min=least), default=default, metavar="N")


def level() -> Option:
    """Declare a probability."""
    between = Real(0, 1, min_open=True, max_open=True)
    return option("--level", between, default=0.9, metavar="P")


OUT = file("--out", "bayesrank-out", metavar="FOLDER")
SEED = option("--seed", _Seed(), default=0)
QUIET = option("--quiet -q", is_flag=True)
