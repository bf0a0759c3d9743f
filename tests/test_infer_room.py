"""What will not fit into memory is refused from the trace, before anything is computed."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesrank import _memory
from bayesrank._memory import TooLargeError
from bayesrank.infer import EP, compiled
from bayesrank.infer.compiled import bytes_at_once, check_compiled
from bayesrank.infer.gaussian.rows import Rows


def walk(items, times, pairs, when):
    steps = numpyro.sample("steps", dist.Normal(0.0, 1.0).expand([items, times]))
    f = jnp.cumsum(steps, axis=1)
    margin = f[pairs[:, 0], when] - f[pairs[:, 1], when]
    numpyro.sample("win", dist.Bernoulli(logits=margin), obs=1)


def linear(features, pairs):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([features.shape[1]]))
    own = numpyro.sample("own", dist.Normal(0.0, 1.0).expand([features.shape[0]]))
    f = features @ weights + own
    f = f - f.mean()  # so that each datum sees all of them
    numpyro.sample("win", dist.Bernoulli(logits=f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)


def pairs_of(items, count):
    first = np.random.default_rng(0).integers(items, size=count)
    return np.stack([first, (first + 1 + np.arange(count) % (items - 1)) % items], axis=1)


CASES = {
    "linear": (linear, (np.arange(2e6).reshape(100_000, 20), pairs_of(100_000, 200))),
    "walk": (walk, (2000, 50, pairs_of(2000, 100), np.zeros(100, int))),
}
SAID = (
    r"takes at least [\d,.]+ [GT]iB of memory at once \(it has arrays of 100,0\d\d x 100,0\d\d "
    r"numbers\), and 1.86 GiB are free; give it fewer latents or fewer data; docs/scale.md"
)


@pytest.fixture
def two_gigabytes(monkeypatch):
    monkeypatch.setattr(compiled, "available", lambda: 2 * 10**9)


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(CASES))
def test_of_many_latents_the_trace_tells(case, two_gigabytes, monkeypatch):
    monkeypatch.setattr(jax.stages.Lowered, "compile", None)  # so nothing is compiled, or run
    model, args = CASES[case]
    with pytest.raises(TooLargeError) as caught:
        EP(model).run(jax.random.key(0), *args)
    assert re.search(SAID, str(caught.value)), caught.value


def figures(size):
    """What the trace and the compiled code of a solve of `size` latents say, in bytes."""

    def solve(x):
        covariance = x[:, None] * jnp.eye(size)
        factor = jnp.linalg.cholesky(jnp.eye(size) + covariance @ covariance)
        return jax.scipy.linalg.cho_solve((factor, True), covariance)

    stages = jax.jit(solve).trace(jnp.ones(size, jnp.float32))
    stats: Any = stages.lower().compile().memory_analysis()
    return bytes_at_once(stages.jaxpr.jaxpr), stats.temp_size_in_bytes + stats.output_size_in_bytes


def test_the_trace_tells_the_need_to_about_a_third():
    told, true = figures(400)
    assert true / 1.5 < told < 1.5 * true


def test_compiled_code_tells_it_to_the_byte(monkeypatch):
    stages = jax.jit(lambda x: jnp.outer(x, x)).trace(jnp.ones(1000, jnp.float32))
    code = stages.lower().compile()
    monkeypatch.setattr(compiled, "available", lambda: 4_000_000)
    check_compiled(code, stages.jaxpr)
    monkeypatch.setattr(compiled, "available", lambda: 3_999_999)
    with pytest.raises(TooLargeError, match="3.81 MiB"):
        check_compiled(code, stages.jaxpr)


def test_what_nothing_depends_on_is_not_counted():
    def wasteful(x):
        _ = jnp.linalg.cholesky(jnp.eye(10_000) * x)
        return 2.0 * x

    assert bytes_at_once(jax.jit(wasteful).trace(1.0).jaxpr.jaxpr) < 100


@pytest.mark.slow
def test_the_search_for_hyperparameters_refuses_too(two_gigabytes):
    def model(pairs):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        f = jnp.cumsum(numpyro.sample("f", dist.Normal(0.0, scale).expand([100_000])))
        numpyro.sample("win", dist.Bernoulli(logits=f[pairs[:, 0]] - f[pairs[:, 1]]), obs=1)

    pairs = pairs_of(100_000, 100)
    with pytest.raises(TooLargeError, match="of memory"):
        EP(model, hyperparameters="map").run(jax.random.key(0), pairs)


@pytest.mark.slow
def test_what_an_integration_would_keep_is_refused_before_it(monkeypatch):
    def model(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        f = jnp.asarray(numpyro.sample("f", dist.Normal(0.0, scale).expand([300])))
        numpyro.sample("y", dist.Normal(f[: len(y)], 1.0), obs=y)

    monkeypatch.setattr(_memory, "available", lambda: 20_000_000)
    said = "of 300 latents at 32 values of the hyperparameters take 22 MiB of memory, and 19.1 MiB"
    with pytest.raises(TooLargeError, match=said):
        EP(model).run(jax.random.key(0), np.linspace(-1.0, 1.0, 20))


def test_wide_sparse_rows_are_multiplied_as_dense_ones():
    rng = np.random.default_rng(0)
    rows = Rows(
        jnp.asarray(rng.normal(size=(50, 40))), jnp.asarray(rng.integers(60, size=(50, 40))), 60
    )
    weights = jnp.asarray(rng.uniform(size=50))
    dense = np.asarray(rows.dense())
    np.testing.assert_allclose(
        rows.gram(weights), (dense.T * weights) @ dense, rtol=2e-5, atol=1e-5
    )
    need = bytes_at_once(jax.jit(rows.gram).trace(weights).jaxpr.jaxpr)
    assert need < 8 * 50 * 40 * 40


def test_where_the_system_does_not_say_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(compiled, "available", lambda: None)
    stages = jax.jit(lambda x: jnp.outer(x, x)).trace(jnp.ones(10, jnp.float32))
    compiled.check_trace(stages.jaxpr)
    assert issubclass(TooLargeError, ValueError) and _memory.available() != 0
