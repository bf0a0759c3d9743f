"""Many small leagues at once: one program of one league, mapped over all of them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import click
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP

__all__ = ["COMMANDS", "Leagues", "league", "simulated", "skills"]


class Leagues(NamedTuple):
    """L leagues of as many players, padded to as many games.

    Attributes
    ----------
    games
        Winner and loser, shape (L, G, 2).
    played
        False where a game is padding, shape (L, G).
    skills
        The truth, shape (L, n).
    """

    games: Any
    played: Any
    skills: Any


def league(games: Array, played: Array, num_players: int) -> None:
    """Independent skills, seen through the games that were played."""
    with numpyro.plate("players", num_players):
        skill = jnp.asarray(numpyro.sample("skill", dist.Normal(0.0, 1.0)))
    with numpyro.plate("games", games.shape[0]):
        margin = skill[games[:, 0]] - skill[games[:, 1]]
        numpyro.sample("won", Thurstone(margin, 1.0).mask(played), obs=1)


def skills(games: Array, played: Array, num_players: int) -> tuple[Array, Array, Array]:
    """Posterior means and standard deviations, and how far EP was from its fixed point."""
    program, state = EP(league).solve({}, games, played, num_players)
    mean, covariance = program.all_latents(state.posterior)
    return mean, jnp.sqrt(jnp.diagonal(covariance)), state.max_change


def simulated(num_leagues: int, num_players: int, num_games: int, seed: int = 0) -> Leagues:
    """Leagues of between a third of the games and all of them."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, num_players, (num_leagues, num_games))
    apart = rng.integers(1, num_players, (num_leagues, num_games))
    games = np.stack([first, (first + apart) % num_players], axis=2)
    played = np.arange(num_games) < rng.integers(num_games // 3, num_games + 1, (num_leagues, 1))
    skill = rng.normal(size=(num_leagues, num_players))
    performance = np.take_along_axis(skill[:, None], games.reshape(num_leagues, 1, -1), axis=2)
    performance = performance.reshape(games.shape) + rng.normal(size=games.shape)
    order = np.argsort(-performance, axis=2)
    return Leagues(np.take_along_axis(games, order, axis=2), played, skill)


@click.command("leagues")
@click.option("--leagues", "num_leagues", default=10_000, show_default=True)
@click.option("--players", "num_players", default=20, show_default=True)
@click.option("--games", "num_games", default=190, show_default=True)
def leagues(num_leagues: int, num_players: int, num_games: int) -> None:
    """Leagues a second, by vmap, by a compiled loop, and one call each."""
    data = simulated(num_leagues, num_players, num_games)

    def one(games: Array, played: Array) -> tuple[Array, Array, Array]:
        return skills(games, played, num_players)

    def single_calls(games: Array, played: Array) -> Any:
        alone = jax.jit(one)
        return [alone(*each) for each in zip(games, played, strict=True)]

    ways = {
        "vmap": jax.jit(jax.vmap(one)),
        "lax.map": jax.jit(
            lambda games, played: jax.lax.map(lambda each: one(*each), (games, played))
        ),
        "one call each": single_calls,
    }
    with jax.enable_x64(True):
        for name, way in ways.items():
            seconds, found = [], None
            for _ in range(2):
                start = time.perf_counter()
                found = jax.block_until_ready(way(data.games, data.played))
                seconds.append(time.perf_counter() - start)
            click.echo(
                f"{name:14} first {seconds[0]:6.2f} s, then {seconds[1]:6.2f} s: "
                f"{num_leagues / seconds[1]:8.0f} leagues a second"
            )
            if name == "vmap" and found is not None:
                mean, sd, delta = (np.asarray(part) for part in found)
                held = np.abs(mean - data.skills) < 1.645 * sd
                click.echo(
                    f"90% intervals hold {held.mean():.3f}; largest change {delta.max():.1e}"
                )


COMMANDS = (leagues,)
