"""The distance of two rankings without labels, and the cross-validation bound built on it."""

import itertools

import numpy as np
import pytest
from bounds_worlds import GaussianQueries
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesrank import bounds
from bayesrank.metrics import auc


def loss(scores, labels):
    return 1.0 - auc(scores, labels).mean


def labellings(size):
    for labels in itertools.product((0, 1), repeat=size):
        if 0 < sum(labels) < size:
            yield np.array(labels)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=7))
def test_distance_is_the_largest_difference_of_losses_over_all_labellings(rows):
    f, g = (np.array(column) for column in zip(*rows, strict=True))
    differences = [loss(f, labels) - loss(g, labels) for labels in labellings(len(f))]
    distance = bounds.ranking_distance(f, g).mean
    assert max(differences) <= distance + 1e-12  # what the bound needs
    assert max(differences) == pytest.approx(distance, abs=1e-12)  # and no more than that


def test_distance_by_definition():
    """The maximum over p + q = K, as (1) of Usunier et al. has it."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 10, 31):
        f, g = rng.normal(size=(2, size))
        rank = [np.argsort(np.argsort(-scores)) for scores in (f, g)]
        delta = sorted(rank[0] - rank[1], reverse=True)
        slow = max(sum(delta[:p]) / (p * (size - p)) for p in range(1, size))
        assert bounds.ranking_distance(f, g).mean == pytest.approx(slow)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=2, max_size=12))
def test_distance_is_a_metric_between_0_and_1(rows):
    f, g, h = (np.array(column) for column in zip(*rows, strict=True))

    def d(a, b):
        return bounds.ranking_distance(a, b).mean

    assert d(f, f) == 0.0
    assert 0.0 <= d(f, g) <= 1.0 + 1e-12
    assert d(f, g) == pytest.approx(d(g, f))
    assert d(f, h) <= d(f, g) + d(g, h) + 1e-12


def test_distance_of_queries():
    rng = np.random.default_rng(1)
    query = np.array(["b"] * 4 + ["a"] * 5 + ["c"])
    f, g = rng.normal(size=(2, 10))
    order = rng.permutation(10)
    result = bounds.ranking_distance(f[order], g[order], query=query[order])
    for name, value in zip(result.query, result.values, strict=True):
        alone = bounds.ranking_distance(f[query == name], g[query == name])
        assert value == pytest.approx(alone.mean)
    assert dict(zip(result.query, result.values, strict=True))["c"] == 0.0


def test_long_lists_are_quick():
    rng = np.random.default_rng(2)
    f, g = rng.normal(size=(2, 200_000))
    assert 0.0 < bounds.ranking_distance(f, g).mean <= 1.0
    assert bounds.ranking_distance(f, -f).mean == pytest.approx(1.0)


def test_mcdiarmid_term_covers():
    """Means of coin flips exceed their expectation by more than the term in under delta."""
    rng = np.random.default_rng(3)
    means = rng.binomial(50, 0.5, size=20_000) / 50
    for delta in (0.3, 0.1, 0.02):
        assert np.mean(0.5 > means + bounds.mcdiarmid_term(50, delta)) <= delta


def mean_difference(features, labels, query):
    """Direction from the candidates that are not relevant to those that are."""
    return features[labels == 1].mean(axis=0) - features[labels == 0].mean(axis=0)


def linear_score(weights, features):
    return features @ weights


PROBLEM = GaussianQueries(weights=np.array([1.5, -0.5, 0.0]), size=8)


def test_bound_is_the_sum_of_its_parts():
    rng = np.random.default_rng(4)
    labelled, unlabelled = PROBLEM.sample(53, rng), PROBLEM.sample(200, rng)
    result = bounds.cross_validation_bound(
        mean_difference, linear_score, labelled, unlabelled, num_folds=5, delta=0.1
    )
    assert sorted(result.fold_sizes) == [10, 10, 11, 11, 11]
    assert result.error == pytest.approx(result.fold_errors.mean())
    terms = [bounds.mcdiarmid_term(size, 0.1 / 10) for size in result.fold_sizes]
    assert result.error_term == pytest.approx(np.mean(terms))
    assert result.distance_term == pytest.approx(bounds.mcdiarmid_term(200, 0.05))
    assert result.bound == pytest.approx(
        result.error + result.error_term + result.distance + result.distance_term
    )
    np.testing.assert_array_equal(
        result.model, mean_difference(labelled.features, labelled.labels, None)
    )


def test_unlabelled_labels_are_not_looked_at():
    rng = np.random.default_rng(5)
    labelled, unlabelled = PROBLEM.sample(40, rng), PROBLEM.sample(50, rng)
    blind = unlabelled._replace(labels=None)
    both = [
        bounds.cross_validation_bound(mean_difference, linear_score, labelled, u).bound
        for u in (unlabelled, blind)
    ]
    assert both[0] == both[1]


def test_drawing_one_function_a_query_estimates_the_same_distance():
    rng = np.random.default_rng(6)
    labelled, unlabelled = PROBLEM.sample(40, rng), PROBLEM.sample(3000, rng)
    averaged, drawn = (
        bounds.cross_validation_bound(
            mean_difference, linear_score, labelled, unlabelled, average=average
        )
        for average in (True, False)
    )
    assert drawn.distance == pytest.approx(averaged.distance, abs=0.01)
    assert drawn.distance != averaged.distance


def test_bound_covers_the_risk():
    """Over 60 training sets, the risk of what was learned, seen on 2,000 fresh queries."""
    rng = np.random.default_rng(7)
    fresh = PROBLEM.sample(2000, rng)
    labels = np.asarray(fresh.labels)
    delta, held, slack = 0.2, [], []
    for _ in range(60):
        result = bounds.cross_validation_bound(
            mean_difference,
            linear_score,
            PROBLEM.sample(60, rng),
            PROBLEM.sample(60, rng),
            num_folds=3,
            delta=delta,
            rng=rng,
        )
        scores = fresh.features @ result.model
        risk = 1.0 - auc(scores, labels, query=fresh.query, undefined=1.0).mean
        held.append(risk <= result.bound)
        slack.append(result.bound - risk)
    assert np.mean(held) >= 1 - delta
    assert 0.1 < np.mean(slack) < 0.6


def test_one_class_queries_cost_nothing():
    rng = np.random.default_rng(8)
    labelled = PROBLEM.sample(20, rng)
    flat = labelled._replace(labels=np.zeros_like(labelled.labels))
    result = bounds.cross_validation_bound(
        lambda features, labels, query: np.ones(3), linear_score, flat, labelled
    )
    assert result.error == 0.0


def test_queries_may_be_lists():
    q = PROBLEM.sample(6, np.random.default_rng(10))
    lists = bounds.Queries(*(part.tolist() for part in q))  # pyright: ignore
    bound, same = (
        bounds.cross_validation_bound(mean_difference, linear_score, each, each, num_folds=2).bound
        for each in (lists, q)
    )
    assert bound == same
