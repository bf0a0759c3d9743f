"""What `EP.run` is called with besides the program's arguments: checks, and origins of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import core

__all__ = ["LearnedParams", "check_run", "sources_of"]


def check_run(rng_key: Any, num_samples: Any, arguments: Any) -> None:
    """Refuse a key that is none, a number of draws that is none, and arguments that are traced.

    Raises
    ------
    TypeError
        If an argument is being traced, or `rng_key` is not a random key.
    ValueError
        If `num_samples` is negative.
    """
    if any(isinstance(leaf, core.Tracer) for leaf in jax.tree.leaves((rng_key, arguments))):
        raise TypeError(
            "run returns NumPy arrays, so it cannot be traced by jit, vmap or grad; use the pure "
            "functions solve, log_evidence, or init and step there"
        )
    if not _is_key(rng_key):
        raise TypeError(
            f"rng_key is {_described(rng_key)}; pass a random key, jax.random.key(0) say, before "
            "the program's own arguments"
        )
    if num_samples < 0:
        raise ValueError(f"num_samples must not be negative, got {num_samples}")


def _is_key(value: Any) -> bool:
    dtype, ndim = getattr(value, "dtype", None), getattr(value, "ndim", None)
    if dtype is None:
        return False
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return ndim == 0
    return dtype == jnp.uint32 and ndim == 1  # of `jax.random.PRNGKey`


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return f"of type {type(value).__name__}"


@jax.tree_util.register_pytree_node_class
class LearnedParams(dict[str, Any]):
    """Values of hyperparameters, some of which were learned by maximising the evidence.

    Attributes
    ----------
    learned
        Names of those.
    """

    learned: tuple[str, ...] = ()

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """Split into values and the rest, for JAX."""
        return tuple(self.values()), (tuple(self), self.learned)

    @classmethod
    def tree_unflatten(cls, rest: tuple, values: tuple) -> LearnedParams:
        """Put together what `tree_flatten` split."""
        names, learned = rest
        params = cls(zip(names, values, strict=True))
        params.learned = learned
        return params


def sources_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Where given values came from, in words, by name."""
    learned = params.learned if isinstance(params, LearnedParams) else ()
    return {k: "by evidence" if k in learned else "argument `params`" for k in params}
