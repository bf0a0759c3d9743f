"""Estimators whose fit publishes one state, and that files store.

Whoever calls `predict` while another thread fits the same estimator has to be answered by one fit,
the old one or the new one. So `fit` learns on an estimator that nobody else sees, and publishes it
in one step. Every other public method and property takes the published estimator once, and asks
that one alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayesrank._states import read_state, write_state

_STATE, _OPEN = "_published", "_learning"


class Fitted(BaseEstimator):
    """An estimator whose fits are published whole.

    Options that `set_params` changes count from the next fit on, those of predictions at once.
    """

    _learned: ClassVar[str | None] = None  # an attribute that fitted ones have; any, if None
    # Methods that learn; all but `fit` go on from what was learned before.
    _learns: ClassVar[tuple[str, ...]] = ("fit", "partial_fit")
    # Options of predictions alone, which `set_params` changes at once.
    _at_once: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            if name.startswith("_") or hasattr(Fitted, name) or _is_abstract(member):
                continue
            if isinstance(member, property) and member.fget is not None:
                taken = _taking(member.fget)
                if taken is not member.fget:
                    setattr(cls, name, property(taken, doc=member.__doc__))
            elif inspect.isfunction(member):
                taken = _publishing(member) if name in cls._learns else _taking(member)
                if taken is not member:
                    setattr(cls, name, taken)

    def set_params(self, **params: Any) -> Self:
        """Change options, by name.

        Raises
        ------
        ValueError
            If there is no such option.
        """
        super().set_params(**params)
        now = {name: params[name] for name in self._at_once if name in params}
        if now and _STATE in vars(self):
            published = object.__new__(type(self))
            vars(published).update({**vars(vars(self)[_STATE]), **now})
            vars(self)[_STATE] = published
        return self

    def save(self, path: str | Path) -> None:
        """Write the options and what was learned to a file, whole or not at all.

        A `random_state` that is a generator is not written: it is None where `load` reads it. The
        draws of an average over hyperparameters stay the same.

        Parameters
        ----------
        path : str or Path
            The file, an ``.npz`` archive.

        Raises
        ------
        NotFittedError, ValueError
            If `fit` has not been called; if a name or an option cannot be written.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self, self._learned)
        write_state(path, self, type(self).__name__)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        ValueError, FileNotFoundError
            If `save` of this class and version did not write the file, or it is damaged; if there
            is none.
        """
        article = "an" if cls.__name__[0] in "AEIOU" else "a"
        return read_state(path, f"{article} {cls.__name__}", (cls,))


def _is_abstract(member: Any) -> bool:
    return getattr(member, "__isabstractmethod__", False)


def _taking(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that asks the published estimator, which it takes once."""
    if hasattr(method, "asks_published"):
        return method

    @wraps(method)
    def ask(self: Any, *args: Any, **options: Any) -> Any:
        published = vars(self).get(_STATE, self)
        answer = method(published, *args, **options)
        return self if answer is published else answer

    vars(ask)["asks_published"] = True
    return ask


def _publishing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that learns on an estimator of its own, and publishes that if all went well."""
    if hasattr(method, "asks_published"):
        return method

    @wraps(method)
    def learn(self: Any, *args: Any, **options: Any) -> Any:
        if _OPEN in vars(self):  # one that learns calls another
            return method(self, *args, **options)
        given = self.get_params(deep=False)
        before = vars(vars(self)[_STATE]) if _STATE in vars(self) else {}
        own = object.__new__(type(self))
        vars(own).update({**({} if method.__name__ == "fit" else before), **given, _OPEN: True})
        answer = method(own, *args, **options)
        del vars(own)[_OPEN]
        now = dict(vars(self))  # what others have set meanwhile stays
        kept = {name: now[name] for name in now if name in given or name not in before}
        self.__dict__ = {**vars(own), **kept, _STATE: own}
        return self if answer is own else answer

    vars(learn)["asks_published"] = True
    return learn
