"""Distribution-free bounds of the k-partite ranking error, with their shatter coefficients.

Logarithms of k-partite rank-shatter coefficients (Definition 6 of Rajaram and Agarwal).

A class of ranking functions orders the pairs of unlike level of ``n_1, ..., n_k`` examples: each
pair is right, wrong or tied. The coefficient is the largest number of ways to do so. It overflows
for a few dozen examples, so it lives in log space here. A *shatter function* takes the counts,
shape ``(k,)``, whole or not, to an upper bound of the logarithm.

A slip in print. Theorem 3 is stated for all ``n_1, ..., n_k``, but ``(2 e n_l n_m / d)**d`` falls
below the true coefficient if ``n_l n_m`` is small against ``d``: one pair in five dimensions has 3
orders, and the formula gives 1.5. Its proof needs ``n_l n_m >= d``. Below that we take ``3**(n_l
n_m)``, which always holds, and above it the smaller of the two.

The theorems of S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005
workshop on Learning to Rank, bound ``|empirical error - expected error|`` with probability at least
``1 - delta``. The expected error is the one for the skew vector of the sample. A bound of 1 or more
(for ``alpha = 0``) says nothing.

References
----------
.. [1] S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005 workshop
       on Learning to Rank, Theorem 3.
.. [2] S. Agarwal et al., "Generalization bounds for the area under the ROC curve", JMLR 6, 2005
       (polynomial ranking functions).
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bayesrank._validate import check_choice, check_count, check_positive
from bayesrank.bounds._skew import Array, check_delta, check_skew, skew_factor

Shatter = Callable[[ArrayLike], float]
Form = Literal["theorem", "joint"]


def linear_shatter(dim: int, *, form: Form = "theorem") -> Shatter:
    """Shatter function of linear ranking functions on ``R**dim`` (Theorem 3).

    Parameters
    ----------
    dim
        Number of features; a constant one does not count, since it ranks nothing. Polynomials of
        degree ``q`` in ``d`` features are linear in ``math.comb(d + q, q) - 1`` monomials [2]_.
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


def finite_class_bound(
    rho: ArrayLike,
    num_examples: float,
    *,
    num_functions: float = 1,
    delta: float = 0.05,
    alpha: float = 0.0,
) -> float:
    """Bound of the error for a ranking function picked from a finite class (Theorem 1).

    It bounds the distance between empirical and expected error. With one function, chosen before
    the sample was seen, it is a confidence interval from held-out data: the empirical error plus
    and minus the bound.

    Parameters
    ----------
    rho
        Skew vector of the sample, shape ``(k,)``.
    num_examples
        Size ``M`` of the sample.
    num_functions
        Size of the class that the function was picked from.
    delta
        Probability that the bound may fail.
    alpha
        Weight of mistakes, ``(m - l)**alpha``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(finite_class_bound([0.5, 0.5], 1000, num_functions=100), 4)
    0.1288
    """
    size = check_positive(num_examples, "num_examples")
    return math.sqrt(_finite_rate(rho, num_functions, delta, alpha) / size)


def finite_class_examples(
    rho: ArrayLike,
    epsilon: float,
    *,
    num_functions: float = 1,
    delta: float = 0.05,
    alpha: float = 0.0,
) -> int:
    """Number of examples in the smallest sample for which Theorem 1 promises an accuracy.

    Parameters
    ----------
    rho, num_functions, delta, alpha
        As in `finite_class_bound`.
    epsilon
        Largest distance between empirical and expected error.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> finite_class_examples([0.5, 0.5], 0.05, num_functions=100)
    6636
    """
    accuracy = check_positive(epsilon, "epsilon")
    return math.ceil(_finite_rate(rho, num_functions, delta, alpha) / accuracy**2)


def uniform_bound(
    rho: ArrayLike,
    num_examples: float,
    shatter: Shatter,
    *,
    delta: float = 0.05,
    alpha: float = 0.0,
) -> float:
    """Bound of the error for a ranking function learned from an infinite class (Theorem 2).

    It bounds the distance between empirical and expected error, for all functions of the class at
    once. So the sample may be the training sample.

    Parameters
    ----------
    rho, delta, alpha
        As in `finite_class_bound`.
    num_examples
        Size ``M`` of the training sample.
    shatter
        Logarithm of the rank-shatter coefficient of the class, such as ``linear_shatter(dim)``; it
        is asked for the counts ``2 M rho``.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    shares, size = check_skew(rho), check_positive(num_examples, "num_examples")
    capacity = shatter(2.0 * size * shares) + math.log(4.0 / check_delta(delta))
    return math.sqrt(8.0 * capacity / size * skew_factor(shares, alpha))


def uniform_examples(
    rho: ArrayLike,
    epsilon: float,
    shatter: Shatter,
    *,
    delta: float = 0.05,
    alpha: float = 0.0,
) -> int:
    """Number of examples in the smallest sample from which on Theorem 2 promises an accuracy.

    Parameters
    ----------
    rho, shatter, delta, alpha
        As in `uniform_bound`. The bound must fall with the size of the sample from some size on.
    epsilon
        Largest distance between empirical and expected error.

    Raises
    ------
    ValueError
        If an argument is out of range, or no sample of up to ``2**50`` examples is enough.
    """
    accuracy = check_positive(epsilon, "epsilon")

    def enough(size: int) -> bool:
        return uniform_bound(rho, size, shatter, delta=delta, alpha=alpha) <= accuracy

    high = 1
    while not enough(high):
        high *= 2
        if high > 2**50:
            raise ValueError(
                f"epsilon = {accuracy} is out of reach: the bound is above it for 2**50 examples; "
                "ask for less, or take a class with fewer parameters"
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _finite_rate(rho: ArrayLike, num_functions: float, delta: float, alpha: float) -> float:
    """Square of the bound times the number of examples."""
    if not num_functions >= 1:
        raise ValueError(f"num_functions is {num_functions}; pass a number from 1 on")
    capacity = math.log(num_functions) + math.log(2.0 / check_delta(delta))
    return capacity / 2.0 * skew_factor(rho, alpha)
