"""Hyperparameters of many latents, learned without a joint covariance and with one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.features import feature_games

__all__ = ["COMMANDS"]


class Case(NamedTuple):
    """A program with its arguments, and the structure that it is found to have."""

    name: str
    program: Callable[..., None]
    arguments: tuple[Any, ...]
    structure: str
    has_dense: bool


def _positive(name: str, start: float) -> Any:
    import numpyro
    from numpyro.distributions import constraints

    return numpyro.param(name, start, constraint=constraints.positive)


def _compared(first: Any, second: Any) -> None:
    import numpyro

    from bayesrank.distributions import Thurstone

    numpyro.sample("won", Thurstone(first - second), obs=1)


def features(X: Any, pairs: Any, rank: int) -> None:
    """A Gaussian process on inducing points."""
    import numpyro

    from bayesrank import gp

    kernel = gp.rbf(_positive("amplitude", 1.0), _positive("lengthscale", 1.0))
    f: Any = numpyro.sample("f", gp.inducing_point_prior(kernel, X, rank))
    _compared(f[pairs[:, 0]], f[pairs[:, 1]])


def walks(pairs: Any, period: Any, players: int, periods: int) -> None:
    """Skills that start apart and walk."""
    import numpyro
    import numpyro.distributions as dist

    step, first = _positive("step", 0.3), _positive("first", 0.5)
    start: Any = numpyro.sample("start", dist.Normal(0.0, first).expand([players]))
    with numpyro.plate("players", players):
        walk: Any = numpyro.sample("walk", dist.GaussianRandomWalk(step, num_steps=periods))
    skill = start[:, None] + walk
    _compared(skill[pairs[:, 0], period], skill[pairs[:, 1], period])


def teams(pairs: Any, team: Any, count: int) -> None:
    """Players of teams."""
    import numpyro
    import numpyro.distributions as dist

    between, within = _positive("teams", 0.5), _positive("players", 0.5)
    of_team: Any = numpyro.sample("team", dist.Normal(0.0, between).expand([count]))
    skill: Any = numpyro.sample("skill", dist.Normal(of_team[team], within))
    _compared(skill[pairs[:, 0]], skill[pairs[:, 1]])


def _games(skill: NDArray[Any], count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Games (winner, loser) between players of skills (n, T), and their periods."""
    rng = np.random.default_rng(1)
    first, period = rng.integers(len(skill), size=count), rng.integers(skill.shape[1], size=count)
    second = (first + 1 + rng.integers(len(skill) - 1, size=count)) % len(skill)
    margin = skill[first, period] - skill[second, period]
    won = margin + np.sqrt(2.0) * rng.normal(size=count) > 0
    return np.where(won, [first, second], [second, first]).T, period


def _of_features(items: int, count: int, rank: int, has_dense: bool) -> Case:
    X, _, pairs = feature_games(items, count)
    name = f"features, {items:,} items, {count:,}"
    return Case(name, features, (X, pairs, rank), "low_rank", has_dense)


def _of_walks(players: int, periods: int, count: int, has_dense: bool) -> Case:
    rng = np.random.default_rng(0)
    steps = 0.15 * rng.normal(size=(players, periods))
    games = _games(rng.normal(size=(players, 1)) + np.cumsum(steps, axis=1), count)
    name = f"walks, {players:,} x {periods}, {count:,}"
    return Case(name, walks, (*games, players, periods), "probes", has_dense)


def _of_teams(players: int, count: int, games: int, has_dense: bool) -> Case:
    rng, team = np.random.default_rng(0), np.arange(players) % count
    skill = 0.7 * rng.normal(size=count)[team] + 0.5 * rng.normal(size=players)
    pairs, _ = _games(skill[:, None], games)
    return Case(f"teams, {players:,}, {games:,}", teams, (pairs, team, count), "probes", has_dense)


CASES = (
    lambda: _of_features(2000, 10_000, 400, True),
    lambda: _of_walks(50, 40, 4000, True),
    lambda: _of_teams(2000, 100, 10_000, True),
    lambda: _of_features(20_000, 200_000, 400, False),
    lambda: _of_walks(200, 50, 10_000, False),
    lambda: _of_teams(20_000, 500, 200_000, False),
)


@click.command("large-evidence")
@click.option("--only", default="", help="Run the cases whose name contains this.")
def large_evidence(only: str) -> None:
    """Hyperparameters learned without a joint covariance, and with one where it fits."""
    from bayesrank.infer import EP, maximize_evidence

    for made in CASES:
        case = made()
        if only not in case.name:
            continue
        for structure in (case.structure, *(("dense",) if case.has_dense else ())):
            start = time.process_time()
            found = maximize_evidence(EP(case.program, structure=structure), *case.arguments)
            seconds = time.process_time() - start
            values = ", ".join(f"{k} {float(v):.4f}" for k, v in found.params.items())
            click.echo(
                f"{case.name:34} {structure:9} {values:40} {found.log_evidence:12.2f} "
                f"+- {found.log_evidence_error:.2f} {found.num_evaluations:3} {seconds:7.1f} s"
            )


COMMANDS = (large_evidence,)
