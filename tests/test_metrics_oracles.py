"""Metrics against other libraries, each on its own terms."""

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import (
    mean_absolute_error,
    ndcg_score,
    roc_auc_score,
    zero_one_loss,
)

from bayesrank import metrics


def lists(seed, *, num_queries=20, size=15, num_scores=10_000, num_labels=3):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, num_scores, (num_queries, size)) / 8.0
    labels = rng.integers(0, num_labels, (num_queries, size))
    labels[:, :2] = [0, num_labels - 1]
    return scores, labels


@pytest.mark.parametrize("num_scores", [3, 10_000])
@pytest.mark.parametrize("k", [None, 1, 5, 50])
def test_ndcg_of_scikit_learn(num_scores, k):
    """It averages over ties as we do; its gain is linear, so exponential gains go in as labels."""
    scores, labels = lists(1, num_scores=num_scores)
    query = np.repeat(np.arange(20), 15)
    ours = metrics.ndcg(scores.ravel(), labels.ravel(), query=query, k=k, gain="linear")
    assert ours.mean == pytest.approx(ndcg_score(labels, scores, k=k), abs=1e-12)
    ours = metrics.ndcg(scores.ravel(), labels.ravel(), query=query, k=k)
    assert ours.mean == pytest.approx(ndcg_score(2**labels - 1, scores, k=k), abs=1e-12)


@pytest.mark.parametrize("num_scores", [2, 6, 10_000])
def test_auc_of_scikit_learn(num_scores):
    scores, labels = lists(2, num_scores=num_scores, num_labels=2)
    ours = metrics.auc(scores.ravel(), labels.ravel(), query=np.repeat(np.arange(20), 15))
    theirs = [roc_auc_score(y, s) for y, s in zip(labels, scores, strict=True)]
    np.testing.assert_allclose(ours.values, theirs, atol=1e-12)


@pytest.mark.parametrize("num_scores", [4, 10_000])
@pytest.mark.parametrize("num_labels", [2, 10_000])
def test_kendall_tau_of_scipy(num_scores, num_labels):
    scores, labels = lists(4, num_scores=num_scores, num_labels=num_labels, size=200)
    ours = metrics.kendall_tau(scores.ravel(), labels.ravel(), query=np.repeat(np.arange(20), 200))
    theirs = [np.asarray(kendalltau(s, y), float)[0] for s, y in zip(scores, labels, strict=True)]
    np.testing.assert_allclose(ours.values, theirs, atol=1e-12)


def test_ratings_of_scikit_learn():
    rng = np.random.default_rng(5)
    predicted, labels = rng.integers(1, 6, 100), rng.integers(1, 6, 100)
    assert metrics.rank_loss(predicted, labels).mean == pytest.approx(
        mean_absolute_error(labels, predicted)
    )
    assert metrics.zero_one_error(predicted, labels).mean == pytest.approx(
        zero_one_loss(labels, predicted)
    )


# ir-measures parses by nodes that Python 3.13 announces to remove.
@pytest.mark.filterwarnings("ignore:.*removed in Python 3.14:DeprecationWarning")
@pytest.mark.parametrize("num_scores", [3, 10_000])
@pytest.mark.parametrize("seen", [1.0, 0.7])
def test_metrics_of_trec_eval(num_scores, seen):
    """With trec_eval's ties, its zero for undefined queries, and documents not retrieved."""
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(6)
    scores, labels = lists(6, num_scores=num_scores)
    labels[0] = 0  # nothing relevant
    retrieved = rng.random(scores.shape) < seen
    retrieved[:, 0] = True
    item = np.array([f"d{i}" for i in range(scores.size)])
    query = np.array([f"q{i // 15}" for i in range(scores.size)])
    qrels = [
        ir_measures.Qrel(q, d, int(y)) for q, d, y in zip(query, item, labels.ravel(), strict=True)
    ]
    run = [
        ir_measures.ScoredDoc(q, d, float(s))
        for q, d, s, r in zip(query, item, scores.ravel(), retrieved.ravel(), strict=True)
        if r
    ]
    measured = {
        "AP": (metrics.average_precision, {}),
        "AP@5": (metrics.average_precision, {"k": 5}),
        "AP(rel=2)": (metrics.average_precision, {"min_relevant": 2}),
        "RR": (metrics.reciprocal_rank, {}),
        "P@5": (metrics.precision_at, {"k": 5}),
        "P@30": (metrics.precision_at, {"k": 30}),
        "Rprec": (metrics.break_even_point, {}),
        "nDCG": (metrics.ndcg, {"gain": "linear"}),
        "nDCG@5": (metrics.ndcg, {"gain": "linear", "k": 5}),
        "Success@1": (metrics.winner_takes_all, {}),
    }
    measures = {name: ir_measures.parse_measure(name) for name in measured}
    theirs = {
        (str(row.measure), row.query_id): row.value
        for row in ir_measures.iter_calc(measures.values(), qrels, run)
    }
    ours_of = np.where(retrieved, scores, -np.inf).ravel()
    for name, (metric, options) in measured.items():
        ours = metric(
            ours_of, labels.ravel(), query=query, ties="trec", item=item, undefined=0.0, **options
        )
        values = 1.0 - ours.values if name == "Success@1" else ours.values
        expected = [theirs[str(measures[name]), q] for q in ours.query]
        np.testing.assert_allclose(values, expected, atol=1e-6, err_msg=name)
