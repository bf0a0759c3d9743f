"""`LabelRanker`: names, decisions against brute force, files, and what it refuses."""

from itertools import combinations, permutations, product
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from refusals import refused
from scipy.stats import kendalltau
from sklearn.base import clone

from bayesrank import LabelRanker
from bayesrank.models.label_ranking import conditions
from bayesrank.solvers.label_ranking import LabelRankingEP

NAMES = ["sea", "hills", "town"]
GIVEN = {"scale": 0.8, "zero_noise": 0.5}


def trips(n=24, seed=0):
    """Features, rankings of the relevant labels, and the relevant labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, size=(n, 2))
    utility = np.c_[X[:, 0] - 3, X[:, 1] - 3, 0.3 * (X[:, 0] - X[:, 1])]
    performance = utility + 0.7 * rng.normal(size=(n, 3))
    rankings = [[NAMES[a] for a in np.argsort(-row) if row[a] > 0] for row in performance]
    return X, rankings, [list(order) for order in rankings]


@pytest.mark.slow
def test_it_is_the_program_by_names():
    X, rankings, relevant = trips()
    model = LabelRanker(kernel="linear", labels=NAMES, hyperparameters=GIVEN).fit(
        X, rankings, relevant
    )
    numbers = [[NAMES.index(name) for name in order] for order in rankings]
    sets = np.array([[int(name in chosen) for name in NAMES] for chosen in relevant])
    scaled = (X - X.mean(0)) / X.std(0)
    data = conditions(3, numbers, sets)
    result = LabelRankingEP().run(jax.random.key(0), scaled, *data, 3, params=GIVEN)
    expected = result.mean["bias"] + scaled @ result.mean["w"].T
    assert_allclose(model.decision_function(X), expected, atol=1e-8)
    assert_allclose(model.log_evidence_, result.log_evidence)
    found = model.posterior_.utilities(scaled[:2])
    rows = np.kron(np.eye(3), np.r_[1.0, scaled[1]])
    joint = result.joint_covariance[np.ix_(*[[0, 3, 4, 1, 5, 6, 2, 7, 8]] * 2)]
    assert_allclose(found.covariance[0, 1], rows @ joint @ rows.T, atol=1e-10)
    assert model.labels_.tolist() == NAMES


@pytest.mark.slow
def test_forms_of_the_same_targets_agree():
    X, rankings, relevant = trips()
    ranks = pd.DataFrame(
        [[order.index(n) + 1 if n in order else np.nan for n in NAMES] for order in rankings],
        columns=NAMES,
    )
    flags = np.array([[n in chosen for n in NAMES] for chosen in relevant])
    pairs = [set(combinations(order, 2)) for order in rankings]
    both = [(list(c), [n for n in NAMES if n not in c]) for c in relevant]
    fits = [
        LabelRanker(kernel="linear", labels=NAMES, hyperparameters=GIVEN)
        .fit(X, *targets)
        .decision_function(X)
        for targets in (
            (rankings, relevant),
            (ranks, flags),
            (pairs, both),
            (None if not rankings else rankings, pd.DataFrame(flags, columns=NAMES)),
        )
    ]
    for other in fits[1:]:
        assert_allclose(other, fits[0], atol=1e-10)


@pytest.fixture(scope="module")
def eight():
    """A fit of eight labels, and draws of performances of three new examples by another route."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    performance = X @ rng.normal(size=(2, 8)) + rng.normal(size=(12, 8))
    given = {"scale": 0.7, "zero_noise": 0.4}
    options: Any = {"kernel": "linear", "hyperparameters": given, "standardize": False}
    model = LabelRanker(labels=list(range(8)), **options)
    model.fit(X, np.argsort(-performance)[:, :4].tolist(), performance > 0)
    new = rng.normal(size=(3, 2))
    utilities = model.posterior_.utilities(new)
    draws = []
    for mean, covariance in zip(utilities.mean[0], utilities.covariance[0], strict=True):
        drawn = rng.multivariate_normal(mean, covariance, size=40_000)
        drawn += rng.normal(size=drawn.shape)
        draws.append((drawn, 0.4 * rng.normal(size=len(drawn))))
    return model, new, draws


def losses(decision, draws):
    """Expected loss of all 40,320 orders, as ranks."""
    orders = np.array(list(permutations(range(8))))
    ranks = np.argsort(orders, axis=1)
    if decision == "spearman":
        seen = np.argsort(np.argsort(-draws, axis=1), axis=1)
        return orders, (ranks**2).sum(1) - 2 * ranks @ seen.mean(0) + (seen**2).sum(1).mean()
    beats = np.array([[(draws[:, a] > draws[:, b]).mean() for b in range(8)] for a in range(8)])
    wrong = [
        np.where(ranks[:, a] < ranks[:, b], beats[b, a], beats[a, b])
        for a, b in combinations(range(8), 2)
    ]
    return orders, np.sum(wrong, axis=0)


