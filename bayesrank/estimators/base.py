"""What estimators over one program share: the engine, its result, and reading features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesrank.infer import EP, EPResult

__all__ = ["EPEstimator"]


class EPEstimator(BaseEstimator):
    """An estimator over one program, run by EP.

    Compiled code is kept between calls of `fit` and shared with clones. It is not part of a copy or
    a pickle.
    """

    result_: EPResult

    @property
    def result(self) -> EPResult:
        """The posterior of the function at the items of `fit`.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        """
        check_is_fitted(self)
        return self.result_

    def _engine_of(self, program: Callable[..., Any]) -> EP:
        if not hasattr(self, "_engine"):
            self._engine = EP(program)
        return self._engine

    def _check_features(self, X: Any, **options: Any) -> NDArray[np.float64]:
        checked: Any = validate_data(self, X, dtype=np.float64, **options)
        return checked

    def __sklearn_clone__(self) -> Self:
        options: Any = clone(self.get_params(deep=False), safe=False)
        other = type(self)(**options)
        if hasattr(self, "_engine"):
            other._engine = self._engine  # what is compiled once serves every fold
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_engine"}
