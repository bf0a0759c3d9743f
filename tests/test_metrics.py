"""Metrics against hand-worked tables, their definitions, and the rules for awkward input."""

import math

import jax.numpy as jnp
import metrics_reference
import metrics_reference as reference
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refused
from sklearn.metrics import coverage_error, hamming_loss, label_ranking_loss, zero_one_loss

from bayesrank import metrics

LABELS = [1, 0, 2, 0, 1]  # in the order of the scores 5, 4, 3, 2, 1
SCORES = [5.0, 4.0, 3.0, 2.0, 1.0]
LOG = [math.log2(rank + 1) for rank in range(1, 6)]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        # Pairs of unlike labels: 8; wrong: (1, 2), (0, 2), (0, 1), (0, 1) of labels in that order.
        (metrics.pairwise_error, 4 / 8),
        (metrics.disagreement_error, (4 + 2 * 0.5) / 10),
        (metrics.ndcg, (1 + 3 / LOG[2] + 1 / LOG[4]) / (3 + 1 / LOG[1] + 1 / LOG[2])),
        (metrics.average_precision, (1 + 2 / 3 + 3 / 5) / 3),
    ],
)
def test_by_hand(metric, value):
    assert metric(SCORES, LABELS).mean == pytest.approx(value, abs=1e-14)


def test_relevant_are_labels_from_a_least_one_on():
    for name in ("average_precision", "reciprocal_rank", "winner_takes_all"):
        metric = getattr(metrics, name)
        relevant = metric(SCORES, np.array(LABELS) >= 2).mean
        assert metric(SCORES, LABELS, min_relevant=2).mean == relevant
        assert relevant != metric(SCORES, LABELS).mean


RANKED = [
    (metrics.ndcg, {}, reference.ndcg),
    (metrics.ndcg, {"k": 3}, lambda y: reference.ndcg(y, 3)),
    (metrics.ndcg, {"gain": "linear"}, lambda y: reference.ndcg(y, gain=float)),
    (metrics.average_precision, {}, reference.average_precision),
    (metrics.average_precision, {"k": 3}, lambda y: reference.average_precision(y, 3)),
    (metrics.reciprocal_rank, {}, reference.reciprocal_rank),
    (metrics.reciprocal_rank, {"k": 2}, lambda y: reference.reciprocal_rank(y, 2)),
    (metrics.winner_takes_all, {}, reference.winner_takes_all),
    (metrics.precision_at, {"k": 3}, lambda y: reference.precision_at(y, 3)),
    (metrics.break_even_point, {}, reference.break_even_point),
    (metrics.coverage_error, {}, lambda y: max(np.flatnonzero(np.array(y) >= 1)) + 1.0),
]


@pytest.mark.parametrize(("metric", "options", "slow"), RANKED)
def test_ties_count_by_their_expected_value(metric, options, slow):
    rng = np.random.default_rng(3)
    for levels in (1, 2, 3, 6):
        for _ in range(4):
            scores, labels = rng.integers(0, levels, 6), rng.permutation([0, 0, 0, 1, 1, 2])
            fast = metric(scores, labels, **options).mean
            assert fast == pytest.approx(reference.expected(slow, scores, labels), abs=1e-12)


@pytest.mark.parametrize("alpha", [0, 0.5, 1, 2])
@pytest.mark.parametrize("levels", [2, 5, 40])
def test_pairwise_metrics_against_all_pairs(alpha, levels):
    rng = np.random.default_rng(levels)
    for n in (2, 3, 7, 33):
        scores = rng.integers(0, 8, n)
        labels = np.concatenate([[0, 1], rng.integers(0, levels, n - 2)])
        assert metrics.k_partite_error(scores, labels, alpha).mean == pytest.approx(
            reference.k_partite_error(scores, labels, alpha), abs=1e-12
        )
        assert metrics.disagreement_error(scores, labels).mean == pytest.approx(
            reference.disagreement_error(scores, labels), abs=1e-12
        )


