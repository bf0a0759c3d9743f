"""Command line of the stress tests: ``python -m stress COMMAND``, in the folder ``tests``."""

from __future__ import annotations

import click

from stress.fuzz import fuzz
from stress.kills import kills


@click.group()
def main() -> None:
    """Damage files and kill processes; fail if one is misread or an answer is lost."""


for command in (fuzz, kills):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="python -m stress")