@pytest.mark.parametrize("decision", ["kendall", "spearman"])
def test_decisions_are_the_best_of_all_orders(eight, decision):
    model, new, draws = eight
    for order, (drawn, _) in zip(model.predict(new, decision=decision), draws, strict=True):
        orders, loss = losses(decision, drawn)
        own = loss[(orders == order).all(axis=1)][0]
        error = 4 * (8 if decision == "spearman" else 1) * 3 / np.sqrt(len(drawn))
        assert own <= loss.min() + error
        assert own < np.quantile(loss, 0.01)


def test_sets_are_the_best_of_all_sets(eight):
    model, new, draws = eight
    proba, chosen = model.predict_proba(new), model.predict_relevant(new)
    top = model.predict_top(new, 3, num_samples=20_000)
    for number, (drawn, zero) in enumerate(draws):
        above = drawn > zero[:, None]
        assert_allclose(proba[number], above.mean(0), atol=4 * 0.5 / np.sqrt(len(drawn)))
        sets = np.array(list(product([False, True], repeat=8)))
        hamming = (sets * (1 - above.mean(0)) + ~sets * above.mean(0)).sum(1)
        own = hamming[(sets == chosen[number]).all(1)][0]
        assert own <= hamming.min() + 0.02
        among = (np.argsort(np.argsort(-drawn, axis=1), axis=1) < 3).mean(0)
        overlaps = {c: among[list(c)].sum() for c in combinations(range(8), 3)}
        assert overlaps[tuple(sorted(top[number]))] >= max(overlaps.values()) - 0.03


def test_draws_and_ranks_are_those_of_the_performances(eight):
    model, new, draws = eight
    chances = model.rank_distribution(new, num_samples=20_000)
    assert_allclose(chances.sum(1), 1.0)
    assert_allclose(chances.sum(2), 1.0)
    sampled = model.sample_rankings(new, 4000)
    for number, (drawn, zero) in enumerate(draws):
        ranks = np.argsort(np.argsort(-drawn, axis=1), axis=1)
        expected = np.array([[(ranks[:, a] == r).mean() for r in range(8)] for a in range(8)])
        assert_allclose(chances[number], expected, atol=0.02)
        best = np.bincount(sampled.labels[:, number, 0], minlength=8) / 4000
        assert_allclose(best, expected[:, 0], atol=0.04)
        count = (drawn > zero[:, None]).sum(1).mean()
        assert abs(sampled.num_relevant[:, number].mean() - count) < 0.15


def test_the_score_is_kendalls_tau(eight):
    model, _, _ = eight
    rng = np.random.default_rng(4)
    X, orders = rng.normal(size=(9, 2)), rng.permuted(np.tile(np.arange(8), (9, 1)), axis=1)
    expected: Any = [
        kendalltau(-utility, np.argsort(order))[0]
        for utility, order in zip(model.decision_function(X), orders, strict=True)
    ]
    assert_allclose(model.score(X, orders.tolist()), np.mean(expected))


def test_the_score_counts_what_targets_say_and_no_more(eight):
    model, _, _ = eight
    X = np.random.default_rng(5).normal(size=(4, 2))
    rankings = [[3, (0, 1)], None, {(2, 5), (5, 6)}, None]
    relevant = [None, None, None, ([4], [7])]
    said = {
        0: [(3, 0), (3, 1)],
        2: [(2, 5), (5, 6), (2, 6)],
        3: [(4, 8), (8, 7), (4, 7)],
    }
    worth = np.c_[model.decision_function(X), np.zeros(4)]
    taus = [np.mean(np.sign([worth[i, a] - worth[i, b] for a, b in said[i]])) for i in said]
    assert_allclose(model.score(X, rankings, relevant), np.mean(np.array(taus)))
    refused("9 is not among the labels", model.score, X, [[9, 1], None, None, None])


@pytest.mark.slow
def test_labels_that_are_numbers_are_named_as_such():
    orders, flags = [[2, 1], [1, 2]], np.array([[1, 0], [0, 1]])
    for targets in ((orders,), (None, orders), (orders, orders)):
        with pytest.raises(ValueError, match=r"the number 2 where a label .* in labels=\[...\]"):
            LabelRanker().fit(X_TWO, *targets)
    model = LabelRanker(kernel="linear", labels=[1, 2], hyperparameters="prior").fit(X_TWO, orders)
    assert model.predict(X_TWO).tolist() == orders
    ranks = pd.DataFrame(orders, columns=["a", "b"])
    with pytest.raises(ValueError, match="relevant is an array whose columns have no names"):
        LabelRanker().fit(X_TWO, ranks, flags)
    given: Any = {"kernel": "linear", "hyperparameters": GIVEN}
    both = LabelRanker(**given).fit(X_TWO, [[0, 1], [1, 0]], flags)
    assert both.labels_.tolist() == [0, 1]
    named = LabelRanker(labels=["a", "b"], **given).fit(X_TWO, ranks, flags == 0)
    assert named.predict(X_TWO).tolist() == [["b", "a"], ["a", "b"]]


