r"""Graphs of nearest neighbours and their Laplacians, sparse.

A graph says which items are alike, whether or not anybody compared them. Its Laplacian measures how
much a skill varies from neighbour to neighbour: with edge weights :math:`w_{ij}`,

.. math::
    f' L f = \frac{1}{2} \sum_{i,j} w_{ij} (f_i - f_j)^2, \qquad
    L_{ij} = -w_{ij}, \quad L_{ii} = \sum_{j \ne i} w_{ij}.

The normalised Laplacian :math:`D^{-1/2} L D^{-1/2}` divides each skill by the root of its item's
degree first. Items with many neighbours then weigh no more than others.

References
----------
.. [1] Chu, W. and Ghahramani, Z. (2005). Extensions of Gaussian processes for ranking:
   semi-supervised and active learning. NIPS Workshop on Learning to Rank. Section 2.1.
.. [2] Belkin, M. and Niyogi, P. (2003). Laplacian eigenmaps for dimensionality reduction and data
   representation. Neural Computation, 15, 1373-1396.
"""

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from bayesrank._validate import check_choice, check_count, check_table

_SYMMETRY = 1e-8


def knn_graph(
    X: ArrayLike,
    num_neighbors: int,
    *,
    symmetry: Literal["union", "mutual"] = "union",
    weights: Literal["binary", "heat"] = "binary",
    bandwidth: float | None = None,
    metric: str = "euclidean",
) -> sparse.csr_array:
    r"""Graph that joins each item with those nearest to it: symmetric weights, shape (n, n).

    Its diagonal is empty. It may have several components
    (`scipy.sparse.csgraph.connected_components`), and with "mutual" an item may have no neighbour
    at all. Priors made of the graph are proper all the same.

    Parameters
    ----------
    X : ArrayLike
        Features of the items, shape (n, d).
    num_neighbors : int
        How many nearest neighbours of each item count, from 1 to n - 1. An item is not its own
        neighbour; another one with the same features is, at distance zero.
    symmetry : {"union", "mutual"}
        Whether two items are joined if either is among the other's nearest, or only if both are.
    weights : {"binary", "heat"}
        Weight of an edge: one, or :math:`\exp(-r^2 / (2 b^2))` at distance :math:`r`.
    bandwidth : float, optional
        The :math:`b` of "heat" weights, positive. By default the median distance of the neighbours.
    metric : str
        A metric of `sklearn.neighbors.NearestNeighbors`.


    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and what to do.

    Examples
    --------
    >>> X = [[0.0], [1.0], [3.0]]
    >>> knn_graph(X, 1).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    >>> knn_graph(X, 1, symmetry="mutual").toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    points = check_table(X, "X").astype(np.float64)
    count = _check_neighbors(num_neighbors, len(points))
    check_choice(symmetry, "symmetry", "union", "mutual")
    check_choice(weights, "weights", "binary", "heat")
    wide = isinstance(bandwidth, Real) and 0.0 < float(bandwidth) < np.inf
    if bandwidth is not None and (weights == "binary" or not wide):
        raise ValueError(
            f"bandwidth is {bandwidth!r}; pass a positive number, with weights='heat' only"
        )
    from sklearn.neighbors import NearestNeighbors  # loads much, for graphs alone

    distances, neighbors = (
        NearestNeighbors(n_neighbors=count, metric=metric).fit(points).kneighbors()
    )
    values = np.ones_like(distances) if weights == "binary" else _heat(distances, bandwidth)
    starts = np.arange(0, count * len(points) + 1, count)
    directed = sparse.csr_array((values.ravel(), neighbors.ravel(), starts), (len(points),) * 2)
    both = directed.maximum if symmetry == "union" else directed.minimum
    return sparse.csr_array(both(directed.T))


def _heat(distances: NDArray, bandwidth: float | None) -> NDArray:
    width = float(np.median(distances)) if bandwidth is None else bandwidth
    if width == 0.0:
        raise ValueError(
            "X has so many items with the same features that the median distance of neighbours "
            "is zero; pass a bandwidth, or more num_neighbors"
        )
    return np.exp(-0.5 * np.square(distances / width))


def laplacian(graph: Any, *, normalized: bool = False) -> sparse.csr_array:
    """Laplacian of a graph: symmetric and positive semi-definite, shape (n, n).

    It has one eigenvalue zero for each component of the graph. The eigenvalues of the normalised
    one are at most two.

    Parameters
    ----------
    graph : scipy.sparse array or matrix, or ArrayLike
        Weights of the edges, shape (n, n): symmetric, finite and not negative. The diagonal does
        not matter.
    normalized : bool, default False
        Whether to divide rows and columns by the roots of the degrees. The row of an item without
        neighbours is zero either way.


    Raises
    ------
    ValueError
        If the weights are not numbers, finite, not negative, symmetric and of shape (n, n).

    Examples
    --------
    >>> laplacian([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    given: Any = graph if sparse.issparse(graph) else np.atleast_2d(graph)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"graph has dtype {given.dtype}; pass numbers, the weights of edges")
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.shape[0]:
        raise ValueError(f"graph has shape {given.shape}; pass (n, n), as knn_graph returns")
    edges: Any = sparse.csr_array(given).astype(np.float64)
    if not np.isfinite(edges.data).all() or (edges.data < 0.0).any():
        raise ValueError("graph has a weight that is negative or not finite; pass none of these")
    if abs(edges - edges.T).max() > _SYMMETRY * edges.max():
        raise ValueError(
            "graph is not symmetric; join two items if either is a neighbour of the other "
            "(graph.maximum(graph.T)) or if both are (graph.minimum(graph.T))"
        )
    return sparse.csr_array(csgraph.laplacian(edges, normed=normalized))


def _check_neighbors(num_neighbors: Any, num_items: int) -> int:
    count = check_count(num_neighbors, "num_neighbors")
    if num_items == 1:
        raise ValueError("X has one item, which has no neighbours; pass two or more")
    if count >= num_items:
        raise ValueError(
            f"num_neighbors is {count}, but each of the {num_items} items of X has only "
            f"{num_items - 1} others; pass at most {num_items - 1}, or more items"
        )
    return count
