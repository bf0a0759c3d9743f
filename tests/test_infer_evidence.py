"""How good EP is as an approximation, and the gradients of its evidence."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from compilations import compilations
from infer_oracles import (
    gaussian_posterior,
    grid_posterior,
    log_normal,
    pair_rows,
    rbf,
    sequential_ep,
)
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, logsumexp
from scipy.stats import norm, t

from bayesrank.distributions import Thurstone
from bayesrank.infer import EP, ConvergenceWarning

KEY = jax.random.key(1)
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(12, 2))
WINNER, LOSER = np.array([RNG.choice(12, 2, replace=False) for _ in range(40)]).T


def kernel(x: jax.Array, amplitude: Any, lengthscale: Any) -> jax.Array:
    square = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
    return amplitude**2 * jnp.exp(-0.5 * square / lengthscale**2) + 1e-6 * jnp.eye(len(x))


def program(x, winner, loser, y):
    """Hyperparameters of a prior, its mean, an absorbed factor, and likelihoods of every kind."""
    amplitude = numpyro.sample("amplitude", dist.LogNormal(0.0, 1.0))
    lengthscale = numpyro.param("lengthscale", 0.7, constraint=dist.constraints.positive)
    noise: Any = numpyro.sample("noise", dist.HalfNormal(1.0))
    lean = numpyro.param("lean", 0.1)
    pull: Any = numpyro.param("pull", 0.1)
    degrees = numpyro.param("degrees", 4.0, constraint=dist.constraints.positive)
    f: Any = numpyro.sample("f", dist.MultivariateNormal(lean, kernel(x, amplitude, lengthscale)))
    numpyro.factor("near_zero", -0.5 * pull * jnp.sum(f) ** 2)
    numpyro.sample("win", Thurstone(f[winner] - f[loser], noise), obs=1)
    numpyro.sample("y", dist.StudentT(degrees, f[:3], noise), obs=y)
    numpyro.sample("total", dist.Normal(jnp.sum(f), 3.0 * noise), obs=1.0)


@pytest.mark.slow
def test_gradient():
    """With the sites held fixed it is the total derivative: that of whole solutions."""
    engine = EP(program, tol=1e-10)
    args = X, WINNER, LOSER, np.array([0.5, -4.0, 1.0])
    params = {
        "amplitude": 1.3,
        "lengthscale": 0.6,
        "noise": 0.5,
        "lean": 0.2,
        "pull": 0.1,
        "degrees": 4.0,
    }
    evidence = jax.jit(jax.value_and_grad(lambda params: engine.log_evidence(params, *args)))
    _, gradient = evidence(params)
    step = 1e-4
    for name, value in params.items():
        up, down = (evidence({**params, name: value + sign * step})[0] for sign in (1.0, -1.0))
        assert_allclose(gradient[name], (up - down) / (2 * step), rtol=1e-5, err_msg=name)


# ---------------------------------------------------------------- exact for Gaussian programs


def regression(x, y, new):
    """Sites added, a hierarchical mean, several observed sites, latents that no data touch."""
    level: Any = numpyro.sample("level", dist.Normal(1000.0, 2.0))
    slope: Any = numpyro.sample("slope", dist.Normal(jnp.zeros(2), 1.5).to_event(1))
    offset: Any = numpyro.sample("offset", dist.Normal(level, 0.5).expand([2]))
    with numpyro.plate("row", len(y)):
        mean = x @ slope + offset[jnp.arange(len(y)) % 2]
        numpyro.sample("y", dist.Normal(mean, 0.1), obs=y)
    numpyro.sample("z", dist.Normal(offset[0], 2.0), obs=998.0)
    numpyro.sample("y_new", dist.Normal(new @ slope + level, 0.3))
    numpyro.sample("label", dist.Bernoulli(logits=slope[0]))


def test_gaussian_program_is_exact():
    """Posterior, evidence and what follows from them, in one sweep."""
    x, new = RNG.normal(size=(7, 2)), RNG.normal(size=(3, 2))
    y = x @ [1.0, -2.0] + 1000.5 + RNG.normal(size=7)
    result = EP(regression).run(KEY, x, y, new)
    # Latents in order: level, slope, offset, y_new.
    prior = np.zeros((8, 8))
    loading = np.zeros((8, 5))
    loading[0, 0] = loading[3, 0] = loading[4, 0] = 1.0
    loading[1, 1] = loading[2, 2] = loading[3, 3] = loading[4, 4] = 1.0
    loading[5:, 0], loading[5:, 1:3] = 1.0, new
    prior = loading @ np.diag([4.0, 2.25, 2.25, 0.25, 0.25]) @ loading.T
    prior[5:, 5:] += 0.09 * np.eye(3)
    mean = np.array([1000.0, 0, 0, 1000, 1000, 1000, 1000, 1000])
    design = np.zeros((8, 8))
    design[:7, 1:3], design[np.arange(7), 3 + np.arange(7) % 2], design[7, 3] = x, 1.0, 1.0
    noise = np.array([0.1] * 7 + [2.0])
    exact = gaussian_posterior(mean, prior, design, np.append(y, 998.0), noise)
    assert result.converged
    assert result.num_sweeps == 1
    assert result.latent_sites == ("level", "slope", "offset", "y_new")
    assert result.dropped_sites == ("label",)
    assert_allclose(result.joint_mean, exact.mean, rtol=1e-9)
    assert_allclose(result.joint_covariance, exact.covariance, atol=1e-9)
    assert_allclose(result.log_evidence, exact.log_evidence, rtol=1e-9)
    assert_allclose(result.sd["y_new"] ** 2, np.diag(exact.covariance)[5:], rtol=1e-8)
    assert result.covariance["slope"].shape == (2, 2) and result.mean["level"].shape == ()


# ---------------------------------------------------------------- against the truth

K3 = rbf(np.array([[0.0], [0.5], [1.5]]), 1.0)
FEW = np.array([0, 0, 1, 0]), np.array([1, 2, 2, 1])


def white_pairs(root, winner, loser):
    """Skills ``root @ z``, so that the latents are independent under the prior."""
    z: Any = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([root.shape[0]]))
    f = root @ z
    numpyro.sample("win", dist.Bernoulli(logits=f[winner] - f[loser]), obs=1)


@pytest.fixture(scope="module")
def engine():
    return EP(white_pairs)


@pytest.mark.parametrize(("amplitude", "error"), [(1.0, 0.003), (6.0, 0.05)])
def test_against_a_grid(engine, amplitude, error):
    """Three items: means, standard deviations and evidence by summing over all of space.

    EP approximates posteriors that are skewed; with a prior six times wider it errs most.
    """
    root = amplitude * np.linalg.cholesky(K3)
    result = engine.run(KEY, root, *FEW)
    rows = pair_rows(3, *FEW) @ root

    def log_density(z):
        return log_normal(z, np.zeros(3), np.eye(3)) + log_expit(z @ rows.T).sum(-1)

    exact = grid_posterior(log_density, result.mean["z"], result.covariance["z"], points=81)
    sd = np.sqrt(np.diag(exact.covariance))
    assert_allclose((result.mean["z"] - exact.mean) / sd, 0.0, atol=error)
    assert_allclose(result.sd["z"] / sd, 1.0, atol=error)
    assert_allclose(result.log_evidence, exact.log_evidence, atol=error)


@pytest.mark.slow
def test_against_importance_sampling(engine):
    root = np.linalg.cholesky(rbf(X, 0.5, 2.0))
    rows = pair_rows(12, WINNER, LOSER) @ root
    result = engine.run(KEY, root, WINNER, LOSER, num_samples=20_000)
    z, mean, covariance = result.get_samples()["z"], result.mean["z"], result.covariance["z"]
    log_weight = log_normal(z, np.zeros(12), np.eye(12)) + log_expit(z @ rows.T).sum(-1)
    log_weight -= log_normal(z, mean, covariance)
    share: Any = np.exp(log_weight - logsumexp(log_weight))
    error = np.sqrt(np.sum(share**2))
    assert error < 0.03
    exact = share @ (z @ rows.T)
    sd = np.sqrt(share @ (z @ rows.T - exact) ** 2)
    # 4.5 Monte Carlo standard errors over 40 pairs, and 0.02 for EP.
    assert np.all(np.abs(exact - rows @ mean) / sd < 4.5 * error + 0.02)
    told = np.sqrt(np.einsum("gi,ij,gj->g", rows, covariance, rows))
    assert np.all(np.abs(np.log(told / sd)) < 4.5 * error + 0.02)
    estimate = logsumexp(log_weight) - np.log(len(z))
    assert abs(result.log_evidence - estimate) < 0.05 + 4 * error


# ---------------------------------------------------------------- power, damping, failure


def outliers(y):
    f: Any = numpyro.sample("f", dist.MultivariateNormal(0.0, 4.0 * jnp.asarray(K3)))
    numpyro.sample("y", dist.StudentT(2.0, f, 0.1), obs=y)


Y = np.array([-3.0, 4.0, 0.0])


def student_t_factors():
    return [lambda x, v=v: t.logpdf(v, 2.0, x, 0.1) for v in Y]


@pytest.mark.slow
def test_power_ep():
    """Data that contradict each other, and a site removed by half."""
    exact = sequential_ep(np.zeros(3), 4 * K3, np.eye(3), student_t_factors(), power=0.5)
    result = EP(outliers, power=0.5, tol=1e-9).run(KEY, Y)
    assert result.converged
    assert_allclose(result.mean["f"], exact.mean, atol=1e-6)
    assert_allclose(result.covariance["f"], exact.covariance, atol=1e-6)
    assert_allclose(result.log_evidence, exact.log_evidence, atol=1e-6)


def test_a_domain_computed_from_the_arguments():
    """Such a program cannot be read while its arguments are traced; it is read as it stands."""

    def model(limits, design, y):
        sd: Any = numpyro.sample("sd", dist.Uniform(0.1, jnp.max(limits)))
        f: Any = numpyro.sample("f", dist.Normal(0.0, sd).expand([y.size]))
        numpyro.sample("y", dist.Normal(design @ f, 1.0), obs=y)

    y = np.array([3.0, -2.0, 1.0])
    # Sparse arguments are made dense on this way, too.
    found = EP(model, hyperparameters="map").run(KEY, np.array([2.0, 4.0]), sparse.eye_array(3), y)
    # The mean square of the data is sd^2 + 1 where the evidence is largest; the prior is flat.
    expected = np.sqrt(np.mean(y**2) - 1)
    np.testing.assert_allclose(found.params["sd"], expected, rtol=1e-3)


# ---------------------------------------------------------------- where it is largest

GROUPS = RNG.normal(size=(3, 30)) * [[2.0], [3.0], [4.0]]


def spreads(y):
    """Three groups of their own: a hyperparameter without prior, one with, one in an interval."""
    s = numpyro.param("s", 1.0, constraint=dist.constraints.positive)
    t = numpyro.sample("t", dist.LogNormal(0.0, 0.2))
    u = numpyro.param("u", 0.3, constraint=dist.constraints.interval(0.1, 0.5))
    scale = jnp.stack([jnp.asarray(s), jnp.asarray(t), jnp.asarray(u)])[:, None]
    f: Any = numpyro.sample("f", dist.Normal(0.0, scale).expand([3, 30]))
    numpyro.sample("y", dist.Normal(f, 1.0), obs=y)


@pytest.mark.slow
def test_the_maximum_is_that_in_closed_form_and_an_edge_is_told():
    def loss(t):
        log_prior = norm.logpdf(np.log(t), scale=0.2) - np.log(t)
        return -log_prior - norm.logpdf(GROUPS[1], scale=np.hypot(t, 1.0)).sum()

    with pytest.warns(ConvergenceWarning, match="stopped at an edge: u would go further. Give"):
        found = EP(spreads, hyperparameters="map").run(KEY, GROUPS, num_restarts=1)
    s, t, u = (float(found.params[k]) for k in "stu")
    assert_allclose(s, np.sqrt(np.mean(GROUPS[0] ** 2) - 1.0), rtol=1e-3)
    best: Any = minimize_scalar(loss, bounds=(0.5, 5.0))
    assert_allclose(t, best.x, rtol=1e-3)
    assert found.at_bound == ("u",) and not found.converged and 0.499 < u < 0.5
    total = np.hypot([[s], [t], [u]], 1.0)
    assert_allclose(found.log_evidence, norm.logpdf(GROUPS, scale=total).sum(), rtol=1e-9)
    assert_allclose(found.restarts, found.log_evidence + found.log_prior, atol=1e-2)


@pytest.mark.slow
def test_a_run_at_what_was_learned_compiles_nothing():
    def counts(y):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
        level = numpyro.param("level", 0.1)
        with numpyro.plate("items", len(y)):
            f: Any = numpyro.sample("f", dist.Normal(level, scale))
            numpyro.sample("y", dist.Poisson(jnp.exp(f)), obs=y)

    y = np.arange(7)
    best = EP(counts, hyperparameters="map").run(KEY, y)
    with compilations() as events:
        EP(counts, hyperparameters="map").run(KEY, y)
    assert not events
    with compilations() as events:  # what is given by hand may be any site
        given = EP(counts).run(KEY, y, params=best.params)
    assert events
    assert_allclose(given.log_evidence, best.log_evidence, rtol=1e-10)
    assert_allclose(given.mean["f"], best.mean["f"], rtol=1e-8)
