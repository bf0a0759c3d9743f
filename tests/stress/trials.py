"""Commands and fits under bad conditions of the system, of their place, and of their data."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from stress.kills import write_inputs

RANK = "rank pairs.csv --crosscheck none --items items.csv --force --out out"
PREDICT = "predict out pairs.csv --items new.csv --out p.csv --skills s.csv"
RATE = "rate ratings.csv --out rated"
ASK = "ask items.csv --journal answers.jsonl"
_OURS = (".c", ".so")  # files that a trial compiles

_CLOCK = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long calls = 0;
int clock_gettime(clockid_t id, struct timespec *at) {
    int done = syscall(SYS_clock_gettime, id, at);
    if (id != CLOCK_REALTIME) return done;
    long call = __sync_add_and_fetch(&calls, 1);
    at->tv_sec = getenv("CLOCK_OF_1970") ? call : at->tv_sec - 3600 * call;
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
        errors="replace", capture_output=True, env={**os.environ, **env},
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


_LOCKS = """
    #include <errno.h>
    int flock(int handle, int how) { errno = ENOLCK; return -1; }
"""


def preloaded(folder: Path, name: str, source: str) -> dict[str, str]:
    """Compile a library that stands before the system's own; return what loads it."""
    (folder / f"{name}.c").write_text(source)
    library = folder / f"{name}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / f"{name}.c"], check=True)
    return {"LD_PRELOAD": str(library)}


def bad_clocks(folder: Path) -> tuple[dict[str, str], ...]:
    """Environments of a clock that goes back by an hour at each look, and of one in 1970."""
    back = preloaded(folder, "clock", _CLOCK)
    return back, {**back, "CLOCK_OF_1970": "1"}


def locks(folder: Path, times: int) -> str:
    """A file system without file locks, as that of some network drives."""
    inputs(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    env = preloaded(folder, "flock", _LOCKS)
    commands = (RANK, RATE, ASK)[:times]
    for command in commands:
        done = run(folder, command, **env)
        said = done.stderr.strip().splitlines()[-1]
        if done.returncode != 2 or "No locks available" not in said:
            raise AssertionError(f"{command}: ended with {done.returncode}: {done.stderr}")
    left = [path for path in folder.rglob("*") if path not in before and path.suffix not in _OURS]
    if any(path.is_dir() or path.stat().st_size for path in left):
        raise AssertionError(f"what is left: {left}")
    return f"{len(commands)} commands, each refused in one line"


def clock(folder: Path, times: int) -> str:
    """A clock that goes back by an hour at each look, and one that begins in 1970."""
    inputs(folder)
    clocks, commands = bad_clocks(folder), (RANK, PREDICT, RATE)
    for _ in range(times):
        for command in commands:
            whole(folder, command)
            before = {path: path.read_bytes() for path in folder.rglob("*.csv")}
            for env in clocks:
                whole(folder, command, **env)
                if before != {path: path.read_bytes() for path in folder.rglob("*.csv")}:
                    raise AssertionError(f"{command}: another answer by {env}")
    return f"{2 * len(commands) * times} commands, each as with the right clock"


def full(folder: Path, times: int) -> str:
    """A disk that fills up while files are written."""
    call = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "stress.disk"]
    return _said([*call, str(folder), str(times)], cwd=Path(__file__).parents[1])


def cache(folder: Path, times: int) -> str:
    """Two processes that share compiled code, whose files are cut meanwhile."""
    home, rng, cuts, answers = folder / "cache", random.Random(0), 0, []

    def rank(number: int) -> None:
        own = folder / str(number)
        own.mkdir()
        inputs(own)
        for _ in range(times):
            done = run(own, f"{RANK} --quiet", XDG_CACHE_HOME=str(home))
            answers.append((done.returncode, done.stderr, (own / "out/ranking.csv").read_text()))

    with ThreadPoolExecutor(2) as both:
        ranking = [both.submit(rank, number) for number in range(2)]
        while not all(each.done() for each in ranking):
            time.sleep(0.2)
            files = [path for path in home.rglob("*") if path.is_file()]
            for path in rng.sample(files, min(3, len(files))):
                with contextlib.suppress(FileNotFoundError):
                    os.truncate(path, rng.randrange(path.stat().st_size + 1))
                    cuts += 1
        for each in ranking:
            each.result()
    if len(set(answers)) != 1 or answers[0][:2] != (0, ""):
        raise AssertionError(f"different answers: {set(answers)}")
    return f"2 processes, {2 * times} runs, {cuts} times a file was cut: one answer"


_PLACES = """
    import itertools, locale, os, sys, time
    from pathlib import Path
    from bayesrank.active.store import Journal, read_journal
    from bayesrank.cli.outputs import csv_text
    from bayesrank.datasets import ColumnNames, read_comparisons
    from bayesrank.ranking import summarize
    import numpy as np, pandas as pd
    folder, zones, said = Path(sys.argv[1]), sys.argv[2].split("|"), set()
    files, columns = sorted(folder.glob("read*.csv")), ColumnNames(time="date", fold_names=True)
    for place, zone in itertools.product(["C", "tr_TR.UTF-8", "tr_TR.ISO-8859-9"], zones):
        locale.setlocale(locale.LC_ALL, place)
        os.environ["TZ"] = zone
        time.tzset()
        read = [read_comparisons(path, columns=columns) for path in files]
        with Journal(folder / "journal", {"items": 2}) as journal:
            journal.append({"event": "answer", "x": 1.5})
        (record,) = read_journal(folder / "journal").records
        os.unlink(folder / "journal")
        table = csv_text(pd.DataFrame({"a": [1.5, 1e-9], "İ": ["ı", "I"]}))
        days = [pd.to_datetime(each.times).strftime("%Y-%m-%dT%H:%M").tolist() for each in read]
        names = [each.names for each in read]
        said.add(str((names, days, record["x"], table)))
    print(len(said), *said)
"""
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "NOWHERE", "UTC+25", "")


