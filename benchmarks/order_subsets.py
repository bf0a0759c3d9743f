"""Whether estimates from disjoint groups of people spread as their standard deviations say.

People put ten items in order. In the model each performance has a noise of its own. People of the
same kind are so; people of different tastes are not: a taste moves all performances of an order
together. An item's estimates from disjoint groups are independent, so that their spread, over the
standard deviation that the posterior states, is one where intervals are right.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from bayesrank import Ranker

Array = NDArray[np.float64]

KINDS = ("same taste", "own tastes", "two camps")
"""Each performance has its noise; beside it tastes along two directions; or there are two camps."""

_ITEMS, _SIZE = 10, 0.7


class Spread(NamedTuple):
    """Ratios of the spread of estimates to the standard deviation stated.

    Attributes
    ----------
    skills
        Of each item's skill, measured from the mean of all, shape (seeds, n).
    pairs
        Of the difference of each two items, shape (seeds, n (n - 1) / 2).
    error
        Standard error of the root mean square of ``skills``.
    """

    skills: Array
    pairs: Array
    error: float


def people(kind: str, count: int, seed: int) -> NDArray[np.intp]:
    """Orders of ten items by so many people, best first, shape (count, 10)."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=_ITEMS)
    directions = _SIZE * rng.normal(size=(2, _ITEMS))
    taste = np.zeros((count, 2))
    if kind == "own tastes":
        taste = rng.normal(size=(count, 2))
    elif kind == "two camps":
        taste[:, 0] = np.where(rng.random(count) < 0.3, np.sqrt(7 / 3), -np.sqrt(3 / 7))
    performance = skill + taste @ directions + rng.normal(size=(count, _ITEMS))
    return np.argsort(-performance, axis=1)


def whole(kind: str, count: int) -> tuple[float, float]:
    """Fit so many orders by default; return the scale of skills, and the seconds it took."""
    orders, start = people(kind, count, 0).tolist(), time.process_time()
    ranker = Ranker(items=range(_ITEMS)).fit(orders)
    return float(ranker.params_["scale"]), time.process_time() - start


def spread(kind: str, count: int, groups: int, scale: float, seeds: int = 3) -> Spread:
    """Estimates from disjoint groups of equal size, the prior scale of skills given."""
    centre = np.eye(_ITEMS) - 1.0 / _ITEMS
    first, second = np.triu_indices(_ITEMS, 1)

    def variances(covariance: Array) -> Array:
        own = np.diag(covariance)
        return np.concatenate([own, own[first] + own[second] - 2.0 * covariance[first, second]])

    ratios = []
    for seed in range(seeds):
        means, covariances = [], []
        for part in np.split(people(kind, count, seed), groups):
            ranker = Ranker(items=range(_ITEMS), hyperparameters={"scale": scale})
            result = ranker.fit(part.tolist()).result
            means.append(centre @ result.mean["f"])
            covariances.append(centre @ result.covariance["f"] @ centre)
        seen, stated = np.cov(np.array(means).T), np.mean(covariances, axis=0)
        ratios.append(np.sqrt(variances(seen) / variances(stated)))
    skills, pairs = np.split(np.array(ratios), [_ITEMS], axis=1)
    return Spread(skills, pairs, 1.0 / np.sqrt(2.0 * seeds * (groups - 1) * (_ITEMS - 1)))


@click.command("order-subsets")
@click.option("--orders", default=5000, help="People who put ten items in order.")
@click.option("--groups", default=100, help="Disjoint groups of them.")
def order_subsets(orders: int, groups: int) -> None:
    """Spread of estimates from disjoint groups of people, over the standard deviation stated."""
    for kind in KINDS:
        scale, seconds = whole(kind, orders)
        found = spread(kind, orders, groups, scale)
        rms = np.sqrt(np.mean(found.skills**2))
        click.echo(
            f"{kind}: {orders} orders {seconds:.1f} CPU s; ratio {rms:.3f} +- {found.error:.3f}, "
            f"items {found.skills.min():.2f} to {found.skills.max():.2f}, "
            f"pairs {found.pairs.min():.2f} to {found.pairs.max():.2f}"
        )


COMMANDS = [order_subsets]
