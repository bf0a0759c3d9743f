"""The commands `rank` and `demo`: comparisons in; a ranking, its checks, and files out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank._memory import FITS
from bayesrank._names import meant, shown
from bayesrank.cli.command import OUT, QUIET, SEED, choice, command, count, file, level, option, say

if TYPE_CHECKING:
    from bayesrank.datasets import ColumnNames, ComparisonData

_CHOICES = ("integrate", "map", "prior")
_COLUMNS = (
    *("winner", "loser", "tie", "first", "second", "outcome", "first-score", "second-score"),
    *("order", "judge", "category", "time", "weight"),
)
_READING = {"ignore", "positive", "outcome_codes", "date_format", "fold_names"}
_LEFT_OUT = {
    "judges": ("judge", "judges"),
    "categories": ("category", "categories"),
    "position": ("home", "the position (who was shown first or at home)"),
}
_FRAME = (
    count("--rows", 15, least=0),
    SEED,
    choice("--crosscheck", "quick", "full", "none"),
    option("--no-crosscheck crosscheck", flag_value="none"),
    option("--elo", is_flag=True),
    choice("--save", "report", "all"),
    option("--force", is_flag=True),
    option("--title", default=""),
    level(),
    option("--anchor", metavar="NAME=POINTS", callback=lambda context, option, text: _anchor(text)),
    choice("--format", "table", "csv", "json"),
    option("--dry-run", is_flag=True),
    option("--verbose -v", is_flag=True),
    QUIET,
)


def _anchor(text: str | None) -> tuple[str, float] | None:
    """Read an item and its Elo points, as in ``gpt-4=1000``."""
    if text is None:
        return None
    name, _, points = text.rpartition("=")
    try:
        number = float(points)
    except ValueError:
        number = math.nan
    if not name or not math.isfinite(number):
        raise click.BadParameter(f"{text!r} is not a name and a number; write NAME=1000")
    return name, number


@command("demo", file("--out", "bayesrank-demo", metavar="FOLDER"), *_FRAME, room=FITS)
def demo(**options: Any) -> None:
    """Do the main job on results that come with the package."""
    from bayesrank.datasets import load_nfl

    _run(load_nfl(), options | {"title": options["title"] or "NFL season 2018"})


def _run(data: ComparisonData, options: dict[str, Any]) -> None:
    """Do the main job, or say what was read."""
    from bayesrank.cli.pipeline import Settings, dry_run, run

    anchor = options["anchor"]
    if anchor is not None and anchor[0] not in data.names:
        fix = meant(anchor[0], data.names, "name an item of the file")
        raise click.UsageError(f"--anchor: unknown item {anchor[0]!r}; {fix}")
    if options.pop("dry_run"):
        for line in dry_run(data).splitlines():
            click.echo(shown(line))
    else:
        run(data, Settings(**options, command=str(click.get_current_context().obj)))


def _hyperparameters(text: str) -> str | dict[str, list[float] | float]:
    """Read a choice, or values: ``name=1.5,other=1 2`` has the vector 1, 2."""
    if text in _CHOICES:
        return text
    values: dict[str, list[float] | float] = {}
    for part in text.split(","):
        name, given, numbers = part.partition("=")
        try:
            value = [float(number) for number in numbers.split()]
        except ValueError:
            value = []
        if not (given and name.strip() and value):
            raise click.BadParameter(
                f"{part!r} is not a value; give {', '.join(_CHOICES)}, or values as in scale=1.5"
            )
        values[name.strip()] = value if len(value) > 1 else value[0]
    return values


@command(
    "rank",
    "comparisons",
    file("--items"),
    option(
        "--hyperparameters",
        default="integrate",
        metavar="CHOICE",
        callback=lambda context, option, text: _hyperparameters(text),
    ),
    *(option(f"--{name}", metavar="COLUMN") for name in _COLUMNS),
    option("--ignore", metavar="COLUMN", multiple=True),
    choice("--positive", "first", "second"),
    option(
        "--outcome-codes",
        metavar="FIRST,SECOND[,TIE]",
        default="",
        callback=lambda context, option, text: tuple(text.split(",")) if text else (),
    ),
    option("--date-format", metavar="FORMAT"),
    option("--fold-names", is_flag=True),
    option("--home/--no-home", default=None),
    option("--by-category", is_flag=True),
    OUT,
    *_FRAME,
    room=FITS,
)
def rank(comparisons: Path, items: Path | None, home: bool | None, **options: Any) -> None:
    """Read the files, then do the main job on them."""
    from bayesrank.datasets import ColumnNames, read_comparisons

    inputs = (comparisons,) if items is None else (comparisons, items)
    named = {name.replace("-", "_") for name in _COLUMNS} | _READING
    names = ColumnNames(**{name: options.pop(name) for name in named})
    if items is not None and names.time is not None:
        raise click.UsageError("Skills of features stand still; leave out --items or --time.")
    data = read_comparisons(comparisons, items, columns=names)
    data = _settled(data, names, home)
    if options["by_category"]:
        _refuse_no_categories(data)
    _run(data, options | {"inputs": inputs, "notes": data.notes})


def _settled(data: ComparisonData, names: ColumnNames, home: bool | None) -> ComparisonData:
    """Leave out what the model does not take, and warn of it, unless it was asked for."""
    if home and data.position is None:
        raise click.UsageError(
            "--home needs a file that says who was first or at home; name the two columns with "
            "--first and --second."
        )
    if home is False:
        data = replace(data, position=None)
    other = "--time" if data.times is not None else "--items" if data.features is not None else None
    for sentence in data.unused_column_hints:
        say(f"Warning: {sentence}")
    if other is None:
        return data
    asked = {"judges": names.judge, "categories": names.category, "position": home}
    for field, (named, what) in _LEFT_OUT.items():
        if getattr(data, field) is None:
            continue
        if asked[field]:
            raise click.UsageError(f"--{named} does not go with {other}; leave one of them out.")
        quiet = "--no-home" if named == "home" else "--ignore and the column's name"
        say(f"Warning: with {other}, {what} in the file are not used (silence with {quiet}).")
        data = replace(data, **{field: None})
    return data


def _refuse_no_categories(data: ComparisonData) -> None:
    """Refuse to rank by category where there are no categories, or one."""
    other = "--time" if data.times is not None else "--items" if data.features is not None else None
    if other is not None:
        raise click.UsageError(f"--by-category does not go with {other}; leave one of them out.")
    if data.orders is not None:
        raise click.UsageError("--by-category: orders have no categories; leave it out.")
    if data.categories is None:
        raise click.UsageError(
            "--by-category: no column of the file is read as categories; name it with --category."
        )
    if len(data.category_names) == 1:
        raise click.UsageError(
            f"--by-category: all comparisons are of one category ({data.category_names[0]}), and "
            "its ranking is the one of all; leave out --by-category."
        )
