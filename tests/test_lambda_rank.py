"""LambdaRank: fields against brute force and LightGBM, potentials, and the frozen program."""

import importlib.util
import itertools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from list_data import graded_lists
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from refusals import refused
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesrank import LambdaRank
from bayesrank.bounds import bootstrap_queries
from bayesrank.datasets import group_queries
from bayesrank.infer import EP
from bayesrank.metrics import ndcg
from bayesrank.models import weighted_preferences
from bayesrank.solvers.lambda_rank import (
    FIELDS,
    Field,
    Regularized,
    circulation,
    field_of_rows,
    fit_trees,
    frozen_pairs,
    is_conservative,
    is_convex,
)

SCORES = np.array([0.3, -0.2, 0.9, 0.1])
LABELS = np.array([2.0, 0.0, 1.0, 0.0])


def _brute(name, s, y, k=None, mu=10.0, sigma=1.0):
    """A field pair by pair, with the change of NDCG by really exchanging two places."""
    n = len(s)
    rank = np.argsort(np.argsort(-s, kind="stable"), kind="stable")
    gain = 2.0**y - 1
    discount = np.where(np.arange(n) < (k or n), 1 / np.log2(2 + np.arange(n)), 0)
    ideal = np.sort(gain)[::-1] @ discount
    num_pairs = (y[:, None] > y).sum()
    lam, curvature = np.zeros(n), np.zeros(n)
    for i, j in itertools.permutations(range(n), 2):
        if y[i] <= y[j]:
            continue
        swapped = rank.copy()
        swapped[[i, j]] = rank[[j, i]]
        change = abs(gain @ discount[rank] - gain @ discount[swapped]) / ideal
        apart = abs(rank[i] - rank[j])
        near = abs(gain[i] - gain[j]) / ideal
        near *= 1 / np.log2(1 + apart) - 1 / np.log2(2 + apart)
        first, first_swapped = (min(r[y > 0], default=n) for r in (rank, swapped))
        w = {
            "ranknet": 1 / num_pairs,
            "margin": 1 / num_pairs,
            "ndcg": change,
            "loss2": near,
            "loss2++": change + mu * near,
            "mrr": abs(1 / (1 + first) - 1 / (1 + first_swapped)),
            "wta": float((first == 0) != (first_swapped == 0)),
        }[name]
        ahead = s[i] - s[j]
        p = sigma / (1 + np.exp(sigma * ahead))
        bend = p * (sigma - p)
        if name == "margin":
            p = min(max(1.0 - ahead, 0.0), 1.0)
            bend = 0.0 if ahead >= 1 else 1.0 if ahead >= 0 else 1.0 / (1.0 - ahead)
        lam[i] += w * p
        lam[j] -= w * p
        for at in (i, j):
            curvature[at] += w * bend
    return lam, curvature


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("k", [None, 2])
def test_fields_of_padded_lists_are_those_of_brute_force(name, k):
    X, y, query = graded_lists(sizes=(5, 3, 70, 4))
    lists = group_queries(query, len(y))
    s, y = X[lists.order, 0], y[lists.order]
    with jax.enable_x64(True):
        found = field_of_rows(Field(name, k=k, sigma=1.3), lists, y)(jnp.asarray(s))
    for start, size in zip(lists.starts, lists.sizes, strict=True):
        rows = slice(start, start + size)
        for one, other in zip(found, _brute(name, s[rows], y[rows], k, sigma=1.3), strict=True):
            np.testing.assert_allclose(one[rows], other, atol=1e-10)


@pytest.mark.slow
def test_ranknet_is_conservative_and_convex():
    field = Field("ranknet")
    assert is_conservative(field, SCORES, LABELS, num_loops=10)
    assert is_convex(field, SCORES, LABELS, num_points=10)


