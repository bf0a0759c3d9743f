"""Commands of the benchmarks of skills that move."""

from __future__ import annotations

import click
import numpy as np

__all__ = ["COMMANDS"]


@click.command()
@click.option("--only", default="", help="The methods whose name contains this.")
def dynamic_league(only: str) -> None:
    """Log loss of the next month's NFL games, 2015 - 2018, beside Elo and kickscore."""
    from benchmarks.dynamic import METHODS, losses

    for name, method in METHODS.items():
        if only in name:
            loss = losses(method())
            error = loss.std() / np.sqrt(loss.size)
            click.echo(f"{name:32} {loss.mean():.4f} +- {error:.4f}  ({loss.size} games)")


@click.command()
@click.option("--seeds", default=5, help="Leagues.")
def dynamic_spread(seeds: int) -> None:
    """Standard deviations of differences against those of the dense posterior."""
    from benchmarks.dynamic import spreads

    for name, ratio in spreads(seeds).items():
        click.echo(
            f"{name:12} mean ratio {ratio.mean():.4f}, least {ratio.min():.4f}, "
            f"largest {ratio.max():.4f}"
        )


@click.command()
@click.option("--leagues", default=100)
@click.option("--process", type=click.Choice(["walk", "matern12", "matern32"]), default="walk")
def dynamic_coverage(leagues: int, process: str) -> None:
    """Coverage of 90% intervals of current skills and differences in simulated leagues."""
    from benchmarks.dynamic import coverage

    for name, held in coverage(leagues, process).items():
        error = held.std() / np.sqrt(held.size)
        click.echo(f"{name:12} {held.mean():.3f} +- {error:.3f}")


COMMANDS = [dynamic_coverage, dynamic_league, dynamic_spread]
