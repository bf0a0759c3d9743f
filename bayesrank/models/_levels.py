"""Levels: the noise that programs may choose, and thresholds from their gaps."""

import jax.numpy as jnp
from jax import Array

from bayesrank.distributions import OrderedLogit, OrderedProbit

__all__ = ["LIKELIHOODS", "centred_thresholds"]

LIKELIHOODS = {"probit": OrderedProbit, "logit": OrderedLogit}


def centred_thresholds(gaps: Array) -> Array:
    """Thresholds of mean zero from their gaps, shape (..., r - 2) to (..., r - 1)."""
    above = jnp.cumsum(gaps, axis=-1)
    edges = jnp.concatenate([jnp.zeros((*above.shape[:-1], 1), above.dtype), above], axis=-1)
    return edges - edges.mean(axis=-1, keepdims=True)
