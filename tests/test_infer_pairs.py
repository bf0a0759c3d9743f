"""Factors that see two directions of the latents, against grids over the plane and NUTS."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

from bayesrank.infer import EP, AccuracyWarning
from bayesrank.infer.pairs import PairBlock, Symmetric, pair_faults, pair_moments
from bayesrank.infer.reader.jaxpr import evaluated, flat_trace
from bayesrank.infer.reader.joint import moves_first

KEY = jax.random.key(0)
X = np.linspace(-2, 2, 60)


def normal(name: str, scale: Any = 1.0, shape: tuple[int, ...] = (), loc: Any = 0.0) -> Any:
    return numpyro.sample(name, dist.Normal(loc, scale).expand(shape))


def observe(fn: Any, value: Any) -> None:
    numpyro.sample("y", fn, obs=value)


# ---------------------------------------------------------------- integrals over the plane

MEAN, COVARIANCE = np.array([[0.3, -1.0], [0.2, 0.5]]), np.array([[1.0, 0.4], [0.4, 0.6]])


def gaussian_of_unknown_scale(eta):
    return -eta[1] - 0.5 * jnp.exp(-2 * eta[1]) * (jnp.array([1.7, -0.2]) - eta[0]) ** 2


def product(eta):
    return jax.nn.log_sigmoid(jnp.array([4.0, -2.0]) * eta[0] * eta[1])


def on_a_grid(log_likelihood, mean, covariance):
    """Log integral, mean and covariance of one factor times a Gaussian, by a fine sum."""
    axis = np.linspace(-9, 9, 801)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    x = mean[:, None] + np.linalg.cholesky(covariance) @ z
    log_mass = log_likelihood(x) - 0.5 * np.sum(z**2, 0) - np.log(2 * np.pi)
    mass = np.exp(log_mass) * (axis[1] - axis[0]) ** 2
    total = mass.sum()
    centre = x @ mass / total
    return np.log(total), centre, (x - centre[:, None]) * mass @ (x - centre[:, None]).T / total


@pytest.mark.slow
@pytest.mark.parametrize("log_likelihood", [gaussian_of_unknown_scale, product])
def test_moments_are_those_on_a_grid(log_likelihood):
    matrix = Symmetric(*(jnp.full(2, x) for x in COVARIANCE[[0, 1, 0], [0, 1, 1]]))
    found = pair_moments(log_likelihood, jnp.asarray(MEAN), matrix)
    for k in range(2):
        log_z, centre, spread = on_a_grid(
            lambda x, k=k: np.asarray(jax.vmap(log_likelihood, 1)(np.stack([x, x], -1))[:, k]),
            MEAN[:, k],
            COVARIANCE,
        )
        assert_allclose(found.log_z[k], log_z, atol=1e-5)
        assert_allclose(found.mean[:, k], centre, atol=1e-4)
        told = [[found.covariance.a[k], found.covariance.c[k]]] * 2
        told[1] = [found.covariance.c[k], found.covariance.b[k]]
        assert_allclose(told, spread, atol=1e-4)
    faults = pair_faults(log_likelihood, jnp.asarray(MEAN), matrix, found)
    assert np.all(faults.missed < 1e-2) and np.all(faults.error == 0)


@pytest.mark.slow
def test_a_peak_that_the_nodes_lose_is_seen():
    def needle(eta):
        away = (eta[0] - 4.46) ** 2 + (eta[1] - 0.7) ** 2
        return jnp.logaddexp(0.0, 15.9 - 0.5 * away / 0.1**2)

    one = jnp.ones(1)
    where = jnp.zeros((2, 1)), Symmetric(one, one, 0 * one)
    found = pair_moments(needle, *where)
    faults = pair_faults(needle, *where, found)
    assert found.mean[0, 0] < 1.0  # where the needle has three quarters of the mass
    assert faults.missed[0] > 0.2 and faults.error[0] > 0.2


def one_datum(x, y):
    f = normal("f", 0.6, (2,))
    numpyro.sample("y", dist.Normal(f[0] + x * f[1], jnp.exp(f[0] - f[1])), obs=y)


@pytest.mark.slow
def test_one_factor_is_matched_whole():
    x, y = np.array([0.5]), np.array([1.2])

    def log_likelihood(f):
        sd = np.exp(f[0] - f[1])
        return -0.5 * ((y - f[0] - x * f[1]) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)

    result = EP(one_datum).run(KEY, x, y)
    log_z, mean, covariance = on_a_grid(log_likelihood, np.zeros(2), 0.6**2 * np.eye(2))
    assert result.converged
    assert_allclose(result.log_evidence, log_z, atol=1e-3)
    assert_allclose(result.mean["f"], mean, atol=2e-3)
    assert_allclose(result.joint_covariance, covariance, atol=5e-3)


@pytest.mark.slow
def test_evidence_has_its_slope():
    def program(x, y):
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        a, b, c = normal("a"), normal("b"), normal("c", tau)
        numpyro.sample("y", dist.Normal(a + b * x, jnp.exp(c)), obs=y)

    y = np.array([0.2, 1.5, 0.9])
    engine, x = EP(program, tol=1e-8), np.array([0.0, 1.0, 2.0])
    with jax.enable_x64(True):
        height = jax.jit(lambda tau: engine.log_evidence({"tau": tau}, x, y))
        slope = jax.jit(jax.grad(height))(0.7)
        assert_allclose(slope, (height(0.701) - height(0.699)) / 0.002, rtol=1e-4)


# ---------------------------------------------------------------- reading


def test_moves_come_first_and_change_nothing():
    index = np.array([2, 0, 1, 2])

    def program(f, g):
        scale = jnp.exp(f)[index]
        return scale * g[:, None].T.reshape(-1)[index] + jnp.tanh(g).sum()

    f, g = np.array([0.3, -0.2, 1.0]), np.array([0.5, 2.0, -1.0])
    trace, _ = flat_trace(program, f, g)
    moved = moves_first(trace, trace.inputs)
    names = [equation.name for equation in moved.equations]
    assert names.index("gather") < names.index("exp")

    def value(trace):
        return evaluated(trace.equations, trace.outputs, {**trace.constants, 0: f, 1: g})[0]

    assert_allclose(value(moved), value(trace), rtol=1e-12)


@pytest.mark.slow
def test_what_sees_one_direction_is_no_pair():
    def program(x, y):
        a, b = normal("a"), normal("b")
        eta = jnp.stack([-(a + b * x), jnp.zeros_like(x), a + b * x], -1)
        observe(dist.Categorical(logits=eta), y)

    engine, y = EP(program), np.arange(60) % 3
    (block,) = engine.read({}, X, y).problem.blocks
    assert not isinstance(block, PairBlock)


# ---------------------------------------------------------------- programs

RNG = np.random.default_rng(1)
FIRST = RNG.integers(0, 6, 60)
SECOND = (FIRST + RNG.integers(1, 6, 60)) % 6
PERSON, ITEM = np.repeat(np.arange(20), 6), np.tile(np.arange(6), 20)
GRID = np.exp(-0.5 * (X[::2, None] - X[::2]) ** 2) + 1e-6 * np.eye(30)
NOISY = 0.5 + X + np.exp(-0.5 + 0.5 * X) * RNG.normal(size=60)


def heteroscedastic():
    a, b, c, d = normal("a", 2.0), normal("b", 2.0), normal("c"), normal("d")
    numpyro.sample("y", dist.Normal(a + b * X, jnp.exp(c + d * X)), obs=NOISY)


def heteroscedastic_gp():
    f = numpyro.sample("f", dist.MultivariateNormal(0.0, GRID))
    g = numpyro.sample("g", dist.MultivariateNormal(-1.0, 0.5 * GRID))
    numpyro.sample("y", dist.Normal(f, jnp.exp(g)), obs=NOISY[::2])


def davidson():
    f, t = normal("f", 1.0, (6,)), normal("t", 0.7, loc=-0.5)
    d = f[FIRST] - f[SECOND]
    logits = jnp.stack([-d / 2, jnp.broadcast_to(t, d.shape), d / 2], -1)
    observe(dist.Categorical(logits=logits), np.arange(60) % 3)


def softmax_of_three():
    w = normal("w", 1.0, (2, 2))
    eta = np.stack([np.ones(60), X], -1) @ w.T
    logits = jnp.concatenate([jnp.zeros((60, 1)), eta], 1)
    observe(dist.Categorical(logits=logits), (np.arange(60) // 5) % 3)


def zero_inflated():
    a, b, g, h = normal("a"), normal("b"), normal("g"), normal("h")
    rate, gate = jnp.exp(a + b * X), jax.nn.sigmoid(g + h * X)
    counts = np.where(np.arange(60) % 4 == 0, 0, np.round(np.exp(0.5 + 0.4 * X)))
    observe(dist.ZeroInflatedPoisson(gate, rate), counts)


def two_parameters(prior):
    a: Any = numpyro.sample("a", prior.expand([6]))
    b, theta = normal("b", 1.0, (6,)), normal("theta", 1.0, (20,))
    logits = a[ITEM] * (theta[PERSON] - b[ITEM])
    right = (3 * PERSON + 7 * ITEM + PERSON * ITEM) % 20 < PERSON
    observe(dist.Bernoulli(logits=logits), right.astype(int))


def two_parameter_irt():
    two_parameters(dist.LogNormal(0.0, 0.5))


def two_parameter_irt_of_any_sign():
    two_parameters(dist.Normal(1.0, 0.4))


# In posterior standard deviations, and shares of these: EP's own error, beside that of NUTS.
WITHIN: dict[Any, tuple[float, float]] = {
    heteroscedastic: (0.06, 0.08),
    heteroscedastic_gp: (0.06, 0.15),
    davidson: (0.06, 0.08),
    softmax_of_three: (0.06, 0.08),
    zero_inflated: (0.06, 0.12),
    two_parameter_irt: (0.12, 0.2),
    two_parameter_irt_of_any_sign: (0.12, 0.2),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", WITHIN, ids=lambda model: model.__name__)
def test_programs_are_near_nuts(model):
    result = EP(model).run(KEY, num_samples=0)
    assert result.converged and not result.moment_errors and not result.missed_mass
    kernel = NUTS(model, target_accept_prob=0.95)
    chains = MCMC(kernel, num_warmup=500, num_samples=3000, progress_bar=False)
    chains.run(jax.random.key(1))
    of_mean, of_sd = WITHIN[model]
    for name, draws in chains.get_samples().items():
        sd, effective = draws.std(0), effective_sample_size(draws[None])
        error = 4 / np.sqrt(effective)
        assert np.all(np.abs(result.mean[name] - draws.mean(0)) / sd < of_mean + error), name
        assert np.all(np.abs(result.sd[name] / sd - 1) < of_sd + error), name


@pytest.mark.slow
def test_a_share_of_a_site_gives_about_the_same():
    half, whole = (EP(davidson, power=power).run(KEY) for power in (0.5, 1.0))
    assert half.converged and abs(half.log_evidence - whole.log_evidence) < 0.02
    for name in whole.mean:
        assert np.all(np.abs(half.mean[name] - whole.mean[name]) < 0.02 * whole.sd[name])


@pytest.mark.slow
def test_vectors_with_no_room_in_a_pair_are_hyperparameters():
    """A weight, a slope and a level are three directions; the weights alone are positive."""

    def program(x, y):
        weight = numpyro.sample("weight", dist.LogNormal(0.0, 0.5).expand([2]))
        slope, level = normal("slope", 1.0, (2,)), normal("level")
        group = np.arange(x.size) % 2
        eta = level + (weight * slope)[group] * x
        observe(dist.Bernoulli(logits=eta), y)

    source = EP(program).trace((X, np.arange(60) % 2), {}, {})
    assert source.decided.held == {"weight"} and not source.decided.pairs
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        fixed = EP(program).run(KEY, X, np.arange(60) % 2, params={"weight": np.ones(2)})
    assert fixed.converged
