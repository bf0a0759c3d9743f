"""Programs of few latents that all data share, and many beside them, are read as they are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import keep_covariances_up_to
from numpy.testing import assert_allclose

from bayesrank import gp
from bayesrank.distributions import ThurstoneTies
from bayesrank.infer.gaussian.dense import DensePrior
from bayesrank.infer.gaussian.low_rank import LowRankPrior
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

ITEMS, RANK, GAMES = 40, 9, 150
RNG = np.random.default_rng(0)
PHI, PSI = RNG.normal(size=(2, ITEMS, RANK)) / 2
PAIRS = RNG.integers(ITEMS - 1, size=(GAMES, 2))
PAIRS[:, 1] += PAIRS[:, 1] >= PAIRS[:, 0]
WON = RNG.integers(2, size=GAMES)
POINTS = RNG.uniform(size=(ITEMS, 2))


def normal(name, size, scale=1.0):
    return jnp.asarray(numpyro.sample(name, dist.Normal(0.0, scale).expand([size])))


def weights(scale: Any = 1.0):
    return normal("w", RANK, scale)


def own(scale=0.5):
    return normal("e", ITEMS, scale)


def scalar(name, loc=0.0):
    return jnp.asarray(numpyro.sample(name, dist.Normal(loc, 1.0)))


def sample(name, distribution):
    return jnp.asarray(numpyro.sample(name, distribution))


def games(f, more: Any = 0.0):
    margin = f[PAIRS[:, 0]] - f[PAIRS[:, 1]] + more
    numpyro.sample("win", dist.Bernoulli(logits=margin), obs=WON)


def with_home():
    f = PHI @ weights() + own()
    numpyro.deterministic("centred", f - f.mean())
    games(f, scalar("home", 0.3))


def centred():
    games(sample("f", dist.Normal(PHI @ weights(), 0.5)))


def centred_about_more():
    f = sample("f", dist.Normal(PHI @ weights() + scalar("mu"), 0.5))
    games(f, f[PAIRS[:, 0]] * 0.1)


def without_own():
    games(weights() @ PHI.T)


def einsum():
    games(jnp.einsum("ri,r->i", PHI.T, weights()) + own())


def products_added_up():
    games((PHI * weights()).sum(axis=-1) + own())


def few_features():
    w = normal("w", 3)
    games(PHI[:, :3] @ w + own(), (WON[:, None] * PHI[PAIRS[:, 1], :3]) @ w)


def two_products():
    games(PHI @ weights() + own() + PSI @ normal("v", RANK))


def four_products():
    v = normal("v", RANK)
    games(PHI @ weights() + PSI @ v + (PHI * PSI) @ normal("u", RANK) + PSI**2 @ v + own())


RNG_MATRIX = np.random.default_rng(1).normal(size=(RANK, RANK)) / 3


def one_after_another():
    inner = RNG_MATRIX @ weights()
    games(PHI @ inner + own() + PSI @ (2.0 - inner))


def weights_with_parents():
    mu = scalar("mu")
    w = weights() * 0.5 + mu
    v = sample("v", dist.Normal(PHI[:RANK] @ w, 0.3))
    games(PHI @ w + PSI @ v + own())


def weights_in_a_walk():
    w = sample("w", dist.GaussianRandomWalk(0.4, num_steps=RANK))
    v = jnp.cumsum(normal("v", RANK, 0.3))
    games(PHI @ w + PSI @ v + own())


def weights_of_sum_zero():
    w = sample("w", dist.ZeroSumNormal(1.0, (RANK,)))
    games(PHI @ (w - w.mean()) + own())


def correlated_weights():
    covariance = RNG_MATRIX @ RNG_MATRIX.T + np.eye(RANK)
    games(PHI @ sample("w", dist.MultivariateNormal(jnp.ones(RANK), covariance)) + own())


def own_on_features():
    f = sample("f", gp.inducing_point_prior(gp.rbf(1.0, 0.4), jnp.asarray(POINTS), 6))
    games(PHI @ weights() + f)


def plates():
    with numpyro.plate("features", RANK):
        w = sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("items", ITEMS):
        e = sample("e", dist.Normal(0.0, 0.5))
    f = jnp.asarray(numpyro.deterministic("f", jnp.matmul(jnp.asarray(PHI), w) + e))
    signs = jnp.array([1.0, -1.0])
    with numpyro.plate("games", GAMES):
        numpyro.sample("win", dist.Bernoulli(logits=f[PAIRS] @ signs), obs=WON)


def weights_for_each_outcome():
    w = sample("w", dist.Normal(0.0, 1.0).expand([RANK, 2]))
    f = jnp.asarray(PHI) @ w + sample("e", dist.Normal(0.0, 0.5).expand([ITEMS, 2]))
    games(f[:, 0])
    numpyro.sample("goals", dist.Poisson(jnp.exp(f[:, 1])), obs=np.arange(ITEMS) % 3)


def weighted_and_masked():
    f = jnp.asarray(PHI @ weights() + own())
    margin = jnp.sum(f[PAIRS] * np.array([1.0, -1.0]), axis=1)
    with numpyro.handlers.scale(scale=jnp.asarray(1.0 + WON)), numpyro.handlers.mask(mask=WON > 0):
        numpyro.sample("gap", dist.Normal(margin, 1.0), obs=np.ones(GAMES))


def ties():
    f = PHI @ weights() + own()
    width = numpyro.sample("width", dist.LogNormal(0.0, 0.5))
    margin = f[PAIRS[:, 0]] - f[PAIRS[:, 1]]
    numpyro.sample("result", ThurstoneTies(margin, width), obs=np.arange(GAMES) % 3)


def teams():
    f = jnp.asarray(PHI @ weights() + own())
    others = f[(PAIRS + 7) % ITEMS]
    numpyro.sample("win", dist.Bernoulli(logits=f[PAIRS].sum(1) - others.sum(1)), obs=WON)


def an_item_without_features():
    games(np.where(np.arange(ITEMS)[:, None] > 3, PHI, 0.0) @ weights() + own())


PROGRAMS = [
    an_item_without_features,
    centred,
    centred_about_more,
    correlated_weights,
    einsum,
    few_features,
    four_products,
    one_after_another,
    own_on_features,
    plates,
    products_added_up,
    teams,
    ties,
    two_products,
    weighted_and_masked,
    weights_for_each_outcome,
    weights_in_a_walk,
    weights_of_sum_zero,
    weights_with_parents,
    with_home,
    without_own,
]


def moments(program, count):
    """Means and covariances of latents and predictors together under the prior."""
    problem = program.problem
    prior = problem.prior.dense() if isinstance(problem.prior, LowRankPrior) else problem.prior
    dense = isinstance(prior, DensePrior)
    covariance = prior.covariance if dense else jnp.diag(prior.variances)
    rows = [jnp.eye(count, program.mean.size), *(b.rows.dense() for b in problem.blocks)]
    offset = [program.mean[:count], *(block.offset for block in problem.blocks)]
    every = jnp.concatenate(rows)
    return jnp.concatenate(offset), every @ covariance @ every.T


@pytest.mark.parametrize("model", PROGRAMS, ids=lambda model: model.__name__)
def test_what_is_read_is_the_dense_program(model):
    @jax.jit
    def both():
        dense = read_program(trace(model, (), {}, {}))
        short = read_program(trace(model, (), {}, {}), structure="low_rank")
        assert short.layout.shapes == dense.layout.shapes
        assert short.layout.block_sites == dense.layout.block_sites
        assert isinstance(short.problem.prior, LowRankPrior)
        assert all(block.rows.values.shape[1] <= 8 for block in short.problem.blocks)
        count = dense.mean.size
        return moments(short, count), moments(dense, count)

    with jax.enable_x64(True):
        for told, true in zip(*both(), strict=True):
            assert_allclose(told, true, atol=1e-5)


def centred_by_hand():
    f = PHI @ weights() + own()
    games(f - f.mean())


@pytest.mark.slow
def test_rows_of_all_items_are_refused(monkeypatch):
    monkeypatch.setattr("bayesrank.infer.reader.tables.MOST_SHARED", 20)
    with pytest.raises(ValueError, match="few latents that the data share"):
        read_program(trace(centred_by_hand, (), {}, {}), structure="low_rank")
    keep_covariances_up_to(10, monkeypatch)
    program = read_program(trace(centred_by_hand, (), {}, {}), structure="auto")
    assert not isinstance(program.problem.prior, LowRankPrior)
