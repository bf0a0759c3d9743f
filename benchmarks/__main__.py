"""Command line of the benchmarks: ``python -m benchmarks COMMAND``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.active_commands import COMMANDS as ACTIVE
from benchmarks.arena import COMMANDS as ARENA
from benchmarks.dynamic_commands import COMMANDS as DYNAMIC
from benchmarks.fuzz import COMMANDS as FUZZ
from benchmarks.inducing import COMMANDS as INDUCING
from benchmarks.kills import COMMANDS as KILLS
from benchmarks.labels import COMMANDS as LABELS
from benchmarks.large_evidence import COMMANDS as LARGE_EVIDENCE
from benchmarks.leagues import COMMANDS as LEAGUES
from benchmarks.learn_commands import COMMANDS as LEARN
from benchmarks.machine import COMMANDS as MACHINE
from benchmarks.notebook import COMMANDS as NOTEBOOK
from benchmarks.online_commands import COMMANDS as ONLINE
from benchmarks.ratings_commands import COMMANDS as RATINGS
from benchmarks.ratings_speed_commands import COMMANDS as RATINGS_SPEED
from benchmarks.retrieval import COMMANDS as RETRIEVAL
from benchmarks.scale import COMMANDS as SCALE
from benchmarks.shapes import COMMANDS as SHAPES
from benchmarks.sizes import COMMANDS as SIZES
from benchmarks.surroundings import COMMANDS as SURROUNDINGS
from benchmarks.threads import COMMANDS as THREADS
from benchmarks.walks import COMMANDS as WALKS


@click.group()
def main() -> None:
    """Measure bayesrank, print the figures, and compare with others where they are installed."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS")
    threads = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
    load = os.getloadavg()[0]
    click.echo(
        f"{os.cpu_count()} cores; threads: {threads or 'as each library likes'}; load {load:.1f}"
    )