@pytest.mark.parametrize("k", [None, 1, 2, 4, 9])
@pytest.mark.parametrize("levels", [2, 4, 100])
def test_distances_against_their_definitions(k, levels):
    rng = np.random.default_rng(levels)
    for _ in range(5):
        scores, labels = rng.integers(0, levels, 6), rng.integers(0, levels, 6)
        for penalty in (0.0, 0.5, 1.0):
            distance = metrics.kendall_distance(
                scores, labels, k=k, penalty=penalty, normalize=False
            )
            assert distance.mean == pytest.approx(
                reference.kendall_distance(scores, labels, k, penalty), abs=1e-12
            )
        footrule = metrics.spearman_footrule(scores, labels, k=k, normalize=False)
        assert footrule.mean == pytest.approx(
            reference.spearman_footrule(scores, labels, k), abs=1e-12
        )


def test_distances_are_one_at_their_largest():
    n = 8
    up, down = np.arange(n), -np.arange(n)
    for k in (None, 3, 4):
        assert metrics.kendall_distance(up, down, k=k).mean == pytest.approx(1.0)
        assert metrics.spearman_footrule(up, down, k=k).mean == pytest.approx(1.0)
        assert metrics.kendall_distance(up, up, k=k).mean == 0.0
        assert metrics.spearman_footrule(up, up, k=k).mean == 0.0


def test_queries_are_judged_apart_and_averaged():
    scores = [1.0, 2.0, 3.0, 4.0, 1.0, 1.0]
    labels = [1, 0, 0, 2, 3, 0]
    error = metrics.pairwise_error(scores, labels, query=["q9", "q9", "q2", "q2", "q5", "q5"])
    assert error.query.tolist() == ["q9", "q2", "q5"]  # as they appear, not as they sort
    np.testing.assert_array_equal(error.values, [1.0, 0.0, 0.5])
    assert error.mean == float(error) == 0.5
    assert len(error) == 3


def test_interleaved_queries_equal_separate_calls():
    rng = np.random.default_rng(5)
    query = rng.integers(0, 7, 200)
    scores, labels = rng.integers(0, 9, 200), rng.integers(0, 3, 200)
    for metric in (metrics.ndcg, metrics.average_precision, metrics.disagreement_error):
        together = metric(scores, labels, query=query)
        for name, value in zip(together.query, together.values, strict=True):
            alone = metric(scores[query == name], labels[query == name])
            assert value == pytest.approx(alone.mean, abs=1e-13)


def test_mask_leaves_items_out():
    scores, labels = np.array([3.0, np.nan, 2.0, 1.0]), np.array([0, np.nan, 1, 0])
    where = np.array([True, False, True, True])
    for metric in (metrics.pairwise_error, metrics.ndcg, metrics.average_precision):
        masked = metric(scores, labels, where=where).mean
        assert masked == metric(scores[where], labels[where]).mean


def test_draws_give_a_distribution():
    rng = np.random.default_rng(6)
    draws, query = rng.normal(size=(2, 30, 24)), np.repeat([0, 1, 2], 8)
    labels = rng.integers(0, 3, 24)
    where = rng.random(24) < 0.8
    for metric in (metrics.ndcg, metrics.pairwise_error, metrics.spearman_footrule):
        result = metric(draws, labels, query=query, where=where)
        assert result.values.shape == (2, 30, 3)
        assert result.mean.shape == (2, 30)
        for chain, draw in ((0, 0), (1, 29)):
            one = metric(draws[chain, draw], labels, query=query, where=where)
            np.testing.assert_allclose(result.values[chain, draw], one.values, atol=1e-14)
        low, high = result.interval(0.5)
        inside = np.mean((result.mean >= low) & (result.mean <= high))
        assert inside == pytest.approx(0.5, abs=0.04)


def test_labels_may_carry_draws():
    rng = np.random.default_rng(7)
    scores, labels = rng.normal(size=12), rng.integers(0, 2, (5, 12))
    labels[:, :2] = [0, 1]
    values = metrics.auc(scores, labels).mean
    np.testing.assert_allclose(values, [metrics.auc(scores, row).mean for row in labels])


def test_blocks_of_draws_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(8)
    scores, labels = rng.normal(size=(11, 20)), rng.integers(0, 3, (11, 20))
    where = rng.random((11, 20)) < 0.9
    whole = metrics.ndcg(scores, labels, where=where).values
    monkeypatch.setattr("bayesrank.metrics.per_query._BLOCK", 60)
    np.testing.assert_array_equal(metrics.ndcg(scores, labels, where=where).values, whole)


