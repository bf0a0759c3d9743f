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

from bayesrank._states import read_arrays

_WRITERS = {
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
        from bayesrank._states import write_arrays
        run = int(sys.argv[2])
        while True:
            run += 1
            write_arrays(sys.argv[1] + "/state.npz", {"run": run, "weights": np.full(9999, run)})
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
    arrays = read_arrays(folder / "state.npz", "kills")
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
    code = "import sys\nfrom pathlib import Path\n" + textwrap.dedent(_WRITERS[kind])
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


def interrupt_rank(times: int, seed: int = 0) -> Counter[str]:
    """Interrupt real runs of `rank` at random moments; count how they ended.

    Raises
    ------
    AssertionError
        If a run ends without the code that belongs to what it left, or shows a traceback.
    """
    rng, ends = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "c.csv").write_text("winner,loser\nA,B\nB,C\nA,C\nC,D\n")
        command = [sys.executable, "-m", "bayesrank", "rank", "c.csv", "--out", "out"]
        start = time.perf_counter()
        if times:  # how long it takes here, undisturbed
            subprocess.run(
                [*command, "--no-crosscheck"], cwd=folder, capture_output=True, check=True
            )
        latest = max(3.0, 1.1 * (time.perf_counter() - start))
        for _ in range(times):
            (folder / "out").mkdir(exist_ok=True)
            for path in (folder / "out").iterdir():
                path.unlink()
            (folder / "out" / "ranking.csv").write_text("old")
            number = rng.choice([signal.SIGINT, signal.SIGTERM])
            process = subprocess.Popen(
                [*command, "--no-crosscheck"], cwd=folder, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            time.sleep(rng.uniform(2.0, latest))  # Python itself takes some time to start
            process.send_signal(number)
            err = process.communicate()[1]
            untouched = [path.read_text() for path in (folder / "out").glob("*.csv")] == ["old"]
            whole = {path.name for path in (folder / "out").iterdir()} >= {"posterior.nc"}
            drafts = list(folder.glob(".bayesrank-*"))
            known = (128 + number, untouched), (128 + number, whole), (0, whole)
            if "Traceback" in err or drafts or untouched == whole:
                raise AssertionError(f"{process.returncode}, {drafts}, {err}")
            if (process.returncode, True) not in known:
                raise AssertionError(f"ended with {process.returncode}: {err}")
            ends["untouched" if untouched else "complete"] += 1
    return ends


@click.command()
@click.option("--times", type=click.IntRange(1, 2000), default=100, help="Kills of each writer.")
@click.option("--commands", type=click.IntRange(0, 200), default=10, help="Interrupts of `rank`.")
def kills(times: int, commands: int) -> None:
    """Kill writers of journals, results and states; interrupt `rank`; nothing may be lost."""
    for kind in _WRITERS:
        count = kill_writers(kind, times)
        click.echo(f"{kind:8} {times} kills, {count:,} acknowledged writes, none lost, none half")
    ends = interrupt_rank(commands)
    said = ", ".join(f"{count} {how}" for how, count in sorted(ends.items())) or "none"
    click.echo(f"rank     {commands} interrupts: {said}; no traceback, no draft left")


COMMANDS = (kills,)
