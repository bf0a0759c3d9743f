"""What a belief says of examples whose level is not known: probabilities, and what to ask."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import entr
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank.online._adf import Belief, ThresholdMargins, level_probs, margins_of, with_lapse

# Equally spaced nodes over a standard normal: what is integrated is smooth or, where the noise is
# small, a few narrow bumps that hardly count, and for both this rule is better than Gauss-Hermite.
_NODES = np.linspace(-5.0, 5.0, 129)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


@partial(jax.jit, static_argnames="with_scores")
def foresee_block(
    belief: Belief,
    X: ArrayLike,
    noises: ArrayLike,
    lapses: ArrayLike,
    with_scores: bool = False,
) -> tuple[Array, Array]:
    """Mean probabilities of levels (B, k); what each would teach (B,), 0 without `with_scores`."""
    X, noises, lapses = jnp.asarray(X), jnp.asarray(noises), jnp.asarray(lapses)
    shares = jax.nn.softmax(belief.log_weight)
    one = jax.vmap(_one_noise, in_axes=(0, 0, None, 0))

    def example(x: Array) -> tuple[Array, Array]:
        known, probs = one(belief.mean, belief.covariance, x, noises)
        mixed = shares @ with_lapse(probs, lapses[:, None])
        if not with_scores:
            return mixed, jnp.zeros(())
        entropy = jax.vmap(_entropy_left)(known, noises, lapses)
        return mixed, entr(mixed).sum() - shares @ entropy

    return jax.lax.map(example, X)


def _one_noise(
    mean: Array, covariance: Array, x: Array, noise: Array
) -> tuple[ThresholdMargins, Array]:
    """Margins of an example, and the probabilities of its levels."""
    known = margins_of(mean, covariance, x)
    variance = jnp.maximum(jnp.diag(known.covariance), 0.0)
    return known, level_probs(known.mean, variance, noise)


def _entropy_left(known: ThresholdMargins, noise: Array, lapse: Array) -> Array:
    """Entropy of the level once the margins are known, which are taken to err together."""
    sd = jnp.sqrt(jnp.maximum(jnp.diag(known.covariance), 0.0))

    def left(node: Array) -> Array:
        probs = level_probs(known.mean + node * sd, jnp.zeros_like(sd), noise)
        return entr(with_lapse(probs, lapse)).sum()

    return jnp.asarray(_WEIGHTS) @ jax.vmap(left)(jnp.asarray(_NODES))


def decide(probs: NDArray[np.float64], rounded: bool) -> NDArray[Any]:
    """Median or mean level, shape (n,)."""
    if rounded:
        return 1 + (np.cumsum(probs, axis=1)[:, :-1] < 0.5).sum(1)
    return probs @ np.arange(1.0, probs.shape[1] + 1.0)
