"""What estimators over one program share: the engine, its result, and reading features."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesrank._fitted import Fitted
from bayesrank._process import enter_jax
from bayesrank._tables import numbers_alone
from bayesrank.infer import EP, EPResult, IntegratedEPResult
from bayesrank.inferencedata import to_arviz
from bayesrank.models import (
    calibrated_label_ranking,
    dynamic_thurstone,
    preference_orders,
    thurstone_orders,
)
from bayesrank.solvers.comparisons import DynamicEP
from bayesrank.solvers.label_ranking import LabelRankingEP
from bayesrank.solvers.orders import OrdersEP

ScaleChoice = Literal["integrate", "map", "prior"] | Mapping[str, Any]
_MOST_NUMBERS = 10_000_000  # of the log likelihood of each comparison
_ENGINES: dict[Callable[..., Any], Callable[..., EP]] = {
    dynamic_thurstone: DynamicEP,
    calibrated_label_ranking: LabelRankingEP,
    **{each: partial(OrdersEP, each) for each in (thurstone_orders, preference_orders)},
}


def engine_of(program: Callable[..., Any], choice: str = "integrate") -> EP:
    """Return the engine of a program; those of one program share the code that they compile.

    `choice` says what to do about free hyperparameters, as in `EP`.
    """
    return _ENGINES.get(program, partial(EP, program))(hyperparameters=choice)


class EPEstimator(Fitted):
    """An estimator over one program, run by EP."""

    result_: Any

    @property
    def result(self) -> EPResult | IntegratedEPResult:
        """The posterior of the function at the items of `fit`; a `NotFittedError` before it."""
        check_is_fitted(self)
        return self.result_

    def to_arviz(self) -> Any:
        """Draws for ArviZ with names of items, labels and features, see `bayesrank.to_arviz`.

        It leaves out a log likelihood of over 80 MB, and raises a `NotFittedError` before `fit`.
        """
        result: Any = self.result
        coords, dims = self._axes()
        small = result.num_samples * len(result.model_args[1]) <= _MOST_NUMBERS
        return to_arviz(result, coords=coords, dims=dims, num_predictive=0, log_likelihood=small)

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Names along the axes of sites, and what these axes are called."""
        return {}, {}

    def _check_features(self, X: Any, **options: Any) -> NDArray[np.float64]:
        enter_jax()
        checked: Any = validate_data(self, numbers_alone(X, "X"), dtype=np.float64, **options)
        return checked
