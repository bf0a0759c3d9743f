"""What a belief says of examples whose level is not known: probabilities, and what to ask."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import entr
from jax.typing import ArrayLike

from bayesrank.online._adf import Belief, Margins, level_probs, margins

__all__ = ["foresee_block"]

# Equally spaced nodes over a standard normal: what is integrated is smooth or, where the noise is
# small, a few narrow bumps that hardly count, and for both this rule is better than Gauss-Hermite.
_NODES = np.linspace(-5.0, 5.0, 129)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


@partial(jax.jit, static_argnames="with_scores")
def foresee_block(
    belief: Belief, X: ArrayLike, noises: ArrayLike, with_scores: bool = False
) -> tuple[Array, Array]:
    """Foresee the levels of a block of examples.

    Parameters
    ----------
    belief
        What is believed under each of G noises.
    X
        Features, shape (B, D - k + 1).
    noises
        Shape (G,).
    with_scores
        Whether to compute what each level would teach, which takes longer; otherwise it is zero.

    Returns
    -------
    tuple
        Probabilities of the levels, averaged over the noises, shape (B, k); and what each level
        would teach, in nats, shape (B,).
    """
    X, noises = jnp.asarray(X), jnp.asarray(noises)
    shares = jax.nn.softmax(belief.log_weight)
    one = jax.vmap(_one_noise, in_axes=(0, 0, None, 0))

    def example(x: Array) -> tuple[Array, Array]:
        known, probs = one(belief.mean, belief.covariance, x, noises)
        mixed = shares @ probs
        if not with_scores:
            return mixed, jnp.zeros(())
        entropy = jax.vmap(_entropy_left)(known, noises)
        return mixed, entr(mixed).sum() - shares @ entropy

    return jax.lax.map(example, X)


def _one_noise(mean: Array, covariance: Array, x: Array, noise: Array) -> tuple[Margins, Array]:
    """Margins of an example, and the probabilities of its levels."""
    known = margins(mean, covariance, x)
    variance = jnp.maximum(jnp.diag(known.covariance), 0.0)
    return known, level_probs(known.mean, variance, noise)


def _entropy_left(known: Margins, noise: Array) -> Array:
    """Entropy of the level that is left once the margins are known.

    All margins are taken to err together, as they do where it is the score that is uncertain.
    """
    sd = jnp.sqrt(jnp.maximum(jnp.diag(known.covariance), 0.0))

    def left(node: Array) -> Array:
        return entr(level_probs(known.mean + node * sd, jnp.zeros_like(sd), noise)).sum()

    return jnp.asarray(_WEIGHTS) @ jax.vmap(left)(jnp.asarray(_NODES))
