"""Mixtures as likelihoods and priors: no part is missed, wherever it is and however narrow."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import norm

from bayesrank.infer import EP
from bayesrank.infer.reader.predictors import mixture_moments

RNG = np.random.default_rng(0)
COUNT, PARTS = 4000, 3
# Three parts of widths from .01 to 10, about cavities of standard deviations from .1 to 20.
LOG_SHARE = np.log(RNG.dirichlet(np.ones(PARTS), COUNT))
WIDTH = 10 ** RNG.uniform(-2, 1, (COUNT, PARTS))
CENTRE = 5 * RNG.normal(size=(COUNT, PARTS))
MEAN, SD = 5 * RNG.normal(size=COUNT), 10 ** RNG.uniform(-1, np.log10(20), COUNT)


def log_parts(x):
    z = (x[..., None] - CENTRE) / WIDTH
    return LOG_SHARE - 0.5 * z**2 - jnp.log(WIDTH) - 0.5 * jnp.log(2 * jnp.pi)


def closed_form():
    """Log Z and its derivatives in the cavity's mean."""
    variance = WIDTH**2 + SD[:, None] ** 2
    log_z = LOG_SHARE + norm.logpdf(MEAN[:, None], CENTRE, np.sqrt(variance))
    total: Any = logsumexp(log_z, axis=1)
    share, slope = np.exp(log_z - total[:, None]), (CENTRE - MEAN[:, None]) / variance
    d1 = np.sum(share * slope, 1)
    return total, d1, np.sum(share * ((slope - d1[:, None]) ** 2 - 1 / variance), 1)


@pytest.mark.slow
def test_random_mixtures_against_the_closed_form():
    with jax.enable_x64(True):
        found = jax.jit(lambda m, v: mixture_moments(log_parts, None, m, v))(MEAN, SD**2)
        log_z, d1, d2 = (np.asarray(x) for x in found)
    expected = closed_form()
    variance = SD**2 + SD**4 * expected[2]
    assert_allclose(log_z, expected[0], rtol=0, atol=1e-9)
    assert_allclose((d1 - expected[1]) * SD**2 / np.sqrt(variance), 0.0, atol=1e-8)
    assert_allclose((d2 - expected[2]) * SD**4 / variance, 0.0, atol=1e-8)


# ---------------------------------------------------------------- programs

HALVES = np.array([0.5, 0.5])
APART = np.array([0.0, -4.0])


def program():
    """Four latents, each with a likelihood or a prior of two narrow peaks."""
    f: Any = numpyro.sample("f", dist.Normal(0.3, 5.0).expand([3]))
    same = dist.MixtureSameFamily(
        dist.Categorical(HALVES), dist.Normal(f[:2, None] + APART, 0.1)
    ).mask(np.array([True, False]))
    numpyro.sample("masked", same, obs=np.zeros(2))
    parts: list[Any] = [dist.Normal(f[1], 0.1), dist.Normal(f[1] - 4.0, 0.5)]
    numpyro.sample("families", dist.MixtureGeneral(dist.Categorical(HALVES), parts), obs=0.0)
    with numpyro.handlers.scale(scale=0.5):
        scaled = dist.MixtureSameFamily(dist.Categorical(HALVES), dist.Normal(f[2] + APART, 0.1))
        numpyro.sample("scaled", scaled, obs=0.0)
    spikes = dist.MixtureSameFamily(dist.Categorical(HALVES), dist.Normal(-APART, 0.01))
    g: Any = numpyro.sample("g", spikes)
    numpyro.sample("y", dist.Normal(g, 5.0), obs=1.0)


Grid = np.ndarray[Any, np.dtype[np.float64]]


def halves(x: Grid, first: float, second: float) -> Grid:
    """Log density of two equal normal parts at 0 and 4 with these widths."""
    return logsumexp([norm.logpdf(x, 0, first), norm.logpdf(x, 4, second)], axis=0) - np.log(2)


def by_grid(log_likelihood: Callable[[Grid], Grid], loc: float = 0.3) -> tuple[float, ...]:
    """Log integral, mean and standard deviation under a normal prior of width 5."""
    x = np.linspace(-60, 60, 1_200_001)
    log_joint = log_likelihood(x) + norm.logpdf(x, loc, 5.0)
    weight = np.exp(log_joint - log_joint.max())
    total, mean = weight.sum(), weight @ x / weight.sum()
    sd = np.sqrt(weight @ (x - mean) ** 2 / total)
    return float(np.log(total * (x[1] - x[0])) + log_joint.max()), float(mean), float(sd)


@pytest.fixture(scope="module")
def result():
    return EP(program).run(jax.random.key(0))


@pytest.mark.slow
def test_programs_against_a_grid(result):
    expected = [
        by_grid(lambda x: halves(x, 0.1, 0.1)),
        by_grid(lambda x: halves(x, 0.1, 0.5)),
        by_grid(lambda x: 0.5 * halves(x, 0.1, 0.1)),
        by_grid(lambda x: halves(x, 0.01, 0.01), loc=1.0),
    ]
    log_z, mean, sd = np.array(expected).T
    assert result.converged
    assert_allclose(result.log_evidence, log_z.sum(), atol=1e-6)
    assert_allclose(result.joint_mean, mean, atol=1e-5)
    assert_allclose(np.sqrt(np.diagonal(result.joint_covariance)), sd, rtol=1e-5)
