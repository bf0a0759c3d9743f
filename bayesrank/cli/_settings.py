"""What a person chose on the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Settings(NamedTuple):
    """Options that every command takes."""

    out: Path  #: folder of the results
    rows: int  #: rows of the printed table, 0 for all
    seed: int
    crosscheck: bool  #: compare the fast fit with NUTS
    quiet: bool  #: no progress
    hyperparameters: str | Mapping[str, list[float] | float] = "integrate"
    notes: tuple[str, ...] = ()  #: what else to say below the table
    inputs: tuple[Path, ...] = ()  #: files that were read, and must not be overwritten
