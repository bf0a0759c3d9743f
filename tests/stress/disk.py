"""A disk that fills up while commands write: results are whole or as they were, answers are kept.

``python -m stress trials full`` runs this in a namespace of its own, where it mounts a small disk.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from bayesrank.active import read_journal
from bayesrank.cli import main
from stress.kills import write_inputs

FIT = "pairs.csv --items items.csv --crosscheck none --hyperparameters prior --force"
COMMANDS = (
    f"rank {FIT} --out out",
    f"rank {FIT} --save all --out all",
    "predict out pairs.csv --items new.csv --out p.csv --skills s.csv",
    "rate ratings.csv --out rated",
    "suggest out --out next.csv",
    f"rank {FIT} --out out > printed",
    "predict out pairs.csv --out - > printed",
)
ASK = "ask items.csv --journal answers.jsonl --top 2 --level 0.9999999"
_NO_ROOM = ("No space left on device", "File too large")
_ROOM = 8 * 2**20  # of the disk
_ALIKE = 100  # bytes by which a result of two runs may differ, as its date does


@contextlib.contextmanager
def filled(disk: Path, left: int) -> Iterator[None]:
    """Leave so many bytes of a disk free."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - left, 1))
    try:
        yield
    finally:
        ballast.unlink()


def command(disk: Path, line: str, typed: str = "") -> tuple[int, str, str]:
    """Run a command in this process and in that folder; return its code, output and errors."""
    line, _, printed = line.partition(" > ")
    raw = (disk / printed).open("wb") if printed else io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8")
    err, code = io.StringIO(), -1
    with (
        contextlib.chdir(disk),
        mock.patch.object(sys, "stdin", io.StringIO(typed)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main(line.split())
        except SystemExit as stop:
            code = int(stop.code or 0)
    with contextlib.suppress(OSError):  # what a full disk did not take
        out.flush()
    said = raw.getvalue().decode() if isinstance(raw, io.BytesIO) else ""
    with contextlib.suppress(OSError):
        out.close()
    return code, said, err.getvalue()


def results(disk: Path) -> dict[Path, bytes]:
    """What is on the disk, without what is printed and the ballast."""
    paths = (path for path in disk.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths if path.name not in ("printed", "ballast")}


def check_commands(disk: Path, turns: int, seed: int = 0) -> Counter[str]:
    """Run commands on a disk that has room for some of what they write; count how they end.

    Raises
    ------
    AssertionError
        If results are cut or of two runs, a draft is left, or an error is not one line.
    """
    write_inputs(disk)
    before = results(disk)
    needs = {}
    for line in COMMANDS:
        if command(disk, line)[0]:
            raise AssertionError(f"{line}: {command(disk, line)[2]}")
        after = results(disk)
        needs[line] = sum(len(raw) for path, raw in after.items() if before.get(path) != raw)
        before = after
    whole, rng, ends = before, random.Random(seed), Counter()
    for turn in range(turns):
        line = COMMANDS[turn % len(COMMANDS)]
        before = results(disk)
        with filled(disk, int(rng.uniform(0.0, 1.3) * (needs[line] + 8192))):
            code, _, err = command(disk, line)
        after = results(disk)
        if after.keys() != whole.keys():
            raise AssertionError(f"{line}: {after.keys() ^ whole.keys()} {err}")
        cut = [p for p, raw in after.items() if abs(len(raw) - len(whole[p])) > _ALIKE]
        changed = code and after != before and " > printed" not in line
        if cut or changed or not _told(code, err):
            raise AssertionError(f"{line}: ended with {code}, {cut}, {changed}, {err}")
        ends["refused" if code else "whole"] += 1
    return ends


def _told(code: int, err: str) -> bool:
    """Whether an exit code says what is on standard error: nothing, or one error."""
    full = sum(why in err for why in _NO_ROOM)
    return full == err.count("Error") == (code == 2) and "Traceback" not in err


def check_processes(disk: Path, turns: int, seed: int = 0) -> Counter[str]:
    """Run whole processes that have everything on that disk: results, home, cache, drafts.

    Raises
    ------
    AssertionError
        If a result is missing or cut, or the exit code is not as said.
    """
    write_inputs(disk)
    rng, ends = random.Random(seed), Counter()
    homes = {"HOME": disk, "XDG_CACHE_HOME": disk / "cache", "TMPDIR": disk, "MPLCONFIGDIR": disk}
    env = {**os.environ, **{name: str(path) for name, path in homes.items()}}
    call = [sys.executable, "-m", "bayesrank", *COMMANDS[0].split()]
    for _ in range(turns):
        (disk / "out" / "ranking.csv").unlink(missing_ok=True)
        with filled(disk, int(10 ** rng.uniform(0.0, 6.5))):
            done = subprocess.run(call, cwd=disk, env=env, capture_output=True, text=True)
        there = (disk / "out" / "ranking.csv").exists()
        if there != (done.returncode == 0) or not _told(done.returncode, done.stderr):
            raise AssertionError(f"ended with {done.returncode}: {done.stderr}")
        ends["whole" if there else "refused"] += 1
    return ends


def check_answers(disk: Path, turns: int, seed: int = 0) -> Counter[str]:
    """Answer questions until the disk is full, and go on where there is room again.

    Raises
    ------
    AssertionError
        If an answer that was acknowledged is lost, or the error is not one line.
    """
    write_inputs(disk)
    rng, ends = random.Random(seed), Counter()
    for _ in range(turns):
        with filled(disk, 4096 * rng.randrange(3)):
            code, out, err = command(disk, ASK, "".join(f"{rng.choice('12')}\n" for _ in range(40)))
        saved = out.count("\nSaved: ")
        ends["answers"] += saved
        if code:
            ends["full"] += 1
            if len(err.strip().splitlines()) != 1 or "No space left on device" not in err:
                raise AssertionError(f"{ASK}: ended with {code}: {err}")
        path = disk / "answers.jsonl"
        there = path.exists() and path.stat().st_size
        events = [each["event"] for each in read_journal(path).records] if there else []
        kept = events.count("answer")
        if kept != ends["answers"]:
            raise AssertionError(
                f"{kept} answers of {ends['answers']} that were acknowledged: {err}"
            )
    return ends


def fill(disk: Path, turns: int) -> str:
    """Do all this on a disk that is mounted here; say what came of it."""
    call = ["mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "tmpfs", str(disk)]
    subprocess.run(call, check=True)
    ends, asked = check_commands(disk, turns), check_answers(disk, turns // 3)
    ends += check_processes(disk, turns // 10)
    return (
        f"{ends.total()} commands on a disk that fills up: {ends['whole']} whole, "
        f"{ends['refused']} refused; {asked['answers']} answers, {asked['full']} times full, "
        "none lost"
    )


if __name__ == "__main__":
    sys.stdout.write(f"{fill(Path(sys.argv[1]), int(sys.argv[2]))}\n")
