"""Data that count several times: factors under `handlers.scale` whose moments are known."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import tilted
from numpy.testing import assert_allclose
from numpyro import handlers
from scipy.special import log_expit

from bayesrank.distributions import OrderedProbit, ThurstoneTies
from bayesrank.infer import EP

KEY = jax.random.key(0)
PAIRS = np.array([[0, 1], [1, 2], [2, 3], [0, 2], [3, 1]])
COUNT = np.array([3, 1, 2, 4, 1])
FAMILIES = {
    "logit": (lambda margin: dist.Bernoulli(logits=margin), np.array([1, 0, 1, 1, 0])),
    "ties": (lambda margin: ThurstoneTies(margin, 0.4), np.array([2, 1, 2, 0, 1])),
    "levels": (lambda margin: OrderedProbit(margin, np.array([-0.5, 0.7])), np.arange(5) % 3),
}


def results(family: Any, items: int, pairs: Any, values: Any, count: Any) -> None:
    """Outcomes of pairs of some items, each so often as `count` says."""
    scale: Any = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    f: Any = numpyro.sample("f", dist.Normal(0.0, scale).expand([items]).to_event(1))
    with handlers.scale(scale=count):
        numpyro.sample("y", family(f[pairs[:, 0]] - f[pairs[:, 1]]), obs=values)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_counted_datum_is_so_many_equal_ones(name):
    family, values = FAMILIES[name]
    each = np.repeat(np.arange(5), COUNT)
    engine = EP(partial(results, family, 4), tol=1e-10)
    search = engine.with_settings(hyperparameters="map")
    once = search.run(KEY, PAIRS, values, COUNT.astype(float))
    many = search.run(KEY, PAIRS[each], values[each], np.ones(11))
    assert_allclose(once.params["scale"], many.params["scale"], rtol=1e-5)
    at = {"scale": 1.3}
    once = engine.run(KEY, PAIRS, values, COUNT.astype(float), params=at)
    many = engine.run(KEY, PAIRS[each], values[each], np.ones(11), params=at)
    assert_allclose(once.joint_mean, many.joint_mean, atol=1e-8)
    assert_allclose(once.joint_covariance, many.joint_covariance, atol=1e-8)
    assert_allclose(once.log_evidence, many.log_evidence, atol=1e-8)


@pytest.mark.slow
def test_a_datum_that_counts_nothing_is_left_out():
    def model(pairs, weight):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
        with handlers.scale(scale=2.0 * weight):
            numpyro.sample("y", dist.Bernoulli(logits=f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)

    with_nothing = EP(model).run(KEY, PAIRS, np.array([0.0, 1.0, 2.0, 0.0, 0.3]))
    without = EP(model).run(KEY, PAIRS[[1, 2, 4]], np.array([1.0, 2.0, 0.3]))
    assert with_nothing.converged
    assert_allclose(with_nothing.joint_mean, without.joint_mean, atol=1e-8)
    assert_allclose(with_nothing.joint_covariance, without.joint_covariance, atol=1e-8)
    assert_allclose(with_nothing.log_evidence, without.log_evidence, atol=1e-8)


@pytest.mark.slow
def test_without_covariances_counts_are_as_with_them():
    family, values = FAMILIES["ties"]
    model = partial(results, family, 4)
    tree = PAIRS[:3], values[:3], COUNT[:3].astype(float)  # on which messages are exact
    at = {"scale": 1.3}
    dense = EP(model, tol=1e-9).run(KEY, *tree, params=at)
    messages = EP(model, tol=1e-9, structure="factorised").run(KEY, *tree, params=at)
    assert_allclose(messages.mean["f"], dense.mean["f"], atol=1e-6)
    assert_allclose(messages.sd["f"], dense.sd["f"], atol=1e-6)
    assert_allclose(messages.log_evidence, dense.log_evidence, atol=1e-6)


@pytest.mark.slow
def test_scales_are_learned_from_counts_without_covariances():
    rng, family = np.random.default_rng(0), FAMILIES["ties"][0]
    pairs = np.array([rng.choice(30, 2, replace=False) for _ in range(200)])
    skill = rng.normal(size=30)
    margin = skill[pairs[:, 0]] - skill[pairs[:, 1]] + 1.4 * rng.normal(size=200)
    values = 1 + (margin > 0.4).astype(int) - (margin < -0.4)
    count, model = rng.uniform(0.3, 4.0, 200), partial(results, family, 30)
    found = [
        EP(model, structure=structure, hyperparameters="map").run(KEY, pairs, values, count)
        for structure in ("dense", "probes")
    ]
    dense, probes = (each.params["scale"] for each in found)
    assert_allclose(probes, dense, rtol=0.03)


def one_result(count):
    """A result that counts so often, or in part, of one skill under a wide prior."""
    f = numpyro.sample("f", dist.Normal(0.5, 5.0))
    with handlers.scale(scale=count):
        numpyro.sample("y", dist.Bernoulli(logits=f), obs=0)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("count", [pytest.param(0.01, marks=pytest.mark.slow), 0.3])
def test_a_part_of_a_datum_is_a_power_of_its_likelihood(count, computed):
    """Also where the program computes it, and it is not known before code is compiled."""
    program = (lambda count: one_result(3.0 * count)) if computed else one_result
    result = EP(program).run(KEY, count / 3.0 if computed else count)
    exact = tilted(lambda f: count * log_expit(-f), 0.5, 25.0)
    assert_allclose(result.mean["f"], exact.mean, atol=1e-4)
    assert_allclose(result.sd["f"], np.sqrt(exact.variance), rtol=1e-4)
    assert_allclose(result.log_evidence, exact.log_z, atol=1e-4)


def test_the_same_program_takes_counts_after_parts():
    """Code is compiled for the one or for the other."""
    found = [EP(one_result).run(KEY, count).mean["f"] for count in (0.3, 2.0, 0.3)]
    exact = [tilted(lambda f, c=c: c * log_expit(-f), 0.5, 25.0).mean for c in (0.3, 2.0, 0.3)]
    assert_allclose(found, exact, atol=0.2)
    assert_allclose([found[0], found[2]], [exact[0], exact[2]], atol=1e-4)


@pytest.mark.slow
def test_small_parts_converge_beside_a_wide_prior():
    rng = np.random.default_rng(0)
    won = rng.random(40) < 0.9
    count = rng.uniform(0.01, 0.1, 40)

    def model(won, count):
        f = numpyro.sample("f", dist.Normal(0.0, 5.0))
        with handlers.scale(scale=count):
            numpyro.sample("y", dist.Bernoulli(logits=jnp.broadcast_to(f, 40)), obs=won)

    result = EP(model).run(KEY, won, count)
    for_, against = count[won].sum(), count[~won].sum()
    exact = tilted(lambda f: for_ * log_expit(f) + against * log_expit(-f), 0.0, 25.0)
    assert result.converged and result.num_sweeps < 100
    assert abs(result.mean["f"] - exact.mean) < 0.15 * np.sqrt(exact.variance)
    assert_allclose(result.sd["f"], np.sqrt(exact.variance), rtol=0.1)
