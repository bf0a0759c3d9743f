"""What EP got wrong without a word: priors wider than rounding, densities left out, stale data."""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from bayesrank import to_arviz
from bayesrank.diagnostics import crosscheck
from bayesrank.infer import EP
from bayesrank.infer.margins import bounded_margins
from bayesrank.infer.whitening.program import white_posterior

KEY = jax.random.key(0)
X = np.linspace(-1.0, 1.0, 5)
Y = 1.0 + 2.0 * X


def normal(name: str, scale: Any = 1.0, loc: Any = 0.0) -> Any:
    return numpyro.sample(name, dist.Normal(loc, scale))


def assert_evidence_is_checked(result: Any, atol: float) -> None:
    """Importance sampling of the cross-check has the evidence of the result."""
    weights = crosscheck(result, engines=("ep",), progress_bar=False).runs["ep"].weights
    assert weights is not None
    assert_allclose(weights.log_evidence, result.log_evidence, atol=atol)


# ---------------------------------------------------------------- priors wider than rounding


def line(y):
    numpyro.sample("y", dist.Normal(normal("a", 1e9) + normal("b", 1e9) * X, 1e-3), obs=y)


def levels(y):
    f: Any = numpyro.sample("f", dist.Normal(0.0, 1e7).expand([5]))
    numpyro.sample("y", dist.Normal(f, 1e-3), obs=y)


def test_wide_priors_do_not_cancel():
    result = EP(line).run(KEY, Y)
    assert result.converged
    assert_allclose([result.mean["a"], result.mean["b"]], [1.0, 2.0], atol=1e-9)
    design = np.stack([np.ones(5), X], axis=1)
    exact = 1e-3 * np.sqrt(np.diagonal(np.linalg.inv(design.T @ design)))
    assert_allclose([result.sd["a"], result.sd["b"]], exact, rtol=1e-6)
    log_evidence = (
        -2.5 * np.log(2 * np.pi)
        - 3 * np.log(1e-3)
        - 0.5 * np.linalg.slogdet(design.T @ design)[1]
        - 2 * np.log(1e9)
    )
    assert_allclose(result.log_evidence, log_evidence, rtol=1e-6)


def test_wide_priors_of_independent_latents_do_not_cancel():
    result = EP(levels).run(KEY, Y)
    assert_allclose(result.mean["f"], Y, atol=1e-9)
    assert_allclose(result.sd["f"], 1e-3, rtol=1e-6)


# ---------------------------------------------------------------- densities that were left out


def truncated(y):
    b: Any = numpyro.sample("b", dist.TruncatedNormal(normal("mu"), 0.1, low=0.0))
    numpyro.sample("y", dist.Normal(normal("a") + b, 1.0), obs=y)


@pytest.mark.slow
def test_fixed_sites_that_latents_reach_count_in_a_cross_check():
    result = EP(truncated).run(KEY, 1.0, params={"b": 2.0})
    assert result.conditioned_sites == ("b",)
    assert_evidence_is_checked(result, atol=0.01)
    assert result.accuracy.is_good


def pulled():
    f = normal("f")
    numpyro.sample("g", dist.Delta(2 * f, log_density=-0.5 * f**2))
    numpyro.sample("h", dist.Delta(3 * f))
    numpyro.sample("y", dist.Normal(f, 1.0), obs=2.0)


def test_a_point_mass_with_a_density_is_a_factor():
    result = EP(pulled).run(KEY)
    assert_allclose(result.mean["f"], 2 / 3, atol=1e-9)
    assert_allclose(result.sd["f"], 3**-0.5, rtol=1e-9)


def sum_to_zero():
    effect: Any = numpyro.sample("effect", dist.ZeroSumNormal(1.0, (4,)))
    numpyro.sample("y", dist.Normal(normal("m", 2.0) + effect, 0.5), obs=np.arange(4.0))


@pytest.mark.slow
def test_a_singular_gaussian_is_whitened():
    result = EP(sum_to_zero).run(KEY)
    program = white_posterior(result)
    assert program.size == 4  # one mean, three directions of four effects
    mean, covariance = program.whiten_moments(result.joint_mean, result.joint_covariance)
    assert_allclose(program.colour(mean), result.joint_mean, atol=1e-9)
    back = program.colour_moments(mean, covariance)[1]
    assert_allclose(back, result.joint_covariance, atol=1e-9)
    assert_allclose(program.colour(np.ones(4))[:4].sum(), 0, atol=1e-6)
    assert_evidence_is_checked(result, atol=1e-6)


