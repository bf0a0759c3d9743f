"""Engines and what is around a program: JAX's precision, other engines, kinds of arguments."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive
from numpyro.infer.util import log_density
from scipy.stats import norm

from bayesrank import to_arviz
from bayesrank.infer import EP


@pytest.fixture(autouse=True)
def _single_precision():
    with jax.enable_x64(False):
        yield


def closing_over_arrays():
    """A program that closes over arrays, as one does that is written in a notebook."""
    team, spread = np.array([0, 0, 1, 1]), np.array([0.5, 1.0, 2.0, 0.3])
    winner, loser = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])

    def model():
        level: Any = numpyro.sample("level", dist.Normal(0.0, 1.0).expand([2]))
        skill: Any = numpyro.sample("skill", dist.Normal(level[team], spread))
        numpyro.sample("gap", dist.Normal(skill[winner] - skill[loser], 1.0), obs=0.5)

    return model


def traced_in_single_precision(model):
    """What remains of a run by NUTS, say: a compiled function, whose trace lives as long as it."""

    def density(level, skill):
        return log_density(model, (), {}, {"level": level, "skill": skill})[0]

    compiled = jax.jit(density)
    compiled(np.zeros(2), np.zeros(4))
    return compiled


def run_elsewhere_after_ep_and_before():
    model, other = closing_over_arrays(), closing_over_arrays()
    first = EP(model)
    before = first.run(jax.random.key(0), num_samples=2)
    traced_in_single_precision(model)
    Predictive(model, before.get_samples())(jax.random.key(1))
    kept = traced_in_single_precision(other)
    after = EP(other).run(jax.random.key(0), num_samples=2)
    assert kept(np.zeros(2), np.zeros(4)).dtype == np.float32
    np.testing.assert_allclose(after.mean["skill"], before.mean["skill"], atol=1e-7)
    assert jax.numpy.zeros(1).dtype == np.float32


def close_over_what_single_precision_would_round():
    far = np.array([16777217.0, 16777219.0])

    def model():
        skill: Any = numpyro.sample("skill", dist.Normal(2.0**24, 1.0).expand([2]))
        numpyro.sample("y", dist.Normal(skill, 1.0), obs=far)

    compiled = jax.jit(lambda skill: log_density(model, (), {}, {"skill": skill})[0])
    compiled(np.zeros(2))
    mean = EP(model).run(jax.random.key(0)).mean["skill"]
    np.testing.assert_allclose(mean - 2.0**24, [0.5, 1.5], atol=1e-6)


@pytest.mark.slow
def test_a_program_that_closes_over_arrays_runs_elsewhere_after_ep_and_before(request):
    """In a process of its own: what clears JAX's caches would have the other tests compile anew."""
    folder = str(request.path.parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import {__name__} as t; "
    code += "t.run_elsewhere_after_ep_and_before(); "
    code += "t.close_over_what_single_precision_would_round()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_counts_of_numpy_and_values_of_arrays_shape_a_program():
    def model(n, winner, loser):
        with numpyro.plate("players", n):
            skill: Any = numpyro.sample("skill", dist.Normal(0.0, 1.0))
        with numpyro.plate("courts", int(winner.max())):
            numpyro.sample("court", dist.Normal(0.0, 1.0))
        numpyro.sample("gap", dist.Normal(skill[winner] - skill[loser], 1.0), obs=1.0)

    winner, loser = np.array([0, 1, 2]), np.array([1, 2, 0])
    count = np.concatenate([winner, loser]).max() + 1
    result = EP(model).run(jax.random.key(0), count, winner, loser)
    assert result.mean["skill"].shape == (3,) and result.mean["court"].shape == (2,)


def test_a_distribution_that_a_program_closes_over_can_be_another_the_next_time():
    prior = dist.Normal(0.0, 1.0)

    def model():
        skill = numpyro.sample("skill", prior)
        numpyro.sample("y", dist.Normal(skill, 1.0), obs=0.0)

    engine = EP(model)
    first = engine.run(jax.random.key(0)).mean["skill"]
    prior = dist.Normal(6.0, 1.0)
    second = engine.run(jax.random.key(0)).mean["skill"]
    np.testing.assert_allclose([first, second], [0.0, 3.0], atol=1e-6)


def test_an_error_of_the_program_is_not_taken_for_a_mixture_of_precisions():
    calls = []

    def model(y):
        calls.append(y)
        raise TypeError("player 32 and player 64 do not meet")

    with pytest.raises(TypeError, match="player 32"):
        EP(model).run(jax.random.key(0), 1.0)
    assert len(calls) == 1


def test_arviz_gets_log_likelihoods_in_double_precision():
    def model(y):
        skill = numpyro.sample("skill", dist.Normal(0.0, 30.0))
        numpyro.sample("y", dist.Normal(skill, 1e-3), obs=y)

    result = EP(model).run(jax.random.key(0), np.array(1.0), num_samples=50)
    data = to_arviz(result)
    draws = data.posterior["skill"].values
    np.testing.assert_allclose(
        data.log_likelihood["y"].values, norm.logpdf(1.0, draws, 1e-3), rtol=1e-12
    )


@pytest.mark.slow
def test_threads_may_share_an_engine():
    """NumPyro's handlers and its switch of validation are one for the whole process."""

    def model(y):
        skill: Any = numpyro.sample("skill", dist.Normal(0.0, 1.0).expand([len(y)]))
        numpyro.sample("y", dist.Normal(skill, 1.0), obs=y)

    engine = EP(model)

    def mean(size):
        y = np.full(size, float(size))
        return engine.run(jax.random.key(0), y, num_samples=1).mean["skill"]

    sizes = [1 + k % 6 for k in range(24)]
    with ThreadPoolExecutor(4) as threads:
        for size, found in zip(sizes, threads.map(mean, sizes), strict=True):
            np.testing.assert_allclose(found, np.full(size, 0.5 * size), atol=1e-5)
