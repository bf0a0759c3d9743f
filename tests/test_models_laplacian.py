"""Programs with a graph of the items: two ways to write one, its evidence, Figure 1."""

import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy import sparse, stats

from bayesrank import PreferenceGP, gp
from bayesrank.distributions import Thurstone
from bayesrank.infer import EP
from bayesrank.models import preference_gp

RNG = np.random.default_rng(2)
X = RNG.normal(size=(12, 2))
X_NEW = RNG.normal(size=(3, 2))
FIRST = RNG.integers(6, size=15)  # the other half of the items is in no comparison
PAIRS = np.stack([FIRST, (FIRST + RNG.integers(1, 6, 15)) % 6], axis=1)
SKILL = X[:, 0] + np.sin(2 * X[:, 1])
COMPARISONS = np.where((SKILL[PAIRS[:, :1]] > SKILL[PAIRS[:, 1:]]), PAIRS, PAIRS[:, ::-1])
GRAPH = gp.knn_graph(X, 3)
LAPLACIAN = gp.laplacian(GRAPH)
L = LAPLACIAN.toarray()
HYPER: dict[str, Any] = {"amplitude": 1.4, "lengthscale": 0.9, "noise": 0.8, "graph_weight": 0.6}


def _covariance(a, b):
    squares = ((a[:, None] - b[None]) / HYPER["lengthscale"]) ** 2
    return HYPER["amplitude"] ** 2 * np.exp(-0.5 * squares.sum(-1))


def _sigma():
    return _covariance(X, X) + 1e-6 * HYPER["amplitude"] ** 2 * np.eye(12)


# --- Two ways to write one model ----------------------------------------------------------------


@pytest.fixture(scope="module")
def engine():
    return EP(preference_gp, tol=1e-9)


@pytest.fixture(scope="module")
def warped(engine):
    """The graph in the prior."""
    key = jax.random.key(0)
    kwargs = {"laplacian": LAPLACIAN, "X_new": X_NEW}
    return engine.run(key, X, COMPARISONS, params=HYPER, num_samples=1, **kwargs)


@pytest.fixture(scope="module")
def paper():
    """The graph as a factor beside the prior, equation (4)."""

    def program(X, comparisons, laplacian, X_new):
        kernel = gp.rbf(HYPER["amplitude"], HYPER["lengthscale"])
        prior = dist.MultivariateNormal(covariance_matrix=gp.gram(kernel, X))
        f = jnp.asarray(numpyro.sample("f", prior))
        numpyro.factor("graph", -HYPER["graph_weight"] * (f @ laplacian @ f) / 2)
        numpyro.sample("f_new", gp.conditional(kernel, X, prior.scale_tril, f, X_new))
        margin = f[comparisons[:, 0]] - f[comparisons[:, 1]]
        won = jnp.ones(comparisons.shape[0], int)
        numpyro.sample("comparison", Thurstone(margin, HYPER["noise"]), obs=won)

    args = X, COMPARISONS, LAPLACIAN, X_NEW
    return EP(program, tol=1e-9).run(jax.random.key(0), *args, num_samples=1)


def test_graph_in_the_prior_and_graph_as_a_factor_have_one_posterior(warped, paper):
    assert warped.converged and paper.converged
    for site in ("f", "f_new"):
        np.testing.assert_allclose(warped.mean[site], paper.mean[site], atol=1e-9)
        np.testing.assert_allclose(warped.covariance[site], paper.covariance[site], atol=1e-9)


def test_their_evidences_differ_by_the_normalizer_of_the_graph(warped, paper):
    sigma = _sigma()
    by_hand = -0.5 * np.linalg.slogdet(np.eye(12) + HYPER["graph_weight"] * L @ sigma)[1]
    assert by_hand < -1.0
    np.testing.assert_allclose(paper.log_evidence - warped.log_evidence, by_hand, atol=1e-9)


def test_prior_and_new_items_are_those_of_the_warped_kernel(warped):
    """The joint law in the program's trace, and the posterior of new items by the kernel alone."""

    @jax.jit
    def covariance():
        conditioned = handlers.seed(handlers.condition(preference_gp, HYPER), 0)
        prior = handlers.trace(conditioned).get_trace(X, laplacian=LAPLACIAN)["f"]["fn"]
        return prior.covariance_matrix

    sigma = _sigma()
    prior = np.linalg.inv(np.linalg.inv(sigma) + HYPER["graph_weight"] * L)
    np.testing.assert_allclose(covariance(), prior, atol=1e-10)

    gain = np.linalg.solve(np.eye(12) + HYPER["graph_weight"] * L @ sigma, L)
    gain *= HYPER["graph_weight"]
    across, new = _covariance(X, X_NEW), _covariance(X_NEW, X_NEW) + 1.96e-6 * np.eye(3)
    between = across - sigma @ gain @ across
    alone = new - across.T @ gain @ across
    weights = np.linalg.solve(prior, between)
    np.testing.assert_allclose(weights.T @ warped.mean["f"], warped.mean["f_new"], atol=1e-7)
    expected = alone - weights.T @ (prior - warped.covariance["f"]) @ weights
    np.testing.assert_allclose(expected, warped.covariance["f_new"], atol=1e-7)


