"""ConeRank against quadratic programming, brute force, and the program under NUTS."""

import itertools
import re
from typing import Any

import jax
import numpy as np
import pytest
from list_data import graded_lists
from numpyro.infer import MCMC, NUTS, Predictive, init_to_value
from numpyro.infer.util import log_density
from refusals import refused
from scipy import sparse, stats
from scipy.optimize import minimize
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesrank import ConeRank
from bayesrank.datasets import group_queries
from bayesrank.models import cone_of_differences
from bayesrank.solvers.cone_rank import (
    Pairs,
    direction,
    eg_fold_in,
    fit_exact,
    fit_gradient,
    from_origin,
    linear_eg_fold_in,
    normalised,
    objective,
    ordered_pairs,
    printed_fold_in,
    project_cone,
    project_simplex,
    projection_fold_in,
    random_atoms,
    risk_bound,
    stability_bound,
)


def _pairs(seed=0, **options):
    X, y, query = graded_lists(seed, **options)
    lists = group_queries(query, len(y))
    return ordered_pairs(X[lists.order], y[lists.order], lists, 2.0, 1.0)


def _problem(seed, K=4, N=3, J=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(K, N)), rng.normal(size=(J, N))


def _on_simplex(U, z):
    """Least squares on the simplex by a general solver."""
    start = np.full(len(U), 1 / len(U))
    found = minimize(
        lambda w: ((z - w @ U) ** 2).sum(),
        start,
        bounds=[(0, 1)] * len(U),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.fun


@pytest.mark.parametrize("seed", range(3))
def test_projection_and_eg_reach_the_simplex_minimum_and_the_printed_step_does_not(seed):
    U, z = _problem(seed)
    start = np.full((6, 4), 0.25)
    best = np.array([_on_simplex(U, row) for row in z])

    def loss(W):
        return ((z - W @ U) ** 2).sum(axis=1)

    rate = np.full(6, 0.1)
    projected = projection_fold_in(U @ U.T, z @ U.T, start, 1000, tol=1e-12)
    np.testing.assert_allclose(loss(projected), best, atol=1e-7)
    np.testing.assert_allclose(
        loss(eg_fold_in(U @ U.T, z @ U.T, start, rate, 4000)), best, atol=1e-3
    )
    printed = loss(printed_fold_in(U @ U.T, z @ U.T, start, rate, 4000))
    assert (printed >= best - 1e-9).all()
    assert printed.sum() > 1.001 * best.sum()


def test_projection_onto_the_simplex_is_the_nearest_point():
    values = np.random.default_rng(0).normal(size=(5, 4)) * 2
    found = project_simplex(values)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for row, point in zip(values, found, strict=True):
        assert ((row - point) ** 2).sum() == pytest.approx(_on_simplex(np.eye(4), row), abs=1e-9)


@pytest.mark.parametrize("sums", [(0.0, np.inf), (0.5, 1.5), (2.0, 2.0)])
def test_weights_of_the_original_form_are_the_nearest(sums):
    U, z = _problem(1)
    found = projection_fold_in(U @ U.T, z @ U.T, np.full((6, 4), 0.25), 2000, sums=sums)
    assert (found >= 0).all()
    assert np.clip(found.sum(axis=1), *sums) == pytest.approx(found.sum(axis=1))
    best = [
        minimize(
            lambda w, row=row: ((row - w @ U) ** 2).sum(),
            np.full(4, sums[0] / 4 + 0.1),
            bounds=[(0, None)] * 4,
            constraints=[
                {"type": "ineq", "fun": lambda w: w.sum() - sums[0]},
                {"type": "ineq", "fun": lambda w: min(sums[1], 1e6) - w.sum()},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        ).fun
        for row in z
    ]
    np.testing.assert_allclose(((z - found @ U) ** 2).sum(axis=1), best, atol=1e-6)
    if sums[1] == np.inf:  # equation (1)
        points, weights = project_cone(U, z)
        np.testing.assert_allclose(points, found @ U, atol=1e-6)
        np.testing.assert_allclose(project_cone(U, weights @ U)[0], points, atol=1e-9)
        np.testing.assert_allclose(project_cone(U[:3], -U[:3].sum(0, keepdims=True))[0], 0.0)


def test_original_form_keeps_atoms_on_the_sphere_and_never_rises():
    pairs = _pairs(sizes=(6,) * 6)
    start = random_atoms(3, 3, 2.0, np.random.default_rng(0))
    options = {"sums": (0.5, 1.5), "tol": 0.0}
    cones = [fit_exact(pairs, start, 2.0, num_iterations=n, **options) for n in (1, 3, 10, 30)]
    assert (np.diff([cone.objective for cone in cones]) <= 1e-12).all()
    np.testing.assert_allclose(np.linalg.norm(cones[-1].atoms, axis=1), 2.0)
    used = cones[-1].weights.sum(axis=1)
    assert (used > 0.5 - 1e-9).all() and (used < 1.5 + 1e-9).all() and np.ptp(used) > 0.1
    rng = np.random.default_rng(0)
    steps = fit_gradient(pairs, start, 2.0, rng, num_epochs=2, sums=(0.5, 1.5))
    np.testing.assert_allclose(np.linalg.norm(steps.atoms, axis=1), 2.0)


def test_linear_eg_is_the_printed_step_and_nears_eg():
    U, z = _problem(0)
    W, rate = np.random.default_rng(1).dirichlet(np.ones(4), 6), np.full(6, 0.01)
    expected = W.copy()
    for j in range(6):  # section 4.2, with the gradient in z-hat
        point = W[j] @ U
        for k in range(4):
            expected[j, k] = W[j, k] * (1 - 0.01 * (2 * (point - z[j])) @ (U[k] - point))
    found = linear_eg_fold_in(U @ U.T, z @ U.T, W, rate, 1)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    many = linear_eg_fold_in(U @ U.T, z @ U.T, W, rate / 10, 200)
    np.testing.assert_allclose(many.sum(axis=1), 1.0)
    exact = eg_fold_in(U @ U.T, z @ U.T, W, rate / 10, 200)
    np.testing.assert_allclose(many, exact, atol=0.02)
    with pytest.raises(ValueError, match="learning_rate is too large for fold_in='linear'"):
        linear_eg_fold_in(U @ U.T, z @ U.T, W, 1000 * rate, 5)


def test_items_that_are_equal_score_zero_with_a_warning():
    _, y, query = graded_lists()
    with pytest.warns(UserWarning, match="X is the same within every list"):
        model = ConeRank(num_atoms=2).fit(np.ones((len(y), 3)), y, query)
    assert not model.predict(np.ones((4, 3))).any()


@pytest.mark.parametrize("num_features", [2, 6])
def test_few_features_have_fewer_atoms_which_leave_the_order_to_be_seen(num_features):
    rng = np.random.default_rng(num_features)
    rows, truth = rng.normal(size=(120, num_features)), rng.normal(size=num_features)
    queries, grades = np.repeat(np.arange(12), 10), np.digitize(rows @ truth, [-1.0, 0.0, 1.0])
    model = ConeRank().fit(rows, grades, queries)
    assert model.atoms_.shape == (max(1, num_features // 2), num_features)
    found: Any = stats.kendalltau(model.predict(rows), rows @ truth)
    assert found.statistic > 0.8
    few = f"10 atoms surround the origin.* num_atoms={num_features // 2}"
    with pytest.warns(UserWarning, match=few):
        ConeRank(num_atoms=10, ridge=1.0).fit(rows, grades, queries)


def test_the_distance_of_a_simplex_from_the_origin():
    """Of a segment by hand; of others by the best of many mixtures."""
    np.testing.assert_allclose(from_origin(3.0 * np.eye(2)), np.sqrt(0.5))
    assert from_origin(np.array([[1.0, 0.0], [-1.0, 0.0]])) < 1e-7
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(3, 4))
    mixed = rng.dirichlet(np.ones(3), 200_000) @ atoms
    usual = np.sqrt(np.mean(np.sum(atoms**2, axis=1)))
    least = np.sqrt(np.sum(mixed**2, axis=1).min()) / usual
    np.testing.assert_allclose(from_origin(atoms), least, rtol=1e-3)


def test_stochastic_gradients_take_a_hundred_passes_by_default():
    X, y, query = graded_lists(sizes=(3, 3))
    usual = ConeRank(num_atoms=2, method="sg", ridge=1.0).fit(X, y, query)
    for passes in (100, 10):
        other = ConeRank(num_atoms=2, method="sg", ridge=1.0, num_iterations=passes)
        same = np.array_equal(other.fit(X, y, query).coef_, usual.coef_)
        assert same == (passes == 100)


def test_normalised_differences_and_weights_are_those_of_the_paper():
    X, y, query = graded_lists()
    lists = group_queries(query, len(y))
    pairs = ordered_pairs(sparse.csr_array(X[lists.order]), y[lists.order], lists, 2.0, 1.0)
    z, a = [], []
    counts = [(query == name).sum() for name in dict.fromkeys(query)]
    assert len(counts) == len(lists.sizes)
    names = [n for n in dict.fromkeys(query) if len(set(y[query == n])) > 1]
    for name in names:
        mine = np.flatnonzero(query == name)
        found = [(i, j) for i in mine for j in mine if y[i] > y[j]]
        for i, j in found:
            difference = X[i] - X[j]
            z.append(2.0 * difference / (1.0 + np.linalg.norm(difference)))
            a.append((y[i] - y[j]) / (len(names) * len(found)))
    np.testing.assert_allclose(pairs.z, z, atol=1e-12)
    np.testing.assert_allclose(pairs.weight, a, atol=1e-12)
    assert (np.linalg.norm(normalised(X * 1e6, 2.0, 1.0), axis=1) <= 2.0).all()


def test_exact_solver_never_rises_and_keeps_the_bound():
    pairs = _pairs()
    atoms = random_atoms(3, 3, 0.9, np.random.default_rng(0))
    values = [
        fit_exact(pairs, atoms, 0.9, num_iterations=n, tol=0.0).objective for n in (1, 2, 5, 30)
    ]
    assert (np.diff(values) <= 1e-12).all()
    cone = fit_exact(pairs, atoms, 0.9)
    assert (np.linalg.norm(cone.atoms, axis=1) <= 0.9 + 1e-12).all()
    assert cone.objective == pytest.approx(
        objective(cone.atoms, cone.weights, pairs.z, pairs.weight)
    )
    for k in range(3):  # no move of one atom within the bound is better
        for move in np.eye(3) * 1e-3:
            for sign in (1, -1):
                other = cone.atoms.copy()
                other[k] += sign * move
                if np.linalg.norm(other[k]) <= 0.9:
                    value = objective(other, cone.weights, pairs.z, pairs.weight)
                    assert value >= cone.objective - 1e-6


@pytest.mark.parametrize(
    ("method", "fold_in"), [("sg", "printed"), ("sg", "projection"), ("eg", "projection")]
)
def test_gradient_methods_lower_the_objective(method, fold_in):
    pairs = _pairs(sizes=(6,) * 10)
    rng = np.random.default_rng(0)
    atoms = random_atoms(4, 3, 4.0, rng)
    options = {"method": method, "fold_in": fold_in, "rate": 0.02}
    before = fit_gradient(pairs, atoms, 4.0, rng, num_epochs=1, **options).objective
    after = fit_gradient(pairs, atoms, 4.0, rng, num_epochs=30, **options)
    assert after.objective < 0.9 * before
    assert (np.linalg.norm(after.atoms, axis=1) <= 4.0 + 1e-12).all()


@pytest.mark.slow
def test_log_density_of_the_program_is_minus_the_objective():
    pairs = _pairs()
    rng = np.random.default_rng(1)
    noise, bound = 0.7, 3.0
    options = {"num_atoms": 4, "bound": bound, "noise": noise}
    constants = []
    for _ in range(5):
        U, W = rng.normal(size=(4, 3)), rng.dirichlet(np.ones(4), len(pairs.z))
        log_joint, _ = log_density(
            cone_of_differences, (pairs.z, pairs.weight), options, {"U": U, "w": W}
        )
        value = objective(U, W, pairs.z, pairs.weight, penalty=noise**2 * 3 / bound**2)
        constants.append(float(log_joint) + value / (2 * noise**2))
    np.testing.assert_allclose(constants, constants[0], atol=1e-10)


@pytest.mark.slow
def test_nuts_on_the_program_agrees_with_the_solver_in_direction():
    """On differences that fill a triangle, evenly weighted."""
    noise, rng = 0.02, np.random.default_rng(0)
    atoms = np.array([[2.0, 0.5], [0.5, 2.0]])
    z = rng.dirichlet(np.ones(2), 25) @ atoms + noise * rng.normal(size=(25, 2))
    unweighted = Pairs(z, np.ones(25) * 25, np.arange(25))  # weights of one in the objective
    cone = fit_exact(unweighted, 2 * np.eye(2), np.inf, penalty=noise**2 / 2, num_iterations=500)
    weights = np.clip(cone.weights, 0.01, 0.99)
    start = init_to_value(values={"U": cone.atoms, "w": weights / weights.sum(1, keepdims=True)})
    kernel = NUTS(cone_of_differences, init_strategy=start)
    mcmc = MCMC(kernel, num_warmup=100, num_samples=150, progress_bar=False)
    mcmc.run(jax.random.key(0), z, num_atoms=2, bound=2.0, noise=noise)
    draws = np.asarray(mcmc.get_samples()["direction"])
    expected, sd = direction(cone.atoms), draws.std(axis=0)
    # Half a standard deviation is four Monte Carlo errors of 64 effective draws.
    assert (sd < 0.01 * np.linalg.norm(expected)).all()
    assert (np.abs(draws.mean(axis=0) - expected) < 0.5 * sd).all()


def test_direction_is_the_sum_of_coefficients_and_forgets_names():
    U, z = _problem(0, K=3, N=5)
    v = direction(U)
    coefficients = np.linalg.lstsq(U.T, z.T, rcond=None)[0]
    np.testing.assert_allclose(z @ v, coefficients.sum(axis=0), atol=1e-10)
    np.testing.assert_allclose(direction(U[::-1], 0.3), direction(U, 0.3), atol=1e-12)
    ridge = np.linalg.solve(U @ U.T + 0.3 * np.eye(3), U @ z.T).sum(axis=0)
    np.testing.assert_allclose(z @ direction(U, 0.3), ridge, atol=1e-10)


def test_votes_of_algorithm_2_rank_as_the_score_does():
    X, y, query = graded_lists(sizes=(6,) * 8, d=5)
    model = ConeRank(num_atoms=3, ridge=0.0, standardize=False).fit(X, y, query)
    votes = model.vote(X, query)
    for name in set(query):
        mine = np.flatnonzero(query == name)
        expected = np.zeros(len(mine), int)
        for a, b in itertools.combinations(range(len(mine)), 2):
            z = normalised((X[mine[a]] - X[mine[b]])[None], 2.0, 1.0)[0]
            w = np.linalg.lstsq(model.atoms_.T, z, rcond=None)[0]
            expected[a if w.sum() > 0 else b] += 1
        np.testing.assert_array_equal(votes[mine], expected)
        np.testing.assert_array_equal(np.argsort(votes[mine]), np.argsort(model.predict(X[mine])))


def test_stability_bound_holds_when_queries_are_left_out():
    pairs = _pairs(sizes=(6,) * 8)
    rng = np.random.default_rng(0)
    start = random_atoms(3, 3, 4.0, rng)
    options = {"num_iterations": 10, "tol": 0.0}
    whole = fit_exact(pairs, start, 4.0, **options).atoms
    kept = [np.setdiff1d(pairs.lists, [q]) for q in np.unique(pairs.lists)]
    others = [fit_exact(pairs.of_lists(q), start, 4.0, **options).atoms for q in kept]
    beta = stability_bound(whole, others, rho=2.0, bound=4.0)
    z = normalised(rng.normal(size=(200, 3)) * 10, 2.0, 1.0)

    def loss(U):
        W = projection_fold_in(U @ U.T, z @ U.T, np.full((200, 3), 1 / 3), 500)
        return ((z - W @ U) ** 2).sum(axis=1)

    moved = max(np.abs(loss(whole) - loss(other)).max() for other in others)
    assert 0.0 < moved <= beta
    assert stability_bound(whole, [whole], rho=2.0, bound=4.0) == 0.0
    assert risk_bound(1.0, 0.0, 2.0, 100, 0.1) == pytest.approx(1 + 2 * np.sqrt(np.log(10) / 200))
    refused("epsilon is 1", risk_bound, 1.0, 0.0, 2.0, 100, 1)
    refused("num_queries is 0", risk_bound, 1.0, 0.0, 2.0, 0)


@pytest.mark.filterwarnings("ignore:query is not given")
@parametrize_with_checks([ConeRank(num_atoms=2, num_iterations=2)])
def test_manners_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["exact", "sg", "eg"])
def test_estimator_ranks_sparse_and_dense_alike(method):
    X, y, query = graded_lists(sizes=(6,) * 12, d=5)
    X = X * (np.abs(X) > 0.5)
    options = {"num_atoms": 3, "method": method, "num_iterations": 5}
    model = ConeRank(**options).fit(X, y, query)
    thin = ConeRank(**options).fit(sparse.csr_array(X), y, query)
    np.testing.assert_allclose(thin.coef_, model.coef_, rtol=1e-6)
    assert model.score(X, y, query) > 0.75
    if method != "sg":
        other = {"exact": {"sums": (0.5, 2.0)}, "eg": {"fold_in": "linear"}}[method]
        assert ConeRank(**options, **other).fit(X, y, query).score(X, y, query) > 0.7
    fixed = ConeRank(**options, ridge=model.ridge_).fit(X, y, query)
    np.testing.assert_allclose(fixed.coef_, model.coef_)
    few = ConeRank(num_atoms=2).fit(X[:6], y[:6], query[:6])
    assert few.ridge_ > 0


def test_what_it_refuses():
    X, y, query = graded_lists()
    refused("y is the same within every list", ConeRank().fit, X, np.ones(len(y)), query)
    with pytest.raises(ValueError, match="ridge is 0 and the atoms are linearly dependent"):
        ConeRank(num_atoms=5, ridge=0.0).fit(X, y, query)
    for name, value in {
        "num_atoms": 0,
        "num_iterations": 0,
        "method": "adam",
        "fold_in": "clip",
        "rho": 0.0,
        "alpha": -1.0,
        "bound": np.inf,
        "learning_rate": "fast",
        "ridge": -1.0,
        "sums": (2.0, 1.0),
    }.items():
        refused(re.escape(f"{name} is {value!r}"), ConeRank(**{name: value}).fit, X, y, query)
    refused("fold_in is 'linear' and method 'exact'", ConeRank(fold_in="linear").fit, X, y, query)
    refused("sums needs method='exact'", ConeRank(method="eg", sums=(0.0, 1.0)).fit, X, y, query)
    for phi, message in ((y[:3], "phi has shape"), (-np.ones(len(X)), "phi is -1.0 in row 0")):
        refused(message, Predictive(cone_of_differences, num_samples=1), jax.random.key(0), X, phi)