@pytest.mark.slow
def test_rows_go_by_place_and_pandas_may_not_say_otherwise():
    X = pd.DataFrame({"x": [0.0, 1.0]}, index=["p", "q"])
    ranks = pd.DataFrame({"a": [1, 2], "b": [2, 1]}, index=["q", "p"])
    for target in (ranks, pd.Series([["a", "b"], ["b", "a"]], index=ranks.index)):
        refused("rankings has the rows of X in another order", LabelRanker().fit, X, target)
    model = LabelRanker(kernel="linear", hyperparameters="prior").fit(
        X, ranks.reset_index(drop=True)
    )
    assert model.predict(X)[:, 0].tolist() == ["a", "b"]
    assert model.score(X, ranks.loc[X.index]) == -1.0


@pytest.mark.slow
def test_smooth_utilities_and_averaging():
    """Which of two labels is better depends on the distance from the middle."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(40, 1))
    rankings = [["in", "out"] if abs(x) < 1 else ["out", "in"] for [x] in X]
    new = [[-1.8], [0.0], [1.8]]
    for choice in ("map", "integrate"):
        model = LabelRanker(kernel="rbf", n_basis=8, hyperparameters=choice).fit(X, rankings)
        assert model.predict(new)[:, 0].tolist() == ["out", "in", "out"]
        assert not model.calibrated_
        assert (model.sample_rankings(new, 5).num_relevant == -1).all()
        refused("fit had no relevant labels", model.predict_proba, new)
    assert len(model.posterior_.weights) > 5
    straight = LabelRanker(kernel="linear").fit(X, rankings)
    assert straight.log_evidence_ < model.log_evidence_ - 3 and straight.kernel_ == "linear"
    auto = LabelRanker(n_basis=8).fit(X, rankings)
    assert auto.kernel_ == "rbf"
    assert_allclose(auto.decision_function(new), model.decision_function(new), atol=0.1)


@pytest.mark.slow
def test_the_kernel_is_that_of_the_larger_evidence():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 3))
    straight = [["a", "b"] if x > 0 else ["b", "a"] for x in X[:, 0] + 0.3 * rng.normal(size=30)]
    curved = [["a", "b"] if x > 0 else ["b", "a"] for x in X[:, 0] ** 2 - 0.5]
    for choice in ("map", "prior"):
        options: Any = {"n_basis": 10, "hyperparameters": choice}
        for rankings, expected in ((straight, "linear"), (curved, "rbf")):
            each = [LabelRanker(kernel=k, **options).fit(X, rankings) for k in ("linear", "rbf")]
            best = max(each, key=lambda model: model.log_evidence_)
            chosen = LabelRanker(**options).fit(X, rankings)
            assert chosen.kernel_ == best.kernel_
            assert chosen.log_evidence_ == best.log_evidence_
            if choice == "map":
                assert chosen.kernel_ == expected
    named = LabelRanker(hyperparameters={"lengthscale": 2.0}, n_basis=10).fit(X, straight)
    assert named.kernel_ == "rbf"  # linear utilities have no length scale
    assert (
        LabelRanker(n_basis=250, hyperparameters="prior")
        .fit(np.concatenate([X] * 9) + rng.normal(size=(270, 3)), straight * 9)
        .kernel_
        == "linear"
    )  # more than 500 weights are not tried unasked


@pytest.mark.slow
def test_correlations_are_learned():
    """Two labels that are one function of the features, and a third that is its opposite."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 4))
    utility = X @ np.outer(rng.normal(size=4), [1.0, 1.0, -1.0])
    flags = utility + rng.normal(size=(40, 3)) > 0.4 * rng.normal(size=(40, 1))
    fast: Any = {"kernel": "linear", "hyperparameters": "map"}
    model = LabelRanker(**fast, correlated=True).fit(X, relevant=flags)
    correlation = model.params_["correlation"]
    assert correlation[0, 1] > 0.25 and correlation[0, 2] < -0.25
    assert model.log_evidence_ > LabelRanker(**fast).fit(X, relevant=flags).log_evidence_ + 2
    given = {name: model.params_[name] for name in ("scale", "zero_noise", "correlation")}
    again = LabelRanker(kernel="linear", correlated=True, hyperparameters=given).fit(
        X, relevant=flags
    )
    assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-6)
    plain = LabelRanker(kernel="linear", hyperparameters="prior").fit(X, relevant=flags)
    prior = LabelRanker(kernel="linear", correlated=True, hyperparameters="prior").fit(
        X, relevant=flags
    )
    assert_allclose(prior.predict_proba(X), plain.predict_proba(X), atol=1e-6)


