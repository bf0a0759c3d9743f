"""Sentences on standard error."""

import shutil
import sys
import textwrap

import click

from bayesrank._names import shown


def say(text: str) -> None:
    """Print a sentence on standard error, folded between words at a terminal."""
    text = shown(" ".join(text.split()))
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    click.echo(text, err=True)