def test_ties_resolved_by_input_order():
    labels = [1, 0, 0, 2]
    flat = metrics.ndcg(np.zeros(4), labels, ties="input").mean
    assert flat == metrics.ndcg([4, 3, 2, 1], labels).mean
    assert metrics.pairwise_error(np.zeros(4), labels, ties="input").mean == 3 / 5


def test_ties_resolved_as_trec_eval_does():
    """By item in descending order of its text, after rounding scores to single precision."""
    scores = [1.0, 1.0 + 1e-12, 1.0, 0.5]
    item = [10, 9, 2, 7]  # as text: 9, 2, 10
    ranked = metrics.ndcg(scores, [3, 1, 2, 0], ties="trec", item=item).mean
    assert ranked == metrics.ndcg([2, 4, 3, 1], [3, 1, 2, 0]).mean


def test_minus_infinity_means_not_retrieved():
    scores, labels = [2.0, 1.0, -np.inf, -np.inf], [0, 1, 1, 0]
    assert metrics.average_precision(scores, labels).mean == pytest.approx((1 / 2) / 2)
    assert metrics.break_even_point(scores, labels).mean == 1 / 2
    ideal = 1 + 1 / LOG[1]
    assert metrics.ndcg(scores, labels).mean == pytest.approx(1 / LOG[1] / ideal)
    for ties in ("expected", "input"):
        nothing = metrics.reciprocal_rank([-np.inf, -np.inf], [1, 0], ties=ties)
        assert nothing.mean == 0.0
        assert metrics.winner_takes_all([-np.inf, -np.inf], [1, 0], ties=ties).mean == 1.0
        # Unseen items come after seen ones and are tied among themselves.
        assert metrics.pairwise_error(scores, labels, ties=ties).mean == (1 + 1 + 0.5) / 4


DEFINED_FROM_TWO_CLASSES = [
    metrics.pairwise_error,
    metrics.k_partite_error,
    metrics.auc,
    metrics.kendall_tau,
]
NEEDS_A_RELEVANT_ITEM = [
    metrics.ndcg,
    metrics.average_precision,
    metrics.reciprocal_rank,
    metrics.break_even_point,
]


@pytest.mark.parametrize("metric", DEFINED_FROM_TWO_CLASSES + NEEDS_A_RELEVANT_ITEM)
def test_rule_for_one_class(metric):
    scores, labels, query = [1.0, 2.0, 1.0, 2.0], [0, 0, 0, 1], ["flat", "flat", "good", "good"]
    result = metric(scores, labels, query=query)
    assert np.isnan(result.values[0]) and result.num_undefined == 1
    assert result.mean == result.values[1]
    assert metric(scores, labels, query=query, undefined=0.0).mean == result.values[1] / 2
    refused("not defined for query 'flat'", metric, scores, labels, query=query, undefined="raise")


@pytest.mark.parametrize(
    ("metric", "value"), [(metrics.precision_at, 0.0), (metrics.winner_takes_all, 1.0)]
)
def test_rule_for_nothing_relevant(metric, value):
    options = {"k": 2} if metric is metrics.precision_at else {}
    assert metric([1.0, 2.0], [0, 0], **options).mean == value


@pytest.mark.parametrize(
    "metric",
    [
        *DEFINED_FROM_TWO_CLASSES,
        *NEEDS_A_RELEVANT_ITEM,
        metrics.winner_takes_all,
        metrics.mean_absolute_error,
        metrics.zero_one_error,
        metrics.disagreement_error,
        metrics.kendall_distance,
        metrics.spearman_footrule,
    ],
)
def test_rule_for_empty_queries(metric):
    where = [True, True, False, False]
    result = metric([1.0, 2.0, 1.0, 2.0], [0, 1, 0, 1], query=list("aabb"), where=where)
    assert np.isnan(result.values[1]) and not np.isnan(result.mean)
    assert math.isnan(metric([], []).mean)
    refused("not defined for query 0", metric, [], [], undefined="raise")