def test_ndcg_has_a_symmetric_jacobian_and_no_potential():
    field = Field("ndcg")
    verdict = is_conservative(field, SCORES, LABELS)
    assert not verdict
    assert verdict.reason == "circulation" and verdict.witness is not None
    assert abs(circulation(field, verdict.witness, LABELS)) == pytest.approx(verdict.value)
    assert circulation(field, verdict.witness[::-1], LABELS) == pytest.approx(
        -circulation(field, verdict.witness, LABELS)
    )
    far = np.array([3.0, 2.0, 1.0, 0.0])  # within one order it is conservative
    assert is_conservative(field, far, LABELS, spread=0.05, num_loops=5)
    assert not is_convex(field, SCORES, LABELS)


@pytest.mark.parametrize("name", ["loss2", "loss2++", "mrr", "wta"])
def test_other_fields_of_ranks_have_no_potential_either(name):
    assert is_conservative(Field(name), SCORES, LABELS).reason == "circulation"
    assert not is_convex(Field(name), SCORES, LABELS)


@pytest.mark.slow
def test_a_field_with_a_potential_is_conservative_wherever_its_kinks_are():
    """Slopes of sums of functions of single margins, which jump or bend at random places."""
    places = jnp.asarray(np.random.default_rng(3).normal(size=(4, 4, 3)))

    def field(s, labels, where):
        gap = s[:, None] - s
        jump = jnp.where(gap[..., None] > places, 1.0, 0.3).sum(-1)
        bend = jnp.maximum(gap[..., None] - places, 0.0).sum(-1)
        push = jump + bend
        lam = (push - push.T).sum(1)
        return lam, jnp.ones_like(lam)

    assert is_conservative(field, SCORES, LABELS, num_loops=30)


@pytest.mark.slow
def test_the_margin_field_on_a_list_has_the_potential_of_its_pairs():
    assert is_conservative(Field("margin", delta=0.7), SCORES, LABELS)
    assert is_convex(Field("margin", delta=0.7), SCORES, LABELS)
    s, step, d = SCORES, 1e-6, 0.7
    pairs = np.argwhere(LABELS[:, None] > LABELS)

    def total(s):
        x = s[pairs[:, 0]] - s[pairs[:, 1]]
        return np.select([x < 0, x <= d], [-d * x, x**2 / 2 - d * x], -(d**2) / 2).mean()

    slope = [(total(s + step * e) - total(s - step * e)) / (2 * step) for e in np.eye(4)]
    with jax.enable_x64(True):
        lam = Field("margin", delta=d)(jnp.asarray(s), jnp.asarray(LABELS), jnp.ones(4, bool))[0]
    np.testing.assert_allclose(lam, -np.array(slope), atol=1e-8)


@pytest.mark.slow
def test_a_pull_to_zero_adds_to_the_diagonal_of_the_hessian():
    with jax.enable_x64(True):
        s, y, where = jnp.asarray(SCORES), jnp.asarray(LABELS), jnp.array([True, True, True, False])
        plain, pulled = Field("ndcg"), Regularized(Field("ndcg"), 0.3)
        J, K = (-jax.jacfwd(lambda s, f=f: f(s, y, where)[0])(s) for f in (plain, pulled))
        added = pulled(s, y, where)[1] - plain(s, y, where)[1]
    np.testing.assert_allclose(K - J, np.diag([0.3, 0.3, 0.3, 0.0]), atol=1e-12)
    np.testing.assert_allclose(added, [0.3, 0.3, 0.3, 0.0], atol=1e-12)
    refused("alpha is 0", Regularized, plain, 0)


def test_two_documents_with_one_order_of_grades_have_a_potential():
    field = Field("ndcg")
    assert is_conservative(field, [0.1, 0.0], [1.0, 0.0], num_loops=10)


