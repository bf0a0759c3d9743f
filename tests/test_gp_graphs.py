"""Graphs of nearest neighbours and Laplacians, against brute force and their own identities."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from bayesrank import gp

RNG = np.random.default_rng(5)
X = RNG.normal(size=(15, 3))
BLOBS = np.concatenate([RNG.normal(size=(6, 2)), RNG.normal(size=(7, 2)) + 50.0])


def _by_hand(points, num_neighbors, symmetry, weight, metric: Any = "euclidean"):
    """Adjacency by sorting every row of the matrix of distances."""
    distances = cdist(points, points, metric)
    np.fill_diagonal(distances, np.inf)
    near = np.zeros(distances.shape, bool)
    nearest = np.argsort(distances, axis=1)[:, :num_neighbors]
    np.put_along_axis(near, nearest, True, axis=1)
    joined = near | near.T if symmetry == "union" else near & near.T
    typical = np.median(np.take_along_axis(distances, nearest, axis=1))
    return np.where(joined, weight(distances, typical), 0.0)


@pytest.mark.parametrize("symmetry", ["union", "mutual"])
@pytest.mark.parametrize(
    ("options", "weight"),
    [
        ({}, lambda r, _: np.ones_like(r)),
        ({"weights": "heat"}, lambda r, typical: np.exp(-(r**2) / (2 * typical**2))),
        ({"weights": "heat", "bandwidth": 0.7}, lambda r, _: np.exp(-(r**2) / (2 * 0.49))),
    ],
    ids=["binary", "heat", "heat of given bandwidth"],
)
def test_neighbours_are_those_found_by_sorting_distances(symmetry: Any, options, weight):
    graph = gp.knn_graph(X, 4, symmetry=symmetry, **options)
    assert sparse.issparse(graph) and graph.format == "csr"
    expected = _by_hand(X, 4, symmetry, weight)
    np.testing.assert_allclose(graph.toarray(), expected, rtol=1e-12, atol=0)


def test_metric_is_the_one_asked_for():
    expected = _by_hand(X, 3, "union", lambda r, _: np.ones_like(r), metric="cityblock")
    np.testing.assert_array_equal(gp.knn_graph(X, 3, metric="cityblock").toarray(), expected)


def test_all_others_can_be_neighbours():
    np.testing.assert_array_equal(gp.knn_graph(X, 14).toarray(), 1.0 - np.eye(15))


@pytest.mark.parametrize("weights", ["binary", "heat"])
def test_items_with_the_same_features_are_neighbours_of_full_weight(weights: Any):
    points = np.concatenate([X[:6], X[:3]])
    graph = gp.knn_graph(points, 2, weights=weights).toarray()
    np.testing.assert_array_equal(graph[[0, 1, 2], [6, 7, 8]], 1.0)
    np.testing.assert_array_equal(np.diag(graph), 0.0)
    assert np.all((graph > 0).sum(axis=1) >= 2)


def test_more_copies_than_neighbours_are_still_no_neighbours_of_themselves():
    points = np.concatenate([np.zeros((5, 2)), X[:4, :2] + 9.0])
    graph = gp.knn_graph(points, 2).toarray()
    np.testing.assert_array_equal(np.diag(graph), 0.0)
    assert np.all((graph > 0).sum(axis=1) >= 2)


def test_laplacian_is_that_of_the_paper():
    graph = gp.knn_graph(X, 3)
    computed = gp.laplacian(graph)
    assert sparse.issparse(computed) and computed.nnz == graph.nnz + len(X)
    joined = graph.toarray() > 0
    off_diagonal = np.where(joined, -1.0, 0.0)
    expected = off_diagonal - np.diag(off_diagonal.sum(axis=1))
    np.testing.assert_array_equal(computed.toarray(), expected)


@pytest.mark.parametrize("normalized", [False, True])
def test_quadratic_form_is_the_sum_over_edges(normalized):
    graph = gp.knn_graph(X, 4, weights="heat")
    f = RNG.normal(size=15)
    weights, scaled = graph.toarray(), f
    if normalized:
        scaled = f / np.sqrt(weights.sum(axis=1))
    by_edges = 0.5 * np.sum(weights * (scaled[:, None] - scaled) ** 2)
    form = f @ (gp.laplacian(graph, normalized=normalized) @ f)
    np.testing.assert_allclose(form, by_edges, rtol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_one_eigenvalue_is_zero_for_each_part_of_the_graph(normalized):
    graph = gp.knn_graph(BLOBS, 3)
    values = np.linalg.eigvalsh(gp.laplacian(graph, normalized=normalized).toarray())
    assert connected_components(graph)[0] == 2
    np.testing.assert_allclose(values[:2], 0.0, atol=1e-12)
    assert values[2] > 1e-3
    if normalized:
        assert values[-1] <= 2.0 + 1e-12


@pytest.mark.parametrize("normalized", [False, True])
def test_an_item_without_neighbours_has_a_row_of_zeros(normalized):
    points = np.array([[0.0], [1.0], [5.0]])
    graph = gp.knn_graph(points, 1, symmetry="mutual")
    matrix = gp.laplacian(graph, normalized=normalized).toarray()
    np.testing.assert_allclose(matrix, [[1, -1, 0], [-1, 1, 0], [0, 0, 0]], atol=1e-15)


def test_a_graph_without_edges_has_no_laplacian_to_speak_of():
    assert gp.laplacian(np.zeros((3, 3))).toarray().sum() == 0.0
