"""SVI on a white program."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array, lax
from numpyro import optim
from numpyro.distributions import constraints
from numpyro.infer import SVI, Trace_ELBO, autoguide, init_to_value

from bayesrank.infer.spi import WhiteProgram, jit

_CHUNK = 100
_FULL_RANK = 400  # beyond this number of latents the guide has low rank
_PARTICLES = 10
_STEP_SIZE = 0.02


def run_svi(
    program: WhiteProgram, rng_key: Array, num_steps: int, advance: Callable[[float], None]
) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) by SVI; of more than 400 latents by a guide of low rank."""
    small = program.size <= _FULL_RANK
    family = autoguide.AutoMultivariateNormal if small else autoguide.AutoLowRankMultivariateNormal
    zeros = jnp.zeros(program.size)

    def model() -> None:
        flat = dist.ImproperUniform(constraints.real_vector, (), (program.size,))
        numpyro.factor("log_joint", program.log_joint(jnp.asarray(numpyro.sample("z", flat))))

    guide = family(model, init_loc_fn=init_to_value(values={"z": zeros}), init_scale=0.5)

    def step_size(i: Array) -> Array:
        late = jnp.clip(2.0 * i / num_steps - 1.0, 0.0, 1.0)
        return _STEP_SIZE * 0.01**late

    svi = SVI(model, guide, optim.Adam(step_size), Trace_ELBO(num_particles=_PARTICLES))
    state = jit(svi.init)(rng_key)

    @jit
    def update(state: Any, number: Array) -> Any:
        return lax.fori_loop(0, number, lambda _, state: svi.update(state)[0], state)

    for first in range(0, num_steps, _CHUNK):
        done = min(first + _CHUNK, num_steps)
        state = update(state, done - first)
        jax.block_until_ready(state)
        advance(done / num_steps)

    @jit
    def moments(state: Any) -> tuple[Array, Array]:
        posterior = guide.get_posterior(svi.get_params(state))
        return posterior.mean, posterior.covariance_matrix

    return moments(state)
