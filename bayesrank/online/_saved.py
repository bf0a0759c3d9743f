"""Learners of streams, all of whose knowledge is one state."""

from abc import ABC, abstractmethod
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from bayesrank._fitted import Fitted


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
