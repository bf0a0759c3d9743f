"""What a person chose on the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Settings(NamedTuple):
    """Options that every command takes."""

    out: Path  #: folder of the results
    rows: int  #: rows of the printed table, 0 for all
    seed: int
    crosscheck: str  #: "quick", "full" or "none", see `bayesrank.cli._crosscheck`
    quiet: bool  #: no progress
    elo: bool = False  #: show skills on the scale of chess
    hyperparameters: str | Mapping[str, list[float] | float] = "integrate"
    by: str | None = None  #: column of categories, to rank by each, too
    notes: tuple[str, ...] = ()  #: what else to say below the table
    inputs: tuple[Path, ...] = ()  #: files that were read, and must not be overwritten
