"""The command line, ``python -m bayesrank``: comparisons in, a ranking with uncertainty out."""

from bayesrank.cli._app import main as main

__all__ = ["main"]
