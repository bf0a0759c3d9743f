"""Next-month forecasts of NFL games by skills that move, beside Elo and kickscore.

The games, 2009 - 2018, ship with the package melo (MIT licence). Every method sees the games before
a month and forecasts those of the month; who plays at home is told to none. What Elo and kickscore
have to be tuned by is tuned on the games before 2015, which are not scored. Ties are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module, util
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax
import numpy as np
from numpy.typing import NDArray
from numpyro.infer import Predictive
from scipy.optimize import minimize

from bayesrank import Ranker
from bayesrank.infer import EP
from bayesrank.models import dynamic_thurstone
from bayesrank.solvers.comparisons import DynamicEP

Array = NDArray[np.float64]

_FIRST = np.datetime64("2015-01-31")  # the first day after the season of 2014
_BURN_IN = np.datetime64("2011-01-31")


class Games(NamedTuple):
    """Winners and losers by number, and the day of each game."""

    pairs: NDArray[np.intp]
    day: NDArray[np.datetime64]

    def before(self, day: np.datetime64) -> Games:
        """Those before a day."""
        return Games(self.pairs[self.day < day], self.day[self.day < day])


Forecast = Callable[[Games, Games], Array]


@cache
def games() -> Games:
    """All games that had a winner."""
    found = util.find_spec("melo")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pip install melo: the games come with it")
    lines = (Path(found.origin).parent / "nfl.dat").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    decided = [row for row in rows if row[2] != row[4]]
    names = sorted({row[1] for row in decided} | {row[3] for row in decided})
    number = {name: i for i, name in enumerate(names)}
    pairs = [
        [number[a], number[b]] if float(x) > float(y) else [number[b], number[a]]
        for _, a, x, b, y in decided
    ]
    return Games(np.array(pairs), np.array([row[0] for row in decided], "datetime64[D]"))


def months(start: np.datetime64, end: np.datetime64) -> Iterator[tuple[Games, Games]]:
    """For each month with games, those before it and those in it."""
    known = games()
    month = known.day.astype("datetime64[M]")
    for each in np.unique(month[(known.day > start) & (known.day < end)]):
        inside = month == each
        yield (
            known.before(each.astype("datetime64[D]")),
            Games(known.pairs[inside], known.day[inside]),
        )


def losses(forecast: Forecast, start: np.datetime64 = _FIRST, end: Any = None) -> Array:
    """Minus the log of the probability that each winner was given."""
    end = np.datetime64("2030-01-01") if end is None else end
    return np.concatenate([-np.log(forecast(*month)) for month in months(start, end)])


# ---------------------------------------------------------------- the methods


def moving(process: Any) -> Forecast:
    """Skills that move, or stand still where `process` is None."""

    def fitted(past: Games, hyperparameters: Any) -> Ranker:
        when: dict[str, Any] = {} if process is None else {"time": past.day}
        ranker = Ranker(time=process, hyperparameters=hyperparameters)
        return ranker.fit(past.pairs, **when)

    @cache
    def learned() -> tuple[float, dict[str, Any]]:
        """How long the games to learn from went on, and what was learned."""
        past = games().before(_FIRST)
        return _days(past), fitted(past, "map").params_

    def forecast(past: Games, month: Games) -> Array:
        span, params = learned()
        # Their unit of time is as long as the games go on.
        longer, params = _days(past) / span, dict(params)
        if process == "walk":
            params["drift"] = params["drift"] * np.sqrt(longer)
        elif process is not None:
            params["lengthscale"] = params["lengthscale"] / longer
        later = None if process is None else month.day
        return fitted(past, params).predict_proba(month.pairs, time=later)

    return forecast


def _days(some: Games) -> float:
    return float((some.day[-1] - some.day[0]).astype(int))


def elo(gain: float, kept: float, width: float) -> Forecast:
    """Ratings that go up by `gain` times the surprise, and by `kept` into the next season."""
    rating, known = np.zeros(int(games().pairs.max()) + 1), [0]
    seasons = (games().day.astype("datetime64[M]").astype(int) - 6) // 12

    def forecast(past: Games, month: Games) -> Array:
        for row in range(known[0], len(past.pairs)):
            winner, loser = games().pairs[row]
            if row and seasons[row] != seasons[row - 1]:
                rating[:] *= kept
            surprise = gain / (1.0 + np.exp(rating[winner] - rating[loser]))
            rating[winner] += surprise
            rating[loser] -= surprise
        known[0] = len(past.pairs)
        now = rating * (kept if seasons[known[0]] != seasons[known[0] - 1] else 1.0)
        margin = now[month.pairs[:, 0]] - now[month.pairs[:, 1]]
        return 1.0 / (1.0 + np.exp(-width * margin))

    return forecast


def tuned_elo() -> Forecast:
    """Elo's three constants, by forecasts of the months of 2011 - 2014."""

    def loss(log_constants: Array) -> float:
        return float(losses(elo(*np.exp(log_constants)), _BURN_IN, _FIRST).mean())

    starts = itertools.product((0.1, 0.3), (0.5, 0.8), (1.0,))
    ends = [minimize(loss, np.log(start), method="Nelder-Mead") for start in starts]
    return elo(*np.exp(min(ends, key=lambda end: end.fun).x))


