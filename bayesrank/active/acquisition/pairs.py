r"""Scores of pairs by what they tell of the margin, or of which items are the best.

An acquisition is a pure function ``acquisition(beliefs, pairs) -> scores``: pairs (..., 2) to
scores (...), the higher the sooner asked. One that holds arrays, such as a random key, is a
`jax.tree_util.Partial`: other arrays of the same shapes do not compile anew.

All but `random_gain` see a pair through the mean :math:`m` and the variance :math:`v` of its margin
alone. Below, :math:`z = m / \sqrt{2 \sigma^2 + v}` and :math:`p = \Phi(z)` is the probability that
the first item wins.

Scores of pairs by what they tell of which k items are the best.

The set of the k highest means has the largest expected sum of skills. It is expected to lose
:math:`E[\max_S \sum_{i \in S} f_i] - \max_S \sum_{i \in S} h_i`. The score of a pair is how much
less it would lose if the pair's margin were known: the value of perfect information about one
margin (Raiffa and Schlaifer, 1961, Applied statistical decision theory, Harvard). The value of one
noisy answer is zero for most pairs, since no one answer would change the set.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking: semi-
       supervised and active learning. NIPS Workshop on Learning to Rank.
.. [2] Houlsby, N., Huszar, F., Ghahramani, Z. and Lengyel, M. (2011). Bayesian active learning for
       classification and preference learning. arXiv:1112.5745.
"""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import Partial
from jax.typing import ArrayLike

from bayesrank._validate import check_count
from bayesrank.active.acquisition.beliefs import Beliefs, margins, possible_answers

Acquisition = Callable[[Beliefs, ArrayLike], Array]
"""Scores (...) of pairs (..., 2) under beliefs."""

# The entropy of a probit's answer, in nats, as a function of its argument x, is
#   sum_k WEIGHTS[k] * exp(-PRECISIONS[k] * x**2 / 2)
# to 8.1e-8 for every x: least squares with free precisions, reweighted towards the least maximum.
PRECISIONS = (0.9789028012857725, 1.1314434315619233, 1.568581401609877)
WEIGHTS = (0.9998730388830562, -0.3179045746026121, 0.011178796643527278)

# Gauss-Hermite nodes and weights for a standard normal.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


