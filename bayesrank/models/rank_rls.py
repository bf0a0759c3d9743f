r"""Scores of items from grades that are comparable within a query only.

Scores are a Gaussian process of the features. Grades of one query's list differ from them by noise
and by a level of the list, about which nothing is known. The observations of a list of :math:`n`
items are the :math:`n - 1` orthonormal contrasts :math:`T` of its grades,

.. math:: T y \sim N\left(T f, \; \frac{\sigma^2}{\delta} I\right), \quad
   f \sim GP(0, s^2 k).

The posterior mean is RankRLS, the minimiser of the weighted squared error of score differences,
with :math:`\lambda = \sigma^2 / s^2`. As in the paper [1]_, each list counts alike:
:math:`\delta = 2 / (n - 1)`. A program that observed all :math:`n (n - 1) / 2` differences one by
one would count more observations than the :math:`n - 1` there are. Its mean would be the same, but
its evidence wrong and its posterior variance too small.

References
----------
.. [1] Pahikkala, T., Suominen, H., Boberg, J. and Salakoski, T. Transductive ranking via pairwise
   regularized least-squares.
"""

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from scipy.linalg import helmert
from tinygp.kernels import Kernel

from bayesrank import gp
from bayesrank._validate import check_choice, check_features, check_numbers
from bayesrank.datasets import group_queries


def rank_rls_gp(
    X: ArrayLike,
    y: ArrayLike | None = None,
    query: Any = None,
    *,
    kernel: Kernel | Literal["linear"] = "linear",
    weights: Literal["query", "center", "pairs"] = "query",
    scale: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    X_new: ArrayLike | None = None,
) -> None:
    r"""Scores of items in lists, seen through contrasts within a list.

    ================ =============================== ===========================================
    site             prior                           meaning
    ================ =============================== ===========================================
    ``scale``        LogNormal(0, 1)                 prior scale s of scores (unless given)
    ``noise``        LogNormal(0, 1)                 noise sigma of a contrast (unless given)
    ``w``            Normal(0, scale), shape (d,)    weights of the features (linear kernel)
    ``f``            Gaussian process, shape (m,)    scores (other kernels)
    ``f_new``        given ``f``, shape (n,)         scores of new items (with ``X_new``)
    ``contrast``     observed, shape (p,)            contrasts of grades within lists
    ================ =============================== ===========================================

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (m, d).
    y : ArrayLike, optional
        Grades, shape (m,). Without them the program is the prior.
    query : array-like, optional
        Names of the items' queries, shape (m,); without it all items are one list.
    kernel : {"linear"} or tinygp kernel
        Kernel k of the scores.
    weights : {"query", "center", "pairs"}
        Weight delta of a list of n items: ``2 / (n - 1)``, 1 or n. The noise of its contrasts is
        ``noise / sqrt(delta)``.
    scale, noise : ArrayLike, optional
        Given values of these two, positive.
    X_new : ArrayLike, optional
        Features of items without grades, shape (n, d).

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesrank.infer import EP
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    >>> result = EP(rank_rls_gp).run(jax.random.key(0), X, y, ["a", "a", "a"], scale=1.0, noise=1.0)
    >>> result.mean["w"].round(3)
    array([0.667])
    """
    X = check_features(X, "X")
    if scale is None:
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    if noise is None:
        noise = numpyro.sample("noise", dist.LogNormal(0.0, 1.0))
    columns = X.shape[1]
    if X_new is not None:
        X_new = check_features(X_new, "X_new", columns=columns)
    if isinstance(kernel, str):
        w = numpyro.sample("w", dist.Normal(0.0, scale).expand([columns]).to_event(1))
        f = X @ jnp.asarray(w)
        if X_new is not None:
            numpyro.deterministic("f_new", X_new @ jnp.asarray(w))
    else:
        prior: Any = jnp.square(jnp.asarray(scale)) * kernel
        process = dist.MultivariateNormal(covariance_matrix=gp.gram(prior, X))
        f = jnp.asarray(numpyro.sample("f", process))
        if X_new is not None:
            new = gp.conditional(prior, X, process.scale_tril, f, X_new)
            numpyro.sample("f_new", new)
    if y is None:
        return
    T, root_delta = _contrasts(query, X.shape[0], weights)
    sd, y = jnp.asarray(noise) / root_delta, check_numbers(y, "y", len(X))
    with numpyro.plate("contrasts", len(T)):
        numpyro.sample("contrast", dist.Normal(T @ f, sd), obs=T @ y)


def _contrasts(query: Any, num_rows: int, weights: str) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal contrasts of all lists, shape (p, m), and the root of each one's weight."""
    lists = group_queries(query, num_rows)
    weight_of = {"query": lambda n: 2.0 / (n - 1), "center": lambda n: 1.0, "pairs": float}
    check_choice(weights, "weights", *weight_of)
    T = np.zeros((num_rows - len(lists.sizes), num_rows))
    root_delta, row = np.ones(len(T)), 0
    for start, size in zip(lists.starts, lists.sizes, strict=True):
        if size > 1:
            columns = lists.order[start : start + size]
            T[row : row + size - 1, columns] = helmert(size)
            root_delta[row : row + size - 1] = np.sqrt(weight_of[weights](int(size)))
            row += size - 1
    if not row:
        raise ValueError("query gives every list one row only; there is nothing to compare")
    return T, root_delta
