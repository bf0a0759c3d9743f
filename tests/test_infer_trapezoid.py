"""The quadrature of smooth single peaks against mpmath, and what it must not take."""

from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from bayesrank.infer import EP, sites
from bayesrank.infer.quadrature import tilted_moments
from bayesrank.infer.trapezoid import trapezoid_moments

MEANS = np.array([-6.0, 0.5, 3.0])
VARIANCES = np.array([1e-6, 1e-2, 1.0, 200.0])
MEAN, VARIANCE = (x.ravel() for x in np.meshgrid(MEANS, VARIANCES, indexing="ij"))

FAMILIES = {
    "poisson": (
        lambda x: 4.0 * x - jnp.exp(x),
        lambda x: 4 * x - mpmath.exp(x),
    ),
    "no counts": (
        lambda x: -jnp.exp(x),
        lambda x: -mpmath.exp(x),
    ),
    "logistic": (
        lambda x: jax.nn.log_sigmoid(x),
        lambda x: -mpmath.log1p(mpmath.exp(-x)),
    ),
    "negative binomial": (
        lambda x: 5.0 * x - 8.0 * jnp.logaddexp(x, jnp.log(3.0)),
        lambda x: 5 * x - 8 * mpmath.log(mpmath.exp(x) + 3),
    ),
    "Student": (
        lambda x: -2.5 * jnp.log1p(0.25 * (x - 0.7) ** 2),
        lambda x: -2.5 * mpmath.log1p(0.25 * (x - 0.7) ** 2),
    ),
}


def exact(log_likelihood: Any, mean: float, variance: float) -> tuple[float, float, float]:
    """Log Z, and mean and variance of the tilted distribution, to 20 digits."""
    with mpmath.workdps(20):
        m, v = mpmath.mpf(mean), mpmath.mpf(variance)
        near = np.linspace(mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance), 2001)
        heights = [float(log_likelihood(mpmath.mpf(x)) - (x - m) ** 2 / (2 * v)) for x in near]
        top = max(heights)
        inside = near[np.array(heights) > top - 60]
        cuts = [mpmath.mpf(x) for x in np.linspace(inside[0], inside[-1], 60)]

        def integral(power: int, centre: Any = 0) -> Any:
            def density(x: Any) -> Any:
                log_mass = log_likelihood(x) - (x - m) ** 2 / (2 * v) - top
                return (x - centre) ** power * mpmath.exp(log_mass)

            return mpmath.quad(density, cuts, method="gauss-legendre", maxdegree=4)

        mass = integral(0)
        centre = integral(1, m) / mass + m
        log_z = mpmath.log(mass) + top - mpmath.log(2 * mpmath.pi * v) / 2
        return float(log_z), float(centre - m), float(integral(2, centre) / mass)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_against_mpmath(family):
    """To 1e-8, from cavities much narrower than the likelihood to much wider ones."""
    log_likelihood, by_mpmath = FAMILIES[family]
    moments, is_right = jax.jit(lambda m, v: trapezoid_moments(log_likelihood, m, v))(
        MEAN, VARIANCE
    )
    assert is_right
    log_z, shift, spread = np.array(
        [exact(by_mpmath, m, v) for m, v in zip(MEAN, VARIANCE, strict=True)]
    ).T
    assert_allclose(moments.log_z, log_z, rtol=1e-8, atol=1e-8)
    assert_allclose((VARIANCE * moments.d1 - shift) / np.sqrt(spread), 0.0, atol=1e-8)
    assert_allclose((VARIANCE + VARIANCE**2 * moments.d2) / spread, 1.0, atol=2e-8)


@pytest.fixture(scope="module")
def counted():
    log_likelihood, _ = FAMILIES["poisson"]
    return jax.jit(lambda m, v: trapezoid_moments(log_likelihood, m, v))(MEAN, VARIANCE)


def test_counts_against_a_fine_grid(counted):
    moments, is_right = counted
    assert is_right
    mode = MEAN.copy()
    for _ in range(100):
        bend = 1.0 / VARIANCE + np.exp(mode)
        mode += np.clip((4.0 - np.exp(mode) - (mode - MEAN) / VARIANCE) / bend, -1.0, 1.0)
    width = 1.0 / np.sqrt(1.0 / VARIANCE + np.exp(mode))
    x = mode + width * np.linspace(-40.0, 20.0, 40_001)[:, None]
    log_mass = 4.0 * x - np.exp(x) - (x - MEAN) ** 2 / (2 * VARIANCE)
    total = np.asarray(logsumexp(log_mass, axis=0))
    weight = np.exp(log_mass - total)
    mean = (weight * x).sum(0)
    variance = (weight * (x - mean) ** 2).sum(0)
    log_z = total + np.log(60.0 * width / 40_000) - 0.5 * np.log(2 * np.pi * VARIANCE)
    assert_allclose(moments.log_z, log_z, rtol=1e-8, atol=1e-8)
    assert_allclose(VARIANCE * moments.d1, mean - MEAN, atol=1e-7)
    assert_allclose((VARIANCE + VARIANCE**2 * moments.d2) / variance, 1.0, atol=1e-6)


