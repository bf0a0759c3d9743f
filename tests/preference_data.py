"""Items with features, and comparisons of them by Thurstone's model."""

import numpy as np
from scipy.stats import norm


def true_skill(X):
    return 2.0 * np.sin(1.5 * X[:, 0]) + X[:, 1]


def simulate(n, num_comparisons, seed):
    """Items with two features, and comparisons by Thurstone's model with noise 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    first = rng.integers(n, size=num_comparisons)
    pairs = np.stack([first, (first + rng.integers(1, n, num_comparisons)) % n], axis=1)
    margin = np.subtract(*true_skill(X)[pairs.T])
    won = rng.random(len(pairs)) < norm.cdf(margin / np.sqrt(2.0))
    return X, np.where(won[:, None], pairs, pairs[:, ::-1])


def with_units(X):
    """The same features as a person would have them: prices and weights."""
    return X * [30.0, 0.002] + [100.0, 5.0]
