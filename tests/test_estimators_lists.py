"""What the three estimators of lists share: what they refuse, tables, searches over settings."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from list_data import graded_lists
from sklearn.base import clone as copy_of
from sklearn.model_selection import GridSearchCV, GroupKFold

from bayesrank import ConeRank, LambdaRank, RankRLS

MODELS = {
    "rank-rls": RankRLS(),
    "cone-rank": ConeRank(num_atoms=2, num_iterations=2),
    "lambda-rank": LambdaRank(num_steps=2),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def clone(model) -> Any:
    return copy_of(model)


def _replaced(values, row, value):
    changed = np.array(values, object if value is None else None)
    changed[row] = value
    return changed


@each_model
def test_bad_input_is_refused_by_name(model):
    X, y, query = graded_lists()
    table = X.copy()
    table[4, 1] = np.nan
    refused = {
        "X contains NaN": (table, y, query),
        "y is nan in row 4": (X, _replaced(y, 4, np.nan), query),
        "y is nan in row 7": (X, np.ma.masked_array(y, np.arange(21) == 7), query),
        "y is inf in row 0": (X, _replaced(y, 0, np.inf), query),
        "y is None": (X, None, query),
        "y has dtype <U1; pass grades as numbers": (X, ["a"] * 21, query),
        r"y has shape \(20,\) and X has 21 rows": (X, y[:20], query),
        "query has 20 entries and X has 21 rows": (X, y, query[:20]),
        "query has no name in row 2": (X, y, _replaced(query, 2, None)),
        "y is the same within every list": (X, np.full(21, 0.1), query),
        "X has a value beyond 1e.100": (X * 1e101, y, query),
        "y has a value beyond 1e.100": (X, y * 1e101, query),
        "y is the same|query gives every list one row": (X, y, range(21)),
    }
    for message, data in refused.items():
        pattern = "target y is None" if message == "y is None" else message
        with pytest.raises(ValueError, match=pattern):
            clone(model).fit(*data)
    with pytest.raises(ValueError, match="X has 2 features"):
        clone(model).fit(X, y, query).predict(X[:, :2])


@each_model
def test_lists_of_one_grade_or_one_row_tell_nothing_and_do_no_harm(model):
    X, y, query = graded_lists(sizes=(6,) * 6)
    fitted = clone(model).set_params(**_unscaled(model)).fit(X, y, query)
    more = np.concatenate([X, X[:5]]), np.concatenate([y, np.full(5, 2.0)])
    names = [*query, "same", "same", "same", "alone", "other"]
    other = clone(fitted).fit(*more, names)
    assert np.isfinite(other.predict(X)).all()
    if isinstance(model, ConeRank):
        np.testing.assert_allclose(other.coef_, fitted.coef_)


def _unscaled(model):
    return {"standardize": False, "ridge": 1.0} if isinstance(model, ConeRank) else {}


@each_model
def test_tables_and_a_search_over_settings_with_queries_kept_whole(model):
    X, y, query = graded_lists(sizes=(6,) * 6)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = clone(model).fit(frame, pd.Series(y), pd.Series(query))
    plain = clone(model).fit(X, y, query)
    np.testing.assert_allclose(fitted.predict(frame), plain.predict(X))
    settings = {"rank-rls": "regularization", "cone-rank": "ridge", "lambda-rank": "l2"}
    name = settings[next(key for key, kind in MODELS.items() if type(kind) is type(model))]
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(model).set_fit_request(query=True).set_score_request(query=True)
        search = GridSearchCV(asked, {name: [0.1, 1.0]}, cv=GroupKFold(3))
        search.fit(X, y, query=query, groups=query)
    assert 0.0 <= search.best_score_ <= 1.0
    np.testing.assert_array_equal(search.predict(X).shape, (36,))
