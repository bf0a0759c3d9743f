"""The engines that a cross-check runs on a white program: NUTS and SVI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array, lax
from numpyro import optim
from numpyro.distributions import constraints
from numpyro.infer import NUTS, SVI, Trace_ELBO, autoguide, init_to_value

from bayesrank.infer.compiled import jit
from bayesrank.infer.white.program import Density, WhiteProgram

ProgressCallback = Callable[[float], None]

_NUTS_CHUNK = 25
_SVI_CHUNK = 100
_FULL_RANK = 400  # beyond this number of latents the guide has low rank
_PARTICLES = 10
_STEP_SIZE = 0.02


def run_nuts(
    program: Density,
    rng_key: Array,
    num_warmup: int,
    num_samples: int,
    num_chains: int,
    advance: ProgressCallback,
    target_accept_prob: float = 0.8,
) -> tuple[np.ndarray, int]:
    """Draws (chains, draws, n) by NUTS, one chain after the other; and how many diverged."""
    kernel = NUTS(
        potential_fn=lambda z: -program.log_joint(z), target_accept_prob=target_accept_prob
    )

    @jit
    def init(key: Array) -> Any:
        key, start_key = jax.random.split(key)
        start = jax.random.uniform(start_key, (program.size,), minval=-2.0, maxval=2.0)
        return kernel.init(key, num_warmup, start, (), {})

    @jit
    def sample(state: Any, number: Array) -> tuple[Any, Array, Array]:
        def body(i: Array, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
            state, draws, diverging = carry
            state = kernel.sample(state, (), {})
            return state, draws.at[i].set(state.z), diverging.at[i].set(state.diverging)

        draws = jnp.zeros((_NUTS_CHUNK, program.size))
        return lax.fori_loop(0, number, body, (state, draws, jnp.zeros(_NUTS_CHUNK, bool)))

    total = num_chains * (num_warmup + num_samples)
    done, divergent, chains = 0, 0, []
    for key in jax.random.split(rng_key, num_chains):
        state, kept = init(key), []
        for phase, length in (("warmup", num_warmup), ("sample", num_samples)):
            for number in _chunks(length, _NUTS_CHUNK):
                state, draws, diverging = sample(state, number)
                if phase == "sample":
                    kept.append(program.colour(np.asarray(draws)[:number]))
                    divergent += int(np.asarray(diverging)[:number].sum())
                done += number
                advance(done / total)
        chains.append(np.concatenate(kept))
    return np.stack(chains), divergent


def run_svi(
    program: WhiteProgram, rng_key: Array, num_steps: int, advance: ProgressCallback
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

    done = 0
    for number in _chunks(num_steps, _SVI_CHUNK):
        state = update(state, number)
        done += number
        jax.block_until_ready(state)
        advance(done / num_steps)

    @jit
    def moments(state: Any) -> tuple[Array, Array]:
        posterior = guide.get_posterior(svi.get_params(state))
        return posterior.mean, posterior.covariance_matrix

    return moments(state)


def _chunks(total: int, size: int) -> list[int]:
    """Lengths of at most `size` that add up to `total`."""
    return [size] * (total // size) + [total % size] * (total % size > 0)
