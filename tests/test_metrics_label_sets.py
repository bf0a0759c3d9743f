"""Metrics of sets and rankings of labels: against scikit-learn and by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import coverage_error, hamming_loss, label_ranking_loss, zero_one_loss

from bayesrank import metrics


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
