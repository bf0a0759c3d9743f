"""RankRLS against the paper's formulae, training again, and the program under EP and NUTS."""

from typing import Any

import jax
import numpy as np
import pytest
from list_data import graded_lists
from refusals import refused
from scipy import sparse
from scipy.linalg import block_diag, helmert
from tinygp.kernels import ExpSquared

from bayesrank.datasets import group_queries
from bayesrank.infer import EP
from bayesrank.models import rank_rls_gp
from bayesrank.solvers.rank_rls import (
    contrasts_of,
    cross_gram,
    fit_rank_rls,
    gram_of,
    leave_pair_out,
    leave_query_out,
    transduce,
)
from bayesrank.solvers.rank_rls.fit import _some_lists

# Some of the small sets below are next to noise.
pytestmark = pytest.mark.filterwarnings("ignore:regularization by:UserWarning")
KERNELS = {"linear": "linear", "gauss": ExpSquared(2.0)}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def _sorted(seed=0, **options):
    X, y, query = graded_lists(seed, **options)
    lists = group_queries(query, len(y))
    return X[lists.order], y[lists.order], np.asarray(query)[lists.order]


def _fit(X, y, query, weights="query", **options):
    contrasts = contrasts_of(group_queries(query, len(y)), weights)
    return fit_rank_rls(X, y, contrasts, **options)


def _laplacian(query):
    """The paper's L: W joins the items of one list, with one over the number of its pairs."""
    query = np.asarray(query)
    W = np.zeros((len(query), len(query)))
    for name in set(query):
        mine = np.flatnonzero(query == name)
        if len(mine) > 1:
            W[np.ix_(mine, mine)] = 2.0 / (len(mine) * (len(mine) - 1))
    np.fill_diagonal(W, 0.0)
    return np.diag(W.sum(axis=1)) - W


def _theorem_1(K, L, y, lam):
    return np.linalg.solve(L @ K + lam * np.eye(len(y)), L @ y)


@each_kernel
def test_scores_are_those_of_theorem_1(kernel):
    X, y, query = _sorted()
    fit = _fit(X, y, query, kernel=kernel, regularization=0.3)
    K = gram_of(kernel, X) if kernel != "linear" else X @ X.T
    expected = cross_gram(kernel, X, X) @ _theorem_1(K, _laplacian(query), y, 0.3)
    np.testing.assert_allclose(fit.predict(X), expected, atol=1e-10)


@pytest.mark.parametrize(("weights", "factor"), [("center", 1.0), ("pairs", None)])
def test_other_weights_are_those_of_centring_and_of_raw_pairs(weights, factor):
    X, y, query = _sorted()
    fit = _fit(X, y, query, weights, regularization=0.3)
    rows, targets = [], []
    for name in set(query):
        mine = np.flatnonzero(query == name)
        for i in mine:
            for j in mine[mine > i]:
                rows.append((X[i] - X[j]) * np.sqrt(factor / len(mine) if factor else 1.0))
                targets.append((y[i] - y[j]) * np.sqrt(factor / len(mine) if factor else 1.0))
    D, t = np.array(rows), np.array(targets)
    np.testing.assert_allclose(
        fit.weights, np.linalg.solve(D.T @ D + 0.3 * np.eye(3), D.T @ t), atol=1e-10
    )


