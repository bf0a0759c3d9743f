"""What estimators share that files store: `save` and `load`, without pickled code."""

from numbers import Integral
from pathlib import Path
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from bayesrank._states import read_state, write_state


class Saved:
    """An estimator that a file can store; derived classes say what of it."""

    _learned: str | None = None  # an attribute that fitted ones have; any, if None

    def save(self, path: str | Path) -> None:
        """Write what was learned to a file, whole or not at all.

        Names and labels have to be text or numbers. A `random_state` that is a generator is not
        written: it is None where `load` reads it. The draws of an average over hyperparameters stay
        the same.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name or an option cannot be written.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self, self._learned)
        write_state(path, type(self).__name__, self._state())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        ValueError, FileNotFoundError
            If the file was not written by `save`, or is damaged; if there is none.
        """
        article = "an" if cls.__name__[0] in "AEIOU" else "a"
        return read_state(path, f"{article} {cls.__name__}", {cls.__name__: cls._restored})

    def _state(self) -> dict[str, Any]:
        """What a file says of a fitted estimator."""
        raise NotImplementedError

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        """Undo `_state`; refuse what does not fit."""
        raise NotImplementedError


def kept_seed(random_state: Any) -> int | None:
    """What a file keeps of a `random_state`: a whole number, and no generator."""
    return int(random_state) if isinstance(random_state, Integral) else None