def entropy_gain(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    r"""Expected gain of information about the skills: equations (9) and (10) of [1]_.

    Let :math:`\lambda` be the covariance of the two skills, :math:`a = (1, -1)`, and
    :math:`-\omega_y` the second derivative of :math:`\log Z_y` in the margin's mean. Moment
    matching gives :math:`\lambda^{new} = \lambda - \omega_y\, \lambda a a^\top \lambda`, and by the
    matrix determinant lemma

    .. math::
        \Delta H_y = -\tfrac12 \log\det(\lambda^{new} \lambda^{-1})
                   = -\tfrac12 \log(1 - \omega_y\, a^\top \lambda a)
                   = -\tfrac12 \log \frac{v_y}{v},

    with :math:`v_y = v - \omega_y v^2` the variance of the margin after answer :math:`y`. The whole
    covariance of the skills has the same ratio of determinants. The score is
    :math:`p\, \Delta H_1 + (1 - p)\, \Delta H_0`.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs about n skills.
    pairs : ArrayLike
        Pairs of items, integers of shape (..., 2).

    Returns
    -------
    Array
        Expected gains in nats, at least 0, shape (...).
    """
    mean, variance = margins(beliefs, pairs)
    gains = []
    for answer in possible_answers(beliefs, mean, variance):
        # An answer that cannot come tells nothing, however much it would have told.
        ratio = jnp.where(answer.probability > 0, -answer.shrinkage * variance, 0.0)
        gains.append(-0.5 * answer.probability * jnp.log1p(ratio))
    return jnp.sum(jnp.stack(gains), axis=0)


def bald(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    r"""Mutual information in nats between the answer and the skills (BALD, [2]_).

    .. math:: H(p) - E_{s \sim N(m, v)}\, H(\Phi(s / (\sqrt 2 \sigma))), \quad
        H(p) = -p \log p - (1 - p) \log(1 - p).

    Three Gaussian bumps in x approximate the entropy :math:`H(\Phi(x))`, so the score is right to
    1.7e-7 nats for every m, v and noise. With ties the expectation is a sum over 48 nodes. It is
    right to 1e-3 nats if the margin's standard deviation is at most 6 times the noise, and to 1e-5
    up to 2.5 times.

    Parameters
    ----------
    beliefs, pairs
        As for `entropy_gain`.

    Returns
    -------
    Array
        Mutual information in nats, between 0 and log 2 but for the error, shape (...).
    """
    mean, variance = margins(beliefs, pairs)
    if beliefs.tie_width is not None:
        nodes = mean[..., None] + jnp.sqrt(variance)[..., None] * _NODES
        given = outcome_entropy(beliefs, nodes, 0.0) @ jnp.asarray(_NODE_WEIGHTS, nodes.dtype)
        return jnp.maximum(outcome_entropy(beliefs, mean, variance) - given, 0.0)
    return bald_of_margin(mean, variance, beliefs.noise)


def bald_of_margin(mean: Array, variance: ArrayLike, noise: ArrayLike) -> Array:
    """`bald` without ties, of margins: greatest at mean zero, and growing with the variance."""
    unit = 2.0 * jnp.square(noise)
    square, spread = jnp.square(mean) / unit, variance / unit
    return answer_entropy(square / (1.0 + spread)) - answer_entropy(square, spread)


def outcome_entropy(beliefs: Beliefs, mean: ArrayLike, variance: ArrayLike) -> Array:
    """Entropy in nats of the answer, ties included, at margins of this mean and variance."""
    terms = []
    for answer in possible_answers(beliefs, mean, variance):
        possible = answer.probability > 0
        log_probability = jnp.where(possible, answer.log_probability, 0.0)
        terms.append(-answer.probability * log_probability)
    return jnp.sum(jnp.stack(terms), axis=0)


def answer_entropy(square: Array, spread: ArrayLike = 0.0) -> Array:
    r"""Nats of an answer at :math:`\Phi(x)`, to 8.1e-8; x has a squared mean and a variance."""
    entropy = jnp.zeros_like(square * spread)
    for weight, precision in zip(WEIGHTS, PRECISIONS, strict=True):
        width = 1.0 + precision * spread
        entropy += weight * jnp.exp(-0.5 * precision * square / width) / jnp.sqrt(width)
    return entropy


def margin_variance(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    """Variance of the margin, whatever its mean: the pair whose difference is known least.

    Parameters
    ----------
    beliefs, pairs
        As for `entropy_gain`.

    Returns
    -------
    Array
        Variances, on the squared scale of the skills, shape (...).
    """
    return margins(beliefs, pairs)[1]


def random_gain(key: Array) -> Acquisition:
    """Scores that order pairs at random: uniform in [0, 1), shape (...) for pairs (..., 2).

    Parameters
    ----------
    key : Array
        Random key. The score of a pair depends on it and the pair alone, in either order.
    """
    return Partial(_random_scores, key)


def _random_scores(key: Array, beliefs: Beliefs, pairs: ArrayLike) -> Array:
    pairs = jnp.asarray(pairs)

    def score(pair: Array) -> Array:
        own = jax.random.fold_in(jax.random.fold_in(key, jnp.min(pair)), jnp.max(pair))
        return jax.random.uniform(own, dtype=jnp.result_type(beliefs.mean, float))

    return jax.vmap(score)(pairs.reshape(-1, 2)).reshape(pairs.shape[:-1])


_TOGETHER = 64  # candidates at once
_CONTENDERS = 64  # items, besides the k best, that may come to the top
_TOP_NODES, _TOP_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_TOP_WEIGHTS = _TOP_WEIGHTS / _TOP_WEIGHTS.sum()


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
    nodes = jnp.asarray(_TOP_NODES, mean.dtype)[:, None]

    def of_pair(asked: tuple[Array, Array]) -> Array:
        (i, j), variance = asked
        step = (covariance[i, near] - covariance[j, near]) / jnp.sqrt(variance)
        sums = jnp.sum(lax.top_k(mean[near] + nodes * step, k)[0], axis=-1)
        return jnp.maximum((sums - known) @ jnp.asarray(_TOP_WEIGHTS, mean.dtype), 0.0)

    variance = margins(beliefs, pairs)[1].ravel()
    scores = lax.map(of_pair, (pairs.reshape(-1, 2), variance), batch_size=_TOGETHER)
    return scores.reshape(pairs.shape[:-1])
