"""Damaged files: every reader reads them, or says in one line why not, and that is all."""

from __future__ import annotations

import gzip
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
import numpy as np
import pandas as pd

from bayesrank import _memory
from bayesrank.active.store import FORMAT, JournalError, read_journal, sealed
from bayesrank.datasets import (
    ColumnNames,
    DataError,
    ReadingNote,
    read_comparisons,
    read_ratings,
)
from bayesrank.datasets.items import read_items

Rng = np.random.Generator
_LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"
PREFLIB = """# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 3
# ALTERNATIVE NAME 1: Tea
# ALTERNATIVE NAME 2: Milk
# ALTERNATIVE NAME 3: Water
2: 1,2,3
1: {1,3},2
"""
GOOD = [
    "winner,loser,tie\nTea,Milk,0\nMilk,Water,1\n",
    "item,price\nTea,1.5\nMilk,2\n",
    "user,item,rating\nAda,Tea,2\nBob,Tea,1\nBob,Milk,2\n",
    "query,item,score\nq1,a,0.9\nq1,b,0.4\n",
    "query,item,label\nq1,a,1\nq1,c,0\n",
    "q1 Q0 a 1 0.9 me\nq1 Q0 b 2 0.4 me\n",
    "q1 0 a 1\nq1 0 b 0\n",
    "2 1:0.5 3:1\n1 qid:1 2:1 # said\n",
    "2 qid:1 1:0.5 3:1\n1 qid:1 2:1 # said\n",
    "query,label,price\nq1,1,2.5\nq2,0,1\n",
    "2,0.5,1\n1,0,3\n",
    PREFLIB,
    "player1,player2,winner,date\na,b,1,2024-05-31\nb,c,2,2024-06-01\nA,c,0,2024-06-02\n",
    "sep=;\nwinner;loser\na;b\n",
    "10 1\n0 3 5 0 9\n0 3 0 5 9\n",
    "".join(
        sealed(line).decode()
        for line in (FORMAT | {"items": 3}, {"n": 1, "winner": 2}, {"n": 2, "winner": 0})
    ),
]
NASTY = [
    ",", '"', '""', "\n", "\r", "\r\n", "\0", "\x1c", "\x85", "\u2028", "\u202e", "\x1b[2J", " ",
    "\ufeff", ":", "{", "}", "#", "-", "=1+1", "nan", "inf", "-1", "0", "1e999", "1_0", "٣", "²",
    "9" * 5000, "99999999999", f"{'9' * 5000}:1", "1:" + "9" * 5000, "é", "\U0001f600", "'", ";",
    "# NUMBER VOTERS: 99\n", "# ALTERNATIVE NAME 4:\n", "99999999999: 1,2\n", "x" * 200_000,
    "[", "]", "|", ">", "=", "\t", "null", "true", "N/A", "\ud800", "[" * 2000, '{"a":' * 2000,
    "16/08/2024", "99990101", "W 1-0", "1/2-1/2", "rank", "winner", "model_a", "best", "order",
]  # fmt: skip


class Reader(NamedTuple):
    """What reads a file, how the file's name ends, the error that refuses it, and what packs it."""

    suffix: str
    read: Callable[[Path], Any]
    refusal: type[Exception] = DataError
    packed: Callable[[Path, str], None] | None = None


def _rows(text: str) -> list[list[str]]:
    """Cells of a text, nine in each row; there is a header."""
    text = "".join(letter for letter in text if letter.isprintable() or letter == "\n")
    return [[*line.split(",")[:9], *[""] * 9][:9] for line in text.splitlines() or [""]]


def _as_sheet(path: Path, text: str) -> None:
    pd.DataFrame(_rows(text)).to_excel(path, header=False, index=False)


def _as_parquet(path: Path, text: str) -> None:
    header, *rows = _rows(text)
    names = [name if header.index(name) == j else f"{name} {j}" for j, name in enumerate(header)]
    pd.DataFrame(rows, columns=names).to_parquet(path)


_OPTIONS = ColumnNames(time="date", fold_names=True, outcome_codes=("1", "2", "0"))
READERS = {
    "comparisons": Reader("csv", read_comparisons),
    "comparisons by options": Reader("csv", lambda path: read_comparisons(path, columns=_OPTIONS)),
    "orders": Reader("toi", read_comparisons),
    "numbered orders": Reader("order", read_comparisons),
    "games": Reader("pgn", read_comparisons),
    "arrays": Reader("json", read_comparisons),
    "lines": Reader("jsonl", read_comparisons),
    "packed": Reader(
        "csv.gz",
        read_comparisons,
        packed=lambda path, text: None if path.write_bytes(gzip.compress(text.encode())) else None,
    ),
    "sheets": Reader("xlsx", read_comparisons, packed=_as_sheet),
    "parquet": Reader("parquet", read_comparisons, packed=_as_parquet),
    "items": Reader("csv", read_items),
    "ratings": Reader("csv", read_ratings),
    "journal": Reader("jsonl", read_journal, JournalError),
}


