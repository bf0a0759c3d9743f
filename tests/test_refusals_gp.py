"""What kernels, graphs and spectra refuse."""

import jax.numpy as jnp
import numpy as np
from refusals import each, rows

from bayesrank import gp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 2))
GRAPH = gp.knn_graph(X, 3)
L = gp.laplacian(GRAPH).toarray()
KERNEL = X[:9] @ X[:9].T
SHARP = gp.rbf(1.3, 0.4)


REFUSED = [
    *rows(
        lambda X, k, options: gp.knn_graph(X, k, **options),
        (X[:, 0], 3, {}, "X has shape (15,); pass (n, d)"),
        (X.astype(str), 3, {}, "X has dtype <U32; pass a table of numbers"),
        (np.where(X == X[4, 1], np.nan, X), 3, {}, "X is nan in row 4, column 1"),
        (X, 1.5, {}, "num_neighbors is 1.5; pass a whole number from 1 on"),
        (X, True, {}, "num_neighbors is True; pass a whole number from 1 on"),
        (X[:1], 1, {}, "X has one item, which has no neighbours; pass two or more"),
        (X, 0, {}, "num_neighbors is 0; pass a whole number from 1 on"),
        (X, 15, {}, "num_neighbors is 15, but each of the 15 items of X has only 14"),
        (X, 3, {"symmetry": "both"}, "symmetry is 'both'; choose 'union' or 'mutual'"),
        (X, 3, {"weights": "gauss"}, "weights is 'gauss'; choose 'binary' or 'heat'"),
        (X, 3, {"bandwidth": 1.0}, "bandwidth is 1.0; pass a positive number"),
        (X, 3, {"weights": "heat", "bandwidth": -1.0}, "bandwidth is -1.0; pass"),
        (X, 3, {"weights": "heat", "bandwidth": "1"}, "bandwidth is '1'; pass a"),
        (np.zeros((9, 2)), 3, {"weights": "heat"}, "the median distance of neighbours is"),
        literal=True,
    ),
    *rows(
        lambda graph: gp.laplacian(graph),
        (np.ones((2, 3)), "graph has shape (2, 3); pass (n, n)"),
        (np.zeros((0, 0)), "graph has shape (0, 0); pass (n, n)"),
        (np.zeros((2, 2, 2)), "graph has shape (2, 2, 2); pass (n, n)"),
        (np.array([["a", "b"], ["b", "a"]]), "graph has dtype <U1; pass numbers"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "a weight that is negative or not finite"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), "that is negative or not finite"),
        (np.array([[0.0, 1.0], [0.0, 0.0]]), "graph is not symmetric; join two items"),
        literal=True,
    ),
    *rows(
        lambda kernel, cuts: gp.spectral_components(kernel, cuts),
        (KERNEL[:5], [1], "kernel must have the shape (m, m), got (5, 9)"),
        (np.zeros((0, 0)), [], "kernel must have the shape (m, m), got (0, 0)"),
        (np.full((2, 2), np.nan), [1], "kernel has entries that are not finite"),
        ([[1.0, 0.5], [0.0, 1.0]], [1], "kernel is not symmetric"),
        (-np.eye(3), [1], "its smallest eigenvalue is -1"),
        (KERNEL, [0], "cuts must be whole numbers from 1 to 8, rising, got [0]"),
        (KERNEL, [3, 3], "rising, got [3, 3]"),
        (KERNEL, [9], "from 1 to 8"),
        (KERNEL, [1.5], "whole numbers"),
        literal=True,
    ),
    *(
        row
        for warp in (
            lambda graph, weight: gp.graph_kernel(SHARP, jnp.asarray(X), graph, weight=weight),
            lambda graph, weight: gp.graph_prior(jnp.eye(15), graph, weight=weight),
        )
        for row in rows(
            warp,
            (L[:8, :8], 1.0, "laplacian has shape (8, 8); pass (15, 15)"),
            (np.triu(L), 1.0, "laplacian is not symmetric"),
            (GRAPH, 1.0, "laplacian is not positive semi-definite, as a Laplacian is"),
            (L, -1.0, "weight is -1.0; pass a finite number that is not negative"),
            (L, np.ones(2), "weight is [1. 1.]; pass a finite number"),
            literal=True,
        )
    ),
]


@each(REFUSED)
def test_refused(refusal):
    refusal.check()
