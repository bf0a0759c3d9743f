"""What sites are to EP: latents of many families, hyperparameters, fixed sites, or dropped."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.linalg
from infer_oracles import gaussian_posterior
from numpy.testing import assert_allclose
from numpyro import handlers
from scipy import stats

from bayesrank.infer import EP
from bayesrank.infer.reader.inventory import take_inventory
from bayesrank.infer.reader.joint import trace_joint
from bayesrank.infer.reader.program import read_program
from bayesrank.infer.reader.traced import trace

KEY = jax.random.key(0)
Y = np.array([0.5, -1.0, 2.0, 1.0])
TRANSITION, NOISE = np.array([[0.9, 0.3], [0.0, 0.7]]), np.array([1.0, 0.5])


# ---------------------------------------------------------------- Gaussian families


def transition_covariance() -> np.ndarray:
    """Of four steps of a two-dimensional state, laid end to end."""
    noise, steps = np.diag(NOISE), 4
    rows = [np.linalg.matrix_power(TRANSITION, k) for k in range(steps)]
    covariance = np.zeros((steps, 2, steps, 2))
    for s in range(steps):
        for t in range(steps):
            covariance[s, :, t] = sum(
                rows[s - k] @ noise @ rows[t - k].T for k in range(min(s, t) + 1)
            )
    return covariance.reshape(2 * steps, 2 * steps)


CIRCULANT = np.array([1.0, 0.5, 0.2, 0.5])
ADJACENT = np.array([[0.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
ROWS, COLUMNS = np.array([[1.0, 0.3], [0.3, 1.0]]), np.array([[2.0, 0.0], [0.0, 0.5]])
FACTOR = np.array([[1.0], [0.5], [-0.2], [0.1]])

FAMILIES = {
    "zero_sum": (lambda: dist.ZeroSumNormal(1.5, (4,)), 2.25 * (np.eye(4) - 0.25)),
    "zero_sum_plate": (
        lambda: dist.ZeroSumNormal(1.5, (2,)).expand([2]),
        2.25 * np.kron(np.eye(2), np.eye(2) - 0.5),
    ),
    "state_space": (
        lambda: dist.GaussianStateSpace(4, TRANSITION, covariance_matrix=jnp.diag(NOISE)),
        transition_covariance(),
    ),
    "circulant": (
        lambda: dist.CirculantNormal(jnp.zeros(4), jnp.asarray(CIRCULANT)),
        scipy.linalg.toeplitz(CIRCULANT),
    ),
    "walk": (
        lambda: dist.GaussianRandomWalk(0.7, 4),
        0.49 * np.minimum.outer(np.arange(4) + 1, np.arange(4) + 1),
    ),
    "neighbours": (
        lambda: dist.CAR(0.0, 0.8, 2.0, jnp.asarray(ADJACENT)),
        np.linalg.inv(2.0 * (np.diag(ADJACENT.sum(0)) - 0.8 * ADJACENT)),
    ),
    "matrix": (
        lambda: dist.MatrixNormal(
            jnp.zeros((2, 2)), jnp.linalg.cholesky(ROWS), jnp.linalg.cholesky(COLUMNS)
        ),
        np.kron(ROWS, COLUMNS),
    ),
    "low_rank": (
        lambda: dist.LowRankMultivariateNormal(jnp.zeros(4), jnp.asarray(FACTOR), jnp.ones(4)),
        FACTOR @ FACTOR.T + np.eye(4),
    ),
    "transformed": (
        lambda: dist.TransformedDistribution(
            dist.Normal(0.0, 1.0).expand([4]), dist.transforms.AffineTransform(0.0, 2.0)
        ),
        4.0 * np.eye(4),
    ),
}


@pytest.mark.slow
def test_gaussian_families():
    """Each is inferred as the Gaussian that it is, singular ones too; with all in one program."""

    def model(y):
        for name, (family, _) in FAMILIES.items():
            f: Any = numpyro.sample(name, family())
            numpyro.sample(f"y_{name}", dist.Normal(f.reshape(-1)[-4:], 0.8), obs=y)

    result = EP(model).run(KEY, Y)
    log_evidence = 0.0
    for name, (_, covariance) in FAMILIES.items():
        size = len(covariance)
        exact = gaussian_posterior(
            np.zeros(size), covariance, np.eye(size)[-4:], Y, np.full(4, 0.8)
        )
        assert_allclose(result.mean[name].reshape(-1), exact.mean, atol=1e-8, err_msg=name)
        assert_allclose(
            result.covariance[name].reshape(size, size), exact.covariance, atol=1e-8, err_msg=name
        )
        log_evidence += exact.log_evidence
    assert_allclose(result.log_evidence, log_evidence, atol=1e-7)
    assert_allclose(result.mean["zero_sum"].sum(), 0.0, atol=1e-12)


# ---------------------------------------------------------------- fixed sites


@pytest.mark.slow
def test_density_of_a_fixed_site_is_a_factor():
    """A truncation whose mean is a latent: fixed at 2, it says where that latent is."""

    def model():
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        b = numpyro.sample("b", dist.TruncatedNormal(mu, 0.1, low=0.0))
        a: Any = numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=1.0)

    result = EP(model).run(KEY, params={"b": 2.0})
    grid = np.linspace(1.0, 3.0, 20001)
    log_density = stats.norm.logpdf(grid) + stats.truncnorm.logpdf(
        2.0, -grid / 0.1, np.inf, grid, 0.1
    )
    weight = np.exp(log_density - log_density.max())
    mean = np.average(grid, weights=weight)
    assert_allclose(result.mean["mu"], mean, atol=1e-6)
    sd = np.sqrt(np.average((grid - mean) ** 2, weights=weight))
    assert_allclose(result.sd["mu"], sd, atol=1e-6)
    log_integral = log_density.max() + np.log(weight.sum() * (grid[1] - grid[0]))
    log_evidence = log_integral + stats.norm.logpdf(1.0, 2.0, np.sqrt(2.0))
    assert_allclose(result.log_evidence, log_evidence, atol=1e-5)
    with pytest.raises(ValueError, match=r"'b' depends on latent site\(s\) mu.*params=\{'b'"):
        read_program(trace(model, (), {}, {}))


def noise_with_a_latent_mean(y: np.ndarray) -> None:
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    with handlers.scale(scale=2.0):
        numpyro.sample("rate", dist.Exponential(1.0))
    noise = numpyro.sample("noise", dist.LogNormal(level, 0.4))
    f: Any = numpyro.sample("f", dist.Normal(0.0, 1.5).expand([len(y)]))
    numpyro.sample("y", dist.Normal(f, noise), obs=y)


@pytest.mark.slow
def test_prior_of_a_hyperparameter_counts_once():
    """The level is integrated out of the density of noise and data, which is known then."""
    best = EP(noise_with_a_latent_mean, hyperparameters="map").run(KEY, Y)

    def log_joint(noise: float) -> float:
        likelihood = stats.norm.logpdf(Y, 0.0, np.sqrt(2.25 + noise**2)).sum()
        return likelihood + stats.lognorm.logpdf(noise, np.sqrt(1.16))

    noise = float(best.params["noise"])
    assert_allclose(best.log_evidence + best.log_prior, log_joint(noise), atol=1e-6)
    assert all(log_joint(noise) >= log_joint(x * noise) - 1e-6 for x in (0.9, 1.1))
    assert list(best.params) == ["noise"]  # nothing depends on the rate


# ---------------------------------------------------------------- sites without children


@pytest.mark.slow
def test_positive_sites_without_children_are_dropped():
    def model(y):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0).expand([3]))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        numpyro.sample("z", dist.Normal(f, noise), obs=jnp.zeros(3))
        seen = jnp.array([True, False, True])
        numpyro.sample("y", dist.Gamma(2.0, 2.0 / jnp.exp(f)), obs=y, obs_mask=seen)
        new: Any = numpyro.sample("new", dist.Gamma(2.0, 2.0 / jnp.exp(f)))
        numpyro.sample("newer", dist.Exponential(new))

    y = np.array([1.0, 0.5, 2.0])
    result = EP(model, hyperparameters="prior").run(KEY, y)
    assert set(result.dropped_sites) == {"y_unobserved", "new", "newer"}
    assert list(result.params) == list(result.defaulted_params) == ["noise"]
    assert list(EP(model, hyperparameters="map").run(KEY, y).params) == ["noise"]


# ---------------------------------------------------------------- directions


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_direction_hidden_by_its_scale(precision):
    """A coefficient is small or not on the scale of what it multiplies."""

    def model(share):
        f: Any = numpyro.sample("f", dist.Normal(0.0, 1.0))
        g = numpyro.sample("g", dist.Normal(0.0, 1e5))
        numpyro.sample("y", dist.Normal(f, jnp.exp(f + share * g)), obs=1.0)

    engine = EP(model, precision=precision)
    assert engine.run(KEY, np.array(0.0)).converged
    with jax.enable_x64(precision == "float64"):
        for share, pairs in ((0.0, set()), (1e-5, {"y"}), (1e-9, {"y"})):
            assert engine.trace((np.array(share),), {}, {}).decided.pairs == pairs


# ---------------------------------------------------------------- latents that are not Gaussian

PRIORS = {
    "half_normal": (lambda: dist.HalfNormal(1.0), lambda x: stats.halfnorm.logpdf(x)),
    "laplace": (lambda: dist.Laplace(0.2, 0.7), lambda x: stats.laplace.logpdf(x, 0.2, 0.7)),
    "student": (lambda: dist.StudentT(3.0, 0.0, 1.0), lambda x: stats.t.logpdf(x, 3.0)),
    "log_normal": (lambda: dist.LogNormal(0.0, 0.5), lambda x: stats.lognorm.logpdf(x, 0.5)),
    "beta": (lambda: dist.Beta(2.0, 3.0), lambda x: stats.beta.logpdf(x, 2.0, 3.0)),
    "uniform": (lambda: dist.Uniform(-1.0, 2.0), lambda x: stats.uniform.logpdf(x, -1.0, 3.0)),
    "truncated": (
        lambda: dist.TruncatedNormal(1.0, 0.5, high=0.8),
        lambda x: stats.truncnorm.logpdf(x, -np.inf, -0.4, 1.0, 0.5),
    ),
    "mixture": (
        lambda: dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([-1.0, 1.0]), 0.4)
        ),
        lambda x: np.logaddexp(
            np.log(0.3) + stats.norm.logpdf(x, -1.0, 0.4),
            np.log(0.7) + stats.norm.logpdf(x, 1.0, 0.4),
        ),
    ),
}


@pytest.mark.slow
def test_latents_that_are_not_gaussian():
    """With a Gaussian measurement of each element, one factor is left, and EP is exact."""

    def model(y):
        for name, (family, _) in PRIORS.items():
            z: Any = numpyro.sample(name, family().expand([4]))
            numpyro.sample(f"y_{name}", dist.Normal(z, 0.6), obs=y)

    result = EP(model, tol=1e-8).run(KEY, Y)
    assert not result.params
    assert result.converged
    # Midpoints, so that the ends of all supports lie between two of them.
    grid = np.arange(-8.0, 8.0, 8e-5) + 4e-5
    log_evidence = 0.0
    for name, (_, log_prior) in PRIORS.items():
        with np.errstate(divide="ignore"):
            log_mass = log_prior(grid) + stats.norm.logpdf(Y[:, None], grid, 0.6)
        mass = np.exp(log_mass)
        total = mass.sum(axis=1)
        mean = mass @ grid / total
        variance = np.sum(mass * (grid - mean[:, None]) ** 2, axis=1) / total
        log_evidence += np.log(total * (grid[1] - grid[0])).sum()
        assert_allclose(result.mean[name], mean, atol=5e-4, err_msg=name)
        assert_allclose(result.sd[name], np.sqrt(variance), atol=5e-4, err_msg=name)
    assert_allclose(result.log_evidence, log_evidence, atol=5e-3)


@pytest.mark.slow
def test_roles_of_positive_sites():
    """Effects are inferred; a scale, a rate and a factor of other latents are not."""

    def model(y):
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        width: Any = numpyro.sample("width", dist.HalfCauchy(1.0))
        slope = numpyro.sample("slope", dist.HalfNormal(width))
        effect: Any = numpyro.sample("effect", dist.Exponential(1.0).expand([4]))
        spread = numpyro.sample("spread", dist.Gamma(2.0, 2.0))
        white: Any = numpyro.sample("white", dist.Normal(0.0, 1.0).expand([4]))
        numpyro.sample("y", dist.Normal(slope * jnp.arange(4) + spread * white, noise), obs=y)
        numpyro.sample("count", dist.Poisson(jnp.exp(effect)), obs=jnp.arange(4))

    program = read_program(trace(model, (Y,), {}, {}))
    assert set(program.layout.shapes) == {"slope", "effect", "white"}
    assert set(program.layout.sampled) == {"noise", "width", "spread"}


def test_a_loop_of_sites_is_run_a_fixed_number_of_times():
    """What reading costs grows with the program's trace, not with its square."""
    runs, sizes = [0], []

    def loop(count: int) -> None:
        runs[0] += 1
        x: Any = numpyro.sample("x0", dist.Normal(0.0, 1.0))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        for t in range(1, count):
            x = numpyro.sample(f"x{t}", dist.Normal(0.9 * x, scale))
            numpyro.sample(f"y{t}", dist.Poisson(jnp.exp(x)), obs=2)

    for count in (4, 30):
        runs[0] = 0
        source = trace(loop, (count,), {}, {})
        joint = trace_joint(source, take_inventory(source, {}))
        sizes.append((runs[0], len(joint.trace.equations)))
    (few_runs, few), (many_runs, many) = sizes
    assert few_runs == many_runs <= 4
    assert many <= 30 / 3 * few


def test_a_sum_is_nearly_zero_whichever_side_is_the_data():
    """A soft constraint, against the Gaussian that conditioning gives."""
    y = np.array([0.4, -1.2, 0.7, 2.0])

    def program(swapped: bool) -> None:
        f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, 1.0).expand([4]).to_event(1)))
        total, none = (0.0, f.sum()) if swapped else (f.sum(), 0.0)
        numpyro.sample("zero", dist.Normal(total, 0.01), obs=none)
        numpyro.sample("y", dist.Normal(f, 1.0).to_event(1), obs=y)

    covariance = np.linalg.inv(2.0 * np.eye(4) + 1e4 * np.ones((4, 4)))
    for swapped in (False, True):
        result = EP(program).run(jax.random.key(0), swapped)
        np.testing.assert_allclose(result.mean["f"], covariance @ y, atol=1e-6)
        np.testing.assert_allclose(result.covariance["f"], covariance, atol=1e-6)