def spike(x):
    """A narrow spike at zero on a broad shoulder."""
    narrow, broad = dist.Normal(0.0, 1e-3), dist.Normal(0.0, 10.0)
    return jnp.logaddexp(jnp.log(0.99) + narrow.log_prob(x), jnp.log(0.01) + broad.log_prob(x))


def two_peaks(x):
    return jnp.logaddexp(dist.Normal(-3.0, 0.5).log_prob(x), dist.Normal(3.0, 0.5).log_prob(x))


def step(x):
    return jnp.where(x > 0.3, 0.0, -5.0)


@pytest.mark.slow
def test_a_bend_beyond_the_middle_of_the_cavity_is_seen():
    """Within a standard deviation of the cavity's mean, the log likelihood is a straight line."""
    bend = 4.6
    with jax.enable_x64(True):
        zero, one = jnp.zeros(1), jnp.ones(1)
        found = tilted_moments(lambda x: jax.nn.log_sigmoid(60.0 * (x - bend)), zero, one)
    grid = np.linspace(-12, 12, 400_001)
    log_density = -np.logaddexp(0.0, -60.0 * (grid - bend)) - 0.5 * grid**2
    weight = np.exp(log_density - log_density.max())
    mean = np.average(grid, weights=weight)
    assert_allclose(found.d1[0], mean, rtol=1e-6)
    variance = np.average((grid - mean) ** 2, weights=weight)
    assert_allclose(1 + found.d2[0], variance, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "log_likelihood", [pytest.param(spike, marks=pytest.mark.slow), two_peaks, step]
)
def test_other_shapes_are_left_to_the_panels(log_likelihood):
    """One such factor among many is enough for all to be integrated by panels."""
    mean, variance = jnp.array([0.0, -6.0, 0.1]), jnp.array([1.0, 30.0, 4.0])
    assert not trapezoid_moments(log_likelihood, mean, variance)[1]
    if log_likelihood is spike:
        found = tilted_moments(log_likelihood, mean, variance).log_z
        each = [(0.99, 1e-6), (0.01, 100.0)]
        parts = [
            np.log(w) + dist.Normal(mean, jnp.sqrt(v + variance)).log_prob(0.0) for w, v in each
        ]
        assert_allclose(found, np.logaddexp(*parts), atol=1e-6)


@pytest.mark.slow
def test_derivatives_of_the_integral():
    """In a parameter of the likelihood, in the mean and in the variance, in reverse mode."""
    at = jnp.array([0.4, -1.0]), jnp.array([0.3, 2.0])

    def log_z(rate, mean, variance):
        return tilted_moments(lambda x: 3.0 * x - rate * jnp.exp(x), mean, variance).log_z.sum()

    found: Any = jax.jit(jax.grad(log_z, (0, 1, 2)))(1.3, *at)
    step = 1e-4
    change = (log_z(1.3 + step, *at) - log_z(1.3 - step, *at)) / (2 * step)
    assert_allclose(found[0], change, rtol=1e-6)
    moments = tilted_moments(lambda x: 3.0 * x - 1.3 * jnp.exp(x), *at)
    assert_allclose(found[1], moments.d1, rtol=1e-7)
    assert_allclose(found[2], 0.5 * (moments.d2 + moments.d1**2), rtol=1e-6)


def poisson(y):
    f: Any = numpyro.sample("f", dist.Normal(0.0, 1.5).expand([4]))
    numpyro.sample("y", dist.Poisson(jnp.exp(f[jnp.arange(8) % 4] + 0.3 * f[0])), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_evidence_needs_no_further_quadrature(power):
    """What the last sweep integrated gives the same evidence as integrating anew."""
    y = np.array([0, 3, 1, 7, 2, 2, 0, 4])
    engine = EP(poisson, power=power, tol=1e-5)
    program, state = engine.read({}, y), jax.jit(lambda: engine.solve({}, y)[1])()
    anew = sites.evidence_at(program.problem, sites.step(program.problem, state, 0.0))
    assert_allclose(sites.evidence_at(program.problem, state), anew, atol=1e-8)
    counted = []

    def counting(mean, variance):
        counted.append(mean)
        return program.problem.blocks[0].moments(mean, variance)

    watched = program.problem.blocks[0]._replace(moments=counting)
    sites.evidence_at(program.problem._replace(blocks=(watched,)), state)
    assert not counted
