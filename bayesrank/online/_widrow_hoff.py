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

from bayesrank.online._base import RECORD_BYTES, Array, Block, OnlineRanker
from bayesrank.online._features import FeatureMap, feature_map

__all__ = ["WidrowHoff"]


class Regression(NamedTuple):
    """Weights (D,), and the number of examples seen."""

    weights: Any
    seen: Any


@jax.jit
def _learn_block(
    state: Regression, X: ArrayLike, y: ArrayLike, count: ArrayLike, eta: ArrayLike
) -> tuple[Regression, JaxArray]:
    """Learn the first ``count`` examples of a block; return also the scores that they met."""
    X, y = jnp.asarray(X), jnp.asarray(y)

    def turn(i: JaxArray, carry: tuple[Regression, JaxArray]) -> tuple[Regression, JaxArray]:
        (weights, seen), scores = carry
        score = jnp.sum(X[i] * weights)
        weights = weights + eta * (y[i] - score) * X[i]
        return Regression(weights, seen + 1), scores.at[i].set(score)

    return lax.fori_loop(0, count, turn, (state, jnp.zeros(len(X))))


class WidrowHoff(OnlineRanker):
    r"""Online least squares on the levels: :math:`w \leftarrow w + \eta (y - w \cdot x)\, x`.

    The score is a real number; the predicted level is the nearest one.

    Parameters
    ----------
    n_levels : int
        Number of levels, at least 2.
    eta : float, default 0.1
        Size of a step. It has to be below :math:`2 / \|x\|^2`, or the weights grow without end.
    kernel : Kernel, optional
        None, or a polynomial kernel of tinygp, which is used through explicit features. Only a
        constant among these (``sigma`` above 0) makes the levels' offset learnable.

    Attributes
    ----------
    coef_ : ndarray of shape (D,)
        Weights of the explicit features.
    thresholds_ : ndarray of shape (n_levels - 1,)
        Halfway between levels.

    References
    ----------
    Widrow, B. and Hoff, M. E. (1960). Adaptive switching circuits. IRE WESCON, part 4, 96-104.

    Examples
    --------
    >>> from bayesrank.online import WidrowHoff
    >>> X, y = [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]], [1, 2, 3]
    >>> model = WidrowHoff(3).partial_fit(X * 40, y * 40)
    >>> model.predict([[1.0, -1.0], [1.0, 0.1]])
    array([1, 2])
    """

    def __init__(self, n_levels: int, eta: float = 0.1, *, kernel: Kernel | None = None) -> None:
        self.n_levels = n_levels
        self.eta = eta
        self.kernel = kernel

    def _explicit(self, n_features: int) -> FeatureMap:
        explicit = feature_map(self.kernel, n_features, RECORD_BYTES)
        if explicit is None:
            raise ValueError(
                f"`kernel` is {self.kernel!r}; Widrow-Hoff keeps weights: pass None or a "
                "polynomial kernel."
            )
        return explicit

    def _init_state(self, n_features: int) -> Regression:
        if not 0.0 < self.eta < np.inf:
            raise ValueError(f"`eta` is {self.eta!r}; pass a positive number.")
        weights = np.zeros(self._explicit(n_features).count(n_features))
        return Regression(weights, np.int64(0))

    def _expand(self, X: Array) -> Array:
        return self._explicit(X.shape[1])(X)

    def _learn(self, state: Regression, block: Block) -> tuple[Regression, JaxArray]:
        return _learn_block(state, *block, np.float64(self.eta))

    def _met(self, state: Regression, records: Array) -> Array:
        return records

    def _foresee(self, X: Array) -> Array:
        return X @ np.asarray(self.state_.weights)

    @property
    def coef_(self) -> Array:
        """Weights, shape (D,)."""
        check_is_fitted(self, "state_")
        return np.asarray(self.state_.weights)

    @property
    def thresholds_(self) -> Array:
        """Halfway between levels, shape (n_levels - 1,)."""
        return np.arange(1.5, self.n_levels)
