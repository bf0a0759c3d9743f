r"""Orders of pairs with weights: what is left of LambdaRank when its weights are frozen.

A field of lambda that changes with the ranks has no potential, and so no posterior [1]_. At the
scores of a pilot fit its weights are numbers. The field is then the slope of a weighted logistic
log-likelihood, which is a program: each pair counts as often as its weight says.

References
----------
.. [1] Burges, C. J. C. (2005). Ranking as learning structured outputs. NIPS Workshop on Learning to
   Rank.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.handlers import scale as scale_handler

from bayesrank._validate import check_comparisons, check_features, check_weights


def weighted_preferences(
    X: ArrayLike,
    pairs: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    scale: ArrayLike = 1.0,
    sigma: ArrayLike = 1.0,
) -> None:
    """Linear scores from ordered pairs, each of which counts by its weight.

    ================ ================================== =========================================
    site             prior                              meaning
    ================ ================================== =========================================
    ``w``            Normal(0, scale), shape (d,)       weights of the features
    ``order``        observed, shape (P,)               1: the first of the pair is the better
    ================ ================================== =========================================

    Parameters
    ----------
    X : ArrayLike
        Features, shape (m, d).
    pairs : ArrayLike
        Rows of `X`, (better, worse), shape (P, 2).
    weights : ArrayLike, optional
        How often each pair counts, positive, shape (P,); once without it.
    scale : ArrayLike
        Prior standard deviation of a weight, positive.
    sigma : ArrayLike
        Steepness of the logistic, positive.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> X, pairs = np.array([[0.0], [1.0]]), np.array([[1, 0]])
    >>> result = EP(weighted_preferences).run(jax.random.key(0), X, pairs, np.array([2.0]))
    >>> bool(result.mean["w"][0] > 0)
    True
    """
    X = check_features(X, "X")
    rows = check_comparisons(pairs, X.shape[0])
    counts = jnp.ones(len(rows)) if weights is None else check_weights(weights, len(rows))
    w = jnp.asarray(numpyro.sample("w", dist.Normal(0.0, scale).expand([X.shape[1]]).to_event(1)))
    margin = jnp.asarray(sigma) * ((X[rows[:, 0]] - X[rows[:, 1]]) @ w)
    with scale_handler(scale=counts), numpyro.plate("pairs", rows.shape[0]):
        numpyro.sample("order", dist.Bernoulli(logits=margin), obs=jnp.ones(rows.shape[0], int))
