"""What data decide of a program's structure: it is right for these and for others."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose

from bayesrank.infer import EP
from bayesrank.infer.gaussian.arrow import ArrowPrior
from bayesrank.infer.reader import conditionals

ITEMS, JUDGES = 6, 5


def table(item, other, judge, y):
    """Grades in a long table, each of an item (against another one) by a judge."""
    f: Any = numpyro.sample("f", dist.Normal(0, 1).expand([ITEMS]))
    with numpyro.plate("judges", JUDGES):
        u: Any = numpyro.sample("u", dist.Normal(0, 0.5))
    with numpyro.plate("cells", ITEMS, dim=-2), numpyro.plate("judges", JUDGES):
        t: Any = numpyro.sample("t", dist.Normal(0, 0.7))
    eta = f[item] + u[judge] + t[item, judge] - t[other, judge]
    numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)


def grades():
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(ITEMS), JUDGES)
    other, judge = (item + 1) % ITEMS, np.tile(np.arange(JUDGES), ITEMS)
    y = rng.integers(2, size=item.size)
    return item, other, judge, y


def crossed(first, second, y):
    """Comparisons of the elements of a plate, which each see two of them."""
    with numpyro.plate("items", ITEMS):
        f: Any = numpyro.sample("f", dist.Normal(0, 1))
    first_up = numpyro.sample("first_up", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=f[first] - f[second] + first_up), obs=y)


@pytest.mark.slow
def test_rows_decide_what_is_local_not_plates(monkeypatch):
    dense = EP(table).run(jax.random.key(0), *grades())
    monkeypatch.setattr(conditionals, "MANY", 10)
    engine = EP(table)
    prior = engine.read({}, *grades()).problem.prior
    assert isinstance(prior, ArrowPrior) and prior.own.size == (ITEMS + 1) * JUDGES
    local = engine.run(jax.random.key(0), *grades())
    assert_allclose(local.log_evidence, dense.log_evidence, rtol=1e-9)
    for name in dense.mean:
        assert_allclose(local.mean[name], dense.mean[name], atol=1e-8)
        assert_allclose(local.sd[name], dense.sd[name], atol=1e-8)


@pytest.mark.slow
def test_data_of_the_same_shapes_that_join_groups_are_read_with_all_covariances(monkeypatch):
    first, _, _, y = grades()
    apart, joined = first, (first + 1) % ITEMS
    dense = EP(crossed).run(jax.random.key(0), first, joined, y)
    monkeypatch.setattr(conditionals, "MANY", 5)
    engine = EP(crossed)
    assert isinstance(engine.read({}, first, apart, y).problem.prior, ArrowPrior)
    assert not isinstance(engine.read({}, first, joined, y).problem.prior, ArrowPrior)
    found = engine.run(jax.random.key(0), first, joined, y)
    assert_allclose(found.log_evidence, dense.log_evidence, rtol=1e-9)
    assert_allclose(found.mean["f"], dense.mean["f"], atol=1e-8)
    traced = jax.jit(lambda second: engine.log_evidence({}, first, second, jnp.asarray(y)))
    assert_allclose(traced(joined), dense.log_evidence, rtol=1e-4)


def test_a_table_of_one_kind_of_latents_is_read_once(monkeypatch):
    def alone(judge, y):
        with numpyro.plate("judges", JUDGES):
            u: Any = numpyro.sample("u", dist.Normal(0, 0.5))
        numpyro.sample("y", dist.Bernoulli(logits=u[judge]), obs=y)

    def beside(judge, y):
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("judges", JUDGES):
            u: Any = numpyro.sample("u", dist.Normal(0, 0.5))
        numpyro.sample("y", dist.Bernoulli(logits=level + u[judge]), obs=y)

    monkeypatch.setattr(conditionals, "MANY", 2)
    judge, y = np.arange(8) % JUDGES, np.ones(8)
    for program, by_rows in ((alone, False), (beside, True)):
        assert EP(program).trace((judge, y), {}, {}).decided.by_rows is by_rows
