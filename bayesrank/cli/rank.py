"""The commands `rank` and `demo`: comparisons in; a ranking, its checks, and files out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesrank._names import shown
from bayesrank.cli import command

if TYPE_CHECKING:
    from bayesrank.datasets import ColumnNames, ComparisonData

_CHOICES = ("integrate", "map", "prior")
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
    "category": "Column of the category: items have a skill in each.",
    "time": "Let skills move with time, which this column holds (numbers, or dates such as "
    "2024-05-31), and rank the items as of its last entry.",
    "weight": "Column of how often a row counts.",
}
_LEFT_OUT = {
    "judges": ("judge", "judges"),
    "categories": ("category", "categories"),
    "position": ("home", "the position (who was shown first or at home)"),
}


_RANK_HELP = """\
Rank the items of your own COMPARISONS file.

COMPARISONS is comma-separated UTF-8 text with a header, JSON lines (.jsonl) or Parquet (.parquet);
text may be compressed (.gz). Each row is a comparison; a row may be repeated, and counts again. One
of these layouts is recognised:

\b
  winner,loser                        and perhaps tie, with 1 where the two were judged equal
  model_a,model_b,winner              model_a, model_b, tie, both_bad, or the winner's name
  item_a,item_b,preference            also "A is much better", or numbers from -2 to 2
  home,away,home_score,away_score     and perhaps neutral
  order                               a > b = c

Or a PrefLib file (.soc, .soi, .toc, .toi). Columns judge, category or group, and weight or count
are used where they are; options name columns that are called otherwise. The smallest file:

\b
  winner,loser
  Espresso,Filter
  Filter,Instant

The file of --items has a column item (or name) first, and one numeric column a feature.

\b
  item,price,strength
  Espresso,2.5,9
  Filter,1.8,5
  Instant,0.4,4

What is wrong with a file is said in one line, with exit code 2, and nothing is written.
"""

_DEMO_NOTE = (
    "Mind where the numbers come from: travellers reported the hours and fares of the trips they "
    "took, and those of the others were computed. Part of what looks like taste is that difference."
)


_FRAME = command.options(
    command.out,
    command.rows(15, 0, "Rows of the printed table, from the top and the bottom; 0 prints all."),
    command.seed("Seed of everything random; the same seed gives the same results."),
    click.option(
        "--crosscheck",
        type=click.Choice(["quick", "full", "none"]),
        default="quick",
        help="Compare the fast fit with simulation (NUTS), after the table: for 20 seconds at "
        "most (quick), as long as it takes (full), or not (none).",
    ),
    click.option("--no-crosscheck", "crosscheck", flag_value="none", help="The same as none."),
    click.option(
        "--elo",
        is_flag=True,
        help="Show skills on the scale of chess and arenas: 400 points are odds of ten to one, "
        "and the average item has 1500.",
    ),
    command.quiet(),
)


@click.command()
@_FRAME
def demo(**options: Any) -> None:
    """Rank real trips by how people chose to travel (data that come with the package).

    210 people chose one of four trips, by air, train, bus or car. The program learns how mode,
    hours and fare make a trip worth taking, and ranks the 139 different trips.
    """
    from bayesrank.cli.pipeline import Settings, run
    from bayesrank.datasets import load_modechoice

    run(load_modechoice(), Settings(**options, notes=(_DEMO_NOTE,)))


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
                f"{part!r} is no value; give {', '.join(_CHOICES)}, or values as in scale=1.5"
            )
        values[name.strip()] = value if len(value) > 1 else value[0]
    return values


@click.command(help=_RANK_HELP)
@click.argument("comparisons", type=command.FILE)
@click.option(
    "--items",
    type=command.FILE,
    metavar="FILE",
    help="Features of the items; without it, each item's skill is learned by itself.",
)
@click.option(
    "--hyperparameters",
    default="integrate",
    metavar="CHOICE",
    callback=lambda context, option, text: _hyperparameters(text),
    help="Scales of the model: integrate (average over them), map (the most probable), prior "
    "(the usual ones), or values, as in scale=1.5,tie_width=0.3.",
)
@command.options(
    *(click.option(f"--{n}", metavar="COLUMN", help=text) for n, text in _COLUMNS.items())
)
@click.option(
    "--ignore", metavar="COLUMN", multiple=True, help="Column not to use; may be repeated."
)
@click.option(
    "--positive",
    type=click.Choice(["first", "second"]),
    default="first",
    help="Of outcomes that are numbers around 0, the side that those above 0 are for.",
)
@click.option(
    "--home/--no-home",
    default=None,
    help="Learn what being shown first, or playing at home, is worth. By default it is "
    "learned where the file says who was.",
)
@click.option(
    "--by-category",
    is_flag=True,
    help="Rank the items in each category as well.",
)
@_FRAME
def rank(comparisons: Path, items: Path | None, home: bool | None, **options: Any) -> None:
    """Read the files, then do the main job on them."""
    from bayesrank.cli.categories import refuse_no_categories
    from bayesrank.cli.pipeline import Settings, run
    from bayesrank.datasets import ColumnNames, read_comparisons

    inputs = (comparisons,) if items is None else (comparisons, items)
    named = {name.replace("-", "_") for name in _COLUMNS} | {"ignore", "positive"}
    names = ColumnNames(**{name: options.pop(name) for name in named})
    if items is not None and names.time is not None:
        raise click.UsageError("Skills of features stand still; leave out --items or --time.")
    data = read_comparisons(comparisons, items, columns=names)
    data = _settled(data, names, home)
    if options["by_category"]:
        refuse_no_categories(data)
    run(data, Settings(**options, inputs=inputs, notes=data.notes))


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
    for sentence in data.overlooked:
        click.echo(f"Warning: {shown(sentence)}", err=True)
    if other is None:
        return data
    asked = {"judges": names.judge, "categories": names.category, "position": home}
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
