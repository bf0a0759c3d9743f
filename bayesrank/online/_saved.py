"""Learners whose state goes to a file and comes back, to be continued exactly."""

import json
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from tinygp.kernels import Kernel

from bayesrank._states import no_state, read_state, write_state

_OWNER, _KIND = "an online ranker", "OnlineLearner"
_FIELDS = ("learner", "num_features", "feature_names", "notes")


class SavedLearner(BaseEstimator, ABC):
    """An online learner all of whose knowledge is one named tuple of arrays, ``state_``."""

    state_: Any
    notes_: Any
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
        fresh: Any = clone(self)
        fresh.partial_fit(X, y)
        self._take(fresh.n_features_in_, fresh.feature_names_in_, fresh.state_)
        return self

    @property
    def n_seen_(self) -> int:
        """Number of examples learned."""
        check_is_fitted(self, "state_")
        return int(self.state_.seen)

    def save(self, path: str | Path, *, notes: Any = None) -> None:
        """Write the state to a file, complete or not at all.

        Parameters
        ----------
        path : str or Path
            The file, in NumPy's ``.npz`` format.
        notes : object, optional
            What else to store, as ``notes_`` of the learner that loads it: anything that JSON can
            hold.

        Raises
        ------
        NotFittedError, OSError
            If nothing has been learned; if the file cannot be written.
        """
        check_is_fitted(self, "state_")
        names = self.feature_names_in_
        state = {
            "learner": self._signature(),
            "num_features": self.n_features_in_,
            "feature_names": None if names is None else names.tolist(),
            "notes": json.dumps(notes),
            "arrays": {name: np.asarray(each) for name, each in self.state_._asdict().items()},
        }
        write_state(path, _KIND, state)

    def load(self, path: str | Path) -> Self:
        """Take up the state of a file, and continue exactly as the learner that saved it.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote for a learner with the same options.

        Raises
        ------
        ValueError, FileNotFoundError
            If `save` did not write the file, or for other options; if there is no file.
        """
        self._check_options()
        saved = read_state(path, _OWNER, {_KIND: _checked})
        there, here = _parts(saved["learner"]), _parts(self._signature())
        if there != here:
            raise ValueError(
                f"{path} was saved by one with {_join(there - here)}, and this has "
                f"{_join(here - there)}; load it into a learner with the same options"
            )
        with jax.enable_x64(True):
            try:
                empty = self._init_state(saved["num_features"])
            except MemoryError:
                reason = f"{saved['num_features']} features are too many"
                raise no_state(path, _OWNER, reason) from None
        arrays, wanted = saved["arrays"], empty._asdict()
        if arrays.keys() != wanted.keys() or not all(
            _fits(arrays[name], np.asarray(value)) for name, value in wanted.items()
        ):
            raise ValueError(
                f"{path} holds other arrays than this learner's; it was not saved by it"
            )
        names = saved["feature_names"]
        names = None if names is None else np.array(names, object)
        self._take(saved["num_features"], names, type(empty)(**arrays))
        self.notes_ = saved["notes"]
        return self

    def _take(self, num_features: int, names: Any, state: Any) -> None:
        self.n_features_in_, self.feature_names_in_, self.state_ = num_features, names, state

    def _signature(self) -> str:
        options = sorted(self.get_params(deep=False).items())
        parts = (f"{name}={_describe(value)}" for name, value in options)
        return f"{type(self).__name__}({', '.join(parts)})"


def _checked(state: dict[str, Any]) -> dict[str, Any]:
    """Refuse a header that does not fit its arrays, before a learner is made room for."""
    if missing := {*_FIELDS, "arrays"} - state.keys():
        raise ValueError(f"its header lacks {', '.join(sorted(missing))}")
    learner, num_features, names, notes = (state[name] for name in _FIELDS)
    lengths = [length for array in state["arrays"].values() for length in array.shape]
    if type(num_features) is not int or not 1 <= num_features <= max(lengths, default=0):
        raise ValueError(f"its header speaks of {num_features!r} features")
    if names is not None and (not isinstance(names, list) or len(names) != num_features):
        raise ValueError("its header names other features than it has")
    return state | {"learner": str(learner), "notes": json.loads(notes)}


def _describe(option: Any) -> str:
    """Return an option as text; a kernel's numbers, which its own text leaves out, included."""
    if isinstance(option, Kernel):
        numbers = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(option)]
        return f"{type(option).__name__}{numbers}"
    return repr(option)


def _parts(signature: str) -> set[str]:
    """Name of a learner, and its options one by one."""
    name, _, options = signature.partition("(")
    return {f"learner={name}", *re.split(r", (?=\w+=)", options.removesuffix(")"))}


def _join(parts: set[str]) -> str:
    return ", ".join(sorted(parts)) or "no other option"


def _fits(array: NDArray[Any], empty: NDArray[Any]) -> bool:
    """Whether an array can stand in the place of one; what holds no row yet can have any number."""
    if array.dtype != empty.dtype or array.ndim != empty.ndim:
        return False
    return array.shape == empty.shape or (0 in empty.shape and array.shape[1:] == empty.shape[1:])
