"""The one program of comparisons has the density of each program that it replaced, written out."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from bayesrank.distributions import Thurstone, ThurstoneTies
from bayesrank.models import (
    dynamic_thurstone,
    judged_comparisons,
    preference_orders,
    thurstone,
    thurstone_orders,
)
from bayesrank.models.orders import events

RNG = np.random.default_rng(0)
N, K = 5, 12
PAIRS = np.array([RNG.choice(N, 2, replace=False) for _ in range(K)])
OUTCOMES, WEIGHTS = RNG.integers(0, 3, K), RNG.uniform(0.5, 2.0, K)
POSITION, JUDGES = RNG.integers(-1, 2, K), RNG.integers(0, 3, K)
CATEGORIES, PERIOD = RNG.integers(0, 2, K), RNG.integers(0, 3, K)
TIMES, X = np.array([0.0, 0.3, 1.0]), RNG.normal(size=(N, 2))
ORDERS = events([[2, 0, 1], [1, (0, 2)], [4, 3, 2, 0]], N)
EVERYTHING: dict[str, Any] = {
    "position": POSITION,
    "judges": JUDGES,
    "categories": CATEGORIES,
    "outcomes": OUTCOMES,
}
EVERYTHING |= {"num_judges": 3, "num_categories": 2, "weights": WEIGHTS}


def normal(name, scale, *shape) -> Any:
    return numpyro.sample(name, dist.Normal(0.0, scale).expand(shape).to_event(len(shape)))


def log_normal(name, median=1.0, sd=1.0, **kwargs) -> Any:
    return numpyro.sample(name, dist.LogNormal(math.log(median), sd), **kwargs)


def skills_alone():
    """Skills and wins, nothing else."""
    f = normal("f", log_normal("scale"), N)
    numpyro.sample("comparison", Thurstone(f[PAIRS[:, 0]] - f[PAIRS[:, 1]]), obs=jnp.ones(K, int))


def everything():
    """A log with ties, positions, judges, categories and weights."""
    f = normal("f", log_normal("scale"), N)
    added = normal("category_skill", log_normal("category_scale", 0.3), 2, N)
    skill = f + added[CATEGORIES]
    rows = np.arange(K)
    spread = log_normal("reliability_scale", 0.3, 0.5)
    reliability: Any = numpyro.sample(
        "reliability", dist.LogNormal(0.0, spread).expand([3]).to_event(1)
    )
    margin = reliability[JUDGES] * (skill[rows, PAIRS[:, 0]] - skill[rows, PAIRS[:, 1]])
    margin += POSITION * numpyro.sample("position_effect", dist.Normal(0.0, 1.0))
    margin += POSITION * normal("bias", log_normal("bias_scale", 0.3), 3)[JUDGES]
    seen = ThurstoneTies(margin, log_normal("tie_width", 0.5))
    with handlers.scale(scale=WEIGHTS):
        numpyro.sample("comparison", seen, obs=OUTCOMES)


def walk():
    """Skills at three times, of which the program draws the last first."""
    scale, drift = log_normal("scale"), log_normal("drift")
    gaps = np.minimum(TIMES[:, None], TIMES)
    whole = dist.MultivariateNormal(jnp.zeros(3), scale**2 + drift**2 * gaps + 1e-9 * jnp.eye(3))
    f: Any = numpyro.sample("f", dist.Normal(0, 1).expand([N]).to_event(1).mask(False))
    past: Any = numpyro.sample("past", dist.Normal(0, 1).expand([N, 2]).to_event(2).mask(False))
    skills = jnp.concatenate([past, f[:, None]], 1)
    numpyro.factor("prior", whole.log_prob(skills).sum())
    margin = skills[PAIRS[:, 0], PERIOD] - skills[PAIRS[:, 1], PERIOD]
    numpyro.sample("comparison", Thurstone(margin), obs=jnp.ones(K, int))


def orders(f):
    noise: Any = numpyro.sample("noise", dist.Normal(0, 1).expand(ORDERS.items.shape).to_event(2))
    for event, (items, better, worse) in enumerate(zip(*ORDERS[:3], strict=True)):
        performance = f[np.maximum(items, 0)] + noise[event]
        for row, (upper, lower) in enumerate(zip(better, worse, strict=True)):
            if upper >= 0:
                seen = Thurstone(performance[upper] - performance[lower], 0.02)
                numpyro.sample(f"order_{event}_{row}", seen, obs=jnp.asarray(1))


def orders_of_skills():
    orders(normal("f", log_normal("scale"), N))


def orders_of_features():
    amplitude, lengthscale = log_normal("amplitude"), log_normal("lengthscale", math.sqrt(2.0))
    squares = ((X[:, None] - X) ** 2).sum(-1)
    covariance = amplitude**2 * (jnp.exp(-0.5 * squares / lengthscale**2) + 1e-6 * jnp.eye(N))
    orders(numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(N), covariance)))


CASES = {
    "skills": (thurstone, (N, PAIRS), {}, skills_alone),
    "everything": (judged_comparisons, (N, PAIRS), EVERYTHING, everything),
    "walk": (dynamic_thurstone, (N, PAIRS), {"times": TIMES, "period": PERIOD}, walk),
    "orders": (thurstone_orders, (N, *ORDERS), {}, orders_of_skills),
    "features": (preference_orders, (X, *ORDERS), {}, orders_of_features),
}


SLOW = ("walk", "orders", "features", "everything")


@pytest.mark.parametrize(
    "case", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in CASES]
)
def test_density_is_that_of_the_program_written_out(case):
    program, args, options, written_out = CASES[case]
    trace = handlers.trace(handlers.seed(program, 1)).get_trace(*args, **options)
    sites = {k: s for k, s in trace.items() if s["type"] == "sample" and not s["is_observed"]}
    values = {name: site["value"] for name, site in sites.items()}
    found, _ = log_density(program, args, options, values)
    expected, theirs = log_density(written_out, (), {}, values)
    latents = {k for k, s in theirs.items() if s["type"] == "sample" and not s["is_observed"]}
    assert latents == set(sites)
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # the jitter
