"""Random numbers of NumPy from a key of JAX, which compiles code for each shape of its own."""

import jax
import numpy as np
from jax import Array


def generator(rng_key: Array) -> np.random.Generator:
    """NumPy's generator that a key seeds."""
    return np.random.default_rng(np.asarray(jax.random.key_data(rng_key)).ravel())


def keys_from(rng_key: Array, count: int) -> list[Array]:
    """So many keys that a key seeds."""
    return [jax.random.key(seed) for seed in generator(rng_key).integers(2**31, size=count)]
