"""Commands that measure collaborative ratings."""

from __future__ import annotations

import click
import numpy as np

__all__ = ["COMMANDS"]


@click.command("ratings-speed")
@click.option("--data", type=click.Choice(["movielens", "insteval"]), default="movielens")
@click.option("--share", default=1.0, help="Share of the users.")
def speed(data: str, share: float) -> None:
    """Seconds and memory of CGPOR to convergence, compiling included."""
    from benchmarks.ratings_speed import speed as measure

    for name, value in measure(data, share).items():
        click.echo(f"{name:12} {value:10.1f}")


@click.command("ratings-protocol")
@click.option("--repeats", default=10)
@click.option("--sizes", default="100,200,300,400", help="Numbers of training films.")
@click.option("--iterations", default=40, help="Most iterations of EM.")
def protocol(repeats: int, sizes: str, iterations: int) -> None:
    """Collaborative against individual models, as in tables 1 and 2 of the paper."""
    from benchmarks.ratings import protocol as measure

    numbers = tuple(int(size) for size in sizes.split(","))
    found = measure(repeats, numbers, iterations)
    for figure in ("mae", "zero-one"):
        click.echo(f"{figure}: mean (standard error); gain: individual less collaborative, paired")
        for size in numbers:
            row = {m: np.array(found[m, size, figure]) for m in ("GPR", "CGPR", "GPOR", "CGPOR")}
            cells = [f"{name} {_mean(values)}" for name, values in row.items()]
            gains = [_mean(row[m] - row["C" + m]) for m in ("GPR", "GPOR")]
            click.echo(f"{size:5} {'  '.join(cells)}  gain {gains[0]}  {gains[1]}")


def _mean(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ({error:.4f})"


@click.command("ratings-peers")
@click.option("--seed", default=0)
@click.option("--strength", default=None, type=float, help="Strength of the kernel's prior.")
@click.option("--iterations", default=300, help="Most iterations of EM.")
def peers(seed: int, strength: float | None, iterations: int) -> None:
    """Held-out errors beside scikit-surprise's, on a fifth of all ratings of MovieLens-small."""
    from benchmarks.ratings import STRENGTH
    from benchmarks.ratings import peers as measure

    click.echo(f"{'':40} {'mae':>8} {'zero-one':>8} {'log loss':>8}")
    for name, row in measure(seed, strength or STRENGTH, iterations).items():
        cells = " ".join(f"{row[k]:8.4f}" for k in ("mae", "zero-one", "log loss"))
        click.echo(f"{name:40} {cells}")


@click.command("ratings-single")
@click.option("--data", default="all", help="One data set, or all.")
@click.option("--repeats", default=10, help="Number of random halves.")
@click.option("--seed", default=0, help="Seed of the first half.")
def single(data: str, repeats: int, seed: int) -> None:
    """Ordinal regression on one target beside mord, statsmodels and skordinal."""
    from benchmarks.ratings_single import DATA, compare

    for name in DATA if data == "all" else (data,):
        names = ("zero-one", "mae", "log loss", "s", "CPU s")
        click.echo(f"{name:32} " + " ".join(f"{column:>8}" for column in names))
        for model, rows in compare(name, repeats, seed).items():
            values = np.array(rows)
            # The first fit compiles.
            later = np.median(values[min(1, len(values) - 1) :, 3:], axis=0)
            cells = [f"{value:8.4f}" for value in values[:, :3].mean(axis=0)]
            cells += [f"{value:8.3f}" for value in later]
            click.echo(f"{model:32} {' '.join(cells)}")


COMMANDS = (speed, protocol, peers, single)
