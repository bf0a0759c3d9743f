"""Options of `rank` that say what the columns of a file are."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayesrank._names import shown

if TYPE_CHECKING:
    from bayesrank.datasets import ColumnNames, ComparisonData

_Command = TypeVar("_Command", bound=Callable[..., Any])
_COLUMNS = {
    "winner": "Column of the items that won, or of what says which side did.",
    "loser": "Column of the items that lost.",
    "tie": "Column with 1 where the two were judged equal.",
    "first": "Column of the items shown first or at home.",
    "second": "Column of the items shown second or away.",
    "outcome": "Column that says which side won: words, names or numbers.",
    "first-score": "Column of the points of the first side.",
    "second-score": "Column of the points of the second side.",
    "order": "Column of orders, such as a > b = c.",
    "judge": "Column of who compared: each has an order bias and a reliability.",
    "group": "Column of the category: items have a skill in each.",
    "time": "Let skills move with time, which this column holds (numbers, or dates such as "
    "2024-05-31), and rank the items as of its last entry.",
    "weight": "Column of how often a row counts.",
}
_LEFT_OUT = {
    "judges": ("judge", "judges"),
    "groups": ("group", "categories"),
    "position": ("home", "the position (who was shown first or at home)"),
}


def column_options(command: _Command) -> _Command:
    """Add the options that say what the columns are."""
    options = [
        click.option(f"--{name}", metavar="COLUMN", help=text) for name, text in _COLUMNS.items()
    ]
    options += [
        click.option(
            "--ignore", metavar="COLUMN", multiple=True, help="Column not to use; may be repeated."
        ),
        click.option(
            "--positive",
            type=click.Choice(["first", "second"]),
            default="first",
            show_default=True,
            help="Of outcomes that are numbers around 0, the side that those above 0 are for.",
        ),
        click.option(
            "--home/--no-home",
            default=None,
            help="Learn what being shown first, or playing at home, is worth. By default it is "
            "learned where the file says who was.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def column_names(options: dict[str, Any]) -> "ColumnNames":
    """Take the columns out of the options of the command."""
    from bayesrank.datasets import ColumnNames

    named = {name.replace("-", "_"): options.pop(name.replace("-", "_")) for name in _COLUMNS}
    return ColumnNames(
        **named, ignore=tuple(options.pop("ignore")), positive=options.pop("positive")
    )


def settled(
    data: "ComparisonData", names: "ColumnNames", home: bool | None, features: bool
) -> "ComparisonData":
    """Leave out what the model does not take, and warn of it, unless it was asked for.

    Parameters
    ----------
    data
        The comparisons as the file has them.
    names
        The columns that were named.
    home
        Whether the position is to be learned; None if nothing was said.
    features
        Whether the items have features.

    Raises
    ------
    click.UsageError
        If options were given that do not go together.
    """
    if home and data.position is None:
        raise click.UsageError(
            "--home needs a file that says who was first or at home; name the two columns with "
            "--first and --second."
        )
    if home is False:
        data = replace(data, position=None)
    other = "--time" if data.times is not None else "--items" if features else None
    for sentence in data.overlooked:
        click.echo(f"Warning: {shown(sentence)}", err=True)
    if other is None:
        return data
    asked = {"judges": names.judge, "groups": names.group, "position": home}
    for field, (option, what) in _LEFT_OUT.items():
        if getattr(data, field) is None:
            continue
        if asked[field]:
            raise click.UsageError(f"--{option} does not go with {other}; leave one of them out.")
        quiet = "--no-home" if option == "home" else "--ignore and the column's name"
        click.echo(
            f"Warning: with {other}, {what} in the file are not used ({quiet} leaves this out).",
            err=True,
        )
        data = replace(data, **{field: None})
    return data


def is_log(data: "ComparisonData") -> bool:
    """Whether there are positions, judges or categories to learn of."""
    return any(part is not None for part in (data.position, data.judges, data.groups))
