"""What the machine could do: sweeps beside LAPACK."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

__all__ = ["COMMANDS"]

_REPEATS = 5


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


COMMANDS = (sweeps,)