@each_kernel
@pytest.mark.parametrize("weights", ["query", "center", "pairs"])
def test_ep_on_the_program_is_exact(kernel, weights):
    X, y, query = _sorted()
    X_new = np.random.default_rng(1).normal(size=(4, 3))
    fit = _fit(X, y, query, weights, kernel=kernel, regularization=0.4)
    noise = fit.scale * np.sqrt(fit.lam)
    given = {"kernel": kernel, "weights": weights, "scale": fit.scale, "noise": noise}
    result = EP(rank_rls_gp).run(jax.random.key(0), X, y, query, **given, X_new=X_new)
    assert result.log_evidence == pytest.approx(fit.log_evidence, abs=1e-8)
    if kernel == "linear":
        mean = X_new @ result.mean["w"]
        variance = np.einsum("nd,de,ne->n", X_new, result.covariance["w"], X_new)
    else:
        mean, variance = result.mean["f_new"], np.diag(result.covariance["f_new"])
        jitter = 1e-6 * fit.scale**2
        variance = variance - jitter
    np.testing.assert_allclose(fit.predict(X_new), mean, atol=1e-8)
    np.testing.assert_allclose(fit.std(X_new), np.sqrt(variance), atol=1e-8)


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@each_kernel
def test_standard_deviations_average_over_scale_and_noise(kernel, wide):
    rng = np.random.default_rng(5)
    query = np.repeat(np.arange(10), 8)
    X, X_new = rng.normal(size=(80, 90 if wide else 3)), rng.normal(size=(6, 90 if wide else 3))
    y = 0.25 * X[:, 0] + rng.normal(size=80)  # little of which is told by the features
    fit = _fit(X, y, query, kernel=kernel)
    means, variances, logs = _on_a_grid(kernel, X, y, query, X_new)
    share = np.exp(logs - logs.max())
    share /= share.sum()
    error = share @ (variances + (means - fit.predict(X_new)) ** 2)
    np.testing.assert_allclose(fit.std(X_new), np.sqrt(error), rtol=0.04)
    known = _fit(X, y, query, kernel=kernel, regularization=fit.lam).std(X_new)
    assert (fit.std(X_new) > 1.05 * known).mean() > 0.5


def _on_a_grid(kernel, X, y, query, X_new):
    """Means and variances of new scores, and log densities, on a grid of scale and noise.

    The ratio of noise to scale has the program's prior; the unit of the grades is not told.
    """
    values = np.arange(-6.0, 3.0, 0.15)
    axes = np.array([(scale, noise) for scale in values for noise in values[values > -2.5]])
    H: Any = block_diag(*[helmert(8)] * 10)
    whole = np.concatenate([X, X_new])
    K: Any = gram_of(kernel, whole) if kernel != "linear" else whole @ whole.T
    prior, across, told = K[80:, 80:], H @ K[:80, 80:], H @ y
    values, basis = np.linalg.eigh(H @ K[:80, :80] @ H.T)
    across, told = basis.T @ across, basis.T @ told
    means, variances, logs = [], [], []
    for log_scale, log_noise in axes:
        square = np.exp(2 * log_scale)
        spread = square * values + np.exp(2 * log_noise) * 7 / 2
        means.append(square * across.T @ (told / spread))
        variances.append(square * np.diag(prior) - square**2 * (across.T**2 @ (1 / spread)))
        evidence = -0.5 * (told**2 / spread + np.log(spread)).sum()
        logs.append(evidence - 0.25 * (log_noise - log_scale) ** 2)
    return np.array(means), np.array(variances), np.array(logs)


@each_kernel
@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("names", [None, [0, 1, 0, 2, 1, 2], list("abcabb")])
def test_holding_lists_out_is_training_again(kernel, fixed, names):
    X, y, query = _sorted()
    options = {"kernel": kernel, "regularization": 0.3}
    system = _fit(X, y, query, **options | ({} if fixed else {"regularization": "evidence"})).system
    held = leave_query_out(system, 0.3, system.contrasts.folds(names))
    folds = system.contrasts.spread(np.arange(6) if names is None else np.array(names))
    for fold in set(folds):
        mine = folds == fold
        again = _fit(X[~mine], y[~mine], query[~mine], **options)
        np.testing.assert_allclose(held[mine], again.predict(X[mine]), atol=1e-9)


@each_kernel
@pytest.mark.parametrize("weights", ["query", "center", "pairs"])
def test_leave_pair_out_is_training_again(kernel, weights):
    X, y, query = _sorted()
    options = {"kernel": kernel, "regularization": 0.3}
    system = _fit(X, y, query, weights, **options).system
    pairs = np.array(
        [(i, j) for i in range(len(y)) for j in range(len(y)) if i != j and query[i] == query[j]]
    )
    held = leave_pair_out(system, y, 0.3, pairs, weights)
    for (i, j), difference in zip(pairs[::5], held[::5], strict=True):
        kept = np.setdiff1d(np.arange(len(y)), [i, j])
        again = _fit(X[kept], y[kept], query[kept], weights, **options).predict(X[[i, j]])
        assert difference == pytest.approx(again[0] - again[1], abs=1e-9)


