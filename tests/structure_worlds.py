"""Programs whose posterior EP keeps without a joint covariance, each with data of its own."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

from bayesrank import gp
from bayesrank.distributions import Thurstone
from bayesrank.infer import EP
from bayesrank.models import thurstone

KEY = jax.random.key(0)


def sample(name: str, prior: Any, **options: Any) -> Any:
    return numpyro.sample(name, prior, **options)


def normal(name: str, size: int, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return sample(name, dist.Normal(loc, scale).expand([size]))


def beaten(skill, pairs):
    sample("win", Thurstone(skill[pairs[:, 0]] - skill[pairs[:, 1]]), obs=1)


def played(rng, skill, first, second):
    """Comparisons (winner, loser) between items of some skill, none with itself."""
    first, second = first[first != second], second[first != second]
    won = skill[first] - skill[second] + np.sqrt(2.0) * rng.normal(size=first.size) > 0
    return np.where(won, [first, second], [second, first]).T


# ---------------------------------------------------------------- independent latents


def games(kind, items, count, scale=1.0):
    """Who meets whom at random, mostly within leagues, or by rating."""
    rng = np.random.default_rng(1)
    skill = scale * rng.normal(size=items)
    first, second = rng.integers(items, size=(2, count))
    if kind == "leagues":
        inside = rng.random(count) >= 0.02
        second[inside] = first[inside] // 50 * 50 + second[inside] % 50
    elif kind == "similar":
        order = np.argsort(skill)
        near = np.argsort(order)[first] + np.rint(5 * rng.normal(size=count)).astype(int)
        second = order[np.clip(near, 0, items - 1)]
    return played(rng, skill, first, second)


def league(kind="random", scale=1.0):
    return (200, games(kind, 200, 1200, scale)), {"scale": scale}


def with_field_and_ties(columns, levels, counts):
    """Rows of three latents, one of which may stand there twice; ties; and counts of one."""
    skill, field = normal("skill", 40, 0.3, 1.2), normal("field", 6, scale=0.5)
    left, right, at = columns.T
    margin = skill[left] - skill[right] + 2.0 * field[at] - field[(at + left) % 6]
    sample("level", dist.OrderedLogistic(margin, jnp.array([-0.4, 0.4])), obs=levels)
    sample("count", dist.Poisson(jnp.exp(0.5 * skill)), obs=counts)


def several_kinds_of_data():
    rng = np.random.default_rng(0)
    columns = np.stack([*rng.integers(40, size=(2, 300)), rng.integers(6, size=300)], axis=1)
    return (columns, rng.integers(3, size=300), rng.poisson(1.5, 40)), {}


# ---------------------------------------------------------------- latents given a few others

PLAYERS, PERIODS = 10, 8


def seasons():
    rng = np.random.default_rng(0)
    skill = np.cumsum(0.5 * rng.normal(size=(PLAYERS, PERIODS)), axis=1)
    period = rng.integers(PERIODS, size=300)
    first, second = rng.permuted(np.tile(np.arange(PLAYERS), (300, 1)), axis=1)[:, :2].T
    place = first * PERIODS + period, second * PERIODS + period
    return (played(rng, skill.ravel(), *place),), {}


def walks(pairs):
    steps = jnp.linspace(0.3, 0.7, PLAYERS)
    with numpyro.plate("players", PLAYERS):
        skill = sample("skill", dist.GaussianRandomWalk(steps, num_steps=PERIODS))
    beaten(skill.ravel(), pairs)


def teams_that_drift(pairs):
    """Two parents each: the skill before, and a team of a mean of its own; and a forecast."""
    team = normal("team", 3, 0.4, 0.8)[np.arange(PLAYERS) % 3]
    skill = [sample("skill0", dist.Normal(team, 1.0))]
    for t in range(1, PERIODS):
        mean = 0.2 + 0.7 * skill[-1] + 0.3 * team
        skill.append(sample(f"skill{t}", dist.Normal(mean, 0.5)))
    beaten(jnp.stack(skill, axis=1).ravel(), pairs)


def scanned(pairs):
    """Level and slope, from a start of their own; two steps are remembered."""
    start = normal("start", PLAYERS, 0.3)

    def step(carry, pace):
        (level, before), slope = carry
        loc = level + 0.8 * slope - 0.1 * (level - before)
        now = sample("level", dist.Normal(loc, 0.5))
        slope = sample("slope", dist.Normal(pace * slope, 0.2))
        return ((now, level), slope), now

    init, pace = ((start, start), jnp.zeros(PLAYERS)), jnp.linspace(0.5, 1.0, PERIODS)
    beaten(scan(step, init, pace, length=PERIODS)[1].T.ravel(), pairs)


def summed(pairs):
    """What a scan carries is a sum of all steps before."""

    def step(skill, _):
        skill = skill + sample("step", dist.Normal(jnp.zeros(PLAYERS), 0.5))
        return skill, skill

    beaten(scan(step, jnp.zeros(PLAYERS), None, length=PERIODS)[1].T.ravel(), pairs)


# ---------------------------------------------------------------- of no such structure


def correlated(size, pairs):
    cov = jnp.eye(size) + 1.0
    beaten(sample("f", dist.MultivariateNormal(jnp.zeros(size), cov)), pairs)


def heavy_tails(y):
    sample("y", dist.StudentT(2.0, normal("f", 9, scale=3.0)[np.zeros(len(y), int)], 0.3), obs=y)


def heavy_tails_of_features(X, y):
    f = sample("f", gp.inducing_point_prior(gp.rbf(3.0, 0.3), X, 5))
    sample("y", dist.StudentT(2.0, f[np.zeros(9, int)], 0.3), obs=y)


# ---------------------------------------------------------------- low rank

ITEMS, RANK = 100, 12


def field():
    """Features of items, comparisons by a smooth skill, and counts of some of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ITEMS, 3))
    pairs = played(rng, 2 * np.sin(6 * X).sum(axis=1), *rng.integers(ITEMS, size=(2, 400)))
    return (X, pairs, rng.poisson(1.0, 50)), {}


