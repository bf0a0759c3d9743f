"""Options of estimators: what is none of their values is refused, whether a fit uses it or not."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayesrank as b

PAIRS = np.array([[0, 1], [1, 2], [2, 0], [0, 2]])
X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0], [3.0, 2.0]])
USERS, ITEMS = np.divmod(np.arange(6), 3)

FITS: dict[str, Any] = {
    "pairs": lambda **o: b.Ranker(hyperparameters="prior", **o).fit(PAIRS),
    "orders": lambda **o: b.Ranker(hyperparameters="prior", **o).fit([[0, 1, 2], [2, 1, 0]]),
    "features": lambda **o: b.PreferenceGP(hyperparameters="prior", **o).fit(X, PAIRS),
    "levels": lambda **o: b.OrdinalGP(hyperparameters="prior", **o).fit(X, [1, 2, 1, 2]),
    "ratings": lambda **o: b.CollaborativeOrdinalGP(**o).fit(USERS, ITEMS, [1, 2, 1, 2, 1, 2]),
    "labels": lambda **o: b.LabelRanker(hyperparameters="prior", **o).fit(X, [["a", "b"]] * 4),
    "lists": lambda **o: b.RankRLS(**o).fit(X, [0.0, 1.0, 0.0, 2.0], ["q"] * 4),
    "cones": lambda **o: b.ConeRank(**o).fit(X, [0.0, 1.0, 0.0, 2.0], ["q"] * 4),
    "gradients": lambda **o: b.LambdaRank(num_steps=2, **o).fit(X, [0.0, 1.0, 0.0, 2.0], ["q"] * 4),
}
REFUSED = [
    ("pairs", {"standardize": "no"}, "standardize is 'no'; pass True or False"),
    ("features", {"ard": 1}, "ard is 1; pass True or False"),
    ("pairs", {"laplacian": 2}, "laplacian is given, and the items have no features"),
    ("pairs", {"laplacian": 2, "time": "walk"}, "laplacian is given, and the items have no"),
    ("pairs", {"num_restarts": 1.5}, "num_restarts is 1.5; pass a whole number from 0 on"),
    ("pairs", {"num_samples": 0}, "num_samples is 0; pass a whole number from 1 on"),
    ("pairs", {"random_state": -1}, "random_state is -1; pass a whole number from 0 to 4294967295"),
    ("pairs", {"random_state": "seed"}, "random_state is 'seed'; pass a whole number from 0 to"),
    ("orders", {"num_restarts": True}, "num_restarts is True; pass a whole number from 0 on"),
    ("features", {"ard": None}, "ard is None; pass True or False"),
    ("levels", {"standardize": 0}, "standardize is 0; pass True or False"),
    ("ratings", {"collaborative": "yes"}, "collaborative is 'yes'; pass True or False"),
    ("labels", {"correlated": "both"}, "correlated is 'both'; pass True or False"),
    ("lists", {"num_landmarks": -5}, "num_landmarks is -5; pass a whole number from 1 on"),
    ("lists", {"regularization": None}, "regularization is None; pass 'evidence', 'leave-query"),
    ("lists", {"random_state": 1.5}, "random_state is 1.5; pass a whole number from 0 to"),
    ("cones", {"alpha": None}, "alpha is None; pass a positive number"),
    ("cones", {"standardize": "false"}, "standardize is 'false'; pass True or False"),
    ("gradients", {"random_state": []}, r"random_state is \[\]; pass a whole number from 0 to"),
]


@pytest.mark.parametrize(("fit", "options", "message"), REFUSED)
def test_what_is_no_value_of_an_option_is_refused(fit, options, message):
    with pytest.raises(ValueError, match=message):
        FITS[fit](**options)


DAYS = pd.date_range("2024-01-01", periods=4)
TIMED: dict[str, Any] = {
    "frame": pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "day": DAYS}),
    "days": np.array([DAYS, DAYS]).T,
    "spans": pd.DataFrame({"x": DAYS - DAYS[0], "y": DAYS - DAYS[0]}),
    "zoned": pd.DataFrame({"day": DAYS.tz_localize("UTC")}),
    "months": pd.DataFrame({"month": DAYS.to_period("M")}),
}


@pytest.mark.parametrize("name", TIMED)
def test_times_are_no_features(name):
    """NumPy takes them for numbers of microseconds, or nanoseconds."""
    X, y = TIMED[name], [0.0, 1.0, 0.0, 2.0]
    for fit in (
        lambda: b.RankRLS().fit(X, y),
        lambda: b.LambdaRank(num_steps=2).fit(X, y),
        lambda: b.ConeRank().fit(X, y),
        lambda: b.PreferenceGP(hyperparameters="prior").fit(X, PAIRS),
        lambda: b.LabelRanker(hyperparameters="prior").fit(X, [["a", "b"]] * 4),
        lambda: b.Ranker(item_features=X, hyperparameters="prior").fit(PAIRS),
    ):
        with pytest.raises(ValueError, match="item_features has|X holds times|features holds"):
            fit()


def test_times_are_no_grades():
    with pytest.raises(ValueError, match="y holds times .*; pass numbers, such as days since the"):
        b.RankRLS().fit(X, DAYS)
