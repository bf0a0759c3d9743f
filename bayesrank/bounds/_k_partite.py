"""Distribution-free bounds of the k-partite ranking error, and how many examples they ask for.

The theorems of S. Rajaram and S. Agarwal, "Generalization bounds for k-partite ranking", NIPS 2005
workshop on Learning to Rank, bound ``|empirical error - expected error|`` with probability at least
``1 - delta``. The expected error is the one for the skew vector of the sample. A bound of 1 or more
(for ``alpha = 0``) says nothing.
"""

import math

from numpy.typing import ArrayLike

from bayesrank._validate import check_positive
from bayesrank.bounds._shatter import Shatter
from bayesrank.bounds._skew import check_delta, check_skew, skew_factor


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
