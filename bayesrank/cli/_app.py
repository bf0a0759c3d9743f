"""Commands, options and exit codes. Heavy libraries load only once there is work to do."""

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from bayesrank._names import shown
from bayesrank._version import __version__
from bayesrank.cli._ask import ask
from bayesrank.cli._by import refuse_other_column
from bayesrank.cli._columns import column_names, column_options, settled
from bayesrank.cli._crosscheck import CHOICES
from bayesrank.cli._evaluate import evaluate
from bayesrank.cli._interrupt import Interrupted, kept, look
from bayesrank.cli._labels import labels
from bayesrank.cli._learn import learn
from bayesrank.cli._output import OutputError
from bayesrank.cli._predict import predict
from bayesrank.cli._rate import rate
from bayesrank.cli._search import search
from bayesrank.cli._settings import Settings
from bayesrank.cli._stream import stream_command

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OUTPUT_LOST = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_CHOICES = ("integrate", "maximum", "prior")
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

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

Or a PrefLib file (.soc, .soi, .toc, .toi). Columns judge, group or category, and weight or count
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


class _DemoByDefault(click.Group):
    """Runs `demo` where no command is named, with the options given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {option for param in self.get_params(ctx) for option in param.opts}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["demo", *args]
        return super().parse_args(ctx, args)


def _common_options(command: _Command) -> _Command:
    """Add the options that every command takes."""
    options = [
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            default=Path("bayesrank-out"),
            show_default=True,
            metavar="FOLDER",
            help="Where the results go. Results of an earlier run are replaced.",
        ),
        click.option(
            "--rows",
            type=click.IntRange(min=0),
            default=15,
            show_default=True,
            help="Rows of the printed table, from the top and the bottom; 0 prints all.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=0,
            show_default=True,
            help="Seed of everything random; the same seed gives the same results.",
        ),
        click.option(
            "--crosscheck",
            type=click.Choice(CHOICES),
            default="quick",
            show_default=True,
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
        click.option(
            "--quiet", is_flag=True, help="Show no progress, only the table and any warnings."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=_DemoByDefault, context_settings=_HELP)
@click.version_option(__version__, prog_name="bayesrank")
def cli() -> None:
    """Rank items from comparisons, with honest uncertainty.

    With no command it runs `demo`: the whole job on data that come with the package. Results are
    printed as a table, and written as ranking.csv, posterior.nc (NetCDF, for ArviZ) and PNG plots.
    """


@cli.command()
@_common_options
def demo(**options: Any) -> None:
    """Rank real trips by how people chose to travel (data that come with the package).

    210 people chose one of four trips, by air, train, bus or car. The program learns how mode,
    hours and fare make a trip worth taking, and ranks the 139 different trips.
    """
    from bayesrank.cli.pipeline import run
    from bayesrank.datasets import load_modechoice

    run(load_modechoice(), Settings(**options, notes=(_DEMO_NOTE,)))


@cli.command(help=_RANK_HELP)
@click.argument("comparisons", type=click.Path(path_type=Path))
@click.option(
    "--items",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Features of the items; without it, each item's skill is learned by itself.",
)
@click.option(
    "--hyperparameters",
    default="integrate",
    show_default=True,
    metavar="CHOICE",
    callback=lambda context, option, text: _hyperparameters(text),
    help="Scales of the model: integrate (average over them), maximum (the most probable), prior "
    "(the usual ones), or values, as in scale=1.5,tie_width=0.3.",
)
@column_options
@click.option(
    "--by",
    metavar="COLUMN",
    help="Rank the items in each category of this column as well: the one that holds the "
    "categories (group, category, or that of --group).",
)
@_common_options
def rank(comparisons: Path, items: Path | None, home: bool | None, **options: Any) -> None:
    """Read the files, then do the main job on them."""
    from bayesrank.cli._room import refuse_large_ranking
    from bayesrank.cli.pipeline import run
    from bayesrank.datasets import read_comparisons

    inputs = (comparisons,) if items is None else (comparisons, items)
    names = column_names(options)
    if items is not None and names.time is not None:
        raise click.UsageError("Skills of features stand still; leave out --items or --time.")
    data = read_comparisons(comparisons, items, columns=names)
    data = settled(data, names, home, data.features is not None)
    refuse_other_column(data, options["by"])
    refuse_large_ranking(comparisons, data)
    run(data, Settings(**options, inputs=inputs, notes=data.notes))


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


cli.add_command(ask)
cli.add_command(evaluate)
cli.add_command(labels)
cli.add_command(learn)
cli.add_command(predict)
cli.add_command(rate)
cli.add_command(search)
cli.add_command(stream_command)


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    args
        Arguments; those of the process if not given.
    """
    from bayesrank._memory import TooLargeError
    from bayesrank.datasets import DataError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a name shows "?"
    try:
        look()
        code = cli.main(args=args, standalone_mode=False)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "bayesrank"
        _fail(f"{error.format_message()} See `{where} --help`.")
    except (DataError, OutputError, TooLargeError) as error:
        _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        _fail(f"Interrupted; {kept()}.", code=130)
    except Interrupted as error:
        _fail(f"Interrupted; {kept()}.", code=error.code)
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        _fail(f"Memory ran out{reason}; {kept()}. Give less data.")
    except OSError as error:
        if error.errno not in _OUTPUT_LOST or error.filename is not None:
            raise
        _give_up_output(error)
    sys.exit(code if isinstance(code, int) else 0)


def _give_up_output(error: OSError) -> NoReturn:
    """Exit when nobody reads what is printed, as after `| head`, or it cannot be written."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is left over is flushed at the exit
    if error.errno == errno.EPIPE:
        sys.exit(1)
    _fail(f"What is to be printed cannot be written ({error.strerror}).")


def _fail(message: str, code: int = 2) -> NoReturn:
    """Say in one line what is wrong, and exit."""
    click.echo(f"Error: {shown(' '.join(message.split()))}", err=True)
    sys.exit(code)
