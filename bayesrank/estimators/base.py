"""What estimators over one program share: options, the engine, its result, and features."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesrank._fitted import Fitted
from bayesrank._process import enter_jax
from bayesrank._tables import numbers_alone
from bayesrank._validate import check_count, check_flag
from bayesrank.infer import EP, EPResult
from bayesrank.inferencedata import to_arviz
from bayesrank.models import (
    calibrated_label_ranking,
    dynamic_thurstone,
    preference_orders,
    thurstone_orders,
)
from bayesrank.solvers.comparisons import DynamicEP
from bayesrank.solvers.label_ranking import LabelRankingEP
from bayesrank.solvers.orders import OrdersEP, each_order_once

_FLAGS = {
    "ard",
    "calibrated",
    "collaborative",
    "correlated",
    "implicit",
    "progress_bar",
    "standardize",
}
_LEAST = {"num_landmarks": 1, "num_restarts": 0, "num_samples": 1}


def check_options(estimator: BaseEstimator) -> None:
    """Refuse values of these options that are none, whether the fit to come uses them or not."""
    for name, value in estimator.get_params(deep=False).items():
        if name in _FLAGS:
            check_flag(value, name)
        elif name in _LEAST:
            check_count(value, name, _LEAST[name])


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """A seed drawn from the generator that a ``random_state`` stands for."""
    try:
        return check_random_state(random_state).randint(2**31 - 1)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state is {random_state!r}; pass a whole number from 0 to {2**32 - 1}, a "
            "numpy.random.RandomState, or None"
        ) from None


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
    def result(self) -> EPResult:
        """The posterior of the function at the items of `fit`; a `NotFittedError` before it."""
        check_is_fitted(self)
        return self.result_

    def to_arviz(self) -> Any:
        """Draws for ArviZ with names of items, labels and features, see `bayesrank.to_arviz`.

        It leaves out a log likelihood of over 80 MB, and raises a `NotFittedError` before `fit`.
        """
        result: Any = each_order_once(self.result)
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


def inferred(
    program: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    names: tuple[str, ...],
    fixed: Mapping[str, Any],
    choice: str,
    rng_key: jax.Array,
    search: Mapping[str, Any],
) -> tuple[EPResult, dict[str, Any]]:
    """The posterior by a choice of `check_hyperparameters`, and its hyperparameters `names`."""
    engine = engine_of(program, choice)
    result: Any = engine.run(rng_key, *args, params=fixed, **search, **options)
    means = {name: result.mean[name] for name in result.hyperparameters if name in names}
    return result, {**result.params, **means}
