"""Skills that walk from period to period: time, and errors of differences, beside kickscore.

A league of so many players, periods and games is drawn from the program. Time is that of the
processor, of all cores together.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

__all__ = ["COMMANDS", "League", "league"]

# Standard deviation of a step, and of the noise of a performance.
_STEP, _NOISE = 0.1, 1.0
# Players, periods, games: where all covariances fit, as in 72 seasons of a league of basketball
# (kickscore's example: its games are not in the package), and as large as it is meant to be.
SMALL, SEASONS, FULL = (50, 40, 10_000), (102, 72, 67_642), (1000, 100, 1_000_000)


class League(NamedTuple):
    """Winners and losers (K, 2), and the period of each game, in the order of time."""

    pairs: NDArray[np.int64]
    period: NDArray[np.int64]
    players: int
    periods: int


def league(players: int, periods: int, count: int, seed: int = 0) -> League:
    """A league whose skills walk."""
    rng = np.random.default_rng(seed)
    skill = np.cumsum(_STEP * rng.normal(size=(players, periods)), axis=1)
    first, period = rng.integers(players, size=count), np.sort(rng.integers(periods, size=count))
    second = (first + 1 + rng.integers(players - 1, size=count)) % players
    margin = skill[first, period] - skill[second, period]
    won = (margin + np.sqrt(2.0) * _NOISE * rng.normal(size=count) > 0)[:, None]
    pairs = np.where(won, np.stack([first, second], 1), np.stack([second, first], 1))
    return League(pairs, period, players, periods)


def _engine(made: League, structure: str) -> Callable[[], Any]:
    import jax
    import numpyro
    import numpyro.distributions as dist

    from bayesrank.distributions import Thurstone
    from bayesrank.infer import EP

    def walks(pairs: Any, period: Any) -> None:
        with numpyro.plate("players", made.players):
            walk = dist.GaussianRandomWalk(_STEP, num_steps=made.periods)
            skill: Any = numpyro.sample("skill", walk)
        margin = skill[pairs[:, 0], period] - skill[pairs[:, 1], period]
        numpyro.sample("won", Thurstone(margin, _NOISE), obs=1)

    engine = EP(walks, structure=structure)
    return lambda: engine.run(jax.random.key(0), made.pairs, made.period)


def _chains(made: League) -> Callable[[], Any]:
    import jax

    from bayesrank.solvers.comparisons import DynamicEP

    params, times = {"scale": _STEP, "drift": _STEP}, np.arange(float(made.periods))
    engine, key = DynamicEP(), jax.random.key(0)
    more = {"params": params, "times": times, "period": made.period}
    return lambda: engine.run(key, made.players, made.pairs, **more)


def _kickscore(made: League) -> Callable[[], Any]:
    """Its noise is that of a difference, with variance 1; ours that of two performances."""
    ks: Any = import_module("kickscore")
    unit = _STEP**2 / (2.0 * _NOISE**2)

    def run() -> Any:
        model = ks.BinaryModel(obs_type="probit")
        for player in range(made.players):
            model.add_item(player, kernel=ks.kernel.Wiener(unit, 0.0, unit))
        for (winner, loser), period in zip(made.pairs, made.period, strict=True):
            model.observe([winner], [loser], t=float(period))
        model.fit()
        return model

    return run


def _timed(name: str, run: Callable[[], Any]) -> Any:
    taken, result = [], None
    for _ in range(2):
        start = time.process_time()
        result = run()
        taken.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(f"{name:40} {taken[0]:9.1f} {taken[1]:9.1f} {peak:8,.0f}")
    return result


def _report(name: str, told: NDArray[Any], true: NDArray[Any]) -> None:
    ratio = told / true
    click.echo(
        f"{name:40} sd ratio {ratio.mean():.4f} +- {ratio.std():.4f}, "
        f"least {ratio.min():.4f}, largest {ratio.max():.4f}"
    )


def _some_pairs(size: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    first = rng.integers(size, size=count)
    return first, (first + 1 + rng.integers(size - 1, size=count)) % size


def _at_the_end(
    model: Any, made: League, first: NDArray[Any], second: NDArray[Any]
) -> NDArray[Any]:
    """By kickscore, standard deviations of differences at the last time, players as independent."""
    last = [float(made.periods - 1)]
    own = [model.item[player].predict(last)[1][0] for player in range(made.players)]
    own = 2.0 * _NOISE**2 * np.array(own)
    return np.sqrt(own[first] + own[second])


def _judge(made: League, linked: Any, peer: Any, label: str) -> None:
    """Differences against those of dense EP: at any times, and of players at the end."""
    players, last = _some_pairs(made.players, 500), made.periods - 1
    now = [x * made.periods + last for x in players]
    dense, true = _engine(made, "dense")(), np.zeros(0)
    for where, chosen in (
        ("any time", _some_pairs(made.players * made.periods, 500)),
        ("the end", now),
    ):
        mean, true = dense.difference(*chosen)
        told_mean, told = linked.difference(*chosen)
        _report(f"{label}: {where}, each solved", told, true)
        _report(f"{label}: {where}, probes", linked.difference(*chosen, exact=False)[1], true)
        off = np.sqrt(np.mean(((told_mean - mean) / true) ** 2))
        click.echo(f"{label}: means at {where} are off by {off:.4f} sd")
    _report(f"{label}: the end, kickscore", _at_the_end(peer, made, *players), true)


@click.command()
@click.option("--peer", is_flag=True, help="Time kickscore at the full size, too.")
def walks(peer: bool) -> None:
    """Skills that walk: time, and sds of differences against dense EP, beside kickscore."""
    click.echo(f"{'players x periods, games':40} {'first, s':>9} {'again, s':>9} {'MB':>8}")
    for size in (SMALL, SEASONS, FULL):
        made, label, other = league(*size), f"{size[0]:,} x {size[1]}, {size[2]:,}", None
        linked = _timed(f"{label}: EP, probes", _engine(made, "probes"))
        if size != FULL:
            _timed(f"{label}: DynamicEP", _chains(made))
        if size != FULL or peer:
            other = _timed(f"{label}: kickscore", _kickscore(made))
        if size == SMALL:
            _judge(made, linked, other, label)
        if size == FULL:
            chosen = _some_pairs(size[0] * size[1], 200)
            told, true = (linked.difference(*chosen, exact=x)[1] for x in (False, True))
            _report(f"{label}: probes, to each solved", told, true)


COMMANDS = (walks,)