def _in_new_process(kind: str, name: str) -> dict[str, Any] | None:
    """Measure one case in a process of its own, so that first calls and memory are its own."""
    output = subprocess.run(
        [sys.executable, "-m", "benchmarks", "one", kind, name],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


@main.command(hidden=True)
@click.argument("kind")
@click.argument("name")
def one(kind: str, name: str) -> None:
    """Measure one case in this process and print it as JSON."""
    if kind == "speed":
        from benchmarks.speed import measure as run
    elif kind == "acquisition":
        from benchmarks.active_speed import measure as run
    elif kind == "scale":
        from benchmarks.scale import measure as run
    elif kind == "query_loop":
        from benchmarks.query_loop import measure as run
    else:
        from benchmarks.peers import measure_peer as run
    click.echo(json.dumps(run(name)))


@main.command()
@click.option("--only", default="", help="Run the cases whose name contains this.")
def speed(only: str) -> None:
    """First call, later calls and memory of the engine."""
    from benchmarks.speed import CASES

    click.echo(f"{'case':45} {'first s':>8} {'median s':>9} {'min s':>8} {'target':>7} {'MB':>6}")
    for name in CASES:
        row = _in_new_process("speed", name) if only in name else None
        if row is not None:
            click.echo(
                f"{name:45} {row['first_s']:8.2f} {row['median_s']:9.4f} {row['min_s']:8.4f} "
                f"{row['target_s']:7.2f} {row['peak_mb']:6.0f}"
            )


@main.command()
@click.option("--only", default="", help="Run the cases whose name contains this.")
def peers(only: str) -> None:
    """First call and later calls of other libraries on the same comparisons."""
    from benchmarks.peers import PEERS

    click.echo(f"{'case':45} {'first s':>8} {'median s':>9}")
    for name in PEERS:
        if only not in name:
            continue
        row = _in_new_process("peer", name)
        text = "not installed" if row is None else f"{row['first_s']:8.2f} {row['median_s']:9.3f}"
        click.echo(f"{name:45} {text}")


@main.command()
@click.option("--seeds", default=5, help="Data sets.")
def learned(seeds: int) -> None:
    """Log loss of fresh pairs after learning hyperparameters, beside botorch's."""
    from benchmarks.learned import log_losses

    rows = [log_losses(300, 1_500, seed) for seed in range(seeds)]
    for name in rows[0]:
        losses = [row[name] for row in rows]
        each = "  ".join(f"{loss:.4f}" for loss in losses)
        click.echo(f"{name:12} {sum(losses) / seeds:.4f}   each: {each}")


@main.command()
@click.option("--draws", default=1_000, help="Draws of NUTS over everything.")
def nested(draws: int) -> None:
    """NUTS over the hyperparameters with EP inside, against NUTS over everything."""
    from benchmarks.nested import nested_against_joint

    for n, count in ((50, 150), (200, 1_000)):
        for name, row in nested_against_joint(n, count, draws).items():
            wall, cpu = row.pop("seconds")
            sites = "  ".join(f"{k} {m:.3f} +- {s:.3f} ({e:.0f})" for k, (m, s, e) in row.items())
            click.echo(
                f"n={n}, K={count}, {name:7} {wall:7.1f} s ({cpu:.1f} s of CPU)  "
                f"mean +- sd (ESS): {sites}"
            )


@main.command()
@click.option("--draws", default=5_000, help="NUTS draws in each chain.")
@click.option("--chains", default=2, help="NUTS chains.")
@click.option("--only", default="", help="Run the cases (n=100, K=50, v=4) that contain this.")
def accuracy(draws: int, chains: int, only: str) -> None:
    """EP against long NUTS runs: pair differences, and log loss of fresh pairs."""
    from benchmarks.accuracy import few_comparisons

    cases = [(100, 50, 4.0), (100, 100, 25.0), (100, 200, 100.0), (300, 1_500, 4.0)]
    click.echo("error: r.m.s. over pair differences, in posterior sd; mc: NUTS's own part of it")
    for n, count, variance in cases:
        name = f"n={n}, K={count}, v={variance:g}"
        if only in name:
            row = few_comparisons(n, count, variance, draws=draws, chains=chains)
            click.echo(
                f"{name:25} error {row['error']:.4f} (mc {row['monte_carlo']:.4f})  "
                f"sd ratio {row['sd_ratio']:.4f}  log loss EP {row['log_loss_ep']:.4f} "
                f"NUTS {row['log_loss_nuts']:.4f}"
            )


@main.command()
@click.option("--draws", default=100_000)
def evidence(draws: int) -> None:
    """EP's log evidence against importance sampling."""
    from benchmarks.accuracy import importance_evidence

    for n, count in ((100, 500), (300, 1_500)):
        row = importance_evidence(n, count, 4.0, draws)
        click.echo(
            f"n={n}, K={count}: EP {row['ep']:.3f}, importance sampling {row['importance']:.3f} "
            f"+- {row['standard_error']:.3f} ({row['effective_draws']:.0f} effective draws)"
        )


@main.command()
@click.option("--datasets", default=500)
@click.option("--items", default=100)
@click.option("--comparisons", default=500)
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def coverage(datasets: int, items: int, comparisons: int, path: Path | None) -> None:
    """Coverage of 90% rank intervals over simulated data sets."""
    from benchmarks.coverage import calibrate, plot

    result = calibrate(datasets, items, comparisons, 4.0)
    error = result.coverage.std() / len(result.coverage) ** 0.5
    click.echo(
        f"{datasets} data sets of {items} items and {comparisons} comparisons: 90% rank intervals "
        f"cover {100 * result.coverage.mean():.2f}% +- {100 * error:.2f}%"
    )
    if path is not None:
        plot(
            result,
            path,
            f"{datasets} simulated data sets, {items} items, {comparisons} comparisons",
        )


@main.command()
@click.option("--quick", is_flag=True, help="A twentieth of the data sets: about a minute.")
@click.option("--only", default="", help="Run the cases whose name contains this.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=None,
    help="File to keep the trials in: the study goes on where it stopped.",
)
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
@click.option(
    "--table",
    "page",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="A page with a table of earlier runs: --plot draws it, and nothing is run.",
)
def calibration(
    quick: bool, only: str, results: Path | None, path: Path | None, page: Path | None
) -> None:
    """What every estimator promises and keeps, on data from its own program."""
    from benchmarks.calibration import figures, plot, read_table, run, table
    from benchmarks.calibration_cases import CASES, POINTS

    if page is not None:
        if path is None:
            raise click.UsageError("--table gives what --plot draws; name a file with --plot.")
        plot(read_table(page.read_text()), path)
        return
    cases = [case for case in CASES if only in case.name]
    found = run(cases, 0.05 if quick else 1.0, results, lambda row: click.echo(row, err=True))
    click.echo(table(found, {name: what for name, what in POINTS.items() if only in name}))
    if path is not None:
        plot({name: figures(trials) for name, trials in found.items()}, path)


@main.command("order-subsets")
@click.option("--orders", default=5000, help="People who put ten items in order.")
@click.option("--groups", default=100, help="Disjoint groups of them.")
def order_subsets(orders: int, groups: int) -> None:
    """Spread of estimates from disjoint groups of people, over the standard deviation stated."""
    from benchmarks.order_subsets import KINDS, spread, whole

    for kind in KINDS:
        scale, seconds = whole(kind, orders)
        found = spread(kind, orders, groups, scale)
        rms = np.sqrt(np.mean(found.skills**2))
        click.echo(
            f"{kind}: {orders} orders {seconds:.1f} CPU s; ratio {rms:.3f} +- {found.error:.3f}, "
            f"items {found.skills.min():.2f} to {found.skills.max():.2f}, "
            f"pairs {found.pairs.min():.2f} to {found.pairs.max():.2f}"
        )


GROUPS = (
    *(ACTIVE, ARENA, DYNAMIC, FUZZ, INDUCING, KILLS, LABELS, LARGE_EVIDENCE, LEAGUES, LEARN),
    *(
        MACHINE,
        NOTEBOOK,
        ONLINE,
        RATINGS,
        RATINGS_SPEED,
        RETRIEVAL,
        SCALE,
        SHAPES,
        SIZES,
        SURROUNDINGS,
        THREADS,
        WALKS,
    ),
)
for command in chain(*GROUPS):
    main.add_command(command)


@main.command("query_loop")
@click.option("--only", default="", help="Run the cases whose name contains this.")
def query_loop(only: str) -> None:
    """A round of the query loop: tell, update, score 1,000 candidates, ask."""
    from benchmarks.query_loop import CASES, LEARNINGS

    click.echo(f"{'answers':>20} {'median ms':>10} {'95% ms':>7} {'CPU ms':>7}")
    for row in (_in_new_process("query_loop", name) for name in CASES if only in name):
        if row is None:
            continue
        click.echo(
            f"{row['case']}: first question after {row['first_question_s']:.2f} s "
            f"({row['compiled_before']} compilations), first round "
            f"{1e3 * row['first_round_s']:.1f} ms, compilations after the first question: "
            f"{row['compiled_during']}"
        )
        for window in row["windows"]:
            times = [1e3 * window[k] for k in ("median_s", "p95_s", "cpu_s")]
            click.echo(
                f"{'to ' + str(window['until']):>20} {times[0]:10.1f} {times[1]:7.1f} "
                f"{times[2]:7.1f}"
            )
        for count, seconds in zip(LEARNINGS, row["learn_s"], strict=False):
            click.echo(f"  hyperparameters from {count} answers: {seconds:.2f} s")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
