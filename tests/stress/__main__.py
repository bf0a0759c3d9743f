"""Command line of the stress tests: ``python -m stress COMMAND``, in the folder ``tests``."""

from __future__ import annotations

import click

from stress.fuzz import fuzz
from stress.kills import kills
from stress.trials import trials


@click.group()
def main() -> None:
    """Damage files, kill processes, and spoil what commands rely on; fail if an answer is wrong."""


for command in (fuzz, kills, trials):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="python -m stress")
