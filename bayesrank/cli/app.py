"""The command line as a whole: which commands there are, and how each ends."""

import errno
import io
import os
import re
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from bayesrank._names import shown
from bayesrank._version import __version__
from bayesrank.cli.commands import help_of
from bayesrank.cli.compiled import forgets_damaged_code, reuse_compiled_code, silence_compiler
from bayesrank.cli.interrupt import Interrupted, kept, look

_OUTPUT_LOST = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
_GROUPS = {
    "Rank": ("rank", "compare", "demo"),
    "Collect": ("suggest", "ask"),
    "Predict": ("predict", "rate"),
}
_COMMANDS = tuple(name for names in _GROUPS.values() for name in names)


class _Commands(click.Group):
    """Declares commands when one is named, and shows all of them in groups."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        from bayesrank.cli import commands

        return getattr(commands, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; a file in its place is answered with the command for it."""
        if args[0] not in _COMMANDS and Path(args[0]).is_file():
            call = shlex.join(["bayesrank", _command_for(Path(args[0])), args[0]])
            _fail(f"{args[0]} is a file, not a command. Run: {call}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands by what they are for, without loading them."""
        for group, names in _GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, help_of(name).splitlines()[0]) for name in names])


def _command_for(path: Path) -> str:
    """The command that reads a file, by the names of its columns."""
    from bayesrank.datasets.layouts import ITEMS, RATINGS  # loads NumPy
    from bayesrank.datasets.table import plain_key

    with path.open("rb") as file:
        head = file.readline(10_000).decode("utf-8-sig", errors="replace").strip()
    columns = [plain_key(name.strip('"')) for name in re.split(r"[,;\t|]", head)]
    for command, layout, own in (("rate", RATINGS, columns), ("ask", ITEMS, columns[:1])):
        usual = ({*map(plain_key, role.usual)} for role in layout.roles.values())
        if all(names.intersection(own) for names in usual):
            return command
    return "rank"


@click.group(cls=_Commands, context_settings=_HELP, help=help_of("bayesrank"))
@click.version_option(__version__, prog_name="bayesrank")
def cli() -> None:
    """Do what a command says."""


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a name shows "?"
    try:
        look()
        silence_compiler()
        reuse_compiled_code()
        with warnings.catch_warnings():
            warnings.showwarning = _say
            given = list(sys.argv[1:] if args is None else args)
            call = shlex.join(["bayesrank", *given])
            code = cli.main(args=given, standalone_mode=False, obj=call)
        look()  # whoever was told to end, and came to the end, says so
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "bayesrank"
        problem = error.format_message().rstrip(".")
        end = "" if problem.endswith("?") else "."
        _fail(f"{problem}{end} See `{where} --help`.")
    except (click.Abort, KeyboardInterrupt):
        _fail(f"Interrupted; {kept()}.", code=130)
    except Interrupted as error:
        _fail(f"Interrupted; {kept()}.", code=error.code)
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and "failed to map" not in str(error):
            raise
        reason = f" ({error})" if str(error) else ""
        _fail(f"Memory ran out{reason}; {kept()}. Give less data.")
    except OSError as error:
        if error.errno not in _OUTPUT_LOST or error.filename is not None:
            raise
        _give_up_output(error)
    except Exception as error:
        _refuse(error)
    sys.exit(code if isinstance(code, int) else 0)


def say(text: str) -> None:
    """Print a sentence on standard error, folded between words at a terminal."""
    text = shown(" ".join(text.split()))
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    click.echo(text, err=True)


def _say(message: Warning | str, *place: Any) -> None:
    """Show a warning as one line, without the place in the source."""
    if forgets_damaged_code(str(message)):
        return
    say(f"Note: {message}")


def _refuse(error: Exception) -> NoReturn:
    """Exit where an error says in one line what cannot be used, and what to do; else raise it."""
    from bayesrank._memory import TooLargeError
    from bayesrank.cli.outputs import OutputError, PrintError

    if isinstance(error, TooLargeError | OutputError):
        _fail(str(error))
    if isinstance(error, PrintError):
        if error.error.errno == errno.EPIPE:
            say(f"Error: The output was not read to its end; {kept()}.")
        _give_up_output(error.error)
    from bayesrank.datasets.errors import DataError  # loads NumPy

    if not isinstance(error, DataError):
        raise error
    _fail(str(error))


def _give_up_output(error: OSError) -> NoReturn:
    """Exit when nobody reads what is printed, as after `| head`, or it cannot be written."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is left over is flushed at the exit
    if error.errno == errno.EPIPE:
        sys.exit(1)
    _fail(f"The output cannot be written ({error.strerror}).")


def _fail(message: str, code: int = 2) -> NoReturn:
    """Say in one line what is wrong, and exit."""
    say(f"Error: {message}")
    sys.exit(code)
