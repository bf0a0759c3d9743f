"""Commands and fits under bad conditions: clocks, disks, names, sizes and signals."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stress.kills import write_inputs

RANK = "rank pairs.csv --crosscheck none --items items.csv --force --out out"
PREDICT = "predict out pairs.csv --items new.csv --out p.csv --skills s.csv"
RATE = "rate ratings.csv --out rated"

_CLOCK = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long calls = 0;
int clock_gettime(clockid_t id, struct timespec *at) {
    int done = syscall(SYS_clock_gettime, id, at);
    if (id == CLOCK_REALTIME) at->tv_sec -= 3600 * __sync_add_and_fetch(&calls, 1);
    return done;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; return 0;
}
time_t time(time_t *at) {
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec; return now.tv_sec;
}
"""


def run(folder: Path, command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; a traceback is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "bayesrank", *command.split()], cwd=folder, text=True,
        capture_output=True, env={**os.environ, **env},
    )  # fmt: skip
    if "Traceback" in done.stderr or done.returncode not in (0, 1, 2):
        raise AssertionError(f"{command}: ended with {done.returncode}: {done.stderr}")
    return done


def whole(folder: Path, command: str, **env: str) -> str:
    """Run a command that has to succeed; return what it printed."""
    done = run(folder, command, **env)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout


def inputs(folder: Path, **files: list[str]) -> None:
    """Write the small files of `stress.kills`, and others."""
    write_inputs(folder)
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def clock(folder: Path, times: int) -> str:
    """A clock that goes back by an hour at each look."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    inputs(folder)
    commands, back = (RANK, PREDICT, RATE), {"LD_PRELOAD": str(library)}
    for _ in range(times):
        for command in commands:
            whole(folder, command)
            before = {path: path.read_bytes() for path in folder.rglob("*.csv")}
            whole(folder, command, **back)
            if before != {path: path.read_bytes() for path in folder.rglob("*.csv")}:
                raise AssertionError(f"{command}: another answer where the clock goes back")
    return f"{len(commands) * times} commands, each as with the right clock"


def full(folder: Path, times: int) -> str:
    """A disk that fills up while files are written."""
    call = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "stress.disk"]
    return _said([*call, str(folder), str(times)], cwd=Path(__file__).parents[1])


def names(folder: Path, times: int) -> str:
    """Names of 100,000 characters."""
    long = [letter * 100_000 for letter in "ABC"]
    rows = [f"{long[0]},{long[1]}", f"{long[1]},{long[2]}", f"{long[0]},{long[2]}"] * times
    inputs(folder, long=["winner,loser", *rows])
    whole(folder, "rank long.csv --save all --crosscheck none --out out")
    csv.field_size_limit(10**6)
    with (folder / "out" / "ranking.csv").open(newline="") as file:
        ranked = [row["item"] for row in csv.DictReader(file)]
    if ranked != long:
        raise AssertionError("the names are others")
    whole(folder, "suggest out --out next.csv")
    whole(folder, "predict out long.csv --out p.csv")
    unknown = run(folder, f"compare out {long[0]} X")
    if unknown.returncode != 2 or len(unknown.stderr) > 2000:
        raise AssertionError(f"{len(unknown.stderr)} characters of error")
    return "rank --save all, suggest, predict and compare of names of 100,000 characters"


def orders(folder: Path, times: int) -> str:
    """A million orders of three of six items, by a known law."""
    import numpy as np

    rng, count = np.random.default_rng(0), 10_000 * times
    skill = np.linspace(1.0, -1.0, 6)
    shown = np.argsort(rng.random((count, 6)), axis=1)[:, :3]
    best = np.argsort(-(skill[shown] + rng.normal(size=shown.shape)), axis=1)
    lines = (">".join("abcdef"[i] for i in row) for row in np.take_along_axis(shown, best, 1))
    (folder / "orders.csv").write_text("order\n" + "\n".join(lines) + "\n")
    whole(folder, "rank orders.csv --crosscheck none --out out")
    with (folder / "out" / "ranking.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    off = [float(row["skill_mean"]) - s for row, s in zip(rows, skill, strict=True)]
    if [row["item"] for row in rows] != list("abcdef") or max(map(abs, off)) > 0.1:
        raise AssertionError(f"skills are off by {off}")
    return f"{count:,} orders: skills right to {max(map(abs, off)):.3f}"


_INTERRUPTS = """
    import os, random, signal, sys, threading, time
    import numpy as np
    from bayesrank import Ranker
    times, rng = int(sys.argv[1]), random.Random(0)
    def pairs(n):
        return [(f"i{a:03}", f"i{a + 1:03}") for a in range(n)] * 2
    right = {n: Ranker().fit(pairs(n)).predict() for n in (4, 5)}
    start = time.perf_counter()
    kept = Ranker().fit(pairs(4))
    took = time.perf_counter() - start
    cut = 0
    for turn in range(times):
        n = 5 - turn % 2
        wait = rng.uniform(0.0, 1.5 * took)
        timer = threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            if turn % 20 == 0:
                Ranker().fit(pairs(6 + turn // 4))  # code that is new
            kept.fit(pairs(n))
            timer.join()
        except KeyboardInterrupt:
            cut += 1
        timer.join()
        found, known = kept.predict(), len(kept.names_) - 1
        assert all(np.allclose(*x, atol=1e-6) for x in zip(found, right[known])), turn
    for n in (4, 5):
        assert np.allclose(Ranker().fit(pairs(n)).predict(), right[n], atol=1e-6)
    print(cut)
"""


def interrupts(folder: Path, times: int) -> str:
    """An interactive process that is interrupted at random moments of fits, and goes on."""
    cut = int(_python(_INTERRUPTS, times, XDG_CACHE_HOME=str(folder)))
    return f"{times} interrupts, {cut} of them raised: answers are of the old fit or the new one"


def _said(call: list[str], **options: Any) -> str:
    done = subprocess.run(call, text=True, capture_output=True, timeout=5000, **options)
    if done.returncode:
        raise AssertionError(f"ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()


def _python(code: str, *args: object, **env: str) -> str:
    call = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return _said(call, env={**os.environ, **env})


# Each trial, and how often it is repeated, or how large it is, by default.
TRIALS: dict[Callable[[Path, int], str], int] = {
    clock: 3, full: 60, names: 3, orders: 100, interrupts: 200,
}  # fmt: skip


@click.command()
@click.argument("only", nargs=-1)
@click.option("--share", type=click.FloatRange(0, 1), default=1.0, help="Of the repetitions.")
def trials(only: tuple[str, ...], share: float) -> None:
    """Run commands and fits under bad conditions: all, or those that are named."""
    for trial, times in TRIALS.items():
        if only and trial.__name__ not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            said = trial(Path(folder), max(round(share * times), 1))
        click.echo(f"{trial.__name__:10} {said}")
