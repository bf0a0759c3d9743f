"""Commands that measure collaborative ratings."""

from __future__ import annotations

from pathlib import Path

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
        click.echo(f"{name:12} {value:10.5g}")


@click.command("ratings-protocol")
@click.option("--repeats", default=10)
@click.option("--seed", default=0, help="Seed of the first repeat.")
@click.option("--sizes", default="100,200,300,400", help="Numbers of training films.")
@click.option("--iterations", default=40, help="Most iterations of EM.")
@click.option("--strength", default=None, type=float, help="Of the kernel's prior, if not 30,000.")
def protocol(repeats: int, seed: int, sizes: str, iterations: int, strength: float | None) -> None:
    """Collaborative against individual models, as in tables 1 and 2 of the paper."""
    from benchmarks.ratings_protocol import protocol as measure

    numbers = tuple(int(size) for size in sizes.split(","))
    found: dict[tuple[str, int, str], list[float]] = {}
    for repeat in range(seed, seed + repeats):
        for size, model, figures in measure(repeat, numbers, iterations, strength):
            for figure, value in figures.items():
                found.setdefault((figure, size, model), []).append(value)
        click.echo(f"after {repeat - seed + 1} repeats:")
        _table(found, numbers)


def _table(found: dict[tuple[str, int, str], list[float]], sizes: tuple[int, ...]) -> None:
    for figure in ("mae", "zero-one"):
        click.echo(f"{figure}: mean (standard error); gain: individual less collaborative, paired")
        for size in sizes:
            row = {m: np.array(found[figure, size, m]) for m in ("GPR", "CGPR", "GPOR", "CGPOR")}
            cells = [f"{name} {_mean(values)}" for name, values in row.items()]
            gains = [_mean(row[m] - row["C" + m]) for m in ("GPR", "GPOR")]
            click.echo(f"{size:5} {'  '.join(cells)}  gain {gains[0]}  {gains[1]}")


def _mean(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4f} ({error:.4f})"


@click.command("ratings-peers")
@click.option("--seeds", default="11,12,13", help="A random split for each.")
@click.option("--strength", default=None, type=float, help="Strength of the kernel's prior.")
@click.option("--iterations", default=300, help="Most iterations of EM.")
@click.option("--least", default=50, help="Films with so many ratings or more.")
@click.option("--plot", default=None, help="Folder for pictures of the first split's calibration.")
def peers(
    seeds: str, strength: float | None, iterations: int, least: int, plot: str | None
) -> None:
    """Held-out errors beside scikit-surprise's, on a fifth of all ratings of MovieLens-small."""
    from benchmarks.ratings_peers import draw_calibration
    from benchmarks.ratings_peers import peers as measure

    splits = []
    for seed in seeds.split(","):
        splits.append(measure(int(seed), strength, iterations, least=least))
        how = "converged" if splits[-1].converged else "stopped"
        click.echo(f"seed {seed}: EM {how} after {splits[-1].iterations} iterations")
    click.echo("mean (standard error); difference to CGPOR, paired (standard error)")
    for name in splits[0].figures:
        cells = []
        for figure in ("mae", "zero-one", "log loss"):
            values = np.array([split.figures[name][figure] for split in splits])
            ours = np.array([split.figures["CGPOR"][figure] for split in splits])
            cells.append(f"{figure} {_mean(values)} {_mean(values - ours)}")
        click.echo(f"{name:36} {'  '.join(cells)}")
    if plot is not None:
        draw_calibration(splits[0].probability, splits[0].levels, Path(plot))


@click.command("ratings-single")
@click.option("--data", default="all", help="Data sets, comma-separated, or all.")
@click.option("--repeats", default=10, help="Number of random halves.")
@click.option("--seed", default=0, help="Seed of the first half.")
def single(data: str, repeats: int, seed: int) -> None:
    """Ordinal regression on one target beside mord, statsmodels and skordinal."""
    from benchmarks.ratings_single import DATA, compare

    figures = ("zero-one", "mae", "log loss")
    click.echo(
        f"means over {repeats} halves from seed {seed}; in brackets what is more than OrdinalGP's, "
        "probit, paired, ± its standard error; median seconds, and those of the processor, of a "
        "fit after the first"
    )
    for name in DATA if data == "all" else data.split(","):
        click.echo(f"{name:32} " + " ".join(f"{f:26}" for f in figures) + f"{'s':>8}{'CPU s':>8}")
        rows = {model: np.array(found) for model, found in compare(name, repeats, seed).items()}
        ours = next(iter(rows.values()))
        for model, values in rows.items():
            more = values[:, :3] - ours[:, :3]
            cells = [
                f"{mean:6.4f} ({_difference(column)})".ljust(26)
                for mean, column in zip(values[:, :3].mean(axis=0), more.T, strict=True)
            ]
            # The first fit compiles.
            times = np.median(values[min(1, len(values) - 1) :, 3:], axis=0)
            click.echo(f"{model:32} {' '.join(cells)}{times[0]:8.3f}{times[1]:8.3f}")


def _difference(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.4f} ± {error:.4f}"


@click.command("ratings-new-users")
@click.option("--likelihood", type=click.Choice(["probit", "logit", "gaussian"]), default="probit")
@click.option("--seeds", default="0,1", help="60 other users are left out for each.")
@click.option("--given", default="1,3,5,10,20,half", help="Numbers of ratings that are told.")
def new_users(likelihood: str, seeds: str, given: str) -> None:
    """Log loss of new users' ratings, with thresholds, scale and noise of their own or shared."""
    from benchmarks.ratings_new_users import new_users as measure

    numbers = tuple(None if cell == "half" else int(cell) for cell in given.split(","))
    found: dict[str, list[np.ndarray]] = {}
    for seed in seeds.split(","):
        for told, shared, own in measure(likelihood, int(seed), numbers):
            found.setdefault(told, []).append(np.stack([shared, own]))
    click.echo("mean log loss of a user (standard error over users); own less shared, paired")
    for told, parts in found.items():
        shared, own = np.concatenate(parts, axis=1)
        click.echo(
            f"{told:>4} told, {len(own):3} users: shared {_mean(shared)}  own {_mean(own)}  "
            f"{_difference(own - shared)}"
        )


@click.command("ratings-few")
@click.option("--seed", default=1000)
def few(seed: int) -> None:
    """Calibration and log loss of simulated ratings by few users."""
    from benchmarks.ratings_few import SETTINGS, report

    for setting in SETTINGS:
        for line in report(*setting, seed):
            click.echo(line)


@click.command("ratings-full-bayes")
@click.option("--users", default=30)
@click.option("--items", default=12)
@click.option("--sets", default=10)
@click.option("--seed", default=770_000)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=None,
    help="File to keep the sets in: the study goes on where it stopped.",
)
def full_bayes(users: int, items: int, sets: int, seed: int, results: Path | None) -> None:
    """The same beside NUTS with mean and kernel unknown."""
    from benchmarks.ratings_full_bayes import report

    for line in report(users, items, sets, seed, results):
        click.echo(line)


COMMANDS = (speed, protocol, peers, single, new_users, few, full_bayes)
