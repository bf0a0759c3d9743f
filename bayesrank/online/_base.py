"""What the online learners share: chunks in, predictions out, state to a file and back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._fitted import Fitted
from bayesrank._process import enter_jax
from bayesrank._tables import column_names, plain_array
from bayesrank._validate import check_column, check_count, refuse_rows

# Beyond this, squares and cubes of features would soon leave the range of double precision.
LARGEST = 1e30


def check_kernel(kernel: Any) -> Kernel | None:
    """Return a kernel of tinygp, or None."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {kernel!r}; pass a kernel of tinygp, or None")
    return kernel


def check_rows(X: ArrayLike, num_features: int | None) -> NDArray[np.float64]:
    """Return examples as an array of shape (n, d)."""
    enter_jax()
    if sparse.issparse(X):
        raise ValueError("X is sparse; pass X.toarray(), a chunk at a time")
    rows: Any = plain_array(X)
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {rows.dtype}; pass a table of numbers")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"X has shape {rows.shape}; pass (n, d), one row for each example")
    if num_features is not None and rows.shape[1] != num_features:
        raise ValueError(
            f"X has {rows.shape[1]} columns, but the examples before had {num_features}; "
            "give all examples the same features"
        )
    rows = rows.astype(np.float64)
    unusable = ~(np.abs(rows) <= LARGEST)
    if unusable.any():
        row, column = np.argwhere(unusable)[0]
        raise ValueError(
            f"X is {rows[row, column]:g} in row {row}, column {column}; pass finite numbers of "
            f"at most {LARGEST:g}, or leave the example out. Nothing of the chunk was learned"
        )
    return rows


def check_column_names(X: Any, known: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the names of a table's columns, or the known ones where `X` has none."""
    columns = column_names(X)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return known
    if known is not None and columns != known.tolist():
        raise ValueError(
            f"X has the columns {columns}, but the examples before had {known.tolist()}; give "
            "all examples the same columns in the same order"
        )
    return np.array(columns, object)


def check_levels_from_one(y: ArrayLike, num_rows: int, num_levels: int) -> NDArray[np.int64]:
    """Return levels as an integer array of shape (n,)."""
    levels: Any = plain_array(y)
    wanted = f"a level for each row of X, numbered from 1 for the lowest to {num_levels}"
    check_column(levels, "y", num_rows, "biuf", wanted)
    fix = f"pass levels 1 to {num_levels}, or leave it out. Nothing of the chunk was learned"
    refuse_rows(levels, lambda v: ~np.isin(v, np.arange(1, num_levels + 1)), "y", fix)
    return levels.astype(np.int64)


SMALL, MIDDLE, LARGE = 16, 128, 1024


def blocks_of(sizes: Sequence[int], *arrays: Any) -> Iterator[tuple[list[Any], int]]:
    """Cut arrays (n, ...) into blocks filled up with zeros; with how many examples each holds.

    A block has the first of the sizes that it fills by more than half, or else the last.
    """
    start = 0
    while (left := len(arrays[0]) - start) > 0:
        size = next((size for size in sizes if 2 * left > size), sizes[-1])
        count = min(left, size)
        parts = [array[start : start + count] for array in arrays]
        room = [(0, size - count)]
        yield [np.pad(part, room + [(0, 0)] * (part.ndim - 1)) for part in parts], count
        start += count


def rank_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, rounded: bool = False, num_levels: int | None = None
) -> float:
    r"""Average rank loss :math:`\frac{1}{T} \sum_t |\hat y_t - y_t|`, in levels.

    Averages of ranks are real numbers, and the loss depends on whether they are rounded first.

    Parameters
    ----------
    y_true, y_pred : ArrayLike
        Levels, and predictions, whole or not, shape (T,).
    rounded : bool, default False
        Whether to round the predictions first, see `round_levels`.
    num_levels : int, optional
        Number of levels, to which rounded predictions are confined.

    Raises
    ------
    ValueError
        If the two have different shapes, or there is nothing to average.

    Examples
    --------
    >>> rank_loss([1, 2, 3], [1.4, 2.0, 2.4]), rank_loss([1, 2, 3], [1.4, 2.0, 2.4], rounded=True)
    (0.333..., 0.333...)
    """
    truth, predictions = np.asarray(y_true, np.float64), np.asarray(y_pred, np.float64)
    if truth.shape != predictions.shape or truth.size == 0:
        raise ValueError(
            f"y_true has shape {truth.shape} and y_pred {predictions.shape}; pass one "
            "prediction for each of at least one level"
        )
    if rounded:
        predictions = round_levels(predictions, num_levels).astype(np.float64)
    return float(np.abs(predictions - truth).mean())


