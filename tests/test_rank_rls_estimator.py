"""`RankRLS` in scikit-learn's manners: order and names of queries, copies, and what it refuses."""

import pickle

import numpy as np
import pytest
from list_data import graded_lists
from refusals import refused
from scipy import sparse
from sklearn.base import clone as copy_of
from sklearn.utils.estimator_checks import parametrize_with_checks
from tinygp.kernels import ExpSquared

from bayesrank import RankRLS
from bayesrank.metrics import pairwise_error
from bayesrank.solvers.rank_rls import gram_of


def _clone(model) -> RankRLS:
    other = copy_of(model)
    assert isinstance(other, RankRLS)
    return other


@pytest.mark.filterwarnings("ignore:query is not given")
@pytest.mark.filterwarnings("ignore:regularization by evidence:UserWarning")  # of random grades
@parametrize_with_checks([RankRLS()])
def test_manners_of_scikit_learn(estimator, check):
    check(estimator)


def test_order_of_rows_and_kind_of_names_do_not_matter():
    X, y, query = graded_lists()
    model = RankRLS().fit(X, y, query)
    order = np.random.default_rng(3).permutation(len(y))
    numbers = np.unique(query, return_inverse=True)[1]
    for names in (numbers, [(name, 1) for name in query], list(query), [f"é{n}" for n in query]):
        other = RankRLS().fit(X[order], y[order], [names[i] for i in order])
        np.testing.assert_allclose(other.predict(X), model.predict(X), atol=1e-8)
        np.testing.assert_allclose(
            other.leave_query_out(), model.leave_query_out()[order], atol=1e-7
        )


def test_sparse_features_clones_and_pickles():
    X, y, query = graded_lists()
    model = RankRLS().fit(X, y, query)
    thin = _clone(model).fit(sparse.csr_matrix(X), y, query)
    np.testing.assert_allclose(thin.predict(sparse.csc_array(X)), model.predict(X), atol=1e-8)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    kernel = RankRLS(kernel=ExpSquared(2.0), regularization=0.5).fit(X, y, query)
    copy = pickle.loads(pickle.dumps(kernel))
    for one, other in zip(
        kernel.predict(X, return_std=True), copy.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert model.score(X, y, query) == 1 - pairwise_error(model.predict(X), y, query=query).mean
    assert model.noise_ == pytest.approx(np.sqrt(model.regularization_) * model.scale_)


def test_groups_of_the_callers_rows_are_held_out_together():
    X, y, query = graded_lists(sizes=(5,) * 6)
    groups = [{"q0": "x", "q3": "x", "q5": "y"}.get(name, name) for name in query]
    options = {"kernel": ExpSquared(2.0), "regularization": 0.5}
    model = RankRLS(**options).fit(X, y, query)
    held, mine = model.leave_query_out(groups), np.isin(query, ["q0", "q3"])
    again = RankRLS(**options).fit(X[~mine], y[~mine], query[~mine])
    np.testing.assert_allclose(held[mine], again.predict(X[mine]), atol=1e-9)
    new = np.isin(query, ["q1", "q3"])
    part = RankRLS(regularization=0.5).fit(X[~new], y[~new], query[~new])
    each = np.concatenate([query[~new], query[new]])
    alone = part.transduce(X[new], query[new])
    np.testing.assert_allclose(part.transduce(X[new], query[new], groups=each), alone)
    folds = np.char.replace(each, "q3", "q0")
    assert np.abs(part.transduce(X[new], query[new], groups=folds) - alone).max() > 1e-4
    for names, message in {
        ("a",): "groups has 1 entries and X has 30 rows",
        tuple(range(30)): "groups divides a query",
        ("a",) * 30: "all lists would be held out together",
    }.items():
        refused(message, model.leave_query_out, names)
    rbf = RankRLS(kernel="rbf").fit(X, y, query)
    again = RankRLS(kernel=rbf.kernel_).fit(X, y, query)
    np.testing.assert_allclose(rbf.predict(X), again.predict(X), atol=1e-9)
    assert rbf.transduce(X[new], query[new]).shape == (10,)


def test_leave_pair_out_takes_pairs_of_the_callers_rows():
    X, y, query = graded_lists()
    model = RankRLS().fit(X, y, query)
    pairs, differences = model.leave_pair_out()
    assert (y[pairs[:, 0]] > y[pairs[:, 1]]).all()
    assert (query[pairs[:, 0]] == query[pairs[:, 1]]).all()
    graded = (y[:, None] > y) & (query[:, None] == query)
    assert len(pairs) == graded.sum()
    _, backwards = model.leave_pair_out(pairs[:, ::-1])
    np.testing.assert_allclose(backwards, -differences, atol=1e-10)
    i, j = pairs[0]
    kept = np.setdiff1d(np.arange(len(y)), [i, j])
    again = RankRLS(regularization=model.regularization_).fit(X[kept], y[kept], query[kept])
    a, b = again.predict(X[[i, j]])
    assert differences[0] == pytest.approx(a - b, abs=1e-9)


def test_transduce_follows_the_prediction_under_a_strong_pull():
    X, y, query = graded_lists(sizes=(5,) * 8)
    new = np.isin(query, ["q1", "q5"])
    for kernel in ("linear", ExpSquared(2.0)):
        model = RankRLS(kernel=kernel, regularization=0.5).fit(X[~new], y[~new], query[~new])
        near = model.transduce(X[new], query[new], gamma=1e6)
        np.testing.assert_allclose(near, model.predict(X[new]), atol=1e-3)
        assert np.abs(model.transduce(X[new], query[new]) - near).max() > 1e-3
    thin = RankRLS(regularization=0.5).fit(sparse.csr_array(X[~new]), y[~new], query[~new])
    dense = RankRLS(regularization=0.5).fit(X[~new], y[~new], query[~new])
    np.testing.assert_allclose(
        thin.transduce(X[new], query[new]), dense.transduce(X[new], query[new]), atol=1e-9
    )


@pytest.mark.slow
def test_intervals_of_differences_hold_in_simulation_from_the_model():
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(12), 4)
    inside = []
    for _ in range(60):
        X, new = rng.normal(size=(48, 2)), rng.normal(size=(20, 2))
        rows = np.concatenate([X, new])
        K = gram_of(ExpSquared(1.5), rows)
        f = np.linalg.cholesky(K) @ rng.normal(size=68)
        noise = 0.4 * rng.normal(size=48) * np.sqrt(3 / 2)
        y = f[:48] + noise + rng.normal(size=12)[query] * 10
        model = RankRLS(kernel=ExpSquared(1.5), regularization=0.16).fit(X, y, query)
        mean, sd = model.predict(new, return_std=True)
        inside.append(np.mean(np.abs(f[48:] - mean) < 1.6449 * sd))
    assert abs(np.mean(inside) - 0.9) < 4 * np.std(inside) / np.sqrt(60)


