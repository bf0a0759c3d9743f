"""Commands that time collaborative ratings."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["COMMANDS"]


@click.command("ratings-users")
@click.option("--counts", default="500,1000,1500,2000,2500,2972", help="Numbers of users.")
@click.option("--plot", "path", type=click.Path(path_type=Path), default=None)
def users(counts: str, path: Path | None) -> None:
    """Seconds of an iteration of CGPOR against the number of users, on the lecture ratings."""
    from benchmarks.ratings_speed import plot, timings

    rows = []
    click.echo(f"{'users':>6} {'ratings':>8} {'wall s':>8} {'CPU s':>8}")
    for row in timings("insteval", tuple(int(count) for count in counts.split(","))):
        rows.append(row)
        click.echo(f"{row.users:6} {row.ratings:8} {row.wall:8.3f} {row.cpu:8.3f}")
    if path is not None:
        plot(rows, path)


@click.command("ratings-settled")
@click.option("--data", type=click.Choice(["movielens", "insteval"]), default="movielens")
@click.option("--further", default=100, help="Most further iterations.")
def settled(data: str, further: int) -> None:
    """Whether predictions still move after EM has stopped, on a held-out fifth of the ratings."""
    from benchmarks.ratings_speed import settled as measure

    for row in measure(data, further):
        click.echo("  ".join(f"{name} {value:.5f}" for name, value in row.items()))


COMMANDS = (users, settled)