def kickscore(kind: str) -> Forecast:
    """A constant and a Matern or Wiener process an item, by kickscore, tuned by its evidence."""
    ks: Any = import_module("kickscore")

    def years(day: np.datetime64) -> float:
        return float((day - games().day[0]).astype(int)) / 365.25

    def model(past: Games, constants: Array) -> Any:
        constant, variance, pace = np.exp(constants)
        moves = {
            "matern12": lambda: ks.kernel.Exponential(variance, pace),
            "matern32": lambda: ks.kernel.Matern32(variance, pace),
            "walk": lambda: ks.kernel.Wiener(variance, -pace),
        }
        fitted = ks.BinaryModel(obs_type="probit")
        for item in range(int(games().pairs.max()) + 1):
            fitted.add_item(str(item), kernel=ks.kernel.Constant(constant) + moves[kind]())
        for (winner, loser), day in zip(*past, strict=True):
            fitted.observe([str(winner)], [str(loser)], t=years(day))
        fitted.fit()
        return fitted

    @cache
    def constants() -> Array:
        training = games().before(_FIRST)

        def loss(point: Array) -> float:
            return -model(training, point).log_likelihood

        return minimize(
            loss, np.log([0.1, 0.1, 1.0]), method="Nelder-Mead", options={"maxfev": 60}
        ).x

    def forecast(past: Games, month: Games) -> Array:
        fitted = model(past, constants())
        return np.array(
            [
                fitted.probabilities([str(winner)], [str(loser)], t=years(day))[0]
                for (winner, loser), day in zip(*month, strict=True)
            ]
        )

    return forecast


METHODS: dict[str, Callable[[], Forecast]] = {
    "bayesrank, walk": lambda: moving("walk"),
    "bayesrank, matern12": lambda: moving("matern12"),
    "bayesrank, matern32": lambda: moving("matern32"),
    "bayesrank, still": lambda: moving(None),
    "Elo, tuned": tuned_elo,
    "kickscore, constant + matern12": lambda: kickscore("matern12"),
    "kickscore, constant + matern32": lambda: kickscore("matern32"),
    "kickscore, constant + walk": lambda: kickscore("walk"),
}


def spreads(seeds: int) -> dict[str, Array]:
    """Ratios of sds of differences of two skills at the last time to those of the dense posterior.

    Leagues of 20 players and 400 games at 12 times, hyperparameters given.
    """
    found: dict[str, list[Array]] = {"bayesrank": [], "kickscore": []}
    for seed in range(seeds):
        league = _league(seed)
        dense = _dense_spread(*league)
        found["bayesrank"].append(_chain_spread(*league) / dense)
        found["kickscore"].append(_kickscore_spread(*league) / dense)
    return {name: np.concatenate(ratios) for name, ratios in found.items()}


_SCALES = {"scale": 0.7, "drift": 0.7}


def _league(seed: int) -> tuple[NDArray[np.intp], Array, NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    times, period = np.linspace(0.0, 1.0, 12), np.sort(rng.integers(0, 12, 400))
    walk = np.cumsum(rng.normal(size=(12, 20)) * np.sqrt(0.49 / 11), axis=0)
    skill = 0.7 * rng.normal(size=20) + walk
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in period])
    margin = skill[period, pairs[:, 0]] - skill[period, pairs[:, 1]]
    lost = margin + np.sqrt(2.0) * rng.normal(size=400) < 0.0
    pairs[lost] = pairs[lost, ::-1]
    return pairs, times, period


