r"""The best few of several items, with noisy answers: how many are found, and when it is enough.

Skills are standard normal, and an answer is that of the model: a difference of skills of
:math:`\sqrt 2` wins 84%. Each series has skills and answers of its own, the same for all ways.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from bayesrank.active import Beliefs, QueryLoop
from bayesrank.infer import ConvergenceWarning

Array = Any


def overlap(beliefs: Beliefs, pairs: Array, *, k: int) -> Array:
    """How far one of the others reaches above one of the best k, each by a standard deviation."""
    mean, sd = jnp.asarray(beliefs.mean), jnp.sqrt(jnp.diagonal(beliefs.covariance))
    best = jnp.argsort(jnp.argsort(-mean)) < k
    i, j = pairs[..., 0], pairs[..., 1]
    inner, outer = jnp.where(best[i], i, j), jnp.where(best[i], j, i)
    reach = mean[outer] + sd[outer] - mean[inner] + sd[inner]
    return jnp.where(best[i] != best[j], reach, reach - 1e3)


WAYS: Mapping[str, Callable[[int], Mapping[str, Any]]] = {
    "random": lambda k: {"acquisition": "random"},
    "pair": lambda k: {"goal": "pair"},
    "overlap": lambda k: {"acquisition": partial(overlap, k=k)},
    "top": lambda k: {"goal": "top", "k": k},
}
"""Options of a loop for each way of asking for the best k items."""


def recall(way: str, seed: int, *, items: int, k: int, answers: int, **options: Any) -> Array:
    """Share of the best k items among those of the k highest means, after each answer."""
    skill = np.random.default_rng([seed, 0]).normal(size=items)
    loop = QueryLoop(items, seed=seed, hyperparameters="prior", **WAYS[way](k), **options)
    rng, found = np.random.default_rng([seed, 1]), []
    for _ in range(answers):
        _answer(loop, skill, rng)
        found.append(len(_best(loop.beliefs.mean, k) & _best(skill, k)) / k)
    return np.array(found)


def series_until_settled(
    seed: int, *, items: int, k: int, limit: int, scale: float = 1.0, **options: Any
) -> tuple[int, bool, bool]:
    """Number of answers, whether the best k are settled by then, and whether they are the best."""
    skill = scale * np.random.default_rng([seed, 0]).normal(size=items)
    loop, rng = QueryLoop(items, seed=seed, stop_top=k, **options), np.random.default_rng([seed, 1])
    while not (progress := loop.progress()).done and progress.answers < limit:
        _answer(loop, skill, rng)
    right = _best(loop.beliefs.mean, k) == _best(skill, k)
    return progress.answers, (progress.settled or 0.0) >= loop.rule.level, right


def _answer(loop: QueryLoop, skill: Array, rng: np.random.Generator) -> None:
    first, second = loop.ask()[0][:2]
    wins = rng.random() < ndtr((skill[first] - skill[second]) / np.sqrt(2.0))
    loop.tell(*((first, second) if wins else (second, first)))


def _best(skill: Array, k: int) -> set[int]:
    return set(np.argsort(-np.asarray(skill))[:k].tolist())


@click.command()
@click.option("--series", default=100)
@click.option("--first-seed", default=0)
@click.option("--items", default=20)
@click.option("--k", default=3)
@click.option("--answers", default=40)
@click.option("--ways", default=",".join(WAYS))
def top(series: int, first_seed: int, items: int, k: int, answers: int, ways: str) -> None:
    """Share of the best k of some items that are found, by way of asking."""
    marks = [mark for mark in (10, 20, 30, 40, 60, 80, 120) if mark <= answers]
    click.echo(f"{'after so many answers':24} {' '.join(f'{mark:>5}' for mark in marks)}   s.e.")
    for way in ways.split(","):
        seeds = range(first_seed, first_seed + series)
        found = [recall(way, seed, items=items, k=k, answers=answers) for seed in seeds]
        figures = " ".join(f"{np.mean([f[mark - 1] for f in found]):5.3f}" for mark in marks)
        error = np.std([f[marks[-1] - 1] for f in found], ddof=1) / np.sqrt(series)
        click.echo(f"{way:24} {figures}  {error:5.3f}")


@click.command()
@click.option("--series", default=100)
@click.option("--first-seed", default=0)
@click.option("--items", default=10)
@click.option("--k", default=3)
@click.option("--level", default=0.95)
@click.option("--limit", default=2_000, help="Answers after which a series ends unsettled.")
@click.option("--scale", default=1.0, help="Standard deviation of the skills.")
def settled(
    series: int, first_seed: int, items: int, k: int, level: float, limit: int, scale: float
) -> None:
    """How often the best k are settled, how soon, and how often they are the best then."""
    options = {"items": items, "k": k, "limit": limit, "scale": scale, "stop_level": level}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seeds = range(first_seed, first_seed + series)
        found = [series_until_settled(seed, **options) for seed in seeds]
    right = np.array([right for _, done, right in found if done])
    answers = np.percentile([answers for answers, _, _ in found], (25, 50, 75)).astype(int)
    error = np.sqrt(right.mean() * (1.0 - right.mean()) / len(right))
    click.echo(
        f"{len(right)} of {series} settled; right {right.mean():.3f} +- {error:.3f}; "
        f"answers, quartiles: {', '.join(map(str, answers))}"
    )


COMMANDS = [top, settled]
