"""All commands: their files and options. What they do loads when they are called."""

import math
from typing import Any

import click

from bayesrank._memory import FITS
from bayesrank.cli.options import (
    OUT,
    QUIET,
    SEED,
    Real,
    choice,
    command,
    count,
    file,
    level,
    option,
)

_HYPERPARAMETERS = ("integrate", "map", "prior")
_COLUMNS = (
    *("winner", "loser", "tie", "first", "second", "outcome", "first-score", "second-score"),
    *("order", "judge", "category", "time", "weight"),
)


def _number(text: str) -> float:
    """The finite number that a text holds, or NaN."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _anchor(context: Any, option: Any, texts: tuple[str, ...]) -> tuple[str, float] | None:
    """Read an item and its Elo points, as in ``gpt-4=1000``."""
    if len(texts) > 1:
        raise click.BadParameter(f"{len(texts)} anchors are given; leave one of them")
    for text in texts:
        name, _, points = text.rpartition("=")
        if name and not math.isnan(_number(points)):
            return name, _number(points)
        raise click.BadParameter(f"{text!r} is not a name and a number; write NAME=1000")
    return None


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
    option("--ignore", metavar="COLUMN", multiple=True),
    choice("--positive", "first", "second"),
    option("--outcome-codes", metavar="FIRST,SECOND[,TIE]", default="", callback=_codes),
    option("--date-format", metavar="FORMAT"),
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
    "predict", "results", "pairs?", file("--items"), file("--out", "-"), file("--skills")
)
ask = command(
    "ask",
    "items",
    file("--journal", "answers.jsonl"),
    option("--judge", metavar="NAME"),
    option("--question", default="Which is better?"),
    count("--top", 3),
    level(),
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
