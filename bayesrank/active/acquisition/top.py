r"""Scores of pairs by what they tell of which k items are the best.

The set of the k highest means has the largest expected sum of skills. It is expected to lose
:math:`E[\max_S \sum_{i \in S} f_i] - \max_S \sum_{i \in S} h_i`. The score of a pair is how much
less it would lose if the pair's margin were known: the value of perfect information about one
margin (Raiffa and Schlaifer, 1961, Applied statistical decision theory, Harvard). The value of one
noisy answer is zero for most pairs, since no one answer would change the set.
"""

from functools import cache, partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank._validate import check_count
from bayesrank.active.acquisition.beliefs import Beliefs, margins
from bayesrank.active.acquisition.pairs import Acquisition

_TOGETHER = 64  # candidates at once
_CONTENDERS = 64  # items, besides the k best, that may come to the top
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@cache
def top_gain(k: int) -> Acquisition:
    """How much less a choice of the best k items is expected to lose if a margin were known.

    Parameters
    ----------
    k : int
        Number of items at the top.

    Returns
    -------
    Acquisition
        Scores (...) of pairs (..., 2), at least 0, on the scale of the skills. Of many items, only
        the k best by mean count, and the 64 others that are best by mean plus three standard
        deviations.

    Raises
    ------
    ValueError
        If `k` is not a whole number from 1 on.
    """
    return partial(_gain, k=check_count(k, "k"))


def _gain(beliefs: Beliefs, pairs: ArrayLike, *, k: int) -> Array:
    pairs = jnp.asarray(pairs)
    mean, covariance = jnp.asarray(beliefs.mean), jnp.asarray(beliefs.covariance)
    best = lax.top_k(mean, k)[1]
    upper = mean + 3.0 * jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0.0))
    near = lax.top_k(upper.at[best].set(jnp.inf), min(mean.size, k + _CONTENDERS))[1]
    known = jnp.sum(mean[best])
    nodes = jnp.asarray(_NODES, mean.dtype)[:, None]

    def of_pair(asked: tuple[Array, Array]) -> Array:
        (i, j), variance = asked
        step = (covariance[i, near] - covariance[j, near]) / jnp.sqrt(variance)
        sums = jnp.sum(lax.top_k(mean[near] + nodes * step, k)[0], axis=-1)
        return jnp.maximum((sums - known) @ jnp.asarray(_WEIGHTS, mean.dtype), 0.0)

    variance = margins(beliefs, pairs)[1].ravel()
    scores = lax.map(of_pair, (pairs.reshape(-1, 2), variance), batch_size=_TOGETHER)
    return scores.reshape(pairs.shape[:-1])