@pytest.mark.parametrize(
    ("pairs", "laplacian", "message"),
    [
        (COMPARISONS, np.triu(L), "laplacian is not symmetric"),
        (COMPARISONS, sparse.csr_array(GRAPH), "laplacian is not positive semi-definite"),
        ([[0, 12]], L, "comparisons names item 12 in row 0, but the 12 items"),
        ([[0, 1], [3, 3]], L, "comparisons compares item 3 with itself in row 1"),
    ],
)
def test_values_are_checked_under_ep_as_they_are_without_it(engine, pairs, laplacian, message):
    # Compiled code knows no values: an index out of range would be another item's, without a word.
    with pytest.raises(ValueError, match=re.escape(message)):
        engine.run(jax.random.key(0), X, np.array(pairs), laplacian=laplacian, params=HYPER)


# --- Figure 1 of the paper, by the estimator ----------------------------------------------------

ANGLE = np.linspace(0.0, 2.5 * np.pi, 2001)
LENGTH = np.cumsum(np.hypot(0.5 + 0.8 * ANGLE / np.pi, 0.8 / np.pi))
ALONG = np.interp(np.linspace(LENGTH[0], LENGTH[-1], 35), LENGTH, ANGLE)
SPIRAL = (0.5 + 0.8 * ALONG / np.pi)[:, None] * np.stack([np.cos(ALONG), np.sin(ALONG)], axis=1)
FAR_END = np.array([[34, 0]])  # the one comparison
FIGURE_1 = {"amplitude": 0.5, "lengthscale": 0.5, "noise": 0.1}


def _one_comparison(at, laplacian):
    """Means and standard deviations after one probit comparison, in closed form (skew normal)."""

    def kernel(a, b):
        return 0.25 * np.exp(-2.0 * ((a[:, None] - b) ** 2).sum(-1))

    sigma = kernel(SPIRAL, SPIRAL) + 2.5e-7 * np.eye(35)
    prior = np.linalg.inv(np.linalg.inv(sigma) + laplacian)
    weights = np.linalg.solve(sigma, kernel(SPIRAL, at))
    own = 0.25 * (1 + 1e-6) + np.sum(weights * ((prior - sigma) @ weights), axis=0)
    margin = prior[:, 34] - prior[:, 0]
    slope = np.sqrt(2 / np.pi) / np.sqrt(0.02 + margin[34] - margin[0])
    across = weights.T @ margin
    return slope * across, np.sqrt(own - slope**2 * across**2)


@pytest.fixture(scope="module")
def figure_1():
    """The spiral without the graph, in closed form, and the estimator with it."""
    alone = SimpleNamespace(predict=lambda X: _one_comparison(X, np.zeros((35, 35))))
    values = FIGURE_1 | {"graph_weight": 1.0}
    with_graph = PreferenceGP(hyperparameters=values, standardize=False, laplacian=3)
    return alone, with_graph.fit(SPIRAL, [(34, 0)])


def test_the_ranking_follows_the_spiral_with_the_graph_only(figure_1):
    alone, with_graph = (model.predict(SPIRAL)[0] for model in figure_1)
    np.testing.assert_array_equal(np.argsort(with_graph), np.arange(35))
    agreement: Any = stats.kendalltau(np.arange(35), alone)
    assert agreement.statistic < 0.7


def test_one_comparison_has_a_closed_form(figure_1):
    graph = gp.laplacian(gp.knn_graph(SPIRAL, 3)).toarray()
    for at in (SPIRAL, SPIRAL + 0.1):
        expected = _one_comparison(at, graph)
        np.testing.assert_allclose(figure_1[1].predict(at), expected, atol=1e-5)


def test_a_matrix_and_a_function_are_graphs_too(figure_1):
    with_graph = figure_1[1]
    expected = with_graph.predict()
    for laplacian in (with_graph.laplacian_, lambda X: gp.laplacian(gp.knn_graph(X, 3))):
        other = with_graph.__sklearn_clone__().set_params(laplacian=laplacian)
        other.fit(SPIRAL, [(34, 0)])
        np.testing.assert_allclose(other.predict(), expected, rtol=1e-9)
        assert other.__sklearn_clone__().get_params().keys() == other.get_params().keys()
    assert with_graph.__sklearn_clone__().get_params()["laplacian"] == 3
    assert with_graph.params_["graph_weight"] == 1.0
