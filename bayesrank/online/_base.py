"""What the online learners share: chunks in, predictions out, state to a file and back."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from bayesrank._validate import check_count
from bayesrank.online._blocks import LARGE, MIDDLE, SMALL, blocks_of
from bayesrank.online._loss import round_levels
from bayesrank.online._saved import SavedLearner
from bayesrank.online._validate import check_column_names, check_levels_from_one, check_rows

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