def round_levels(values: ArrayLike, num_levels: int | None = None) -> NDArray[np.int64]:
    """Round predictions to levels, halves up.

    Parameters
    ----------
    values : ArrayLike
        Predictions on the scale of the levels, of any shape.
    num_levels : int, optional
        Number of levels; without it there is no highest one.

    Returns
    -------
    ndarray of int
        The nearest of the levels 1, 2, ..., `num_levels`, in the shape of `values`.

    Raises
    ------
    ValueError
        If a value is not finite, or `num_levels` not a positive whole number.
    """
    levels = np.floor(np.asarray(values, np.float64) + 0.5)
    if not np.isfinite(levels).all():
        raise ValueError("a prediction is NaN or infinite, which is near no level; leave it out")
    most = None if num_levels is None else check_count(num_levels, "num_levels")
    return np.clip(levels, 1, most).astype(np.int64)


class SavedLearner(Fitted, ABC):
    """An online learner all of whose knowledge is one named tuple of arrays, ``state_``."""

    _learned = "state_"
    _learns = (*Fitted._learns, "prequential")

    state_: Any
    n_features_in_: int
    feature_names_in_: Any = None  # of the columns of a table, as in scikit-learn

    @abstractmethod
    def _init_state(self, num_features: int) -> Any:
        """State that has seen nothing: a named tuple of arrays."""

    @abstractmethod
    def _check_options(self) -> Any:
        """Refuse options that cannot be used."""

    @abstractmethod
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn the next examples of a stream."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn these examples in their order, as `partial_fit` does.

        Parameters
        ----------
        X, y
            As for `partial_fit`.

        Raises
        ------
        ValueError
            As for `partial_fit`; then nothing is forgotten.
        """
        return self.partial_fit(X, y)

    @property
    def n_seen_(self) -> int:
        """Number of examples learned."""
        check_is_fitted(self, "state_")
        return int(self.state_.seen)

    def _take(self, num_features: int, names: Any, state: Any) -> None:
        self.n_features_in_, self.feature_names_in_, self.state_ = num_features, names, state


Array = NDArray[np.float64]

RECORD_BYTES = 2**23  # that what is recorded of a block may take


class ExampleBlock(NamedTuple):
    """Examples padded to a fixed shape: features (B, d), levels (B,), number of examples."""

    X: Any
    y: Any
    count: Any


class OnlineRanker(SavedLearner):
    """Learns levels ``1..num_levels`` from a stream of examples, each seen once."""

    num_levels: int
    _levels_learned: int

    # What a subclass says.

    @abstractmethod
    def _learn(self, state: Any, block: ExampleBlock) -> tuple[Any, Any]:
        """Learn a block; return the new state, and records of what was met, example first."""

    @abstractmethod
    def _met(self, state: Any, records: Any) -> Array:
        """Unrounded predictions for recorded examples, made before each was learned; (n, ...)."""

    @abstractmethod
    def _foresee(self, X: Array) -> Array:
        """Unrounded predictions of the present state, (n,), or what `_decide` makes them of."""

    def _expand(self, X: Array) -> Array:
        """Explicit features of examples, row by row."""
        return X

    def _record_width(self, num_features: int) -> int:
        """Numbers recorded for an example."""
        return num_features

    def _score(self, X: Array) -> Array:
        """What predictions are decided by, shape (n,)."""
        return self._foresee(X)

    def _decide(self, predictions: Array, rounded: bool) -> NDArray[Any]:
        """Levels (n,), or the real numbers that they are rounded from."""
        return round_levels(predictions, self.num_levels) if rounded else predictions

    def _nothing(self) -> Array:
        """Unrounded predictions for no example."""
        return np.zeros(0)

    # What a person calls.

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the next examples of the stream.

        However the stream is cut into chunks, the same state results, bit for bit. A chunk that
        cannot be used changes nothing.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features; n may be anything, 0 included.
        y : array-like of shape (n,)
            Levels, whole numbers from 1 to ``num_levels``.

        Raises
        ------
        ValueError
            If the chunk or an option cannot be used; the message names row and column.
        """
        self._stream(X, y)
        return self

    def prequential(self, X: ArrayLike, y: ArrayLike, *, rounded: bool = True) -> NDArray[Any]:
        """Predict each example before learning it, shape (n,), then learn it as `partial_fit` does.

        Parameters
        ----------
        X, y
            As for `partial_fit`.
        rounded : bool, default True
            As for `predict`.

        Raises
        ------
        ValueError
            As for `partial_fit`.
        """
        predictions = np.concatenate([self._nothing(), *self._stream(X, y, self._met)])
        return self._decide(predictions, rounded)

    def predict(self, X: ArrayLike, *, rounded: bool = True) -> NDArray[Any]:
        """Predict levels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        rounded : bool, default True
            Whether to predict levels, or the real numbers that they are rounded from.

        Returns
        -------
        ndarray of shape (n,)
            Levels from 1 to ``num_levels``.

        Raises
        ------
        NotFittedError, ValueError
            If nothing has been learned; if the examples cannot be used.
        """
        return self._decide(self._foresee(self._known_rows(X)), rounded)

    def decision_function(self, X: ArrayLike) -> Array:
        """Score of each example, shape (n,), which decides its level.

        With one rule, the level is one more than the number of ``thresholds_`` that the score
        reaches. With many rules, the score is the average of their ranks. A higher score never
        means a lower level.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Raises
        ------
        NotFittedError, ValueError
            If nothing has been learned; if the examples cannot be used.
        """
        return self._score(self._known_rows(X))

    # How a stream is learned.

    def _stream(
        self, X: ArrayLike, y: ArrayLike, meet: Callable[[Any, Any], Array] | None = None
    ) -> list[Array]:
        """Learn a chunk by blocks; list what ``meet`` makes of the state before and the records."""
        self._check_options()
        started = hasattr(self, "state_")
        if started:
            self._refuse_other_levels()
        names = check_column_names(X, self.feature_names_in_)
        rows = check_rows(X, self.n_features_in_ if started else None)
        levels = check_levels_from_one(y, len(rows), self.num_levels)
        met = []
        with jax.enable_x64(True):
            state = self.state_ if started else self._init_state(rows.shape[1])
            for block, count in self._blocks(rows, levels):
                after, records = jax.block_until_ready(self._learn(state, block))
                if meet is not None:
                    used = jax.tree.map(lambda a, n=count: np.asarray(a)[:n], records)
                    met.append(meet(state, used))
                state = after
        self._refuse_unless_finite(state)
        self._take(rows.shape[1], names, state)
        return met

    def _check_options(self) -> None:
        check_count(self.num_levels, "num_levels", 2)

    def _take(self, num_features: int, names: Any, state: Any) -> None:
        super()._take(num_features, names, state)
        self._levels_learned = self.num_levels

    def _refuse_other_levels(self) -> None:
        if self.num_levels != self._levels_learned:
            raise ValueError(
                f"num_levels is {self.num_levels}, but {self._levels_learned} levels have been "
                "learned; begin anew by fit"
            )

    def _blocks(self, X: Array, y: NDArray[np.int64]) -> Iterator[tuple[ExampleBlock, int]]:
        """Cut a chunk into blocks, of sizes that leave room for what is recorded."""
        most = RECORD_BYTES // (8 * max(self._record_width(X.shape[1]), 1))
        sizes = [*(size for size in (LARGE, MIDDLE) if size <= most), SMALL]
        for (rows, levels), count in blocks_of(sizes, X, y):
            yield ExampleBlock(self._expand(rows), levels, np.int64(count)), count

    def _refuse_unless_finite(self, state: Any) -> None:
        if not all(np.isfinite(np.asarray(value)).all() for value in state):
            raise ValueError(
                "X makes the weights overflow; scale the features (or lower a learning rate). "
                "Nothing of the chunk was learned"
            )

    def _known_rows(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "state_")
        self._refuse_other_levels()
        check_column_names(X, self.feature_names_in_)
        return self._expand(check_rows(X, self.n_features_in_))
