"""What the machine could do: sweeps beside LAPACK, and two processes beside one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

__all__ = ["COMMANDS"]

_ITEMS, _GAMES = 30_000, 1_000_000
_REPEATS = 5
# Each process prints what it took on the clock, its processor time, and one answer.
_SHARED = f"""
import os, sys, time
port, count, rank, core = (int(word) for word in sys.argv[1:])
os.sched_setaffinity(0, {{core}})
import jax
mesh = None
if count > 1:
    jax.distributed.initialize(f"127.0.0.1:{{port}}", count, rank)
    mesh = jax.make_mesh((jax.device_count(),), ("sites",))
from bayesrank.infer import EP
from bayesrank.models import thurstone
from benchmarks.scale import games
pairs = games("random", {_ITEMS}, {_GAMES}, 1.0)
engine = EP(thurstone, structure="factorised", mesh=mesh)
taken = []
for _ in range({_REPEATS} + 1):
    start = time.perf_counter(), time.process_time()
    result = engine.run(jax.random.key(0), {_ITEMS}, pairs, params={{"scale": 1.0}})
    taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
again = taken[1:]
print(min(wall for wall, _ in again), min(cpu for _, cpu in again), float(result.mean["f"][0]))
"""


def _processor_seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


@click.command()
@click.option("--items", default=1_000)
@click.option("--comparisons", default=5_000)
def sweeps(items: int, comparisons: int) -> None:
    """A whole run of dense EP, compiled, beside as many inverses by LAPACK as it has sweeps.

    The two take turns. On a busy machine processor time is steady on one core only (taskset -c 0).
    """
    import jax
    from scipy.linalg import get_lapack_funcs

    from bayesrank.infer import EP
    from benchmarks import problems

    problem = problems.gp_problem(items, comparisons, 4.0, seed=0)
    engine = EP(problems.fixed_gp, structure="dense")
    arguments = problem.X, problem.winner, problem.loser, np.asarray(4.0)

    def run() -> Any:
        return engine.run(jax.random.key(0), *arguments)

    matrix = np.cov(np.random.default_rng(0).normal(size=(items, 3 * items)))
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (matrix,))
    count = run().num_sweeps

    def invert() -> None:
        for _ in range(count):
            potri(potrf(matrix, lower=1)[0], lower=1)

    pairs = [(_processor_seconds(run), _processor_seconds(invert)) for _ in range(_REPEATS)]
    ours, theirs = np.median(pairs, axis=0)
    click.echo(
        f"n={items:,}, K={comparisons:,}, {count} sweeps: {ours:.3f} s of processor time, "
        f"potrf + potri {theirs:.3f} s, ratio {ours / theirs:.2f}"
    )


@click.command()
def processes() -> None:
    """One process against two, a core each, that share the games of one ranking."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise click.ClickException("two cores are needed")
    found = {count: _in_processes(count, cores) for count in (1, 2)}
    for count, (wall, cpu, _) in found.items():
        click.echo(f"{count} process(es): {wall:.3f} s, {cpu:.3f} s of processor time each")
    (one, _, answer), (two, _, other) = found[1], found[2]
    click.echo(f"{one / two:.2f} times as fast; answers {abs(answer - other):.1e} apart")


def _in_processes(count: int, cores: list[int]) -> tuple[float, float, float]:
    """The slowest on the clock, the most processor time, and the first one's answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []
    for rank in range(count):
        words = [sys.executable, "-c", _SHARED, *map(str, (port, count, rank, cores[rank]))]
        environment = os.environ | {"JAX_PLATFORMS": "cpu"}
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment))
    try:
        outputs = [process.communicate(timeout=600)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    rows = [[float(word) for word in output.split()[-3:]] for output in outputs]
    return max(row[0] for row in rows), max(row[1] for row in rows), rows[0][2]


COMMANDS = (sweeps, processes)
