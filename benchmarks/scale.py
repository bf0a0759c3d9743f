"""Players and games of any number: time and memory against size, error against the dense posterior.

Skills are drawn from the prior, and games as on five kinds of graph. Each case is run in a process
of its own, twice: the first run compiles.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

_DIMENSIONS, AMPLITUDE, LENGTHSCALE = 5, 2.0, 0.5
# The process that skills are drawn from, as so many waves.
_WAVES = 2000


def feature_games(
    items: int, count: int, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Features in a unit cube, skills that are smooth in them, and comparisons (winner, loser)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(items, _DIMENSIONS))
    waves = rng.normal(size=(_DIMENSIONS, _WAVES)) / LENGTHSCALE
    phase = rng.uniform(0, 2 * np.pi, _WAVES)
    height = AMPLITUDE * np.sqrt(2 / _WAVES) * rng.normal(size=_WAVES)
    parts = np.array_split(X, 1 + items // 5000)
    skill = np.concatenate([np.cos(part @ waves + phase) @ height for part in parts])
    first = rng.integers(items, size=count)
    second = (first + 1 + rng.integers(items - 1, size=count)) % items
    won = skill[first] - skill[second] + np.sqrt(2.0) * rng.normal(size=count) > 0
    return X, skill, np.where(won, [first, second], [second, first]).T


def _engine(rank: int | None, structure: str) -> Any:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    from bayesrank import gp
    from bayesrank.distributions import Thurstone
    from bayesrank.infer import EP

    def skills(X: Any, pairs: Any) -> None:
        kernel = gp.rbf(AMPLITUDE, LENGTHSCALE)
        if rank is None:
            prior: Any = dist.MultivariateNormal(covariance_matrix=gp.gram(kernel, X))
        else:
            prior = gp.inducing_point_prior(kernel, X, rank)
        f = jnp.asarray(numpyro.sample("f", prior))
        numpyro.sample("win", Thurstone(f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)

    return EP(skills, structure=structure)


def feature_fit(items: int, count: int, rank: int) -> Callable[[], Any]:
    """Fit of comparisons of items with features, on so many inducing points."""
    import jax

    X, _, pairs = feature_games(items, count)
    engine = _engine(rank, "low_rank")
    return lambda: engine.run(jax.random.key(0), X, pairs)


def feature_errors(items: int, count: int, ranks: tuple[int, ...]) -> list[dict[str, Any]]:
    """Errors on 500 pairs of random items against the dense posterior of the whole process."""
    import jax

    X, _, pairs = feature_games(items, count)
    first = np.random.default_rng(1).integers(items, size=500)
    second = (first + 1 + np.random.default_rng(2).integers(items - 1, size=500)) % items

    def told(rank: int | None, structure: str) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        result = _engine(rank, structure).run(jax.random.key(0), X, pairs)
        return result, *result.difference(first, second)

    dense, mean, sd = told(None, "dense")
    rows = []
    for rank in ranks:
        result, told_mean, own = told(rank, "low_rank")
        rows.append(
            {
                "graph": f"features, {items:,} items, {count:,}",
                "how": f"low_rank, {rank}",
                "mean_error": float(np.sqrt(np.mean(((told_mean - mean) / sd) ** 2))),
                "sd_ratio": float(np.mean(own / sd)),
                "sd_spread": float(np.std(own / sd)),
                "evidence": float(result.log_evidence - dense.log_evidence),
            }
        )
    return rows


SIZES = (
    ("dense", 1000, 5000),
    ("dense", 3000, 30_000),
    *((how, *size) for how in ("factorised", "probes") for size in (
        (1000, 5000), (3000, 30_000), (10_000, 100_000), (30_000, 1_000_000), (100_000, 1_000_000),
    )),
    ("low_rank", 10_000, 100_000),
    ("low_rank", 100_000, 1_000_000),
)  # fmt: skip
# Items with features: inducing points, and sizes at which the process itself fits.
RANK = 400
WITH_FEATURES = ((1000, 5000, (100, 400)), (2000, 10_000, (400, 600)))
GRAPHS = (
    ("random", 1000, 5000, 1.0),
    ("popular", 1000, 5000, 1.0),
    ("leagues", 1000, 5000, 1.0),
    ("similar", 1000, 5000, 1.0),
    ("similar", 1000, 5000, 5.0),
    ("random", 2000, 40_000, 1.0),
)
# Among items of similar rating, where a Gaussian for each alone errs most.
GROWING = tuple(("similar", items, 5 * items, 1.0) for items in (250, 500, 1000, 2000))
_KEPT = ("factorised", "probes", "probes, each solved")


def games(kind: str, items: int, count: int, scale: float, seed: int = 0) -> NDArray[np.int64]:
    """Comparisons (winner, loser) of items whose skills have a standard deviation of `scale`."""
    rng = np.random.default_rng(seed)
    skill = scale * rng.normal(size=items)
    first, second = rng.integers(items, size=(2, count))
    if kind == "popular":
        share = np.arange(1, items + 1) ** -0.7
        first, second = rng.choice(items, (2, count), p=share / share.sum())
    elif kind == "leagues":
        across = rng.random(count) < 0.02
        second = np.where(across, second, np.minimum(first // 100 * 100 + second % 100, items - 1))
    elif kind == "similar":
        order = np.argsort(skill)
        place = np.argsort(order)[first] + np.rint(items / 200 * rng.normal(size=count)).astype(int)
        second = order[np.clip(place, 0, items - 1)]
    apart = first != second
    first, second = first[apart], second[apart]
    won = skill[first] - skill[second] + np.sqrt(2.0) * rng.normal(size=first.size) > 0
    return np.stack([np.where(won, first, second), np.where(won, second, first)], axis=1)


def _fitted(pairs: NDArray[Any], items: int, scale: float, how: str) -> Any:
    import jax

    from bayesrank.infer import EP
    from bayesrank.models import thurstone

    engine = EP(thurstone, structure=how, max_sweeps=1000)
    return lambda: engine.run(jax.random.key(0), items, pairs, params={"scale": scale})


def measure(name: str) -> dict[str, Any]:
    """Time and memory of one case, ``structure items games``."""
    how, items, count = name.split()
    if how == "low_rank":
        run = feature_fit(int(items), int(count), RANK)
    else:
        run = _fitted(games("random", int(items), int(count), 1.0), int(items), 1.0, how)
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        result = run()
        taken.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "first_s": taken[0],
        "again_s": taken[1],
        "sweeps": result.num_sweeps,
        "peak_mb": peak,
    }


def _errors(kind: str, items: int, count: int, scale: float) -> list[dict[str, Any]]:
    """Errors on one graph against the dense posterior, on 500 pairs of random items."""
    pairs = games(kind, items, count, scale)
    dense = _fitted(pairs, items, scale, "dense")()
    first = np.random.default_rng(1).integers(items, size=500)
    second = (first + 1 + np.random.default_rng(2).integers(items - 1, size=500)) % items
    mean, sd = dense.difference(first, second)
    rows = []
    for how, exact in (("factorised", False), ("probes", False), ("probes", True)):
        result = _fitted(pairs, items, scale, how)()
        told_mean, told = result.difference(first, second, exact=exact)
        ratio = told / sd
        rows.append(
            {
                "graph": f"{kind}, {items:,}, prior sd {scale:g}",
                "items": items,
                "how": f"{how}, each solved" if exact else how,
                "mean_error": float(np.sqrt(np.mean(((told_mean - mean) / sd) ** 2))),
                "sd_ratio": float(ratio.mean()),
                "sd_spread": float(ratio.std()),
                "sd_error": float(np.sqrt(np.mean((ratio - 1.0) ** 2))),
                "evidence": float(result.log_evidence - dense.log_evidence),
            }
        )
    return rows


def _plot(
    rows: list[dict[str, Any]],
    errors: list[dict[str, Any]],
    growing: list[dict[str, Any]],
    path: Path,
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
    for how in ("dense", "factorised", "probes"):
        mine = [row for row in rows if row["how"] == how]
        label = "conjugate gradients with probes" if how == "probes" else how
        left.loglog([r["items"] for r in mine], [r["again_s"] for r in mine], "o-", label=label)
    left.set(xlabel="items", ylabel="seconds, compiled", title="Time against size")
    left.legend()
    for how in _KEPT:
        mine = [row for row in growing if row["how"] == how]
        middle.loglog(
            [r["items"] for r in mine], [100 * r["sd_error"] for r in mine], "o-", label=how
        )
    middle.set(xlabel="items of similar rating", ylabel="% of the dense standard deviation")
    sizes = sorted({row["items"] for row in growing})
    middle.set_xticks(sizes, [f"{items:,}" for items in sizes])
    middle.minorticks_off()
    middle.set_title("Error (rms) against size")
    middle.legend()
    graphs = list(dict.fromkeys(row["graph"] for row in errors))
    for number, how in enumerate(_KEPT):
        mine = [100 * (row["sd_ratio"] - 1) for row in errors if row["how"] == how]
        right.barh(np.arange(len(graphs)) + 0.25 * (number - 1), mine, 0.25, label=how)
    right.set_yticks(range(len(graphs)), graphs)
    right.set(xlabel="% of the dense standard deviation", title="Differences of random pairs")
    right.legend()
    figure.savefig(path, dpi=130)


@click.command()
@click.option("--only", default="", help="Run the sizes whose name contains this.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def scale(only: str, path: Path | None) -> None:
    """Players and games: time and memory against size, error against the dense posterior."""
    rows = []
    click.echo(f"{'structure':12} {'items':>8} {'games':>10} {'first s':>8} {'again':>8} {'MB':>6}")
    for how, items, count in SIZES:
        name = f"{how} {items} {count}"
        if only not in name:
            continue
        command = [sys.executable, "-m", "benchmarks", "one", "scale", name]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = json.loads(output.splitlines()[-1]) | {"how": how, "items": items}
        rows.append(row)
        click.echo(
            f"{how:12} {items:8,} {count:10,} {row['first_s']:8.2f} {row['again_s']:8.2f} "
            f"{row['peak_mb']:6.0f}"
        )
    errors = [] if only else [row for case in GRAPHS for row in _errors(*case)]
    growing = [] if only else [row for case in GROWING for row in _errors(*case)]
    smooth = [] if only else [row for case in WITH_FEATURES for row in feature_errors(*case)]
    click.echo(f"{'graph':32} {'structure':20} {'mean, sd':>9} {'sd ratio':>16} {'evidence':>9}")
    for row in (*errors, *growing, *smooth):
        click.echo(
            f"{row['graph']:32} {row['how']:20} {row['mean_error']:9.4f} "
            f"{row['sd_ratio']:8.4f} +- {row['sd_spread']:.3f} {row['evidence']:9.2f}"
        )
    if path is not None:
        _plot(rows, errors, growing, path)


COMMANDS = (scale,)
