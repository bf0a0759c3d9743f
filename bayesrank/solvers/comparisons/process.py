"""Processes of `bayesrank.models.dynamic` as Markov chains: how a state moves from time to time."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class Transitions(NamedTuple):
    """How each item's state of r entries (skill, and rate in "matern32") moves over K gaps."""

    start: Array  # prior covariance at the first time, (r, r)
    decay: Array  # what the state is multiplied by, (K, r, r)
    noise: Array  # covariance of what is added, (K, r, r)


def rate_name(process: str) -> str:
    """Name of the hyperparameter that says how fast skills move."""
    return "drift" if process == "walk" else "lengthscale"


def transitions_of(process: str, scale: Array, pace: Array, gaps: Array) -> Transitions:
    """How a state moves over gaps of time, shape (K,); the names are the program's."""
    if process == "matern32":
        return _smooth_steps(scale, gaps * (math.sqrt(3.0) / pace))
    one = jnp.ones_like(gaps)
    if process == "walk":
        decay, noise = one, pace**2 * gaps
    else:
        decay, noise = jnp.exp(-gaps / pace), -(scale**2) * jnp.expm1(-2.0 * gaps / pace)
    start = jnp.reshape(scale**2, (1, 1))
    return Transitions(start, decay[:, None, None], noise[:, None, None])


def _smooth_steps(scale: Array, x: Array) -> Transitions:
    """The transition ``exp(F x)`` of the Matern 3/2 process; both entries have one variance."""
    rows = [[1.0 + x, x], [-x, 1.0 - x]]
    decay = jnp.exp(-x) * jnp.array([[jnp.asarray(e) for e in row] for row in rows])
    decay = jnp.moveaxis(decay, -1, 0)
    identity = jnp.eye(2, dtype=x.dtype)
    noise = scale**2 * (identity - decay @ jnp.swapaxes(decay, 1, 2))
    return Transitions(scale**2 * identity, decay, noise)


def propagate(mean: Array, covariance: Array, decay: Array, noise: Array) -> tuple[Array, Array]:
    """Let time go by for states of n items: mean (r, n), covariance (r, n, r, n), step (r, r)."""
    moved = jnp.einsum("ac,cidj,bd->aibj", decay, covariance, decay)
    each = jnp.arange(mean.shape[1])
    return decay @ mean, moved.at[:, each, :, each].add(noise)