def test_more_features_than_rows_and_lists_longer_than_features():
    for d in (1, 2, 40):
        X, y, query = _sorted(d=d)
        one, other = (_fit(X, y, query, regularization=r) for r in (0.3, "evidence"))
        at_03 = leave_query_out(one.system, 0.3)
        np.testing.assert_allclose(leave_query_out(other.system, 0.3), at_03, atol=1e-9)
        w = np.linalg.solve(
            X.T @ _laplacian(query) @ X + 0.3 * np.eye(d), X.T @ _laplacian(query) @ y
        )
        np.testing.assert_allclose(one.predict(X), X @ w, atol=1e-9)
        np.testing.assert_allclose(one.weights, w, atol=1e-9)


def test_evidence_is_largest_and_hold_out_error_least_at_the_choice():
    X, y, query = _sorted(sizes=(6,) * 15)
    evidence = _fit(X, y, query)
    for factor in (0.8, 1.25):
        other = _fit(X, y, query, regularization=evidence.lam * factor)
        assert other.log_evidence < evidence.log_evidence
    chosen = _fit(X, y, query, regularization="leave-query-out").lam
    root = np.sqrt(2 / 5)

    def error(lam):
        miss = y - leave_query_out(evidence.system, lam)
        lists = [miss[query == name] for name in set(query)]
        return sum((root * (part - part.mean())) @ (root * (part - part.mean())) for part in lists)

    assert error(chosen) < min(error(chosen / 2), error(chosen * 2))


def test_the_gaussian_length_scale_is_that_of_the_largest_evidence():
    X, y, query = _sorted(sizes=(8,) * 8, d=2)
    y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=64)
    for regularization in ("evidence", 0.05):
        fit = _fit(X, y, query, kernel="rbf", regularization=regularization)
        for factor in (0.9, 1.1):
            kernel = ExpSquared(fit.kernel.scale * factor)
            other = _fit(X, y, query, kernel=kernel, regularization=regularization)
            assert other.log_evidence < fit.log_evidence
    some = _some_lists(y, contrasts_of(group_queries(query, 64)), np.random.default_rng(0), 30)[0]
    assert len(some) == 24 and len(set(query[some])) == 3
    refused("X is the same in every row", _fit, np.ones_like(X), y, query, kernel="rbf")


def test_sparse_and_iterative_routes_agree_with_the_dense_one():
    X, y, query = _sorted(sizes=(8,) * 12, d=6)
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    dense = _fit(X, y, query)
    thin = _fit(sparse.csr_array(X), y, query)
    np.testing.assert_allclose(thin.weights, dense.weights, atol=1e-8)
    held = leave_query_out(thin.system, 0.5), leave_query_out(dense.system, 0.5)
    np.testing.assert_allclose(*held, atol=1e-9)
    steps = _fit(sparse.csr_array(X), y, query, solver="lsmr", regularization=0.5)
    exact = _fit(X, y, query, regularization=0.5)
    np.testing.assert_allclose(steps.weights, exact.weights, atol=1e-7)
    assert steps.scale == pytest.approx(exact.scale, rel=1e-6)
    assert steps.log_evidence == pytest.approx(exact.log_evidence, abs=1.0)
    estimated = _fit(sparse.csr_array(X), y, query, solver="lsmr")
    assert estimated.lam == pytest.approx(dense.lam, rel=0.5)


def test_nystrom_with_every_row_a_landmark_is_the_kernel():
    X, y, query = _sorted()
    kernel = ExpSquared(2.0)
    near = _fit(X, y, query, kernel=kernel, solver="nystrom", regularization=0.3)
    whole = _fit(X, y, query, kernel=kernel, regularization=0.3)
    np.testing.assert_allclose(near.predict(X), whole.predict(X), atol=1e-4)


