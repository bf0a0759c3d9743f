r"""Scores of pairs by what their comparison tells of everything else that is not known.

This is Chu and Ghahramani's "much more expensive alternative" [1]_: update the predictive
distributions of all unlabelled data by the candidate, and add up the expected reductions of their
entropies. Take a question with direction :math:`c = A (e_i - e_j)`, and a skill or margin whose
covariance with the question's margin is :math:`c_p`. Answer :math:`y` moves it to

.. math:: m_p' = m_p + g_y c_p, \qquad v_p' = v_p - \omega_y c_p^2,

where :math:`g_y` and :math:`-\omega_y` are the derivatives of :math:`\log Z_y`. So a candidate
costs one pass over the pool. The other acquisitions look at two numbers.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank, section 3.
.. [2] Roy, N. and McCallum, A. (2001). Toward optimal active learning through sampling estimation
   of error reduction. ICML.
.. [3] Cohn, D. A., Ghahramani, Z. and Jordan, M. I. (1996). Active learning with statistical
   models. Journal of Artificial Intelligence Research, 4, 129-145.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from bayesrank.active.acquisition.beliefs import (
    Beliefs,
    PossibleAnswer,
    expected_shrinkage,
    margins,
    possible_answers,
)
from bayesrank.active.acquisition.pairs import answer_entropy, outcome_entropy

# Candidates that are passed over the pool together.
_TOGETHER = 64
# Factors that are multiplied before a logarithm is taken, which costs more than the rest.  Each is
# the share of a variance that an answer leaves: above 0.005 for any answer that has a probability
# in single precision (thirteen standard deviations), so that sixteen of them do not underflow.
FACTORS = 16


def pool_entropy(beliefs: Beliefs, pairs: ArrayLike, *, pool: ArrayLike | None = None) -> Array:
    r"""Expected reduction of the summed predictive entropies of items, or of a pool of comparisons.

    Parameters
    ----------
    beliefs, pairs
        Beliefs about n skills, and candidates, integers of shape (..., 2).
    pool : ArrayLike, optional
        Comparisons that are not known yet, integers of shape (m, 2), whose answers' entropies are
        summed. Without it, the sum is over the skills of all items, of
        :math:`\tfrac12 \log(2 \pi e A_{ii})`. As an acquisition with a pool, pass
        ``jax.tree_util.Partial(pool_entropy, pool=pool)``.

    Returns
    -------
    Array
        Expected reductions in nats, shape (...). With a pool, one can be slightly negative: the
        matched Gaussian is not the exact posterior.
    """
    if pool is None:
        variance = jnp.diagonal(jnp.asarray(beliefs.covariance))
        # A skill that is known already has nothing to lose.
        known = variance > 0
        precision = jnp.where(known, 1.0 / jnp.where(known, variance, 1.0), 0.0)

        def skills(direction: Array, answer: PossibleAnswer) -> Array:
            return 0.5 * _sum_of_logs(1.0 - answer.shrinkage * direction**2 * precision)

        return -_expected(beliefs, pairs, skills)
    pool = jnp.asarray(pool)
    mean, variance = margins(beliefs, pool)
    noise = 2.0 * jnp.square(beliefs.noise)

    def entropy(mean: Array, variance: Array) -> Array:
        if beliefs.tie_width is None:
            return answer_entropy(mean**2 / (noise + variance))
        return outcome_entropy(beliefs, mean, variance)

    def answers(direction: Array, answer: PossibleAnswer) -> Array:
        mean_after, variance_after = _after(mean, variance, direction, pool, answer)
        return jnp.sum(entropy(mean_after, variance_after))

    now = jnp.sum(entropy(mean, variance))
    return now - _expected(beliefs, pairs, answers)


def pool_error(beliefs: Beliefs, pairs: ArrayLike, *, pool: ArrayLike) -> Array:
    r"""Expected reduction, shape (...), of the number of pairs in a pool in the wrong order ([2]_).

    Posterior means order a pair, so it is wrong with probability :math:`\Phi(-|m_p| / \sqrt{v_p})`.

    Parameters
    ----------
    beliefs, pairs
        Beliefs about n skills, and candidates, integers of shape (..., 2).
    pool : ArrayLike
        Pairs whose order matters, integers of shape (m, 2): all pairs of items, or a random sample
        of them. As an acquisition, pass ``jax.tree_util.Partial(pool_error, pool=pool)``.
    """
    pool = jnp.asarray(pool)
    mean, variance = margins(beliefs, pool)

    def wrong(direction: Array, answer: PossibleAnswer) -> Array:
        mean_after, variance_after = _after(mean, variance, direction, pool, answer)
        return jnp.sum(norm.cdf(-jnp.abs(mean_after) / jnp.sqrt(variance_after)))

    now = jnp.sum(norm.cdf(-jnp.abs(mean) / jnp.sqrt(variance)))
    return now - _expected(beliefs, pairs, wrong)


def pool_variance(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    r"""Expected reduction of the variance of a margin, averaged over all pairs of items ([3]_).

    An answer is expected to take :math:`\bar\omega (c_a - c_b)^2` off the variance of the margin of
    items a and b (`bayesrank.active.anticipate`). Its average over all pairs is
    :math:`2 \bar\omega` times the sample variance of c, which takes one pass over the items.

    Parameters
    ----------
    beliefs, pairs
        Beliefs about n > 1 skills, and candidates, integers of shape (..., 2).

    Returns
    -------
    Array
        Expected reductions, on the squared scale of the skills, shape (...).
    """
    pairs, covariance = jnp.asarray(pairs), jnp.asarray(beliefs.covariance)
    shrinkage = expected_shrinkage(beliefs, pairs)

    def of_pair(pair: Array) -> Array:
        return 2.0 * jnp.var(covariance[pair[0]] - covariance[pair[1]], ddof=1)

    width = lax.map(of_pair, pairs.reshape(-1, 2), batch_size=_TOGETHER)
    return shrinkage * width.reshape(pairs.shape[:-1])


def _sum_of_logs(factors: Array) -> Array:
    """Sum of the logarithms of a vector, right to rounding of its elements."""
    size = -(-factors.size // FACTORS)
    padding = size * FACTORS - factors.size
    parts = jnp.split(jnp.pad(factors, (0, padding), constant_values=1.0), FACTORS)
    return jnp.sum(jnp.log(math.prod(parts[1:], start=parts[0])))


def _after(
    mean: Array, variance: Array, direction: Array, pool: Array, answer: PossibleAnswer
) -> tuple[Array, Array]:
    """Mean and variance of the pool's margins after an answer."""
    shared = direction[pool[..., 0]] - direction[pool[..., 1]]
    rounding = jnp.finfo(variance.dtype).eps * variance
    left = jnp.maximum(variance - answer.shrinkage * shared**2, rounding)
    return mean + answer.shift * shared, left


def _expected(
    beliefs: Beliefs, pairs: ArrayLike, total: Callable[[Array, PossibleAnswer], Array]
) -> Array:
    """Average of what a function of direction and answer says, over the answers to each pair."""
    pairs = jnp.asarray(pairs)
    flat = pairs.reshape(-1, 2)
    covariance = jnp.asarray(beliefs.covariance)

    def of_pair(candidate: tuple[Array, tuple[PossibleAnswer, ...]]) -> Array:
        pair, answers = candidate
        direction = covariance[pair[0]] - covariance[pair[1]]
        average = jnp.zeros((), covariance.dtype)
        for answer in answers:
            # An answer that cannot come is not taken into account.
            possible = answer.probability > 0
            average += jnp.where(possible, answer.probability * total(direction, answer), 0.0)
        return average

    # Answers are worked out for all candidates at once: for a few at a time, the many short steps
    # of that would cost more than the pass over the pool.
    candidates = (flat, possible_answers(beliefs, *margins(beliefs, flat)))
    return lax.map(of_pair, candidates, batch_size=_TOGETHER).reshape(pairs.shape[:-1])
