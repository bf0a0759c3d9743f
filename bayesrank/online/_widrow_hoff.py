"""The online regression of Widrow and Hoff, rounded to levels."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array as JaxArray
from jax import lax
from jax.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._validate import check_positive
from bayesrank.online._base import Array, ExampleBlock
from bayesrank.online._kernel_form import KernelRanker, Store, empty_store, kernel_row, oldest, put


class Regression(NamedTuple):
    """What the regression has learned."""

    weights: Any  # shape (D,); in the kernel form coefficients of the stored examples, (budget,)
    seen: Any  # number of examples
    support: Any  # the stored examples, shapes (budget, d) and (budget,), see `Store`
    stamps: Any


@jax.jit
def _learn_block(
    state: Regression,
    X: ArrayLike,
    y: ArrayLike,
    count: ArrayLike,
    eta: ArrayLike,
    kernel: Kernel | None = None,
) -> tuple[Regression, JaxArray]:
    """Learn the first ``count`` examples of a block; return also the scores that they met."""
    X, y = jnp.asarray(X), jnp.asarray(y)

    def turn(i: JaxArray, carry: tuple[Regression, JaxArray]) -> tuple[Regression, JaxArray]:
        state, scores = carry
        store = Store(state.support, state.stamps)
        row = X[i] if kernel is None else kernel_row(kernel, store, X[i])
        score = jnp.sum(row * state.weights)
        step = eta * (y[i] - score)
        if kernel is None:
            weights = state.weights + step * X[i]
        else:
            slot = oldest(store)
            weights = state.weights.at[slot].set(step)
            store = put(store, slot, X[i], state.seen + 1, jnp.array(True))
        return Regression(weights, state.seen + 1, *store), scores.at[i].set(score)

    return lax.fori_loop(0, count, turn, (state, jnp.zeros(len(X))))


class WidrowHoff(KernelRanker):
    r"""Online least squares on the levels: :math:`w \leftarrow w + \eta (y - w \cdot x)\, x`.

    The score is a real number; the predicted level is the nearest one.

    Parameters
    ----------
    num_levels : int
        Number of levels, at least 2.
    eta : float, default 0.1
        Size of a step. It has to be below :math:`2 / \|x\|^2`, or :math:`2 / K(x, x)`, or the
        weights grow without end.
    kernel : Kernel, optional
        As for `PRank`. Only a constant among explicit features (``sigma`` above 0) makes the
        levels' offset learnable.
    budget : int, default 1000
        Number of examples that the kernel form may store. It learns something from each, so that
        the store is soon full; then the oldest leaves for the next.

    Attributes
    ----------
    coef_ : ndarray of shape (D,)
        Weights of the explicit features; in the kernel form of ``support_``.
    thresholds_ : ndarray of shape (num_levels - 1,)
        Halfway between levels.

    References
    ----------
    .. [1] Widrow, B. and Hoff, M. E. (1960). Adaptive switching circuits. IRE WESCON, part 4,
       96-104.
    .. [2] Kivinen, J., Smola, A. and Williamson, R. C. (2002). Online learning with kernels. NIPS
       14 (the kernel form, for the squared loss without decay).

    Examples
    --------
    >>> from bayesrank.online import WidrowHoff
    >>> X, y = [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]], [1, 2, 3]
    >>> model = WidrowHoff(3).partial_fit(X * 40, y * 40)
    >>> model.predict([[1.0, -1.0], [1.0, 0.1]])
    array([1, 2])
    """

    def __init__(
        self,
        num_levels: int,
        eta: float = 0.1,
        *,
        kernel: Kernel | None = None,
        budget: int = 1000,
    ) -> None:
        self.num_levels = num_levels
        self.eta = eta
        self.kernel = kernel
        self.budget = budget

    def _init_state(self, num_features: int) -> Regression:
        check_positive(self.eta, "eta")
        store = empty_store(self._slots(num_features), num_features)
        return Regression(np.zeros(self._width(num_features)), np.int64(0), *store)

    def _learn(self, state: Regression, block: ExampleBlock) -> tuple[Regression, JaxArray]:
        kernel = self.kernel if state.support.shape[0] else None
        return _learn_block(state, *block, np.float64(self.eta), kernel)

    def _met(self, state: Regression, records: Array) -> Array:
        return records

    def _foresee(self, X: Array) -> Array:
        return self._rows(X) @ np.asarray(self.state_.weights)

    @property
    def coef_(self) -> Array:
        """Weights, shape (D,); in the kernel form of `support_`."""
        check_is_fitted(self, "state_")
        return self._used(self.state_.weights)

    @property
    def thresholds_(self) -> Array:
        """Halfway between levels, shape (num_levels - 1,)."""
        return np.arange(1.5, self.num_levels)
