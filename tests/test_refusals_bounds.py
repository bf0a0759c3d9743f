"""What the bounds refuse."""

from typing import Any

import numpy as np
from bounds_worlds import GaussianQueries
from refusals import each, rows

from bayesrank import bounds
from bayesrank.metrics import PerQuery

PROBLEM = GaussianQueries(weights=np.array([1.5, -0.5, 0.0]), size=8)


def cross_validate(labelled: Any, *, other: Any = None, score: Any = None, **options: Any) -> Any:
    def direction(features, labels, query):
        return features[labels == 1].mean(axis=0) - features[labels == 0].mean(axis=0)

    unlabelled = labelled if other is None else other
    score = score or (lambda weights, features: features @ weights)
    return bounds.cross_validation_bound(direction, score, labelled, unlabelled, **options)


def sampled(call: Any) -> Any:
    return call(PROBLEM.sample(10, np.random.default_rng(9)))


REFUSED = [
    *rows(
        lambda call: call(),
        (lambda: bounds.skew_vector([]), r"labels must have shape \(M,\)"),
        (lambda: bounds.skew_vector([0.5]), "labels must be whole numbers, got 0.5"),
        (lambda: bounds.skew_vector([1, np.inf]), "labels must be whole numbers, got inf"),
        (lambda: bounds.skew_vector([0, 1], 2), "labels run from 0 to 1, which are not all among"),
        (lambda: bounds.level_constants([0.5, 0.6]), "rho must be shares that sum to 1"),
        (lambda: bounds.skew_factor([1.0, 0.0]), "rho has one level only"),
        (lambda: bounds.level_constants([0.5, 0.5], -1), "alpha is -1; pass a number from 0 on"),
        (lambda: bounds.finite_class_bound([0.5, 0.5], 0), "num_examples is 0; pass a"),
        (
            lambda: bounds.finite_class_bound([0.5, 0.5], 9, delta=0),
            "delta is 0; pass a number above 0 and below 1",
        ),
        (lambda: bounds.finite_class_bound([0.5, 0.5], 9, num_functions=0), "num_functions is 0"),
        (lambda: bounds.finite_class_examples([0.5, 0.5], 0), "epsilon is 0; pass a"),
        (
            lambda: bounds.uniform_examples([0.5, 0.5], 0.1, lambda n: float(np.sum(n))),
            "out of reach",
        ),
        (lambda: bounds.linear_shatter(0), "dim is 0; pass a whole number from 1 on"),
        (lambda: bounds.linear_shatter(2)([-1, 2]), r"counts must have shape \(k,\)"),
        (
            lambda: bounds.linear_shatter(2, form="sum"),  # pyright: ignore[reportArgumentType]
            "form is 'sum'; choose 'theorem' or 'joint'",
        ),
    ),
    *rows(
        lambda call: call(),
        (lambda: bounds.normal_error([1.0, 2.0], [1, 1]), "labels need two levels"),
        (lambda: bounds.normal_error([1.0, 2.0, 3.0], [1, 1, 2]), "two examples of each"),
        (lambda: bounds.normal_error([[1.0, 2.0]], [[1, 2]]), r"scores has shape \(1, 2\)"),
        (lambda: bounds.bootstrap_error([1.0, 2.0, 3.0], [1, 2]), "labels has 2 entries and"),
        (lambda: bounds.bootstrap_error([1.0, 2.0], [1, np.nan]), r"labels\[1\] is nan"),
        (lambda: bounds.bootstrap_queries(PerQuery(np.ones((2, 3)), np.arange(3))), "has draws"),
        (lambda: bounds.bootstrap_queries(PerQuery(np.array([np.nan]), np.arange(1))), "undefined"),
        (lambda: bounds.posterior_error([1.0], np.ones((2, 2)) / 2), r"with n = 1 scores"),
        (lambda: bounds.posterior_error([1.0], [[0.5, 0.6]]), "sum to 1"),
        (lambda: bounds.posterior_error([1, np.nan], np.ones((2, 2)) / 2), r"scores\[1\] is NaN"),
        (lambda: bounds.error_intervals([1, 2, 3, 4], [1, 1, 2, 2], posterior=[]), "is empty"),
        (lambda: bounds.error_intervals([1.0], [1], delta=2), "delta is 2; pass a number above 0"),
    ),
    *rows(
        sampled,
        (lambda q: bounds.ranking_distance([1.0], [1.0, 2.0]), r"other has shape \(2,\)"),
        (lambda q: bounds.ranking_distance([], []), r"scores must have shape \(n,\) with n >= 1"),
        (lambda q: bounds.ranking_distance([1.0, np.nan], [1, 2]), r"scores\[1\] is NaN"),
        (
            lambda q: bounds.ranking_distance([1.0], [1.0], query=np.array([None])),
            r"query\[0\] is None",
        ),
        (lambda q: bounds.ranking_distance([1.0], [1.0], query=[1, 2]), r"query has shape \(2,\)"),
        (lambda q: bounds.mcdiarmid_term(0, 0.1), "num_queries is 0; pass a whole number from 1"),
        (lambda q: cross_validate(q, num_folds=1), "a whole number between 2 and .* 10, got 1"),
        (lambda q: cross_validate(q, num_folds=11), "num_folds must be a whole number between"),
        (lambda q: cross_validate(q, num_folds=2.5), "whole number between 2 and .* got 2.5"),
        (lambda q: cross_validate(q._replace(labels=q.labels[1:])), "labelled has labels of shape"),
        (lambda q: cross_validate(q, delta=1.0), "delta is 1.0; pass a number above 0 and below 1"),
        (lambda q: cross_validate(q._replace(labels=None)), "labelled queries need labels"),
        (lambda q: cross_validate(q._replace(labels=q.labels + 1)), "labels must be 0 or 1, got 2"),
        (
            lambda q: cross_validate(q, other=bounds.Queries(q.features[:0], q.query[:0])),
            "no unlabelled",
        ),
        (lambda q: cross_validate(q, other=q._replace(query=q.query[:0])), "unlabelled has feat"),
        (lambda q: cross_validate(q, score=lambda w, x: x), r"score returned shape \(\d+, 3\)"),
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