def _lightgbm_normalised(scores, labels, where):
    """LightGBM's own field, `lambdarank_norm`: by distances of scores, then by the list's sum."""
    both = where[:, None] & where & (labels[:, None] != labels)
    rank = jnp.argsort(jnp.argsort(-jnp.where(where, scores, -jnp.inf), stable=True))
    gain, discount = jnp.where(where, 2.0**labels - 1, 0.0), 1 / jnp.log2(2.0 + rank)
    ideal = -jnp.sort(-gain) @ (1 / jnp.log2(2.0 + jnp.arange(len(gain))))
    gap = scores[:, None] - scores
    weight = jnp.abs((gain[:, None] - gain) * (discount[:, None] - discount)) / ideal
    spread = jnp.where(where, scores, -jnp.inf).max() - jnp.where(where, scores, jnp.inf).min()
    weight = jnp.where(both, weight / jnp.where(spread > 0, 0.01 + jnp.abs(gap), 1.0), 0.0)
    sign = jnp.sign(labels[:, None] - labels)
    push = weight * jax.nn.sigmoid(-sign * gap)
    bend = push * (1 - jax.nn.sigmoid(-sign * gap))
    total = push.sum()
    norm = jnp.where(total > 0, jnp.log2(1 + total) / jnp.where(total > 0, total, 1.0), 1.0)
    return norm * (sign * push).sum(1), norm * bend.sum(1)


def test_lightgbms_normalised_field_is_not_even_locally_conservative():
    verdict = is_conservative(_lightgbm_normalised, SCORES, LABELS)
    assert (bool(verdict), verdict.reason) == (False, "jacobian")


@pytest.mark.slow
def test_the_papers_field_of_two_documents_is_convex_with_its_slip_mended():
    def paper(delta, below):
        def field(s, labels, where):
            x = s[0] - s[1]
            push = jnp.where(x < 0, below, jnp.where(x <= delta, delta - x, 0.0))
            return push * jnp.array([1.0, -1.0]), jnp.abs(jnp.array([push, push]))

        return field

    assert is_convex(paper(2.0, 2.0), [0.0, 0.0], [1.0, 0.0])
    named = Field("margin", delta=2.0)(
        jnp.array([0.3, 0.1]), jnp.array([1.0, 0.0]), jnp.ones(2, bool)
    )
    np.testing.assert_allclose(named[0], paper(2.0, 2.0)(jnp.array([0.3, 0.1]), None, None)[0])
    as_printed = is_convex(paper(2.0, 1.0), [0.0, 0.0], [1.0, 0.0])
    assert is_conservative(paper(2.0, 1.0), [0.0, 0.0], [1.0, 0.0])  # (7) to (9) are its potential
    assert as_printed.reason == "monotonicity"

    def turned(s, labels, where):
        lam, curvature = Field("ranknet")(s, labels, where)
        return -lam, curvature

    assert is_convex(turned, [0.0, 0.0], [1.0, 0.0]).reason == "curvature"


def test_frozen_weights_bound_the_loss_at_the_current_scores():
    """LambdaLoss, by enumeration of all orders of lists of four with all grades up to two."""
    for grades in itertools.product(range(3), repeat=4):
        labels = np.array(grades, float)
        if labels.min() == labels.max():
            continue
        orders = np.array(list(itertools.permutations(range(4))), float)
        lists = group_queries(np.repeat(np.arange(24), 4), 96)
        s, repeated = orders.ravel(), np.tile(labels, 24)
        pairs, w = frozen_pairs(Field("loss2"), s, repeated, lists)
        terms = w * np.log2(1 + np.exp(-(s[pairs[:, 0]] - s[pairs[:, 1]])))
        surrogate = np.bincount(pairs[:, 0] // 4, terms, minlength=24)
        assert (surrogate >= 1 - ndcg(orders, labels).values[:, 0] - 1e-12).all()


@pytest.mark.parametrize("normalised", [False, True])
def test_fields_reproduce_lightgbm(normalised):
    lightgbm = pytest.importorskip("lightgbm")
    X, y, query = graded_lists(sizes=(12, 14, 9, 16) * 8, d=6)
    lists = group_queries(query, len(y))
    X, y = X[lists.order], y[lists.order]
    params = {"num_leaves": 7, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}
    own = {"lambdarank_norm": normalised, "lambdarank_truncation_level": 1000}
    expected = lightgbm.train(
        {**params, **own, "objective": "lambdarank"},
        lightgbm.Dataset(X, label=y, group=lists.sizes),
        num_boost_round=20,
    )
    field = _lightgbm_normalised if normalised else Field("ndcg")
    found = fit_trees(X, y, lists, field, num_trees=20, params=params)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-4)


