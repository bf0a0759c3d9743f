r"""A belief as a mixture of noises, wrong labels and thresholds, and what it predicts.

At first, nothing is known of how far scores, noise and thresholds reach. The components of a belief
differ in the noise and in the unit of the thresholds, and the stream weighs them. Let :math:`s` be
the standard deviation of a score whose features have size one. With noise :math:`\sigma`, the score
has the share :math:`s^2 / (s^2 + \sigma^2)` of what decides a level. The logarithms of the noises
are equally spaced, so weights in proportion to :math:`s \sigma / (s^2 + \sigma^2)` give the share
the arcsine density. Two more components are robust: a share of their labels tells nothing.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bayesrank.distributions.ordinal import threshold_prior
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
) -> tuple[jax.Array, jax.Array]:
    """Mean probabilities of levels (B, k); what each would teach (B,), 0 without `with_scores`."""
    X, noises, lapses = jnp.asarray(X), jnp.asarray(noises), jnp.asarray(lapses)
    shares = jax.nn.softmax(belief.log_weight)
    one = jax.vmap(_one_noise, in_axes=(0, 0, None, 0))

    def example(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        known, probs = one(belief.mean, belief.covariance, x, noises)
        mixed = shares @ with_lapse(probs, lapses[:, None])
        if not with_scores:
            return mixed, jnp.zeros(())
        entropy = jax.vmap(_entropy_left)(known, noises, lapses)
        return mixed, entr(mixed).sum() - shares @ entropy

    return jax.lax.map(example, X)


def _one_noise(
    mean: jax.Array, covariance: jax.Array, x: jax.Array, noise: jax.Array
) -> tuple[ThresholdMargins, jax.Array]:
    """Margins of an example, and the probabilities of its levels."""
    known = margins_of(mean, covariance, x)
    variance = jnp.maximum(jnp.diag(known.covariance), 0.0)
    return known, level_probs(known.mean, variance, noise)


def _entropy_left(known: ThresholdMargins, noise: jax.Array, lapse: jax.Array) -> jax.Array:
    """Entropy of the level once the margins are known, which are taken to err together."""
    sd = jnp.sqrt(jnp.maximum(jnp.diag(known.covariance), 0.0))

    def left(node: jax.Array) -> jax.Array:
        probs = level_probs(known.mean + node * sd, jnp.zeros_like(sd), noise)
        return entr(with_lapse(probs, lapse)).sum()

    return jnp.asarray(_WEIGHTS) @ jax.vmap(left)(jnp.asarray(_NODES))


def decide(probs: NDArray[np.float64], rounded: bool) -> NDArray[Any]:
    """Median or mean level, shape (n,)."""
    if rounded:
        return 1 + (np.cumsum(probs, axis=1)[:, :-1] < 0.5).sum(1)
    return probs @ np.arange(1.0, probs.shape[1] + 1.0)


Array = NDArray[np.float64]

NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Noises that `OnlineBayesPoint` weighs, in units of the prior standard deviation of a score."""

# Units of thresholds alternate along the noises, so that features may be larger or smaller than
# one: what a wrong unit costs the stream soon makes up for.
_UNITS = (0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5)
_ROBUST_NOISES, _LAPSE = (0.05, 0.3), 0.25
_ROBUST_WEIGHT = 0.5

NUM_COMPONENTS = len(NOISES) + len(_ROBUST_NOISES)


class Mixture(NamedTuple):
    """The G components."""

    noises: Array  # standard deviations of the noise, shape (G,)
    lapses: Array  # shares of labels that are drawn at random, shape (G,)
    units: Array  # of the thresholds, shape (G,)
    log_weights: Array  # log probabilities before the stream, up to a constant, shape (G,)

    def thresholds(self, num_levels: int, scale: float | None) -> tuple[Array, Array]:
        """Prior mean (G, k - 1) and covariance; independent about zero where a scale is given."""
        if scale is not None:
            mean, covariance = np.zeros(num_levels - 1), scale**2 * np.eye(num_levels - 1)
            ones = np.ones(len(self.noises))
            return ones[:, None] * mean, ones[:, None, None] * covariance
        mean, covariance = threshold_prior(num_levels)
        return self.units[:, None] * mean, self.units[:, None, None] ** 2 * covariance


def mixture(size: float) -> Mixture:
    """Components for scores of standard deviation `size`, a priori."""
    relative = np.array([*NOISES, *_ROBUST_NOISES])
    robust = np.arange(len(relative)) >= len(NOISES)
    units = np.append(_UNITS, np.ones(len(_ROBUST_NOISES))) * np.hypot(1.0, relative)
    weights = relative / (1.0 + relative**2) * np.where(robust, _ROBUST_WEIGHT, 1.0)
    return Mixture(size * relative, np.where(robust, _LAPSE, 0.0), size * units, np.log(weights))


def given_noises(noises: Sequence[float], size: float) -> Mixture:
    """Components of given noises, equally probable."""
    sds = np.asarray(noises, np.float64)
    zero = np.zeros(len(sds))
    return Mixture(sds, zero, np.hypot(size, sds), zero)
