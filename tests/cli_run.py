"""The command line in this process."""

import pytest

from bayesrank.cli import main


def run(*args: object) -> int:
    """Run a command, and return its exit code."""
    with pytest.raises(SystemExit) as stop:
        main([str(arg) for arg in args])
    assert isinstance(stop.value.code, int)
    return stop.value.code
