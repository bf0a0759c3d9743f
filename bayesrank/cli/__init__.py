"""The command line, ``python -m bayesrank``: comparisons in, a ranking with uncertainty out."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from bayesrank.cli.interrupt import watched

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    The exit code is 0 if all went well, 2 if the input cannot be used, 130 after Ctrl-C and 143
    after SIGTERM. Without `args` those of the process are taken, which then ends.
    """
    _open_closed_streams()
    try:
        with watched(to_the_end=args is None):
            from bayesrank.cli.app import run

            run(args)
    except KeyboardInterrupt:  # before it was watched for
        sys.stderr.write("Error: Interrupted; nothing was written.\n")
        sys.exit(130)


def _open_closed_streams() -> None:
    """Put an empty device in the place of closed streams, or the next files would get theirs."""
    closed = [number for number in range(3) if not _is_open(number)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
    sys.stdin = sys.stdin or open(0)
    sys.stderr = sys.stderr or open(2, "w")
    if 1 in closed:
        sys.stdout = open(1, "w")
        sys.stderr.write("Error: standard output is closed; send it to a file or to /dev/null.\n")
        sys.exit(2)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
