"""Options that several estimators have: what each may be, and the seed that one of them gives."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from bayesrank._validate import check_count, check_flag

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