@pytest.mark.slow
def test_slope_of_the_frozen_program_is_the_field():
    X, y, query = graded_lists()
    lists = group_queries(query, len(y))
    X, y = X[lists.order], y[lists.order]
    w = np.array([0.5, -0.2, 0.8])
    pairs, weights = frozen_pairs(Field("ndcg", sigma=1.5), X @ w, y, lists)

    def log_joint(value):
        options = {"scale": 2.0, "sigma": 1.5}
        return log_density(weighted_preferences, (X, pairs, weights), options, {"w": value})[0]

    lam = field_of_rows(Field("ndcg", sigma=1.5), lists, y)(jnp.asarray(X @ w))[0]
    expected = X.T @ np.asarray(lam) - w / 4.0
    np.testing.assert_allclose(jax.grad(log_joint)(jnp.asarray(w)), expected, atol=1e-10)


@pytest.fixture(scope="module")
def frozen():
    X, y, query = graded_lists(sizes=(6,) * 6)
    model = LambdaRank(num_steps=100).fit(X, y, query)
    return model, model.posterior(), (X, y, query)


@pytest.mark.slow
def test_ep_and_nuts_agree_on_the_frozen_program(frozen):
    _, ep, _ = frozen
    mcmc = MCMC(NUTS(weighted_preferences), num_warmup=200, num_samples=600, progress_bar=False)
    mcmc.run(jax.random.key(1), *ep.model_args, **ep.model_kwargs)
    draws = np.asarray(mcmc.get_samples()["w"])
    sd = np.sqrt(np.diag(ep.covariance["w"]))
    np.testing.assert_allclose(draws.mean(axis=0), ep.mean["w"], atol=0.2 * sd.max())
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.15)


def test_distribution_of_ndcg_is_that_of_draws_of_the_weights(frozen):
    model, ep, (X, y, query) = frozen
    figure = ndcg(model.score_draws(X, ep), y, query=query, k=3)
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    draws = np.asarray(ep.get_samples()["w"])
    some = [ndcg(rows @ w, y, query=query, k=3).mean for w in draws[:20]]
    np.testing.assert_allclose(figure.mean[:20], some)
    low, high = figure.interval(0.9)
    np.testing.assert_allclose([low, high], np.quantile(figure.mean, [0.05, 0.95]))
    sampled = bootstrap_queries(ndcg(model.predict(X), y, query=query, k=3))
    assert sampled.std() > 0 and 0 < low < high <= 1


class _ToGrades:
    """A field that is quick to compile, for the many shapes of the checks."""

    def __call__(self, scores, labels, where):
        return jnp.where(where, labels - scores, 0.0), where.astype(scores.dtype)

    def __repr__(self):
        return "to_grades"  # stands in the names of the tests, which are the same in each process

    def __eq__(self, other):
        return isinstance(other, _ToGrades)

    def __hash__(self):
        return 0


@pytest.mark.filterwarnings("ignore:query is not given")
@parametrize_with_checks([LambdaRank(field=_ToGrades(), num_steps=2)])
def test_manners_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "options",
    [
        {"field": "ndcg"},
        {"model": "network", "num_steps": 150},
        pytest.param(
            {"model": "trees", "num_trees": 10, "tree_params": {"min_data_in_leaf": 3}},
            marks=pytest.mark.slow,
        ),
        pytest.param({"field": Field("loss2++", mu=1.0)}, marks=pytest.mark.slow),
        {"field": "margin"},
    ],
    ids=str,
)
def test_models_and_fields_rank_better_than_chance(options):
    if options.get("model") == "trees":
        pytest.importorskip("lightgbm")
    X, y, query = graded_lists(sizes=(8,) * 20)
    model = LambdaRank(**options).fit(X, y, query)
    assert model.score(X, y, query) > 0.8
    order = np.random.default_rng(0).permutation(len(y))
    thin = LambdaRank(**options).fit(sparse.csr_array(X[order]), y[order], query[order])
    np.testing.assert_allclose(thin.predict(X), model.predict(X), atol=1e-2)


