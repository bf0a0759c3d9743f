"""Equal factors are one site with a count, and the answer is that of the program written out."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers

from bayesrank.distributions import OrderedLogit, Thurstone
from bayesrank.infer import EP
from bayesrank.infer import ep as ep_module

NUM_ROWS = 260
RNG = np.random.default_rng(1)
PLACE = RNG.integers(0, 5, NUM_ROWS)
X = np.column_stack([np.ones(5), RNG.normal(size=5)])[PLACE]
Y = RNG.integers(0, 3, NUM_ROWS)


def weights():
    return numpyro.sample("w", dist.Normal(0.0, 1.5).expand([2]).to_event(1))


def thurstone(X, y):
    numpyro.sample("y", Thurstone(X @ weights(), 0.7), obs=y > 0)


def poisson(X, y):
    rate = jnp.exp(X @ weights())
    with handlers.scale(scale=jnp.where(y == 1, 2.0, 0.5)):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def levels(X, y):
    fn = OrderedLogit(X @ weights(), jnp.array([-1.0, 1.0]))
    numpyro.sample("y", fn.mask(jnp.arange(len(y)) % 3 > 0), obs=y)


def run_both(monkeypatch, program, X, y, **settings):
    """The program's result, that of all sites, and how many sites the engine made of them."""
    lengths = []
    collapsed = ep_module.collapsed

    def counting(problem, groups):
        problem = collapsed(problem, groups)
        lengths.extend(block.offset.size for block in problem.blocks)
        return problem

    monkeypatch.setattr(ep_module, "collapsed", counting)
    found = EP(program, **settings).run(jax.random.key(0), X, y)
    monkeypatch.setattr(ep_module, "may_have_equal_rows", lambda arguments: False)
    return found, EP(program, **settings).run(jax.random.key(0), X, y), lengths


def assert_same(found, expected):
    np.testing.assert_allclose(found.joint_mean, expected.joint_mean, atol=1e-9)
    np.testing.assert_allclose(found.joint_covariance, expected.joint_covariance, atol=1e-9)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)
    assert found.num_sweeps == expected.num_sweeps
    assert found.converged
    for one, other in zip(found.sites["y"], expected.sites["y"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def nearly_equal(X, y):
    slightly = 1e-13 * jnp.arange(len(y))
    numpyro.sample("y", Thurstone(X @ weights() + slightly, 0.7), obs=y > 0)


@pytest.mark.parametrize(
    ("program", "settings"),
    [
        (thurstone, {"damping": 0.6}),
        pytest.param(poisson, {"power": 0.5}, marks=pytest.mark.slow),
        pytest.param(levels, {}, marks=pytest.mark.slow),
    ],
    ids=["thurstone", "poisson", "levels"],
)
def test_equal_rows_cost_one_site_and_change_nothing(monkeypatch, program, settings):
    found, expected, lengths = run_both(monkeypatch, program, X, Y, **settings)
    assert lengths == [32]
    assert_same(found, expected)


def test_rows_that_nearly_agree_are_kept_apart(monkeypatch):
    _, _, lengths = run_both(monkeypatch, nearly_equal, X, Y)
    assert lengths == []
