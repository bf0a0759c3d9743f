"""All commands: their files and options. What they do loads when they are called."""

import importlib
import math
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from bayesrank._memory import FITS, PREDICTS, check_start

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


def level(usual: float = 0.9) -> Option:
    """Declare a probability."""
    between = Real(0, 1, min_open=True, max_open=True)
    return option("--level", between, default=usual, metavar="P")


OUT = file("--out", "bayesrank-out", metavar="FOLDER")
SEED = option("--seed", _Seed(), default=0)
QUIET = option("--quiet -q", is_flag=True)


_HYPERPARAMETERS = ("integrate", "map", "prior")
_COLUMNS = (
    *("winner", "loser", "tie", "first", "second", "outcome", "first-score", "second-score"),
    *("order", "judge", "category", "time", "weight"),
)


def _anchor(context: Any, option: Any, texts: tuple[str, ...]) -> dict[str, Any] | None:
    """Read items and their Elo points with errors, as in ``gpt-4=1250+-10``."""
    anchors: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, _, said = text.rpartition("=")
        points, _, error = said.replace("±", "+-").partition("+-")
        try:
            numbers = float(points), float(error or 0.0)
        except ValueError:
            numbers = math.nan, 0.0
        if not name or not all(map(math.isfinite, numbers)) or numbers[1] < 0:
            fix = "write NAME=1000, or NAME=1250+-10 for an error of 10"
            raise click.BadParameter(f"{text!r} is not a name and a number; {fix}")
        if name in anchors:
            raise click.BadParameter(f"{name!r} is given twice; leave one of them")
        anchors[name] = numbers
    return anchors or None


def _hyperparameters(context: Any, option: Any, text: str) -> str | dict[str, list[float] | float]:
    """Read a choice, or values: ``name=1.5,other=1 2`` has the vector 1, 2."""
    if text in _HYPERPARAMETERS:
        return text
    values: dict[str, list[float] | float] = {}
    for part in text.split(","):
        name, given, numbers = part.partition("=")
        try:
            value = [float(number) for number in numbers.split()]
        except ValueError:
            value = []
        if not (given and name.strip() and value):
            ways = ", ".join(_HYPERPARAMETERS)
            raise click.BadParameter(
                f"{part!r} is not a value; give {ways}, or values as in scale=1.5"
            )
        values[name.strip()] = value if len(value) > 1 else value[0]
    return values


def _codes(context: Any, option: Any, text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _finite(context: Any, option: Any, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


_MAIN_JOB = (
    count("--rows", 15, least=0),
    SEED,
    choice("--crosscheck", "quick", "full", "none"),
    option("--elo", is_flag=True),
    choice("--save", "report", "all"),
    option("--force", is_flag=True),
    option("--title", default=""),
    level(),
    option("--anchor", metavar="NAME=POINTS", multiple=True, callback=_anchor),
    choice("--format", "table", "csv", "json"),
    option("--dry-run", is_flag=True),
    option("--verbose -v", is_flag=True),
    QUIET,
)
demo = command(
    "demo", file("--out", "bayesrank-demo", metavar="FOLDER"), *_MAIN_JOB, at="rank", room=FITS
)
rank = command(
    "rank",
    "comparisons",
    file("--items"),
    option("--hyperparameters", default="integrate", metavar="CHOICE", callback=_hyperparameters),
    *(option(f"--{name}", metavar="COLUMN") for name in _COLUMNS),
    option("--covariate covariates", metavar="NAME", multiple=True),
    option("--ignore", metavar="COLUMN", multiple=True),
    choice("--positive", "first", "second"),
    option("--scores", click.Choice(["solved", "grade", "number", "none"])),
    option("--outcome-codes", metavar="FIRST,SECOND[,TIE]", default="", callback=_codes),
    option("--date-format", metavar="FORMAT"),
    option("--at", metavar="TIME"),
    option("--fold-names", is_flag=True),
    option("--home/--no-home", default=None),
    option("--by-category", is_flag=True),
    choice("--overall", "average", "unseen"),
    OUT,
    *_MAIN_JOB,
    room=FITS,
)
compare = command("compare", "results", "first!", "second!", level(), at="results")
suggest = command("suggest", "results", count("-n number", 10), file("--out", "-"), at="results")
predict = command(
    *("predict", "results", "pairs?", file("--items"), file("--out", "-"), file("--skills")),
    at="results",
)
ask = command(
    "ask",
    "items",
    file("--journal", "answers.jsonl"),
    option("--judge", metavar="NAME"),
    option("--question", default="Which is better?"),
    count("--top", 3),
    level(0.95),
    option("--min-gain", Real(0, min_open=True), metavar="NATS"),
    option("--retire", multiple=True, metavar="NAME"),
    option("--restore", multiple=True, metavar="NAME"),
    file("--export"),
    SEED,
)
rate = command(
    "rate",
    "ratings",
    file("--items"),
    count("--levels", least=2),
    count("--top", 10),
    option("--strength", Real(min=0), callback=_finite),
    count("--iterations", 200),
    OUT,
    count("--rows", 10),
    QUIET,
    room=FITS,
)
