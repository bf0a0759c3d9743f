"""What the three estimators of lists share: what they refuse, tables, searches over settings."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from list_data import graded_lists
from scipy import sparse
from sklearn.base import clone as copy_of
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from bayesrank import ConeRank, LambdaRank, RankRLS
from bayesrank._validate import unit_of
from bayesrank.estimators.checks import standardization
from bayesrank.estimators.collaborative_features import BaseKernels
from bayesrank.solvers.collaborative.likelihoods import GaussianNoise

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


@pytest.mark.parametrize("cells", [[0.1] * 30, [0.3, 0.1 + 0.2, 0.1 * 3] * 10])
def test_a_constant_that_is_not_exact_in_binary_has_the_scale_one(cells):
    """All five that standardise do it here; other columns are as scikit-learn scales them."""
    rows = np.column_stack([cells, np.random.default_rng(0).normal(3.0, 2.0, 30)])
    assert rows[:, 0].std() > 0.0
    mean, scale, constant = standardization(rows)
    assert constant.tolist() == [True, False] and scale[0] == 1.0
    theirs: Any = StandardScaler().fit(rows)
    np.testing.assert_allclose(mean, theirs.mean_)
    np.testing.assert_allclose(scale[1], theirs.scale_[1])
    for found, told in zip(standardization(sparse.csr_array(rows)), (mean, scale), strict=False):
        np.testing.assert_allclose(found, told)
    grades, new = np.digitize(rows[:, 1], [2.0, 4.0]), rows + [[0.5, 0.0]]
    for model in (LambdaRank(num_steps=2), ConeRank(num_atoms=1)):
        scores = model.fit(rows, grades, np.zeros(30)).predict(new)
        assert np.abs(scores).max() < 100.0
    kernels = BaseKernels(rows, corated=False)
    np.testing.assert_allclose(kernels._scale[0], 1.0)
    apart = kernels._smooth(rows[:1], new[:1])
    np.testing.assert_allclose(apart, np.exp(-0.125 / 2.0), rtol=1e-6)


def test_the_unit_of_values_does_not_depend_on_how_they_are_written():
    values = np.random.default_rng(0).normal(size=30)
    assert unit_of(values) == values.std()
    for size in (0.1, 0.5, -0.1, 1e-310):
        assert unit_of(np.full(30, size)) == abs(size)
    assert unit_of(np.array([0.3, 0.1 + 0.2])) == 0.1 + 0.2 and unit_of(np.zeros(3)) == 1.0
    for size in (0.1, 0.5):  # of which the noise of ratings is a share
        start = GaussianNoise(share=0.5).start(np.full(30, size), None, collaborative=True)
        np.testing.assert_allclose(start.variance, 0.5 * size**2)


def test_features_whose_scale_overflows_or_underflows_are_refused():
    for column, message in (
        ([1e308, -1e308, 1e308], "X is so large in column 1"),
        ([1e-310, 2e-310, 3e-310], "X differs so little in column 1"),
    ):
        with pytest.raises(ValueError, match=message):
            standardization(np.column_stack([[1.0, 2.0, 3.0], column]))


@each_model
def test_cross_validation_keeps_queries_apart_or_warns(model):
    """`groups` alone keeps a query in one fold, but estimators do not see it."""
    X, y, query = graded_lists(sizes=(6,) * 6)
    query, folds = np.asarray(query), GroupKFold(3)
    with pytest.warns(UserWarning, match="query is not given, so all"):
        cross_val_score(clone(model), X, y, groups=query, cv=folds)
    fitted = clone(model).fit(X, y, query)
    with pytest.warns(UserWarning, match="query is not given, so all 36 rows are one list"):
        fitted.score(X, y)
    expected = [
        clone(model).fit(X[train], y[train], query[train]).score(X[test], y[test], query[test])
        for train, test in folds.split(X, y, query)
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        both = {"query": query, "groups": query}
        found = cross_val_score(clone(model), X, y, params=both, cv=folds)
    np.testing.assert_allclose(found, expected)