def _of_pairs(covariance: Array) -> Array:
    first, second = np.triu_indices(20, 1)
    own = np.diagonal(covariance)
    return np.sqrt(own[first] + own[second] - 2.0 * covariance[first, second])


def _dense_spread(pairs: Any, times: Array, period: Any) -> Array:
    found = EP(dynamic_thurstone).run(
        jax.random.key(0), 20, pairs, params=_SCALES, times=times, period=period
    )
    return _of_pairs(found.covariance["f"])


def _chain_spread(pairs: Any, times: Array, period: Any) -> Array:
    found = DynamicEP().run(
        jax.random.key(0), 20, pairs, params=_SCALES, times=times, period=period
    )
    return _of_pairs(found.covariance["f"])


def _kickscore_spread(pairs: Any, times: Array, period: Any) -> Array:
    """Each player's chain by itself; its noise is that of a difference, ours of a performance."""
    ks: Any = import_module("kickscore")
    model = ks.BinaryModel(obs_type="probit")
    scale, drift = (value**2 / 2.0 for value in _SCALES.values())
    for item in range(20):
        model.add_item(str(item), kernel=ks.kernel.Wiener(drift, 0.0, scale))
    for (winner, loser), at in zip(pairs, times[period], strict=True):
        model.observe([str(winner)], [str(loser)], t=float(at))
    model.fit()
    own = [2.0 * float(model.item[str(item)].predict([1.0])[1][0]) for item in range(20)]
    return _of_pairs(np.diag(own))


def league_skills(seed: int, process: Any, moment: int = -1) -> tuple[Array, Array]:
    """Posterior draws (S, 8) of skills in a simulated league, and the true ones, at a moment.

    Eight players, 120 games at 10 times, hyperparameters drawn from the priors and integrated over.
    """
    rng = np.random.default_rng(seed)
    times, period = np.linspace(0.0, 1.0, 10), np.sort(rng.permutation(np.arange(120) % 10))
    pairs = np.array([rng.choice(8, 2, replace=False) for _ in period])
    drawn = Predictive(dynamic_thurstone, num_samples=1)(
        jax.random.key(seed), 8, times=times, process=process
    )
    skill = np.concatenate([drawn["past"][0], drawn["f"][0][:, None]], axis=1).T
    margin = skill[period, pairs[:, 0]] - skill[period, pairs[:, 1]]
    lost = margin + np.sqrt(2.0) * rng.normal(size=120) < 0.0
    pairs[lost] = pairs[lost, ::-1]
    ranker = Ranker(time=process, items=range(8), random_state=seed)
    ranker.fit(pairs, time=times[period])
    return ranker.samples(time=times[moment]), skill[moment]


def coverage(leagues: int, process: Any = "walk") -> dict[str, Array]:
    """Whether 90% intervals hold current skills and their differences, by league."""
    held: dict[str, list[float]] = {"skills": [], "differences": []}
    first, second = np.triu_indices(8, 1)
    for seed in range(leagues):
        draws, now = league_skills(seed, process)
        for name, seen, true in (
            ("skills", draws, now),
            ("differences", draws[:, first] - draws[:, second], now[first] - now[second]),
        ):
            low, high = np.quantile(seen, [0.05, 0.95], axis=0)
            held[name].append(float(np.mean((low < true) & (true < high))))
    return {name: np.array(shares) for name, shares in held.items()}


@click.command()
@click.option("--only", default="", help="The methods whose name contains this.")
def dynamic_league(only: str) -> None:
    """Log loss of the next month's NFL games, 2015 - 2018, beside Elo and kickscore."""
    for name, method in METHODS.items():
        if only in name:
            loss = losses(method())
            error = loss.std() / np.sqrt(loss.size)
            click.echo(f"{name:32} {loss.mean():.4f} +- {error:.4f}  ({loss.size} games)")


@click.command()
@click.option("--seeds", default=5, help="Leagues.")
def dynamic_spread(seeds: int) -> None:
    """Standard deviations of differences against those of the dense posterior."""
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
    for name, held in coverage(leagues, process).items():
        error = held.std() / np.sqrt(held.size)
        click.echo(f"{name:12} {held.mean():.3f} +- {error:.3f}")


COMMANDS = [dynamic_coverage, dynamic_league, dynamic_spread]