def _theorem_2(K, L, y, folds, new, lam, gamma):
    """Theorem 2 as printed, its slips mended: Q = R, the inverse's second term, I of V's size."""
    m = len(y)
    P = np.linalg.inv(L @ K + lam * np.eye(m))
    old = np.flatnonzero(~new)
    f = K[np.ix_(new, ~new)] @ _theorem_1(K[np.ix_(old, old)], L[np.ix_(old, old)], y[old], lam)
    place = np.cumsum(new) - 1
    total, right = gamma * np.eye(new.sum()), gamma * f
    for fold in set(folds):
        U, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        inverse = P[np.ix_(rest, rest)] - P[np.ix_(rest, U)] @ np.linalg.solve(
            P[np.ix_(U, U)], P[np.ix_(U, rest)]
        )
        G = np.zeros((len(U), m))
        G[:, rest] = K[np.ix_(U, rest)] @ inverse @ L[np.ix_(rest, rest)]
        S, Z = U[new[U]], U[~new[U]]
        H, B = rest[new[rest]], rest[~new[rest]]
        at_S, at_Z = new[U], ~new[U]
        L_UU, L_SS, L_ZZ = (L[np.ix_(part, part)] for part in (U, S, Z))
        s, h = place[S], place[H]
        total[np.ix_(s, s)] += L_SS
        total[np.ix_(s, h)] -= L_SS @ G[at_S][:, H]
        total[np.ix_(h, s)] -= G[at_S][:, H].T @ L_SS
        total[np.ix_(h, h)] += G[:, H].T @ L_UU @ G[:, H]
        right[s] += L_SS @ G[at_S][:, B] @ y[B]
        right[h] += G[at_Z][:, H].T @ L_ZZ @ y[Z] - G[:, H].T @ L_UU @ G[:, B] @ y[B]
    return np.linalg.solve(total, right)


@pytest.mark.parametrize(("gamma", "names"), [(0.1, None), (1.0, None), (0.5, [0, 1, 0, 2, 0, 1])])
def test_transduction_is_theorem_2(gamma, names):
    X, y, query = _sorted()
    new = np.isin(query, ["q1", "q4"])
    K = gram_of(ExpSquared(2.0), X)
    contrasts = contrasts_of(group_queries(query, len(y)))
    found = transduce(K, contrasts, y, new, 0.3, gamma, contrasts.folds(names))
    folds = query if names is None else contrasts.spread(np.array(names))
    expected = _theorem_2(K, _laplacian(query), y, folds, new, 0.3, gamma)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_solver_refuses_what_it_cannot_do():
    X, y, query = _sorted()
    refused("weights is 'rows'; choose", _fit, X, y, query, "rows")
    refused("query gives every list one row only", _fit, X, y, list(range(len(y))))
    refused("y is the same within every list", _fit, X, np.ones(len(y)), query)
    for value in (0, -1.0, np.nan, np.inf, "often"):
        refused("regularization is", _fit, X, y, query, regularization=value)
    refused("solver is 'sgd'; choose", _fit, X, y, query, solver="sgd")
    refused("kernel is 'gauss'; pass 'linear', 'rbf'", _fit, X, y, query, kernel="gauss")
    with pytest.raises(ValueError, match="solver='lsmr' is for kernel='linear'"):
        _fit(X, y, query, kernel=ExpSquared(1.0), solver="lsmr")
    with pytest.raises(ValueError, match="'leave-query-out' needs solver="):
        _fit(X, y, query, regularization="leave-query-out", solver="lsmr")
    with pytest.raises(ValueError, match="needs two lists of two items or more, and there is one"):
        _fit(X, y, ["a"] * 20 + ["b"], regularization="leave-query-out")
    with pytest.warns(UserWarning, match="regularization by evidence is .* scores are next to 0"):
        _fit(np.array([[-1.0], [1], [-1], [1], [0]]), np.array([1.0, 1, -1, -1, 0]), ["a"] * 5)
    with pytest.raises(ValueError, match="'lsmr' gives no standard deviations"):
        _fit(X, y, query, regularization=1.0, solver="lsmr").std(X)
    with pytest.raises(ValueError, match="gamma is 0"):
        new = np.isin(query, ["q1"])
        transduce(X @ X.T, contrasts_of(group_queries(query, len(y))), y, new, 1.0, 0)


def test_program_refuses_what_it_cannot_use():
    X, y, query = graded_lists()
    with pytest.raises(ValueError, match="weights is 'rows'"):
        EP(rank_rls_gp).run(jax.random.key(0), X, y, list(query), weights="rows")
    with pytest.raises(ValueError, match="query gives every list one row"):
        EP(rank_rls_gp).run(jax.random.key(0), X, y, list(range(len(y))))
    with pytest.raises(ValueError, match="query has 2 entries and X has 21 rows"):
        EP(rank_rls_gp).run(jax.random.key(0), X, y, ["a", "b"])
    refused(r"y has shape \(3,\)", EP(rank_rls_gp).run, jax.random.key(0), X, y[:3], list(query))
