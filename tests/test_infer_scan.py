"""Scans over time: sites whose elements depend on their own earlier ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from infer_oracles import gaussian_posterior
from numpy.testing import assert_allclose
from numpyro.contrib.control_flow import scan

from bayesrank.infer import EP
from bayesrank.infer.reader.affine import Affine, evaluate, identity
from bayesrank.infer.reader.jaxpr import flat_trace
from bayesrank.infer.reader.scans import split_scans

KEY = jax.random.key(0)
Y = np.array([0.5, -1.0, 2.0, 1.0, 0.3, -0.4])
N = len(Y)


def test_autoregression_of_second_order():
    """The elements' dependence on one another is ``(I - J)^-1``; the noise is a hyperparameter."""

    def model(y):
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))

        def step(carry: Any, now: Any) -> tuple[Any, None]:
            last, before = carry
            x = numpyro.sample("x", dist.Normal(0.1 + 0.5 * last + 0.2 * before, 0.9))
            numpyro.sample("y", dist.Normal(x, noise), obs=now)
            return (x, last), None

        start = numpyro.sample("start", dist.Normal(0.0, 1.0))
        scan(step, (start, 0.0), y)

    result = EP(model, hyperparameters="prior").run(KEY, Y)
    assert result.shapes == {"start": (), "x": (N,)}
    own = 0.5 * np.eye(N, k=-1) + 0.2 * np.eye(N, k=-2)
    root = np.linalg.inv(np.eye(N) - own)
    first = np.zeros(N)
    first[:2] = 0.5, 0.2
    rows = np.concatenate([np.eye(1, N + 1), np.column_stack([root @ first, 0.9 * root])])
    mean = np.concatenate([[0.0], root @ np.full(N, 0.1)])
    noise = np.full(N, float(result.params["noise"]))
    exact = gaussian_posterior(mean, rows @ rows.T, np.eye(N + 1)[1:], Y, noise)
    assert_allclose(result.joint_mean, exact.mean, atol=1e-9)
    assert_allclose(result.joint_covariance, exact.covariance, atol=1e-9)
    assert_allclose(result.log_evidence, exact.log_evidence, atol=1e-8)


def local_linear_trend(y: np.ndarray) -> None:
    """Level and slope each depend on the other's earlier elements."""

    def step(carry: Any, now: Any) -> tuple[Any, None]:
        level, slope = carry
        level = numpyro.sample("level", dist.Normal(level + slope, 0.5))
        slope = numpyro.sample("slope", dist.Normal(0.9 * slope + 0.1 * level, 0.3))
        numpyro.sample("y", dist.Poisson(jnp.exp(level)), obs=now)
        return (level, slope), None

    scan(step, (0.0, 0.0), y)


def the_same_written_out(y: np.ndarray) -> None:
    level, slope = 0.0, 0.0
    for t, now in enumerate(y):
        level: Any = numpyro.sample(f"level_{t}", dist.Normal(level + slope, 0.5))
        slope: Any = numpyro.sample(f"slope_{t}", dist.Normal(0.9 * slope + 0.1 * level, 0.3))
        numpyro.sample(f"y_{t}", dist.Poisson(jnp.exp(level)), obs=now)


@pytest.mark.slow
def test_sites_that_depend_on_one_another():
    y = np.array([0, 2, 1, 4])
    together, apart = EP(local_linear_trend).run(KEY, y), EP(the_same_written_out).run(KEY, y)
    for name in ("level", "slope"):
        assert_allclose(
            together.mean[name], [apart.mean[f"{name}_{t}"] for t in range(4)], atol=1e-5
        )
        assert_allclose(together.sd[name], [apart.sd[f"{name}_{t}"] for t in range(4)], atol=1e-5)
    assert_allclose(together.log_evidence, apart.log_evidence, atol=1e-6)


@pytest.mark.slow
def test_volatility_by_jax_scan_and_by_sums():
    """Nonlinear results of each step are factors of their own, under a mask and weights too."""

    def model(y, by_scan):
        step: Any = numpyro.sample("step", dist.Normal(0.0, 0.4).expand([N]))
        if by_scan:

            def walk(last: Any, now: Any) -> tuple[Any, tuple[Any, Any]]:
                return last + now, (last + now, jnp.exp(0.5 * (last + now)))

            _, (level, sd) = jax.lax.scan(walk, -0.5, step)
        else:
            level = -0.5 + jnp.cumsum(step)
            sd = jnp.exp(0.5 * level)
        with numpyro.handlers.scale(scale=np.linspace(0.5, 1.5, N)):
            numpyro.sample("y", dist.Normal(0.0, sd), obs=y, obs_mask=y > -0.9)
        numpyro.sample("z", dist.Normal(level, 1.0), obs=y)

    engine = EP(model, tol=1e-8)
    one, other = engine.run(KEY, Y, True), engine.run(KEY, Y, False)
    assert_allclose(one.joint_mean, other.joint_mean, atol=1e-7)
    assert_allclose(one.joint_covariance, other.joint_covariance, atol=1e-7)
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-7)


@pytest.mark.slow
def test_steps_that_are_not_gaussian():
    """The dependence of elements on one another counts in the wide Gaussian, too."""

    def together():
        def step(last: Any, now: Any) -> tuple[Any, None]:
            x = numpyro.sample("x", dist.StudentT(3.0, 0.9 * last, 0.3))
            numpyro.sample("y", dist.Normal(x, 0.4), obs=now)
            return x, None

        scan(step, 0.0, Y[:4])

    def apart():
        x: Any = 0.0
        for t in range(4):
            x = numpyro.sample(f"x{t}", dist.StudentT(3.0, 0.9 * x, 0.3))
            numpyro.sample(f"y{t}", dist.Normal(x, 0.4), obs=Y[t])

    one, other = EP(together).run(KEY), EP(apart).run(KEY)
    assert one.converged
    assert_allclose(one.joint_mean, other.joint_mean, atol=1e-5)
    assert_allclose(one.joint_covariance, other.joint_covariance, atol=1e-5)
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_that_forgets_is_mapped(reverse):
    """What it carries follows from few latents: rows stay short, and their values are the same."""

    def results(z: Any, start: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            count, (last, before), unused = carry
            level = 0.5 * last - 0.2 * before + count
            return (count + 1, (x, last), unused), (level + x, 2.0 * before, jnp.exp(level))

        init = 0, (start, 0.5 * start), jnp.zeros(2)
        return jax.lax.scan(step, init, z, reverse=reverse)

    shapes = {"z": (N, 2), "start": (2,)}
    rng = np.random.default_rng(0)
    latents = [jnp.asarray(rng.normal(size=shape), float) for shape in shapes.values()]
    trace, _ = flat_trace(results, *latents)
    split = split_scans(trace, trace.inputs)
    rows = identity({"z": 2 * N, "start": 2}, shapes, float)
    env = evaluate(split, [rows["z"], rows["start"]])
    flat = jnp.concatenate([x.reshape(-1) for x in latents])
    expected, checked = jax.tree.leaves(results(*latents)), 0
    for number, exact in zip(split.outputs, expected, strict=True):
        value = env[number] if isinstance(number, int) else number.value
        if isinstance(value, Affine):
            assert value.columns is not None and value.values.shape[-1] <= 3
            assert_allclose(value.at(flat), exact, rtol=1e-5, atol=1e-5)
            checked += 1
    assert checked == 4
