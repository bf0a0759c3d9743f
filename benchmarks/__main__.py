"""Command line of the benchmarks: ``python -m benchmarks COMMAND``."""

from __future__ import annotations

import importlib
import json
import os

import click

MODULES = (
    *("accuracy", "active_tasks", "arena", "calibration_cases", "counted", "dynamic", "labels"),
    *("lists", "online_synthetic", "order_subsets", "ordinal", "ratings_peers", "retrieval"),
    *("scale", "scores", "speed"),
)


@click.group()
def main() -> None:
    """Measure bayesrank, print the figures, and compare with others where they are installed."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS")
    threads = ", ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
    load = os.getloadavg()[0]
    click.echo(
        f"{os.cpu_count()} cores; threads: {threads or 'as each library likes'}; load {load:.1f}"
    )


@main.command(hidden=True)
@click.argument("module")
@click.argument("name")
def one(module: str, name: str) -> None:
    """Measure one case of a module in this process and print it as JSON."""
    click.echo(json.dumps(importlib.import_module(f"benchmarks.{module}").measure(name)))


for module in MODULES:
    for command in importlib.import_module(f"benchmarks.{module}").COMMANDS:
        main.add_command(command)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
