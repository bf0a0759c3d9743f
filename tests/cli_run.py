"""The command line in this process."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from bayesrank.cli import main


def run(*args: object) -> int:
    """Run a command, and return its exit code."""
    with pytest.raises(SystemExit) as stop:
        main([str(arg) for arg in args])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def said(*args: object) -> tuple[str, str]:
    """Run a command that succeeds, and return what it printed, on standard output and error."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run(*args)
    assert code == 0, err.getvalue()
    return out.getvalue(), err.getvalue()
