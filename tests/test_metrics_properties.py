"""What must hold whatever the data: invariances, traced evaluation, cost."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from bayesrank import metrics

METRICS = {
    "pairwise_error": metrics.pairwise_error,
    "k_partite_error": partial(metrics.k_partite_error, alpha=1.0),
    "disagreement_error": metrics.disagreement_error,
    "kendall_tau": metrics.kendall_tau,
    "kendall_distance": metrics.kendall_distance,
    "kendall_top": partial(metrics.kendall_distance, k=3),
    "footrule": metrics.spearman_footrule,
    "footrule_top": partial(metrics.spearman_footrule, k=3),
    "auc": metrics.auc,
    "ndcg": metrics.ndcg,
    "ndcg_top": partial(metrics.ndcg, k=3, gain="linear"),
    "average_precision": metrics.average_precision,
    "reciprocal_rank": metrics.reciprocal_rank,
    "winner_takes_all": metrics.winner_takes_all,
    "precision_at": partial(metrics.precision_at, k=3),
    "break_even_point": metrics.break_even_point,
}
RATINGS = {"rank_loss": metrics.rank_loss, "zero_one_error": metrics.zero_one_error}

pairs = st.lists(
    st.tuples(st.integers(-6, 6), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=14
)


def columns(rows):
    scores, labels, query = (np.array(column) for column in zip(*rows, strict=True))
    return scores.astype(float), labels, query


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=30, deadline=None)
@given(rows=pairs, seed=st.integers(0, 2**16))
def test_order_of_storage_does_not_matter(name, rows, seed):
    scores, labels, query = columns(rows)
    order = np.random.default_rng(seed).permutation(len(scores))
    before = METRICS[name](scores, labels, query=query)
    after = METRICS[name](scores[order], labels[order], query=query[order])
    found = dict(zip(after.query.tolist(), after.values.tolist(), strict=True))
    for key, value in zip(before.query.tolist(), before.values, strict=True):
        np.testing.assert_allclose(found[key], value, atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=30, deadline=None)
@given(rows=pairs, power=st.sampled_from([1, 3]), shift=st.floats(-5, 5))
def test_only_the_order_of_the_scores_matters(name, rows, power, shift):
    scores, labels, query = columns(rows)
    before = METRICS[name](scores, labels, query=query).values
    after = METRICS[name](2.0 * scores**power + shift, labels, query=query).values
    np.testing.assert_allclose(after, before, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(rows=pairs)
def test_relations_between_metrics(rows):
    scores, labels, _ = columns(rows)
    assume(len(set(labels.tolist())) > 1)
    error = metrics.pairwise_error(scores, labels).mean
    assert metrics.pairwise_error(-scores, labels).mean == pytest.approx(1 - error)
    assert metrics.k_partite_error(scores, labels).mean == pytest.approx(error)
    half = metrics.kendall_distance(scores, labels).mean
    assert half == pytest.approx(metrics.disagreement_error(scores, labels).mean)
    binary = (labels > 0) * 1
    if 0 < binary.sum() < len(binary):
        for alpha in (0.0, 1.0, 2.5):  # for two levels alpha is idle
            both = metrics.k_partite_error(scores, binary, alpha).mean
            assert metrics.auc(scores, binary).mean == pytest.approx(1 - both)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=2, max_size=10))
def test_distances_are_metrics(rows):
    """Kendall's with penalty one half and the footrule: symmetric, triangle, within a factor 2."""
    a, b, c = (np.array(column) for column in zip(*rows, strict=True))
    kendall = partial(metrics.kendall_distance, normalize=False)
    footrule = partial(metrics.spearman_footrule, normalize=False)
    for distance in (kendall, footrule):
        assert distance(a, a).mean == 0.0
        assert distance(a, b).mean == pytest.approx(distance(b, a).mean)
        assert distance(a, c).mean <= distance(a, b).mean + distance(b, c).mean + 1e-9
    k, f = kendall(a, b).mean, footrule(a, b).mean
    assert k - 1e-9 <= f <= 2 * k + 1e-9  # Fagin et al. 2006, theorem on the profile metrics


@settings(max_examples=40, deadline=None)
@given(rows=pairs)
def test_right_order_is_best(rows):
    _, labels, query = columns(rows)
    best = labels.astype(float)
    for name in ("ndcg", "average_precision", "reciprocal_rank", "auc", "break_even_point"):
        values = METRICS[name](best, labels, query=query).values
        assert np.all(np.isnan(values) | (np.abs(values - 1.0) < 1e-12))
    for name in ("pairwise_error", "k_partite_error", "footrule"):
        values = METRICS[name](best, labels, query=query).values
        assert np.all(np.isnan(values) | (np.abs(values) < 1e-12))


def test_many_scores_are_within_reach():
    """Nothing is built over pairs of scores, of which there are 3e10; against Kendall's tau."""
    rng = np.random.default_rng(12)
    scores, labels = rng.normal(size=(2, 250_000))
    tau: Any = kendalltau(scores, labels)
    discordant = 0.5 * (1.0 - tau.statistic)
    assert float(metrics.pairwise_error(scores, labels).mean) == pytest.approx(discordant, rel=1e-9)
    grades = (labels > 0.3).astype(int)
    bipartite = 1.0 - float(metrics.auc(scores, grades).mean)
    error = metrics.k_partite_error(scores, grades, 1.0).mean
    assert float(error) == pytest.approx(bipartite, rel=1e-9)
