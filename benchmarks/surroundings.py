"""Commands where little is as usual: hostile names, no locale, no home, 20 columns, no memory."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

# Sequences that would clear the screen, set the title, hide text, or reorder a line.
_NAMES = ("\x1b[2JTea", "\x1b]0;own\x07Milk", "\x9b31mWater", "Co\u202ecoa", "Caf\u00e9\x85")
_COMMANDS = {
    "rank": ("rank", "pairs.csv", "--crosscheck", "none", "--out", "ranked"),
    "rank -": ("rank", "-", "--crosscheck", "none", "--force", "--out", "piped"),
    "predict": ("predict", "ranked", "pairs.csv"),
    "suggest": ("suggest", "ranked"),
    "compare": ("compare", "ranked", *_NAMES[:2]),
    "demo": ("demo", "--crosscheck", "none", "--out", "shown"),
    "ask": ("ask", "items.csv"),
    "rate": ("rate", "ratings.csv", "--out", "rated"),
    "help": ("rank", "--help"),
}
_PIPED = {"rank -": "pairs.csv", "ask": "answers.txt"}
# What Rich writes itself: colours, and the cursor that progress hides and moves.
_OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]|\x1b\[2K")
_WRONG = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]")


def write_inputs(folder: Path) -> None:
    """Write a small file for each command, with names that would command a terminal."""
    rows = {
        "pairs.csv": ["winner,loser"] + [f'"{a}","{b}"' for a in _NAMES for b in _NAMES if a < b],
        "ratings.csv": ["user,item,rating"]
        + [
            f'"{a}","{b}",{1 + (i + j) % 3}'
            for i, a in enumerate(_NAMES)
            for j, b in enumerate(_NAMES)
        ],
        "answers.txt": list("12=usq"),
        "items.csv": ["item"] + [f'"{a}"' for a in _NAMES],
    }
    for name, lines in rows.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


def run_in(folder: Path, command: str, memory: int | None = None) -> tuple[int, str]:
    """Run a command on a terminal of 20 columns; return its exit code and all it showed.

    There is no HOME and the C locale; `memory` bounds its address space, in bytes.
    """
    env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    env |= {"LC_ALL": "C", "COLUMNS": "20", "TERM": "xterm"}
    ours, theirs = pty.openpty()
    limit = "unlimited" if memory is None else str(memory // 1024)  # KiB
    bounded = ["bash", "-c", 'ulimit -v "$0" && exec "$@"', limit]
    read = os.open(folder / _PIPED[command], os.O_RDONLY) if command in _PIPED else theirs
    process = subprocess.Popen(
        [*bounded, sys.executable, "-m", "bayesrank", *_COMMANDS[command]],
        cwd=folder, env=env, stdin=read, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    for handle in {read, theirs}:
        os.close(handle)
    shown = b"".join(_read(ours))
    os.close(ours)
    return process.wait(), shown.decode("utf-8", "replace")


def _read(handle: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(handle, 65536)
        except OSError:  # the other side is closed
            return
        if not piece:
            return
        yield piece


def check_command(folder: Path, command: str, memory: int | None = None) -> int:
    """Run a command; return its exit code.

    Raises
    ------
    AssertionError
        If it shows a traceback, or what a name commands, or ends by a signal.
    """
    code, shown = run_in(folder, command, memory)
    wrong = _WRONG.search(_OURS.sub("", shown))
    if code not in ((0,) if memory is None else (0, 2)) or "Traceback" in shown or wrong:
        raise AssertionError(f"{command}, {memory}: ended with {code}, {wrong}\n{shown[-2000:]}")
    return code


@click.command()
@click.option("--memory", multiple=True, type=int, default=(1, 3), help="Bounds to try, in GiB.")
def surroundings(memory: tuple[int, ...]) -> None:
    """Run commands with hostile names, 20 columns, no locale, home or memory."""
    with tempfile.TemporaryDirectory() as name:
        write_inputs(Path(name))
        for command in _COMMANDS:
            check_command(Path(name), command)
            bounds = ", ".join(
                f"{size} GiB ended with {check_command(Path(name), command, size * 2**30)}"
                for size in memory
            )
            click.echo(f"{command:9} shows no name's commands; {bounds}")


COMMANDS = (surroundings,)