def test_pairs_are_counted_where_labels_are_below_zero():
    scores, labels = [1.0, 2.0, 3.0], [-1.0, 0.5, -2.0]
    for metric in (metrics.pairwise_error, metrics.disagreement_error):
        assert metric(scores, labels).mean == pytest.approx(2 / 3)
    assert metrics.kendall_tau(scores, labels).mean == pytest.approx(-1 / 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.ndcg([1.0, np.nan], [0, 1]), r"scores\[1\] is nan: .*where="),
        (lambda: metrics.ndcg([[1.0, np.nan]], [0, 1]), r"scores\[0, 1\] is nan"),
        (lambda: metrics.ndcg([1.0, 2.0], [0, np.inf]), r"labels\[1\] is inf: .*finite"),
        (lambda: metrics.ndcg([1.0, 2.0], [-1, 1]), r"labels\[0\] is -1: .*below zero; map"),
        (lambda: metrics.auc([1.0, 2.0], [-1, 1]), r"labels\[0\] is -1"),
        (lambda: metrics.k_partite_error([1.0, 2.0], [0.5, 1]), r"labels\[0\] is 0.5: .*whole"),
        (lambda: metrics.k_partite_error([1.0], [1], -1), "alpha is -1; pass a number from 0 on"),
        (lambda: metrics.rank_loss([np.inf], [1]), r"scores\[0\] is inf: .*finite"),
        (lambda: metrics.ndcg([1.0, 2.0], [1]), "labels has 1 entries and scores has 2"),
        (lambda: metrics.ndcg([1.0], [1], where=[True, False]), "where has 2 entries"),
        (lambda: metrics.ndcg([1.0], [1], where=[1]), "where must be boolean, got dtype int64"),
        (lambda: metrics.ndcg(1.0, [1]), "scores must have one entry an item"),
        (lambda: metrics.ndcg([1.0], 1), "labels must have one entry an item"),
        (lambda: metrics.ndcg(["a"], [1]), "scores must be real numbers, got dtype"),
        (lambda: metrics.ndcg([1.0], [1], query=["a", "b"]), r"query has shape \(2,\)"),
        (lambda: metrics.ndcg([1.0], [1], query=[np.nan]), r"query\[0\] is nan; every item"),
        (lambda: metrics.ndcg([1, 2], [1, 0], query=np.array(["a", None])), r"\[1\] is None"),
        (lambda: metrics.ndcg(np.array([1.0, None]), [0, 1]), r"scores\[1\] is nan: .*where="),
        (lambda: metrics.ndcg([1.0], [1], k=0), "k is 0; pass a whole number from 1 on"),
        (lambda: metrics.precision_at([1.0], [1], k=True), "k is .*; pass a whole number from 1"),
        (
            lambda: metrics.ndcg([1.0], [1], gain="log"),  # pyright: ignore[reportArgumentType]
            "choose 'exponential' or 'linear'",
        ),
        (lambda: metrics.ndcg([1.0], [2000]), "labels go up to 2000: .*gain='linear'"),
        (
            lambda: metrics.ndcg([1.0], [1], ties="best"),  # pyright: ignore
            "choose 'expected', 'trec' or 'input'",
        ),
        (lambda: metrics.ndcg([1.0], [1], ties="trec"), "ties='trec' needs item="),
        (lambda: metrics.ndcg([1.0], [1], ties="trec", item=[1, 2]), r"item has shape \(2,\)"),
        (
            lambda: metrics.ndcg([1.0], [0], undefined="0"),  # pyright: ignore[reportArgumentType]
            "undefined must be 'skip', 'raise'",
        ),
        (lambda: metrics.auc([1.0], [1], min_relevant=0), "min_relevant is 0; pass a positive"),
        (
            lambda: metrics.kendall_distance([1], [1], penalty=2),
            "penalty is 2; pass a number at least 0 and at most 1",
        ),
        (lambda: metrics.ndcg([1.0], [1]).interval(), "interval needs draws"),
        (lambda: metrics.ndcg([[1.0]], [1]).interval(1.5), "level is 1.5; pass a number above 0"),
    ],
)
def test_refusals_name_the_argument_and_the_fix(call, message):
    refused(message, call)


def test_a_distribution_is_not_a_number():
    refused(r"take \.mean", float, metrics.ndcg([[1.0, 2.0]], [0, 1]), kind=TypeError)


