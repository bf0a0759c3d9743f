"""Commands with more data than they can take: an answer, or one clear sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

Rng = np.random.Generator
_CHUNK = 10**6


def _write(
    path: Path, header: str, rows: int, columns: Callable[[Any, Rng], list[Any]], line: str
) -> None:
    """Write a table; `columns` gives those of the rows whose numbers it gets."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(f"{header}\n")
        for start in range(0, rows, _CHUNK):
            found = columns(np.arange(start, min(start + _CHUNK, rows)), rng)
            file.writelines(map(line.__mod__, zip(*(c.tolist() for c in found), strict=True)))


def _pairs(folder: Path, rows: int, items: int) -> str:
    def columns(row: Any, rng: Rng) -> list[Any]:
        first = rng.integers(items, size=row.size)
        return [first, (first + rng.integers(1, items, size=row.size)) % items]

    _write(folder / "pairs.csv", "winner,loser", rows, columns, "i%d,i%d\n")
    return "rank pairs.csv --crosscheck none --quiet"


def _ratings(folder: Path, rows: int, items: int) -> str:
    def columns(row: Any, rng: Rng) -> list[Any]:
        return [row // 50, row % items, rng.integers(1, 6, size=row.size)]

    _write(folder / "ratings.csv", "user,item,rating", rows, columns, "u%d,i%d,%d\n")
    return "rate ratings.csv --quiet"


def _predicted(folder: Path, rows: int, items: int) -> str:
    _pairs(folder, 200, 20)
    run = [
        sys.executable,
        "-m",
        "bayesrank",
        "rank",
        "pairs.csv",
        "--crosscheck",
        "none",
        "--quiet",
    ]
    subprocess.run([*run, "--out", "ranked"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    _pairs(folder, rows, 20)
    return "predict ranked pairs.csv --out predicted.csv"


_COMMANDS: dict[str, Callable[[Path, int, int], str]] = {
    "rank": _pairs,
    "rate": _ratings,
    "predict": _predicted,
}


def run_large(command: str, rows: int, items: int, memory: int, seconds: float) -> tuple[int, Any]:
    """Run a command on many rows; return its exit code, and its CPU seconds, peak and last words.

    Its address space is bounded by `memory` bytes, and it is told to end after some seconds.

    Raises
    ------
    AssertionError
        If it shows a traceback, says more than one error, or is ended from outside.
    """
    with tempfile.TemporaryDirectory() as name:
        args = _COMMANDS[command](Path(name), rows, items).split()
        shown = Path(name) / "shown"
        with shown.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", 'ulimit -v "$0" && exec "$@"', str(memory // 1024),
                 sys.executable, "-m", "bayesrank", *args],
                cwd=name, stdout=subprocess.DEVNULL, stderr=file,
            )  # fmt: skip
            alarm = threading.Timer(seconds, process.send_signal, [signal.SIGTERM])
            alarm.start()
            _, status, used = os.wait4(process.pid, 0)
            alarm.cancel()
        code = process.returncode = os.waitstatus_to_exitcode(status)
        said = shown.read_text(errors="replace")
    errors = [line for line in said.splitlines() if "Error" in line]
    wrong = code not in (0, 2, 143) or "Traceback" in said or len(errors) != (code != 0)
    if wrong:
        raise AssertionError(f"{command}, {rows:,} rows: ended with {code}\n{said[-3000:]}")
    cpu = used.ru_utime + used.ru_stime
    return code, (cpu, 1024 * used.ru_maxrss, errors[0] if errors else "answers")


@click.command()
@click.option("--command", "commands", multiple=True, type=click.Choice(list(_COMMANDS)))
@click.option("--rows", multiple=True, type=click.IntRange(1), default=(10**6, 10**7))
@click.option("--items", type=click.IntRange(2), default=10**5, help="Items, or other names.")
@click.option("--memory", type=float, default=8.0, help="GiB of address space.")
@click.option("--seconds", type=float, default=300.0, help="Until it is told to end.")
def sizes(
    commands: tuple[str, ...], rows: tuple[int, ...], items: int, memory: float, seconds: float
) -> None:
    """Run commands on many rows in little memory: an answer, or one sentence."""
    for command in commands or _COMMANDS:
        for count in rows:
            size = int(memory * 2**30)
            code, (cpu, peak, said) = run_large(command, count, items, size, seconds)
            click.echo(
                f"{command:9}{count:11,} rows: {code}, {cpu:.0f} CPU s, "
                f"{peak / 2**30:.1f} GiB; {said}"
            )


COMMANDS = (sizes,)
