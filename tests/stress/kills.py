"""Processes killed at random moments: what was acknowledged is there, and nothing is half-way."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from bayesrank._states import read_state

WRITERS = {
    "journal": """
        import bayesrank, types
        active = types.ModuleType("bayesrank.active")  # without what it imports besides, JAX
        active.__path__ = [str(Path(bayesrank.__file__).parent / "active")]
        sys.modules["bayesrank.active"] = active
        from bayesrank.active.store import Journal
        with Journal(sys.argv[1] + "/answers.jsonl", {"items": 3}) as journal:
            while True:
                journal.append({"event": "answer", "winner": len(journal), "loser": 0})
                print(len(journal), flush=True)
    """,
    "results": """
        from bayesrank.cli.outputs import output_folder
        files, run = ("a", "b", "c", "d"), int(sys.argv[2])
        while True:
            run += 1
            with output_folder(Path(sys.argv[1]) / "out", files) as folder:
                for name in files:
                    (folder / name).write_text(str(run))
            print(run, flush=True)
    """,
    "state": """
        import numpy as np
        from bayesrank._states import write_state
        run = int(sys.argv[2])
        while True:
            run += 1
            state = {"run": run, "weights": np.full(9999, run)}
            write_state(sys.argv[1] + "/state.npz", state, "kills")
            print(run, flush=True)
    """,
}


def _journal(folder: Path) -> int:
    from bayesrank.active.store import read_journal

    records = read_journal(folder / "answers.jsonl").records
    if [record["winner"] for record in records] != list(range(len(records))):
        raise AssertionError("the journal holds other answers than were given")
    return len(records)


def _results(folder: Path) -> int:
    (run,) = {int((folder / "out" / name).read_text()) for name in "abcd"}
    return run


def _state(folder: Path) -> int:
    arrays = read_state(folder / "state.npz", "kills", (dict,))
    (run,) = {int(arrays["run"]), *arrays["weights"].tolist()}
    return int(run)


_READERS: dict[str, Callable[[Path], int]] = {
    "journal": _journal, "results": _results, "state": _state,
}  # fmt: skip


def kill_writers(kind: str, times: int, seed: int = 0) -> int:
    """Kill a writer again and again; return how many acknowledged writes there were.

    Raises
    ------
    AssertionError, ValueError
        If an acknowledged write is lost, or what is there is not of one write.
    """
    code = "import sys\nfrom pathlib import Path\n" + textwrap.dedent(WRITERS[kind])
    rng, known = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as name:
        for _ in range(times):
            process = subprocess.Popen(
                [sys.executable, "-c", code, name, str(known)], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.05))
            process.kill()
            said = max(int(line) for line in (first + process.communicate()[0]).split())
            known = _READERS[kind](Path(name))
            if known not in (said, said + 1):
                raise AssertionError(f"{kind}: write {said} was acknowledged, {known} is there")
    return known


_COMMANDS = {
    "rank": "rank pairs.csv --crosscheck none --items items.csv --force --out out",
    "rate": "rate ratings.csv --out out",
    "predict": "predict ranked pairs.csv --items new.csv --out out/p.csv --skills out/s.csv",
}
_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}


def write_inputs(folder: Path) -> None:
    """Write a small file for each command."""
    rows = {
        "pairs.csv": ["winner,loser", "A,B", "B,C", "A,C", "C,D"],
        "items.csv": ["item,x", "A,3.1", "B,2.2", "C,1.5", "D,0.1"],
        "new.csv": ["item,x", "E,2.5"],
        "ratings.csv": ["user,item,rating"]
        + [f"u{i},v{j},{1 + (i + j) % 3}" for i in range(5) for j in range(4)],
    }
    for name, lines in rows.items():
        (folder / name).write_text("\n".join(lines) + "\n")


def end_command(command: str, times: int, seed: int = 0) -> Counter[str]:
    """End real runs of a command at random moments by three signals; count what they left.

    Raises
    ------
    AssertionError
        If results are of two runs, an exit code tells other than what there is, or a traceback or
        a draft is left.
    """
    rng, ends = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        if command == "predict":
            _run(folder, f"{_COMMANDS['rank'].removesuffix('out')}ranked")
        (folder / "out").mkdir()
        start = time.perf_counter()
        _run(folder, _COMMANDS[command])  # how long it takes here, and what it writes
        latest = time.perf_counter() - start
        results = sorted(path.name for path in (folder / "out").iterdir())
        for _ in range(times):
            for path in results:
                (folder / "out" / path).write_text("old")
            number = rng.choice(list(_SIGNALS))
            process = _start(folder, _COMMANDS[command])
            # Python itself takes some time to start.
            time.sleep(latest * rng.uniform(0.2, 1.0))
            process.send_signal(number)
            err = process.communicate()[1]
            left = {_left(folder / "out" / path) for path in results}
            left_over = (".bayesrank-*", "*/.bayesrank-*", "out/*.old-*")
            drafts = [path for pattern in left_over for path in folder.glob(pattern)]
            killed = process.returncode == -signal.SIGKILL
            # Where files are exchanged one by one, a kill may leave some that are away.
            halves = (
                [{"old", "away"}, {"new", "away"}, {"away"}]
                if command == "predict" and killed
                else []
            )
            if "Traceback" in err or (drafts and not killed):
                raise AssertionError(f"{command}: {process.returncode}, {drafts}, {err}")
            if left not in ({"old"}, {"new"}, *halves):
                raise AssertionError(f"{command}: ended with {process.returncode}, left {left}")
            if process.returncode != _SIGNALS[number] and (process.returncode or left != {"new"}):
                raise AssertionError(f"{command}: ended with {process.returncode}: {err}")
            if process.returncode == 0 and "Interrupted" in err:
                raise AssertionError(f"{command}: was interrupted, and ended with 0: {err}")
            ends["untouched" if left == {"old"} else "complete" if left == {"new"} else "away"] += 1
    return ends


def _left(path: Path) -> str:
    if not path.exists():
        return "away"
    return "old" if path.read_bytes() == b"old" else "new"


def _start(folder: Path, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bayesrank", *command.split()],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _run(folder: Path, command: str) -> None:
    process = _start(folder, command)
    err = process.communicate()[1]
    if process.returncode:
        raise AssertionError(err)


@click.command()
@click.option("--times", type=click.IntRange(1, 2000), default=100, help="Kills of each writer.")
@click.option("--commands", type=click.IntRange(0, 200), default=10, help="Ends of each command.")
def kills(times: int, commands: int) -> None:
    """Kill writers of journals, results and states; end commands; nothing may be lost."""
    for kind in WRITERS:
        count = kill_writers(kind, times)
        click.echo(f"{kind:8} {times} kills, {count:,} acknowledged writes, none lost, none half")
    for command in _COMMANDS if commands else ():
        ends = end_command(command, commands)
        said = ", ".join(f"{count} {how}" for how, count in sorted(ends.items()))
        click.echo(f"{command:8} {commands} ends by three signals: {said}; no traceback")