def good_files() -> list[str]:
    """Files as they should be, of every kind."""
    paths = sorted(path for path in _LAYOUTS.glob("*") if path.suffix not in (".gz", ".toml"))
    return [*GOOD, *(path.read_text("utf-8", "replace") for path in paths)]


def damaged(rng: Rng, text: str, good: list[str]) -> bytes:
    """A good file with pieces put in, taken out or doubled, or with lines of another."""
    for _ in range(rng.integers(5)):
        place = int(rng.integers(len(text) + 1))
        end = place + int(rng.integers(13))
        how = rng.integers(5)
        lines = text.splitlines(keepends=True)
        if how == 3:
            other = good[rng.integers(len(good))].splitlines(keepends=True)
            text += other[rng.integers(len(other))]
        elif how == 4 and lines:
            text = lines[0] + "".join(lines[i] for i in rng.permutation(len(lines)))
        else:
            piece = (NASTY[rng.integers(len(NASTY))], "", 2 * text[place:end])[how % 3]
            text = text[:place] + piece + text[place if how == 0 else end :]
    raw = text.encode("utf-8", "surrogatepass")
    return raw + rng.bytes(3) if rng.random() < 0.1 else raw


def _flipped(rng: Rng, raw: bytes) -> bytes:
    """A packed file some of whose bytes are others, or which ends too soon."""
    cells = bytearray(raw[: rng.integers(len(raw) + 1)] if rng.random() < 0.2 else raw)
    for _ in range(rng.integers(4) if cells else 0):
        cells[rng.integers(len(cells))] = rng.integers(256)
    return bytes(cells)


def _write(rng: Rng, path: Path, reader: Reader, own: list[str], good: list[str]) -> bytes:
    """Write a damaged file; three of four are of a kind that the reader takes where it is whole."""
    kind = own if own and rng.random() < 0.75 else [*good, ""]
    text = kind[rng.integers(len(kind))]
    if reader.packed is None:
        path.write_bytes(damaged(rng, text, good))
    else:
        reader.packed(path, text)
        path.write_bytes(_flipped(rng, path.read_bytes()))
    return path.read_bytes()


def _taken(path: Path, reader: Reader, good: list[str]) -> list[str]:
    """Good files that the reader takes."""
    taken = []
    for text in good if reader.packed is None else good[:3]:  # of many, packing takes long
        if reader.packed is None:
            path.write_text(text)
        else:
            reader.packed(path, text)
        try:
            reader.read(path)
        except reader.refusal:
            continue
        taken.append(text)
    return taken


def check(name: str, count: int, seed: int = 0, first: int = 0) -> Counter[str]:
    """Read so many damaged files, from the first on; how many were read, and how many refused.

    Raises
    ------
    AssertionError
        If an error is none of the reader's own, or not one short line that names the file; it says
        from which file.
    """
    reader, good, found = READERS[name], good_files(), Counter({"read": 0, "refused": 0})
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(_memory, "available", lambda: 10**7),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReadingNote)
        path = Path(folder) / f"file.{reader.suffix}"
        own = _taken(path, reader, good)
        for k in range(first, first + count):
            raw = _write(np.random.default_rng([seed, k]), path, reader, own, good)
            try:
                reader.read(path)
                found["read"] += 1
            except (reader.refusal, _memory.TooLargeError) as error:
                found["refused"] += 1
                said = str(error)
                if str(path) not in said or len(said.splitlines()) != 1 or len(said) >= 1500:
                    raise AssertionError(f"{name}, file {k}: {said[:300]!r}") from error
            except Exception as error:
                raise AssertionError(f"{name}, file {k}: {raw[:300]!r}") from error
    return found


@click.command()
@click.option("--count", default=10_000, help="Files for each reader.")
@click.option("--only", default="", help="Readers whose name contains this.")
@click.option("--seed", default=0)
def fuzz(count: int, only: str, seed: int) -> None:
    """Hand damaged files to every reader."""
    for name in (name for name in READERS if only in name):
        found = check(name, count, seed)
        click.echo(f"{name:23} {found['read']:6,} read, {found['refused']:6,} refused")
