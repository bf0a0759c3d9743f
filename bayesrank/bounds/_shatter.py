"""Logarithms of k-partite rank-shatter coefficients (Definition 6 of Rajaram and Agarwal).

A class of ranking functions orders the pairs of unlike level of ``n_1, ..., n_k`` examples: each
pair is right, wrong or tied. The coefficient is the largest number of ways to do so. It overflows
for a few dozen examples, so it lives in log space here. A *shatter function* takes the counts,
shape ``(k,)``, whole or not, to an upper bound of the logarithm.

A slip in print. Theorem 3 is stated for all ``n_1, ..., n_k``, but ``(2 e n_l n_m / d)**d`` falls
below the true coefficient if ``n_l n_m`` is small against ``d``: one pair in five dimensions has 3
orders, and the formula gives 1.5. Its proof needs ``n_l n_m >= d``. Below that we take ``3**(n_l
n_m)``, which always holds, and above it the smaller of the two.

References
----------
.. [1] S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005
       workshop on Learning to Rank, Theorem 3.
.. [2] S. Agarwal et al., "Generalization bounds for the area under the ROC curve", JMLR 6, 2005
       (polynomial ranking functions).
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bayesrank._validate import check_choice, check_count
from bayesrank.bounds._skew import Array

Shatter = Callable[[ArrayLike], float]
Form = Literal["theorem", "joint"]


def linear_shatter(dim: int, *, form: Form = "theorem") -> Shatter:
    """Shatter function of linear ranking functions on ``R**dim`` (Theorem 3).

    Parameters
    ----------
    dim
        Number of features; a constant one does not count, since it ranks nothing.
    form
        ``"theorem"``: the product over pairs of levels as printed, corrected where it fails.
        ``"joint"``: ours. One weight vector orders all ``N = sum_{l < m} n_l n_m`` pairs at once.
        So the coefficient is at most the number of faces that ``N`` hyperplanes cut ``R**dim``
        into, ``sum_{i <= dim} 2**i binomial(N, i)``. It is never above the corrected product.

    Returns
    -------
    callable
        From counts to the logarithm of the bound.

    Raises
    ------
    ValueError
        If `dim` is not a whole number from 1 on, or `form` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([400, 300, 300])
    >>> round(linear_shatter(2)(counts)), round(linear_shatter(2, form="joint")(counts))
    (76, 26)
    """
    check_count(dim, "dim")
    check_choice(form, "form", "theorem", "joint")
    if form == "theorem":
        return lambda counts: float(np.sum(_printed(_pair_products(counts), dim)))
    return lambda counts: _faces(float(np.sum(_pair_products(counts))), dim)


def polynomial_shatter(dim: int, degree: int, *, form: Form = "theorem") -> Shatter:
    """Shatter function of polynomial ranking functions of bounded degree on ``R**dim``.

    They are linear in the ``binomial(dim + degree, degree) - 1`` monomials that are not constant,
    which is the ``C(d, q)`` of [2]_.

    Parameters
    ----------
    dim, degree
        Number of features and largest total degree.
    form
        As in `linear_shatter`.

    Raises
    ------
    ValueError
        If `dim` or `degree` is not a whole number from 1 on, or `form` is unknown.
    """
    check_count(dim, "dim")
    check_count(degree, "degree")
    return linear_shatter(math.comb(dim + degree, degree) - 1, form=form)


def finite_shatter(num_functions: float) -> Shatter:
    """Shatter function of a finite class: at most its size, whatever the counts."""
    if not num_functions >= 1:
        raise ValueError(f"num_functions is {num_functions}; pass a number from 1 on")
    return lambda counts: math.log(num_functions)


def any_shatter(counts: ArrayLike) -> float:
    """Shatter function of all functions, ``prod_{l < m} 3**(n_l n_m)``: vacuous, but true."""
    return float(np.sum(_pair_products(counts))) * math.log(3.0)


def _pair_products(counts: ArrayLike) -> Array:
    """Numbers of pairs ``n_l n_m``, one for each ``l < m``."""
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.ndim != 1 or not np.all(sizes >= 0):
        raise ValueError(f"counts must have shape (k,) and not be below zero, got {counts}")
    first, second = np.triu_indices(len(sizes), k=1)
    return sizes[first] * sizes[second]


def _printed(pairs: Array, dim: int) -> Array:
    enough = pairs >= dim
    formula = dim * np.log(2.0 * math.e / dim * np.where(enough, pairs, dim))
    return np.minimum(np.where(enough, formula, np.inf), pairs * math.log(3.0))


def _faces(pairs: float, dim: int) -> float:
    """``log sum_{i <= dim} 2**i binomial(pairs, i)``, `pairs` rounded up."""
    total = math.ceil(pairs)
    if total <= dim:
        return total * math.log(3.0)
    i = np.arange(1, dim + 1)
    log_terms = np.concatenate([[0.0], np.cumsum(np.log(2.0 * (float(total) - i + 1.0) / i))])
    return float(np.asarray(logsumexp(log_terms)))