@pytest.mark.slow
def test_empty_sets_and_labels_that_never_differ():
    X = np.arange(6.0)[:, None]
    model = LabelRanker(kernel="linear", labels=NAMES, hyperparameters="prior").fit(
        X, relevant=[[], ["sea"], ["sea"], [], ["sea"], []]
    )
    assert (model.predict_proba(X)[:, 1:] < 0.5).all()
    copy: Any = clone(model)
    assert copy.get_params()["labels"] == NAMES


X_TWO: Any = np.array([[0.0], [1.0]])


@pytest.mark.parametrize(
    ("options", "targets", "message"),
    [
        ({"kernel": "cubic"}, ([["a", "b"]] * 2,), "kernel is 'cubic'"),
        ({"calibrated": False}, (None, [["a"], ["b"]]), "relevant needs the zero"),
        ({}, (), "rankings and relevant are missing"),
        ({}, ([["a", "b"]],), "rankings has 1 entries, but X has 2 rows"),
        ({"labels": ["a", "b"]}, ([["a", "c"], None],), "'c' is not among the labels"),
        ({}, ([["a", "b", "a"], None],), "names a label twice in example 0"),
        ({}, ([["a", "b"], None], [["b"], None]), "example 0 contradicts itself"),
        ({}, ([{("a", "b"), ("b", "a")}, None],), "contradicts itself"),
        ({}, (None, [(["a", "b"], ["b"]), None]), "has 'b' on both sides; keep one"),
        ({}, (None, [["a", "a"], ["b"]]), "names a label twice"),
        ({}, (None, np.array([[1, 2], [0, 1]])), "relevant is 2 for 1; pass 1 for"),
        ({}, (["ab", "ba"],), "rankings has 'ab' as an entry"),
        ({"labels": ["a", "a"]}, ([["a"], None],), "must be two or more, each named once"),
        ({}, ([{"a", "b"}, None],), "which is not one of pairs"),
        ({}, (np.array([[1, 2], [2, 1]]),), "rankings is an array of numbers, which may be ranks"),
        ({"labels": [1, 2]}, (np.array([[1, 2]] * 2),), "pass ranks as a DataFrame with a column"),
        ({}, ([{"a": 2, "b": 1}, None],), "rankings has {'a': 2, 'b': 1} as an entry; pass a list"),
        ({}, (None, [{"a": 0, "b": 1}, None]), "relevant has {'a': 0, 'b': 1} as an entry"),
        ({}, ([["a", None], None],), "None is not a label; name labels by texts or numbers"),
        ({}, ([["a", ["b", ["c"]]], None],), "is not a label"),
        ({}, (pd.DataFrame({"a": [1, 0], "b": [2, 1]}),), "the rank 0 for 'a' in row 1; ranks go"),
        ({}, (pd.DataFrame({"a": [1, 2], "b": [2, 3]}),), "rank 3 for 'b' in row 1; .* to 2, the"),
        ({}, (pd.DataFrame([[0.7, 1.2]] * 2, columns=["a", "b"]),), "the rank 0.7 for 'a' in row"),
        ({}, (None, pd.DataFrame([[1, 0, 1]] * 2, columns=list("aba"))), "two columns 'a'"),
        (
            {"hyperparameters": {"correlation": np.eye(2)}},
            ([["a", "b"], None],),
            "names 'correlation', which needs correlated=True",
        ),
        (
            {"correlated": True, "hyperparameters": {"correlation": [[1.0, 2.0], [2.0, 1.0]]}},
            ([["a", "b"], None],),
            "is not a correlation of 2 labels",
        ),
        ({"hyperparameters": "guess"}, ([["a", "b"], None],), "hyperparameters is 'guess'"),
    ],
)
def test_refuses(options, targets, message):
    refused(message, LabelRanker(**options).fit, X_TWO, *targets)


def test_refuses_features_that_overflow():
    with pytest.raises(ValueError, match="X is so large in column 0 that its standard deviation"):
        LabelRanker().fit(1e200 * X_TWO, [["a", "b"], ["b", "a"]])
    with pytest.raises(ValueError, match="X differs so little in column 0 that its standard dev"):
        LabelRanker().fit(1e-200 * X_TWO, [["a", "b"], ["b", "a"]])


def test_refuses_decisions_that_it_does_not_know(eight):
    model, new, _ = eight
    refused("choose 'kendall' or 'spearman'", model.predict, new, decision="best")
    refused("k is 9; there are 8 labels", model.predict_top, new, 9)
