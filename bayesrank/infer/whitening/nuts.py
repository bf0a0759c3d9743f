"""NUTS on a density of a vector, as of hyperparameters or of a white program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpyro.infer import NUTS

from bayesrank.infer.compiled import jit
from bayesrank.infer.whitening.program import Density

ProgressCallback = Callable[[float], None]

_NUTS_CHUNK = 25


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
    def init(rng_key: Array, chain: int) -> Any:
        key, start_key = jax.random.split(jax.random.split(rng_key, num_chains)[chain])
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
    for chain in range(num_chains):
        state, kept = init(rng_key, chain), []
        for phase, length in (("warmup", num_warmup), ("sample", num_samples)):
            for first in range(0, length, _NUTS_CHUNK):
                number = min(_NUTS_CHUNK, length - first)
                state, draws, diverging = sample(state, number)
                if phase == "sample":
                    kept.append(program.colour(np.asarray(draws)[:number]))
                    divergent += int(np.asarray(diverging)[:number].sum())
                done += number
                advance(done / total)
        chains.append(np.concatenate(kept))
    return np.stack(chains), divergent