def test_result_tells_what_it_is():
    result = metrics.pairwise_error([1.0, 2.0, 1.0], [0, 1, 1], query=[0, 0, 1])
    assert repr(result) == "PerQuery(mean=0, queries=2, undefined=1)"
    assert "draws=3" in repr(metrics.ndcg(np.zeros((3, 2)), [0, 1]))


def test_results_can_be_compared_and_kept_in_sets():
    result = metrics.pairwise_error([1.0, 2.0, 1.0], [0, 1, 1], query=[0, 0, 1])
    assert result == result and len({result, result}) == 1
    assert result != metrics.pairwise_error([1.0, 2.0, 1.0], [0, 1, 1], query=[0, 0, 1])


def test_queries_may_be_named_by_what_has_no_order():
    names = np.array(["b", 2, "b", 2], object)
    result = metrics.ndcg([1.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], query=names)
    assert result.query.tolist() == ["b", 2]
    apart = metrics.ndcg([1.0, 2.0], [0, 1]).mean, metrics.ndcg([1.0, 3.0], [0, 1]).mean
    np.testing.assert_array_equal(result.values, apart)
    with pytest.raises(ValueError, match="not defined for query 'b'"):
        metrics.ndcg([1.0, 1.0], [0, 0], query=names[:2], undefined="raise")


def test_concrete_jax_arrays_are_computed_in_double_precision():
    scores, labels = jnp.asarray([0.3, 0.1, 0.2], jnp.float32), jnp.asarray([1, 0, 2])
    result = metrics.ndcg(scores, labels)
    assert result.values.dtype == np.float64
    assert result.mean == metrics.ndcg(np.asarray(scores), np.asarray(labels)).mean


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
def test_strict_k_partite_error_counts_ties_whole(alpha):
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 4, (2, 30)).astype(float)
    found = metrics.k_partite_error(scores, labels, alpha, strict=True).mean
    expected = metrics_reference.k_partite_error(scores, labels, alpha, tied=1.0)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found > metrics.k_partite_error(scores, labels, alpha).mean
    apart = metrics.k_partite_error(np.arange(30.0), labels, alpha, strict=True).mean
    assert apart == metrics.k_partite_error(np.arange(30.0), labels, alpha).mean


def test_label_sets_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores = rng.permuted(np.tile(np.arange(7.0), (30, 1)), axis=1)
    labels = rng.integers(0, 2, (30, 7))
    labels[:, :2] = [0, 1]
    chosen = (scores > 3).astype(int)
    chosen[:5] = labels[:5]
    query = np.repeat(np.arange(30), 7)
    flat, truth, sets = scores.ravel(), labels.ravel(), chosen.ravel()
    for ours, theirs in (
        (metrics.coverage_error(flat, truth, query=query), coverage_error(labels, scores)),
        (metrics.pairwise_error(flat, truth, query=query), label_ranking_loss(labels, scores)),
        (metrics.zero_one_error(sets, truth, query=query), hamming_loss(labels, chosen)),
        (metrics.subset_error(sets, truth, query=query), zero_one_loss(labels, chosen)),
    ):
        assert ours.mean == pytest.approx(theirs, abs=1e-12)


def test_coverage_without_relevant_labels_is_undefined_and_unretrieved_ones_stand_last():
    assert np.isnan(metrics.coverage_error([2.0, 1.0], [0, 0]).mean)
    assert metrics.coverage_error([2.0, -np.inf, 1.0], [0, 1, 0]).mean == 3.0


def test_bucket_orders_of_top_rankings_are_compared_over_all_pairs():
    """Relevant labels in order, the zero, then the others tied: pairs counted by hand."""
    truth, found = [4, 3, 1, 1, 2], [3, 4, 0, 0, 2]  # labels 0..3, then the zero
    assert metrics.kendall_distance(truth, found, normalize=False).mean == 1.0
    fewer = [4, 1, 1, 1, 3]  # the second label below the zero, tied with the others
    assert_allclose(metrics.kendall_distance(truth, fewer, normalize=False).mean, 1 + 2 * 0.5)
    assert metrics.spearman_footrule(truth, fewer, normalize=False).mean == 1 + 2 + 0.5 + 0.5