# ---------------------------------------------------------------- draws in the support


def bounded(y):
    scale: Any = numpyro.sample("scale", dist.HalfNormal(1.0).expand([2]))
    numpyro.sample("y", dist.Normal(scale, 1.0), obs=y)


@pytest.mark.slow
def test_draws_stay_in_the_support():
    result = EP(bounded).run(KEY, np.array([0.1, -0.5]), num_samples=4000)
    draws = result.get_samples()["scale"]
    assert draws.min() > 0
    assert_allclose(draws.mean(0), result.mean["scale"], atol=0.03)
    assert_allclose(draws.std(0), result.sd["scale"], rtol=0.06)
    levels = np.linspace(1e-4, 6.0, 60_001)
    density = np.exp(-0.5 * levels**2 - 0.5 * (levels - 0.1) ** 2)
    median = levels[np.searchsorted(np.cumsum(density) / density.sum(), 0.5)]
    assert_allclose(np.median(draws[:, 0]), median, atol=0.05)
    sites = numpyro.handlers.trace(numpyro.handlers.seed(result.guide, KEY)).get_trace()
    assert np.all(np.asarray(sites["scale"]["value"]) > 0)


@pytest.mark.parametrize(
    ("mean", "ends"), [(0.4, (0, 1)), (-0.3, (-np.inf, 0)), (0.1, (0, np.inf)), (-2, (0, np.inf))]
)
def test_margins_of_each_kind_of_support(mean, ends):
    lower, upper = (np.array([float(end)]) for end in ends)
    margins = bounded_margins(np.array([float(mean)]), np.array([0.04]), (lower, upper))
    assert margins is not None
    white = np.random.default_rng(0).standard_normal((20_000, 1))
    draws = np.asarray(margins.put(mean + 0.2 * white))
    assert lower[0] <= draws.min() < draws.max() <= upper[0]
    if lower[0] < mean < upper[0]:
        assert_allclose([draws.mean(), draws.std()], [mean, 0.2], rtol=0.03)
    one = np.quantile(draws, 0.3)
    at = mean + 0.2 * stats.norm.ppf(0.3)
    step = 0.01 * np.array([[-1.0], [1.0]])
    around = np.asarray(margins.put(at + step))
    assert_allclose(
        margins.log_slope(np.array([at])), np.log(np.diff(around[:, 0]) / 0.02), atol=0.05
    )
    assert around[0] < one < around[1]


# ---------------------------------------------------------------- data in a closure

DATA = {"y": np.array([1.0, 2.0, 3.0]) + 1e-9 / 3}


def closed():
    f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([3]))
    numpyro.sample("y", dist.Normal(f, 1e-3), obs=DATA["y"])


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_closure_used_in_single_precision_is_not_rounded_afterwards():
    result = EP(closed).run(KEY, num_samples=10)
    # JAX keeps the precision of this trace, as it would that of a run of NUTS, while it lives.
    with jax.enable_x64(False):
        single = jax.jit(lambda x: x + DATA["y"])
        single(0.0)
    data: Any = to_arviz(result, num_predictive=0)
    exact = stats.norm.logpdf(DATA["y"], result.get_samples()["f"], 1e-3)
    assert_allclose(data["log_likelihood"]["y"].values[0], exact, rtol=1e-9)
    with jax.enable_x64(False):
        single(0.0)
    assert_evidence_is_checked(result, atol=1e-6)


# ---------------------------------------------------------------- limits that were left out


def late(y):
    """NumPyro says of a shifted distribution that it takes all real numbers."""
    limit = dist.transforms.AffineTransform(normal("f"), 1.0)
    numpyro.sample("y", dist.TransformedDistribution(dist.Exponential(1.0), limit), obs=y)


@pytest.mark.slow
def test_a_shifted_distribution_has_no_density_below_its_limit():
    result = EP(late).run(KEY, 0.7)
    grid = np.linspace(-9.0, 0.7, 200_001)
    mass = stats.norm.pdf(grid) * np.exp(grid - 0.7)
    mean = grid @ mass / mass.sum()
    assert result.converged
    assert_allclose(result.mean["f"], mean, atol=1e-4)
    assert_allclose(result.sd["f"], np.sqrt((grid - mean) ** 2 @ mass / mass.sum()), atol=1e-4)
    assert_allclose(result.log_evidence, np.log(mass.sum() * (grid[1] - grid[0])), atol=1e-4)
