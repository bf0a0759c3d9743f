"""Small lists of items with features and grades, for the tests of learning to rank."""

import numpy as np


def graded_lists(seed=0, sizes=(5, 3, 1, 4, 6, 2), d=3, noise=0.5, num_grades=4):
    """Features, grades and names of queries, in mixed order."""
    rng = np.random.default_rng(seed)
    query = np.repeat([f"q{k}" for k in range(len(sizes))], sizes)
    X = rng.normal(size=(len(query), d))
    utility = X @ rng.normal(size=d) + noise * rng.normal(size=len(query))
    edges = np.quantile(utility, np.linspace(0, 1, num_grades + 1)[1:-1])
    y = np.searchsorted(edges, utility).astype(float)
    mixed = rng.permutation(len(query))
    return X[mixed], y[mixed], query[mixed]
