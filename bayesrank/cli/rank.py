"""The commands `rank` and `demo`: comparisons in; a ranking, its checks, and files out."""

import math
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from bayesrank._names import meant, shown
from bayesrank.cli.app import say
from bayesrank.cli.pipeline import Settings, dry_run, rank_and_write
from bayesrank.cli.progress import Steps
from bayesrank.cli.scores import refuse_options
from bayesrank.cli.words import moment
from bayesrank.datasets import ColumnNames, ComparisonData, load_nfl, read_comparisons
from bayesrank.datasets.counted import is_counted


def demo(**options: Any) -> None:
    """Do the main job on results that come with the package."""
    _run(load_nfl(), options | {"title": options["title"] or "NFL season 2018"})


def _run(data: ComparisonData, options: dict[str, Any]) -> None:
    """Do the main job, or say what was read."""
    unknown = next((name for name in options["anchor"] or () if name not in data.names), None)
    if unknown is not None:
        fix = meant(unknown, data.names, "name an item of the file")
        raise click.UsageError(f"--anchor: unknown item {unknown!r}; {fix}")
    if options.pop("dry_run"):
        for line in dry_run(data).splitlines():
            click.echo(shown(line))
    else:
        rank_and_write(data, Settings(**options, command=str(click.get_current_context().obj)))


def rank(comparisons: Path, items: Path | None, home: bool | None, **options: Any) -> None:
    """Read the files, then do the main job on them."""
    inputs = (comparisons,) if items is None else (comparisons, items)
    names = ColumnNames(**{each.name: options.pop(each.name) for each in fields(ColumnNames)})
    if items is not None and names.time is not None:
        raise click.UsageError("Skills of features stand still; leave out --items or --time.")
    data = _read(comparisons, items, names, options["quiet"])
    if data.scores is not None:
        refuse_options(options | {"home": home})
    if options["at"] is not None:
        options["at"] = _moment(options["at"], data, names.date_format)
    data = _settled(data, names, home)
    if options["by_category"]:
        _refuse_no_categories(data, "--by-category")
    if options["overall"] == "unseen":
        _refuse_no_categories(data, "--overall unseen")
    _run(data, options | {"inputs": inputs, "notes": data.notes})


def _read(comparisons: Path, items: Path | None, names: ColumnNames, quiet: bool) -> ComparisonData:
    """Read the files; files that are counted show how much of them is done."""
    if not is_counted(comparisons):
        return read_comparisons(comparisons, items, columns=names)
    steps = Steps(Console(stderr=True), quiet=quiet)
    with steps.running(), steps.step("Counting the rows (DuckDB)") as advance:
        return read_comparisons(comparisons, items, columns=names, callback=advance)


def _settled(data: ComparisonData, names: ColumnNames, home: bool | None) -> ComparisonData:
    """Leave out what the model does not take, and warn of it, unless it was asked for."""
    if home and data.position is None:
        raise click.UsageError(
            "--home needs a file that says who was first or at home, and in which both sides "
            "win; name the two columns with --first and --second."
        )
    if home is False:
        data = replace(data, position=None)
    other = "--time" if data.times is not None else "--items" if data.features is not None else None
    for sentence in data.unused_column_hints:
        say(f"Warning: {sentence}")
    if other is None or data.judges is None:
        return data
    if names.judge:
        raise click.UsageError(f"--judge does not go with {other} yet; leave one of them out.")
    say(
        f"Warning: with {other}, judges in the file are not used yet (silence with --ignore and "
        "the column's name)."
    )
    return replace(data, judges=None, judge_names=())


def _moment(text: str, data: ComparisonData, date_format: str | None) -> Any:
    """Read a time as the file has them, from the first comparison on."""
    if data.times is None:
        raise click.UsageError(
            "--at: the file has no times; name the column that says when comparisons were with "
            "--time."
        )
    dates, date = data.times.dtype.kind == "M", None
    kind = "date as in 2024-05-31" if date_format is None else f"date written as {date_format!r}"
    try:
        if not dates:
            kind, at = "number, as times in the file are", float(text)
        elif date_format is None:
            at = date = datetime.fromisoformat(text)
        else:
            at = date = datetime.strptime(text, date_format)
    except ValueError:
        at = math.nan
    if at != at or (date is not None and date.tzinfo is not None):
        raise click.UsageError(f"--at: {text!r} is not a {kind}; write it so.")
    at = np.datetime64(date) if dates else at
    if at < data.times.min():
        raise click.UsageError(
            f"--at: {text} is before the first comparison; give {moment(data.times.min())} or a "
            "later time."
        )
    return at


def _refuse_no_categories(data: ComparisonData, option: str) -> None:
    """Refuse an option of categories where there are no categories, or one."""
    if data.orders is not None:
        raise click.UsageError(f"{option}: orders have no categories; leave it out.")
    if data.categories is None:
        raise click.UsageError(
            f"{option}: no column of the file is read as categories; name it with --category."
        )
    if len(data.category_names) == 1:
        raise click.UsageError(
            f"{option}: all comparisons are of one category ({data.category_names[0]}), and its "
            f"ranking is the one of all; leave out {option}."
        )
