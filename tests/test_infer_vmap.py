"""The pure functions under the user's own jit and vmap, in a process that may be ended."""

import subprocess
import sys

import pytest

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
from bayesrank.infer import EP

jax.config.update("jax_enable_x64", True)
X = np.linspace(-2.0, 2.0, 30)
C = np.random.default_rng(0).permuted(np.tile(np.arange(30), (60, 1)), axis=1)[:, :2]

def model(length, c):
    covariance = jnp.exp(-0.5 * ((X[:, None] - X) / length) ** 2) + 1e-4 * jnp.eye(30)
    f = numpyro.sample("f", dist.MultivariateNormal(jnp.zeros(30), covariance_matrix=covariance))
    numpyro.sample("win", dist.Bernoulli(logits=f[c[:, 0]] - f[c[:, 1]]), obs=jnp.ones(60))

lengths = jnp.linspace(0.2, 2.0, 48)
solve = lambda length: EP(model).solve({}, length, C)[1].posterior.mean
means = jax.block_until_ready(jax.jit(jax.vmap(solve))(lengths))
one = jax.jit(solve)(lengths[7])
assert np.allclose(means[7], one, atol=1e-3), abs(means[7] - one).max()
evidence = jax.vmap(lambda length: EP(model).log_evidence({}, length, C))
assert np.isfinite(jax.block_until_ready(jax.jit(evidence)(lengths))).all()
"""


@pytest.mark.slow
def test_vmap_over_48_parameters_returns():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)
