"""The tilted moments of every likelihood that a program can state, by another route.

With one factor to a latent EP is exact, so these are the posterior's mean and variance and the
evidence.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import LogLikelihood, tilted
from jax.scipy.special import ndtr
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import comb, gammaln, log_expit

from bayesrank.distributions import (
    BradleyTerry,
    BradleyTerryTies,
    OrderedProbit,
    Thurstone,
    ThurstoneTies,
)
from bayesrank.infer import EP
from bayesrank.infer.reader.densities import observed_density
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

KEY = jax.random.key(0)
CUTS = np.array([-1.0, 0.5, 1.2])
# Mean and standard deviation of the cavities.
ORDINARY = [(0.0, 1.0), (1.3, 0.4), (-2.5, 2.0), (0.7, 5.0), (-0.2, 0.03)]


class Case(NamedTuple):
    """A likelihood of an affine predictor, and the same by hand for each value that it is given."""

    distribution: Callable[[jax.Array], dist.Distribution]
    values: list[float]
    log_likelihood: Callable[[float], LogLikelihood]
    far: list[tuple[float, float]] = []
    error: float = 2e-7


def log_interval(cdf: Callable, sf: Callable, low: float, high: float) -> LogLikelihood:
    """Log probability that predictor and error fall in an interval, from the better side."""

    def log_probability(x: np.ndarray) -> np.ndarray:
        below = cdf(high - x) - cdf(low - x)
        above = sf(low - x) - sf(high - x)
        with np.errstate(divide="ignore"):
            return np.log(np.where(low - x > 0, above, below))

    return log_probability


def levels(family: Any, scale: float = 1.0) -> Callable[[float], LogLikelihood]:
    edges = np.concatenate([[-np.inf], CUTS, [np.inf]])
    error = family(scale=scale)
    return lambda y: log_interval(error.cdf, error.sf, edges[int(y)], edges[int(y) + 1])


def ties(family: Any, width: float, scale: float) -> Callable[[float], LogLikelihood]:
    edges = {0: (-np.inf, -width), 1: (-width, width), 2: (width, np.inf)}
    error = family(scale=scale)
    return lambda y: log_interval(error.cdf, error.sf, *edges[int(y)])


def sign(y: float) -> float:
    return 1.0 if y == 1 else -1.0


FAR = [(40.0, 1.0), (-40.0, 1.0), (3.0, 1e-4), (0.0, 1e4), (-30.0, 6.0)]

CASES = {
    # NumPyro keeps probabilities away from 0 by the smallest float, and from 1 by rounding.
    "bernoulli_ndtr": Case(
        lambda m: dist.Bernoulli(probs=ndtr(m)),
        [1.0],
        lambda y: lambda x: np.maximum(stats.norm.logcdf(x), np.log(np.finfo(float).tiny)),
    ),
    "bernoulli_logits": Case(
        lambda m: dist.Bernoulli(logits=m),
        [0.0, 1.0],
        lambda y: lambda x: log_expit(sign(y) * x),
        FAR,
    ),
    "binomial": Case(
        lambda m: dist.Binomial(12, logits=m),
        [0, 5, 12],
        lambda y: lambda x: np.log(comb(12, y)) + y * log_expit(x) + (12 - y) * log_expit(-x),
        FAR,
    ),
    "thurstone": Case(
        lambda m: Thurstone(m, 0.8),
        [0, 1],
        lambda y: lambda x: stats.norm.logcdf(sign(y) * x / (np.sqrt(2) * 0.8)),
        FAR,
    ),
    "thurstone_ties": Case(
        lambda m: ThurstoneTies(m, 0.4, 0.8), [0, 1, 2], ties(stats.norm, 0.4, np.sqrt(2) * 0.8)
    ),
    "bradley_terry": Case(
        lambda m: BradleyTerry(m, 0.6),
        [0, 1],
        lambda y: lambda x: log_expit(sign(y) * x / 0.6),
        FAR,
    ),
    "bradley_terry_ties": Case(
        lambda m: BradleyTerryTies(m, 0.4, 0.6), [0, 1, 2], ties(stats.logistic, 0.4, 0.6)
    ),
    "ordered_logistic": Case(
        lambda m: dist.OrderedLogistic(m, CUTS), [0, 1, 2, 3], levels(stats.logistic)
    ),
    "ordered_probit": Case(
        lambda m: OrderedProbit(m, CUTS, 0.7), [0, 1, 2, 3], levels(stats.norm, 0.7)
    ),
    "poisson": Case(
        lambda m: dist.Poisson(jnp.exp(m)),
        [0, 2, 40],
        lambda y: lambda x: y * x - np.exp(x) - gammaln(y + 1),
        [(-40.0, 1.0), (5.0, 1e-4), (0.0, 1e4), (30.0, 6.0)],
    ),
    "student_t": Case(
        lambda m: dist.StudentT(3.0, m, 0.5),
        [-1.0, 0.3, 8.0],
        lambda y: lambda x: stats.t.logpdf(y, 3.0, x, 0.5),
        [(0.0, 1e4), (40.0, 1.0), (0.3, 1e-4)],
    ),
    "laplace": Case(
        lambda m: dist.Laplace(m, 0.5),
        [0.3],
        lambda y: lambda x: stats.laplace.logpdf(y, x, 0.5),
        [(40.0, 1.0), (0.0, 1e4)],
        # A kink costs digits: panels crowd around it but have no edge on it.
        error=2e-4,
    ),
    "normal": Case(
        lambda m: dist.Normal(m, 0.5),
        [-1.0, 2.0],
        lambda y: lambda x: stats.norm.logpdf(y, x, 0.5),
        FAR,
    ),
}


def _case(name: str) -> Any:
    general = ("bernoulli_ndtr", "binomial", "poisson", "student_t", "laplace")
    return pytest.param(name, marks=[pytest.mark.slow] if name in general else [])


@pytest.mark.parametrize("name", [_case(name) for name in CASES])
def test_moments(name):
    case = CASES[name]
    cavities = np.array(ORDINARY + case.far)
    values = np.repeat(case.values, len(cavities))
    means, sds = np.tile(cavities, (len(case.values), 1)).T

    def model(values):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([len(values)]))
        numpyro.sample("y", case.distribution(f), obs=values)

    is_count = isinstance(case.values[0], int)

    @jax.jit
    def moments_of_f(values, means, sds):
        block: Any = read_program(trace(model, (values,), {}, {})).problem.blocks[0]
        # The program's own predictor may be a multiple of f, such as (y - f) / scale.
        slope = block.rows.apply(jnp.ones(len(values)))
        log_z, d1, d2 = block.moments(block.offset + slope * means, slope**2 * sds**2)
        return log_z, means + sds**2 * slope * d1, sds**2 + sds**4 * slope**2 * d2

    found = moments_of_f(values.astype(int) if is_count else values, means, sds)
    kinks = {"student_t": case.values, "laplace": case.values}.get(name, [])
    exact = [
        tilted(case.log_likelihood(y), m, s**2, tuple(kinks))
        for y, m, s in zip(values, means, sds, strict=True)
    ]
    log_z, mean, variance = np.array(exact).T
    assert_allclose(found[0], log_z, rtol=2e-9, atol=case.error)
    assert_allclose((found[1] - mean) / np.sqrt(variance), 0.0, atol=10 * case.error)
    assert_allclose(found[2] / variance, 1.0, atol=50 * case.error)


@pytest.mark.slow
def test_numpyros_distributions_with_logistic_noise_are_met_without_search():
    """A Bernoulli and an ordered logistic, against the same densities that nobody knows."""
    x, cuts = np.linspace(-2.0, 2.0, 7), jnp.array([-1.0, 0.5])
    won, level = np.array([0, 0, 1, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 2, 2, 1])

    def program(is_known, width):
        def seen(name, likelihood, value):
            if is_known:
                numpyro.sample(name, likelihood, obs=value)
            else:
                numpyro.factor(name, likelihood.log_prob(value))

        b = numpyro.sample("b", dist.Normal(0.3, width))
        seen("y", dist.Bernoulli(logits=b * x), won)
        seen("z", dist.OrderedLogistic(b * x, cuts), level)

    engines = [EP(partial(program, is_known), tol=1e-9) for is_known in (True, False)]
    for width in np.array([0.5, 20.0]):
        found, expected = (engine.run(KEY, width) for engine in engines)
        assert_allclose(found.mean["b"], expected.mean["b"], rtol=1e-7)
        assert_allclose(found.sd["b"], expected.sd["b"], rtol=1e-7)
        assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-8)


APART, HALVES = np.array([0.0, -4.0]), dist.Categorical(jnp.array([0.5, 0.5]))


def halves(f: Any, widths: Any = 0.1) -> Any:
    return dist.MixtureSameFamily(HALVES, dist.Normal(f + APART, widths))


def test_a_masked_datum_of_a_mixture_has_no_slope():
    def total(f: Any) -> Any:
        fn = halves(f[:, None]).mask(np.array([True, False]))
        return observed_density(fn, jnp.array([0.0, np.nan])).log_prob.sum()

    first, masked = jax.grad(total)(jnp.ones(2))
    assert abs(first) > 1.0
    assert masked == 0.0


def mixtures():
    """Five latents, each with a likelihood or a prior of two peaks, some of them narrow."""
    f: Any = numpyro.sample("f", dist.Normal(0.3, 5.0).expand([4]))
    only_first: Any = halves(f[:2, None]).mask(np.array([True, False]))
    numpyro.sample("masked", only_first, obs=np.zeros(2))
    parts: list[Any] = [dist.Normal(f[1], 0.1), dist.Normal(f[1] - 4.0, 0.5)]
    numpyro.sample("families", dist.MixtureGeneral(HALVES, parts), obs=0.0)
    with numpyro.handlers.scale(scale=0.5):
        numpyro.sample("scaled", halves(f[2]), obs=0.0)
    # Nothing in the shoulder's slope tells of the spike: quadrature looks at a residual of zero.
    shares, widths = jnp.array([0.99, 0.01]), np.array([1e-3, 10.0])
    spike = dist.MixtureSameFamily(dist.Categorical(shares), dist.Normal(f[3] + 0 * APART, widths))
    numpyro.sample("spike", spike, obs=8.0)
    g: Any = numpyro.sample("g", dist.MixtureSameFamily(HALVES, dist.Normal(-APART, 0.01)))
    numpyro.sample("y", dist.Normal(g, 5.0), obs=1.0)


def peaks(*parts: tuple[float, float, float]) -> LogLikelihood:
    """Log density of normal parts (share, centre, width)."""
    return lambda x: np.logaddexp.reduce(
        [np.log(share) + stats.norm.logpdf(x, centre, width) for share, centre, width in parts]
    )


@pytest.mark.slow
def test_no_part_of_a_mixture_is_missed_wherever_it_is_and_however_narrow():
    result = EP(mixtures).run(KEY)
    same = peaks((0.5, 0, 0.1), (0.5, 4, 0.1))
    exact = [
        tilted(same, 0.3, 25.0, (0.0, 4.0)),
        tilted(peaks((0.5, 0, 0.1), (0.5, 4, 0.5)), 0.3, 25.0, (0.0, 4.0)),
        tilted(lambda x: 0.5 * same(x), 0.3, 25.0, (0.0, 4.0)),
        tilted(peaks((0.99, 8, 1e-3), (0.01, 8, 10.0)), 0.3, 25.0, (8.0,)),
        tilted(peaks((0.5, 0, 0.01), (0.5, 4, 0.01)), 1.0, 25.0, (0.0, 4.0)),
    ]
    log_z, mean, variance = np.array(exact).T
    assert result.converged
    assert_allclose(result.log_evidence, log_z.sum(), atol=1e-6)
    assert_allclose(result.joint_mean, mean, atol=1e-5)
    assert_allclose(np.diagonal(result.joint_covariance), variance, rtol=2e-5)


@pytest.mark.slow
def test_quantile_regression_converges():
    """A rule with the kink inside a panel kept the sweeps from settling."""
    rng = np.random.default_rng(0)
    x = np.stack([np.ones(40), rng.normal(size=40)], axis=1)
    y = x @ np.array([0.3, 0.8]) + rng.laplace(size=40)

    def model():
        w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([2]))
        numpyro.sample("y", dist.AsymmetricLaplaceQuantile(x @ w, 0.5, 0.3), obs=y)

    result = EP(model, tol=1e-8).run(KEY)
    assert result.converged and result.num_sweeps < 40 and result.accuracy.is_good
