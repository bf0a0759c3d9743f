"""Features in which a polynomial kernel is a plain scalar product."""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tinygp.kernels import DotProduct, Kernel, Polynomial

from bayesrank._validate import check_count


class FeatureMap(NamedTuple):
    """Monomials up to a degree, weighted so that their scalar product is a polynomial kernel."""

    degree: int = 1  # degree of the kernel; 1 with ``sigma`` 0 leaves the features as they are
    sigma: float = 0.0  # as in tinygp's ``Polynomial``
    scale: float = 1.0  # as in tinygp's ``Polynomial``

    def count(self, num_features: int) -> int:
        """Count the features that are made of ``num_features``."""
        if self.sigma == 0.0:
            return math.comb(num_features + self.degree - 1, self.degree)
        return math.comb(num_features + self.degree, self.degree)

    def __call__(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features of each row, shape (n, count)."""
        if self == FeatureMap():
            return X
        return polynomial_features(X, self.degree, sigma=self.sigma, scale=self.scale)


def polynomial_features(
    X: ArrayLike, degree: int = 2, *, sigma: float = 1.0, scale: float = 1.0
) -> NDArray[np.float64]:
    r"""Features whose scalar products are :math:`(x \cdot x' / \ell^2 + \sigma^2)^p`, shape (n, D).

    By the multinomial theorem they are the monomials
    :math:`\sqrt{p! / (a_0! \dots a_d!)}\, \sigma^{a_0} \prod_i (x_i / \ell)^{a_i}` with
    :math:`\sum a_i = p`, the lowest degree first. There are :math:`D = {d + p \choose p}` of them.
    A row's features do not depend on the other rows.

    Parameters
    ----------
    X : ArrayLike
        Features, shape (n, d).
    degree : int, default 2
        Degree :math:`p` of the kernel, at least 1.
    sigma, scale : float
        Offset :math:`\sigma` and scale :math:`\ell`, as in tinygp's ``Polynomial``. Without an
        offset there are only monomials of full degree.

    Raises
    ------
    ValueError
        If the degree is not a positive whole number.

    Examples
    --------
    >>> polynomial_features([[2.0, 3.0]], 2).round(2)
    array([[1.  , 2.83, 4.24, 4.  , 8.49, 9.  ]])
    """
    degree = check_count(degree, "degree")
    scaled = np.asarray(X, np.float64) / scale
    columns = []
    for total in range(0 if sigma else degree, degree + 1):
        for chosen in combinations_with_replacement(range(scaled.shape[1]), total):
            column = np.full(len(scaled), math.sqrt(_orderings(chosen, degree)))
            column *= sigma ** (degree - total)
            for i in chosen:
                column = column * scaled[:, i]
            columns.append(column)
    return np.stack(columns, axis=1)


def feature_map(kernel: Kernel | None, num_features: int, budget: int | None) -> FeatureMap | None:
    """Explicit features of a kernel, or None where `budget` stored examples cost less."""
    if kernel is None or isinstance(kernel, DotProduct):
        return FeatureMap()
    if not isinstance(kernel, Polynomial) or np.ndim(kernel.scale) or np.ndim(kernel.sigma):
        return None
    order = float(np.asarray(kernel.order))
    if order != int(order) or order < 1:
        return None
    sigma, scale = float(np.asarray(kernel.sigma)), float(np.asarray(kernel.scale))
    explicit = FeatureMap(int(order), sigma, scale)
    return explicit if budget is None or explicit.count(num_features) <= budget else None


def _orderings(chosen: tuple[int, ...], degree: int) -> int:
    """Multinomial coefficient of a monomial, the offset filling it up to the degree."""
    count = math.factorial(degree) // math.factorial(degree - len(chosen))
    for i in set(chosen):
        count //= math.factorial(chosen.count(i))
    return count
