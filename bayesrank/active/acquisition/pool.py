"""Scores of pairs by what their comparison says of all items.

References
----------
.. [1] Cohn, D. A., Ghahramani, Z. and Jordan, M. I. (1996). Active learning with statistical
   models. Journal of Artificial Intelligence Research, 4, 129-145.
"""

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from bayesrank.active.acquisition.beliefs import Beliefs, expected_shrinkage

# Candidates that are passed over the items together.
_TOGETHER = 64


def pool_variance(beliefs: Beliefs, pairs: ArrayLike) -> Array:
    r"""Expected reduction of the variance of a margin, averaged over all pairs of items ([1]_).

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