@pytest.mark.parametrize("name", ["mrr", "wta"])
def test_fields_of_the_first_relevant_item_bring_one_to_the_top(name):
    X, y, query = graded_lists(sizes=(8,) * 20)
    model = LambdaRank(field=Regularized(Field(name), 0.001)).fit(X, y > 0, query)
    scores = model.predict(X).reshape(20, 8)
    relevant = (y > 0).reshape(20, 8)
    chance = relevant.mean()
    assert relevant[np.arange(20), scores.argmax(axis=1)].mean() > (1 + chance) / 2


def test_linear_training_reaches_the_maximum_of_a_convex_objective():
    X, y, query = graded_lists(sizes=(6,) * 6)
    model = LambdaRank(num_steps=2000, l2=0.1).fit(X, y, query)
    lists = group_queries(query, len(y))
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    w = model.coef_ * X.std(axis=0)
    lam = field_of_rows(Field(), lists, y[lists.order])(jnp.asarray((rows @ w)[lists.order]))[0]
    slope = rows[lists.order].T @ np.asarray(lam) / len(lists.sizes) - 0.1 * w
    np.testing.assert_allclose(slope, 0.0, atol=1e-4)


def test_nothing_stays_of_an_earlier_model():
    X, y, query = graded_lists()
    model = LambdaRank(num_steps=2).fit(X, y, query)
    assert model.coef_.shape == X.shape[1:]
    assert not hasattr(model.set_params(model="network").fit(X, y, query), "coef_")


def test_what_it_refuses(monkeypatch):
    X, y, query = graded_lists()
    for bad in (-1.0, 0.5, 31.0):
        broken = y.copy()
        broken[3] = bad
        refused(f"y is {bad:.1f} in row 3", LambdaRank(field="ndcg").fit, X, broken, query)
    for grades, which in ((y + 1, "only"), (-y, "no")):
        refused(f"y has {which} grades above 0", LambdaRank(field="mrr").fit, X, grades, query)
    options = {
        "field": ["map"],
        "model": ["forest"],
        "k": [0, 1.5],
        "sigma": [0.0, "steep"],
        "delta": [0.0],
        "l2": [-1.0, np.nan],
        "learning_rate": [0.0, np.inf],
        "num_steps": [0],
        "num_trees": [0],
        "hidden": [16, (0,)],
    }
    for name, values in options.items():
        for value in values:
            refused(f"{name} is", LambdaRank(**{name: value}).fit, X, y, query)
    with pytest.raises(ValueError, match="a posterior needs model='linear'"):
        LambdaRank(model="network", num_steps=2).fit(X, y, query).posterior()
    with pytest.raises(ValueError, match="the frozen program is logistic"):
        LambdaRank(num_steps=2).fit(X, y, query).posterior(field=cast(Any, "margin"))
    one = jax.random.key(0), X, np.array([[0, 1]])
    refused("weights has shape", EP(weighted_preferences).run, *one, np.array([1.0, 2.0]))
    refused("weights is nan in row 0", EP(weighted_preferences).run, *one, np.array([np.nan]))
    if importlib.util.find_spec("lightgbm") is not None:
        message = "LightGBM grows no trees of X and tree_params; where"
        refused(message, LambdaRank(model="trees").fit, X[:6], y[:6], query[:6])
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(ImportError, match="model='trees' needs LightGBM"):
        LambdaRank(model="trees").fit(X, y, query)