def test_weights_of_features_go_with_the_linear_kernel():
    X, y, query = graded_lists()
    model = RankRLS(regularization=1.0).fit(X, y, query)
    assert model.coef_.shape == X.shape[1:]
    assert not hasattr(model.set_params(kernel=ExpSquared(1.0)).fit(X, y, query), "coef_")


def test_what_it_refuses():
    X, y, query = graded_lists()
    with pytest.raises(ValueError, match="query has a name that cannot be a key"):
        names = np.empty(21, object)
        names[:] = [[] for _ in range(21)]
        RankRLS().fit(X, y, names)
    refused("query has shape", RankRLS().fit, X, y, np.zeros((21, 2, 2)))
    for choice in ("evidence", "leave-query-out"):
        with pytest.raises(ValueError, match="X is the same within every list"):
            RankRLS(regularization=choice).fit(np.ones((21, 2)), y, query)
    model = RankRLS().fit(X, y, query)
    refused("pairs has shape", model.leave_pair_out, [0, 1])
    refused("pairs names row", model.leave_pair_out, [[0, 21]])
    refused(r"pairs\[0\] is not of two items of one query", model.leave_pair_out, [[3, 3]])
    with pytest.raises(ValueError, match="X is sparse, which kernel='linear' takes only"):
        RankRLS(kernel=ExpSquared(1.0)).fit(sparse.csr_array(X), y, query)
    with pytest.raises(ValueError, match="num_landmarks is 0"):
        RankRLS(kernel="rbf", solver="nystrom", num_landmarks=0).fit(X, y, query)
    with pytest.raises(ValueError, match="holds nothing out"):
        RankRLS(solver="lsmr", regularization=1.0).fit(X, y, query).leave_query_out()
    rows = np.repeat(X[:7], 3, axis=0)
    with pytest.raises(ValueError, match="too small for this kernel"):
        RankRLS(kernel=ExpSquared(1e6), regularization=1e-30).fit(rows, y, query)