def turkish(folder: Path) -> dict[str, str]:
    """Make Turkish locales, where i and I are letters of their own; return where they are."""
    for coded in ("UTF-8", "ISO-8859-9"):
        place = folder / f"tr_TR.{coded}"
        subprocess.run(["localedef", "-i", "tr_TR", "-f", coded, place], check=True)
    return {"LOCPATH": str(folder), "PYTHONUTF8": "0"}


def dated(folder: Path) -> None:
    """Write files whose headers, names and dates a locale or a time zone could change."""
    inputs(
        folder,
        read1=["WINNER,LOSER,TIE,DATE", "İ,ı,0,2024-03-31 02:30", "I,ı,1,2024-10-27 02:30"],
        read2=["winner,loser,date", "i,ı,16 APRIL 2024", "ı,İ,1 Jul 2024"],
        read3=["winner,loser,date", "i,I2,2024-03-31T02:30+02:00", "I2,ı,2024-01-01T00:00Z"],
        games=["winner,loser,date", *(f"İ{k % 3},ı,2024-03-{k:02} 02:30" for k in range(20, 32))],
    )


def read_everywhere(folder: Path) -> str:
    """Read and write in one process that changes its locale and its time zone."""
    dated(folder)
    said = _python(_PLACES, folder, "|".join(ZONES), **turkish(folder))
    if not said.startswith("1 "):
        raise AssertionError(f"what is read depends on the place: {said}")
    return said


def places(folder: Path, times: int) -> str:
    """Turkish locales, none at all, and time zones."""
    read_everywhere(folder)
    where, seen = turkish(folder), set()
    settings = [{**where, "LC_ALL": name} for name in ("tr_TR.UTF-8", "tr_TR.ISO-8859-9")]
    settings += [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
    settings += [{"TZ": zone} for zone in ZONES]
    for env in settings[: 3 + times]:
        whole(folder, "rank games.csv --time date --crosscheck none --force --out out", **env)
        seen.add((folder / "out" / "ranking.csv").read_bytes())
    if len(seen) != 1:
        raise AssertionError("results depend on the locale or the time zone")
    return f"{len(settings[: 3 + times])} locales and time zones: one answer"


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


_SHAPES = """
    import sys, warnings
    from pathlib import Path
    import jax, numpy as np, numpyro, numpyro.distributions as dist
    from bayesrank.infer import EP

    def model(pairs, n, learned):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5)) if learned else 1.0
        with numpyro.plate("items", n):
            f = numpyro.sample("f", dist.Normal(0.0, scale))
        with numpyro.plate("rows", len(pairs)):
            margin = f[pairs[:, 0]] - f[pairs[:, 1]]
            numpyro.sample("won", dist.Bernoulli(logits=margin), obs=1)

    def size():
        status = Path("/proc/self/status").read_text()
        regions = Path("/proc/self/maps").read_text().count("\\n")
        return int(status.split("VmRSS:")[1].split()[0]) // 1024, regions

    sizes, count = [], int(sys.argv[1])
    for k in range(count):
        n = 3 + k % 25
        pairs = np.stack([np.arange(n - 1), np.arange(1, n)], 1)
        pairs = np.concatenate([pairs, np.tile(pairs[:1], (k // 25, 1))])
        mean = EP(model).run(jax.random.key(0), pairs, n, k % 5 == 0).mean["f"]
        assert mean[0] > 0 > mean[-1], (k, mean)
        sizes.append(size())
    print(*sizes[0], *sizes[count // 2], *sizes[-1])
"""


def shapes(folder: Path, times: int) -> str:
    """Fits of new shapes in one process, with all of XLA's optimisations."""
    env = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XDG_CACHE_HOME": str(folder)}
    numbers = [int(number) for number in _python(_SHAPES, times, **env).split()]
    (first, _), (middle, _), (last, regions) = zip(numbers[::2], numbers[1::2], strict=True)
    if (last - middle) / max(times - times // 2, 100) > 2.0 or regions > 50_000:
        raise AssertionError(f"memory grows: {numbers}")
    return (
        f"{times} fits of new shapes: {first} MiB at first, {middle} half-way, {last} at last, "
        f"where it has {regions:,} regions"
    )


_INTERRUPTS = """
    import os, random, signal, sys, threading, time
    import numpy as np
    from bayesrank import Ranker
    times, rng = int(sys.argv[1]), random.Random(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
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
    if cut < times // 3:
        raise AssertionError(f"{cut} of {times} interrupts came")
    return f"{times} interrupts, {cut} of them raised: answers are of the old fit or the new one"


def _said(call: list[str], **options: Any) -> str:
    done = subprocess.run(call, text=True, capture_output=True, timeout=5000, **options)
    if done.returncode:
        raise AssertionError(f"ended with {done.returncode}: {done.stderr[-5000:]}")
    return done.stdout.strip()


def _python(code: str, *args: object, **env: str) -> str:
    call = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *map(str, args)]
    return _said(call, env={**os.environ, **env})


# Each trial, and how often it is repeated, or how large it is, by default.
TRIALS: dict[Callable[[Path, int], str], int] = {
    locks: 3, clock: 3, full: 60, cache: 5, places: 7, names: 3, orders: 100, shapes: 500,
    interrupts: 200,
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