def smooth_skills(X, pairs, levels=None, rank=RANK):
    """Skills of a process on features; the first of a pair plays at one of some homes."""
    home, f = (
        normal("home", 4, 0.2, 0.5),
        sample("f", gp.inducing_point_prior(gp.rbf(2.0, 0.4), X, rank)),
    )
    sample("win", Thurstone(f[pairs[:, 0]] - f[pairs[:, 1]] + home[pairs[:, 0] % 4]), obs=1)
    if levels is not None:
        sample("level", dist.Poisson(jnp.exp(0.4 * f[:50])), obs=levels)


def weighed_features(X, pairs, scale=1.0):
    """Long rows, of all weights, beside a part of each item's own."""
    f = jnp.sin(6 * X[:, :1] + jnp.arange(9)) @ normal("w", 9, scale=scale)
    f = f + normal("e", ITEMS, scale=0.5)
    numpyro.deterministic("centred", f - f.mean())
    home = sample("home", dist.Normal(0.3, 1.0))
    sample("win", dist.Bernoulli(logits=f[pairs[:, 0]] - f[pairs[:, 1]] + home), obs=1)


def features_and_pairs():
    return field()[0][:2], {}


# ---------------------------------------------------------------- the table


class World(NamedTuple):
    """A program, its arguments and hyperparameters, and how it is kept; tolerance of rough sds."""

    program: Any
    data: tuple[tuple[Any, ...], dict[str, float]]
    structure: str
    rough: float = 0.15


WORLDS = {
    "random": World(thurstone, league(), "probes"),
    "leagues": World(thurstone, league("leagues"), "probes"),
    "similar": World(thurstone, league("similar", 5.0), "probes"),
    "rows of three": World(with_field_and_ties, several_kinds_of_data(), "probes", 0.25),
    "walks": World(walks, seasons(), "probes"),
    "teams": World(teams_that_drift, seasons(), "probes"),
    "scanned": World(scanned, seasons(), "probes"),
    "features": World(smooth_skills, field(), "low_rank", 0.02),
    "weights": World(weighed_features, features_and_pairs(), "low_rank", 0.02),
}

# Structures that a program cannot be kept in, and what is said of it.
PAIR = np.array([[0, 1], [1, 2]])
TAILS = 9.0 * (np.arange(9) > 7)
REFUSED: list[tuple[Any, str, float, tuple[Any, ...], str]] = [
    (correlated, "probes", 1.0, (9, PAIR), "'probes' needs independent Gaussian latents"),
    (summed, "probes", 1.0, seasons()[0], "also normal ones each drawn given few others"),
    (walks, "factorised", 1.0, seasons()[0], "structure='factorised' needs independent"),
    (smooth_skills, "probes", 1.0, field()[0], "structure='probes' needs independent"),
    (thurstone, "factorised", 0.5, (9, PAIR), "needs power=1 and independent"),
    (smooth_skills, "low_rank", 0.5, field()[0], "needs power=1 and a Gaussian prior of low rank"),
    (thurstone, "low_rank", 1.0, (9, PAIR), "'low_rank' needs a Gaussian prior of low rank"),
    (weighed_features, "low_rank", 1.0, (*field()[0][:2], 1e4), "so wide that rounding"),
    (heavy_tails, "probes", 1.0, (TAILS,), "need sites of positive precision"),
    (
        heavy_tails_of_features,
        "low_rank",
        1.0,
        (field()[0][0][:9], 9.0 * (np.arange(9) > 7)),
        "need sites of posit",
    ),
]


def run(world: World, structure: Any) -> Any:
    args, params = world.data
    return EP(world.program, structure=structure, max_sweeps=1000).run(KEY, *args, params=params)
