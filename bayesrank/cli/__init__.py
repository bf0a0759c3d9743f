"""The command line, ``python -m bayesrank``: comparisons in, a ranking with uncertainty out."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from bayesrank.cli.interrupt import watched

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    With 0 if all went well, 2 if the input cannot be used, 130 after Ctrl-C and 143 if told to end.

    Parameters
    ----------
    args
        Arguments; those of the process if not given, which is then taken to end.
    """
    try:
        with watched(to_the_end=args is None):
            from bayesrank.cli.app import run

            run(args)
    except KeyboardInterrupt:  # before it was watched for
        sys.stderr.write("Error: Interrupted; nothing was written.\n")
        sys.exit(130)
