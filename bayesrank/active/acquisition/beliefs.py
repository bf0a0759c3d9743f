"""What is believed of the skills while questions are chosen, and what a question will do to it.

The answer to a question about items i and j depends on their skills only through the margin
:math:`s = f_i - f_j`. Its probability needs the margin's mean :math:`m` and variance :math:`v`
alone. It moves the Gaussian :math:`N(h, A)` of the skills along :math:`c = A (e_i - e_j)`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from bayesrank._validate import check_pairs, known
from bayesrank.distributions import Thurstone, ThurstoneTies


class Beliefs(NamedTuple):
    r"""A Gaussian over skills, and the noise of an answer.

    An item performs at its skill plus noise, and the better performance wins:
    :math:`P(i \succ j) = \Phi((f_i - f_j) / (\sqrt 2 \sigma))`.

    Attributes
    ----------
    mean, covariance
        Of the skills, shapes (n,) and (n, n).
    noise
        Standard deviation :math:`\sigma` of a performance, on the scale of the skills, positive.
    tie_width
        Largest difference of performances that is answered by "about equal", positive; None if
        there is no such answer.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesrank.active import Beliefs, bald
    >>> beliefs = Beliefs(np.zeros(3), np.diag([1.0, 1.0, 0.1]))
    >>> gain = bald(beliefs, np.array([[0, 1], [0, 2]]))
    >>> bool(gain[0] > gain[1])
    True
    """

    mean: Array | np.ndarray
    covariance: Array | np.ndarray
    noise: ArrayLike = 1.0
    tie_width: ArrayLike | None = None


class PossibleAnswer(NamedTuple):
    r"""One answer: it moves the mean by :math:`g_y c`, and takes :math:`\omega_y c c^\top` off."""

    log_probability: Array  # log Z of the answer
    shift: Array  # ``g_y``, the derivative of log Z in the mean of the margin
    shrinkage: Array  # ``omega_y``, minus the second one

    @property
    def probability(self) -> Array:
        """Probability of the answer."""
        return jnp.exp(self.log_probability)


def possible_answers(
    beliefs: Beliefs, mean: ArrayLike, variance: ArrayLike
) -> tuple[PossibleAnswer, ...]:
    """The second item winning, a tie if there are any, and the first winning, at margins (...)."""
    if beliefs.tie_width is None:
        likelihood = Thurstone(0.0, beliefs.noise)
        moments = [likelihood.tilted_moments(outcome, mean, variance) for outcome in range(2)]
    else:
        # All at once: an interval is much to compile.
        outcomes = jnp.arange(3).reshape(-1, *(1 for _ in range(jnp.ndim(mean))))
        likelihood = ThurstoneTies(0.0, beliefs.tie_width, beliefs.noise)
        together = likelihood.tilted_moments(outcomes, mean, variance)
        moments = [jax.tree.map(lambda x, k=k: x[k], together) for k in range(3)]
    return tuple(PossibleAnswer(m.log_z, m.d1, -m.d2) for m in moments)


def margins(beliefs: Beliefs, pairs: ArrayLike) -> tuple[Array, Array]:
    """Mean and variance of the margins ``f_i - f_j`` of pairs.

    A variance is at least the covariance's own rounding: a pair of near-duplicates has a small one
    and not a negative one.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs about n skills.
    pairs : ArrayLike
        Pairs (i, j) of items, integers of shape (..., 2).

    Returns
    -------
    mean, variance : Array
        On the scale of the skills and its square, shape (...).

    Raises
    ------
    ValueError
        If `pairs` has another shape or names an item that is not there.
    """
    pairs = jnp.asarray(pairs)
    check_pairs(known(pairs).reshape(-1, *pairs.shape[-1:]), np.shape(beliefs.mean)[-1])
    i, j = pairs[..., 0], pairs[..., 1]
    mean, covariance = jnp.asarray(beliefs.mean), jnp.asarray(beliefs.covariance)
    variances = jnp.diagonal(covariance)
    total = variances[i] + variances[j]
    rounding = jnp.finfo(covariance.dtype).eps * total
    return mean[i] - mean[j], jnp.maximum(total - 2.0 * covariance[i, j], rounding)


def anticipate(beliefs: Beliefs, pair: ArrayLike) -> Beliefs:
    r"""Beliefs to be expected once a question has been answered: the same but for the covariance.

    Answer :math:`y` moves the mean by :math:`g_y c` and takes :math:`\omega_y c c^\top` off the
    covariance. Here :math:`g_y` and :math:`-\omega_y` are derivatives of :math:`\log Z_y` in the
    margin's mean. With :math:`p = \Phi(z)`, :math:`z = m / \sqrt{2 \sigma^2 + v}`, averaging over
    the answers leaves the mean where it is, and

    .. math::
        E[A_y] = A - \bar\omega\, c c^\top, \qquad
        \bar\omega = \frac{1}{2 \sigma^2 + v} \frac{\phi(z)^2}{p (1 - p)} .

    With ties :math:`\bar\omega` is the average of :math:`\omega_y` over three answers. For an even
    question (:math:`m = 0`) without ties both answers leave exactly this covariance. The covariance
    loses :math:`\bar\omega\, c c^\top = \mathrm{Var}[g_y]\, c c^\top`, the covariance of the mean's
    move: uncertainty becomes knowledge.

    Parameters
    ----------
    beliefs : Beliefs
        Beliefs before the question.
    pair : ArrayLike
        The question, integers of shape (2,).
    """
    pair = jnp.asarray(pair)
    covariance = jnp.asarray(beliefs.covariance)
    direction = covariance[pair[0]] - covariance[pair[1]]
    removed = expected_shrinkage(beliefs, pair) * direction[:, None] * direction[None, :]
    return beliefs._replace(covariance=covariance - removed)


def expected_shrinkage(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    r"""What an answer will take off the covariance, :math:`\bar\omega` of `anticipate`, (...)."""
    mean, variance = margins(beliefs, pairs)
    if beliefs.tie_width is not None:
        answers = possible_answers(beliefs, mean, variance)
        # An answer that cannot come is not taken into account.
        terms = [jnp.where(a.probability > 0, a.probability * a.shrinkage, 0.0) for a in answers]
        return jnp.sum(jnp.stack(terms), axis=0)
    total = 2.0 * jnp.square(beliefs.noise) + variance
    z = mean / jnp.sqrt(total)
    return jnp.exp(2.0 * norm.logpdf(z) - norm.logcdf(z) - norm.logcdf(-z)) / total
