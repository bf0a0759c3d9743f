r"""What the learners with kernels share: explicit features, or a store of examples.

A store of examples for the kernel form, with a budget.

A function in the kernel form is :math:`f(x) = \sum_i \alpha_i K(x_i, x)` over stored examples. A
new one takes a free slot, or else that of the oldest (Kivinen, Smola and Williamson, 2002, Online
learning with kernels, NIPS 14).
"""

import math
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import DotProduct, Kernel, Polynomial

from bayesrank._validate import check_count
from bayesrank.online._base import SMALL, Array, OnlineRanker, blocks_of, check_kernel


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


class Store(NamedTuple):
    """Stored examples."""

    support: Any  # (budget, d)
    stamps: Any  # number of the example in each slot from 1, 0 in a free one; (budget,)


def empty_store(budget: int, num_features: int) -> Store:
    """Store that holds nothing; without a budget it has no slot."""
    return Store(np.zeros((budget, num_features)), np.zeros(budget, np.int64))


def kernel_row(kernel: Kernel, store: Store, x: jax.Array) -> jax.Array:
    """Kernel of an example with the stored ones, zero for free slots; (budget,)."""
    return jnp.where(store.stamps > 0, kernel(store.support, x[None])[:, 0], 0.0)


def oldest(store: Store) -> jax.Array:
    """The slot that the next example takes: a free one, or that of the oldest example."""
    return jnp.argmin(store.stamps)


def put(store: Store, slot: jax.Array, x: jax.Array, stamp: jax.Array, wanted: jax.Array) -> Store:
    """Put an example into a slot, if it is wanted."""
    return Store(
        store.support.at[slot].set(jnp.where(wanted, x, store.support[slot])),
        store.stamps.at[slot].set(jnp.where(wanted, stamp, store.stamps[slot])),
    )


def kernel_rows(kernel: Kernel, store: Store, X: np.ndarray) -> np.ndarray:
    """Kernel of each example with the stored ones, (n, budget); in blocks of one shape."""
    used = np.asarray(store.stamps) > 0
    rows = [np.zeros((0, len(used)))]
    for (part,), count in blocks_of((SMALL,), X):
        values = kernel(jnp.asarray(part), jnp.asarray(store.support))
        rows.append(np.asarray(values)[:count])
    return np.where(used, np.concatenate(rows), 0.0)


class KernelRanker(OnlineRanker):
    """Learns in explicit features where they are cheaper, else in the kernel form."""

    kernel: Kernel | None
    budget: int | None

    def _explicit(self, num_features: int) -> FeatureMap | None:
        return feature_map(self.kernel, num_features, self.budget)

    def _slots(self, num_features: int) -> int:
        """Number of examples that can be stored; none with explicit features."""
        check_kernel(self.kernel)
        budget = None if self.budget is None else check_count(self.budget, "budget")
        if self._explicit(num_features) is not None:
            return 0
        if budget is None:
            raise ValueError(
                f"budget is None and kernel {self.kernel!r}, for which examples are stored; "
                "say how many, as a whole number from 1 on"
            )
        return budget

    def _width(self, num_features: int) -> int:
        """Number of weights: of explicit features, or coefficients of stored examples."""
        explicit = self._explicit(num_features)
        return self._slots(num_features) if explicit is None else explicit.count(num_features)

    def _expand(self, X: Array) -> Array:
        explicit = self._explicit(X.shape[1])
        return X if explicit is None else explicit(X)

    @property
    def _stored(self) -> bool:
        """Whether examples are stored."""
        return bool(self.state_.support.shape[0])

    def _rows(self, X: Array) -> Array:
        """What the weights are multiplied with: explicit features, or kernels, (n, D)."""
        if self.kernel is None or not self._stored:
            return X
        with jax.enable_x64(True):
            return kernel_rows(self.kernel, Store(self.state_.support, self.state_.stamps), X)

    def _used(self, weights: Any) -> Array:
        """Weights (D, ...), of stored examples without those of free slots."""
        weights = np.asarray(weights)
        return weights[np.asarray(self.state_.stamps) > 0] if self._stored else weights

    @property
    def support_(self) -> Array:
        """Stored examples of the kernel form, shape (m, d)."""
        check_is_fitted(self, "state_")
        return np.asarray(self.state_.support)[np.asarray(self.state_.stamps) > 0]
