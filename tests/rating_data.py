"""Ratings for tests of many users who share a model."""

from typing import Any

import numpy as np

__all__ = ["USERS_AND_ITEMS", "divergence", "draw_numbers"]

USERS_AND_ITEMS = 12, 4


def draw_numbers() -> tuple[Any, Any, Any]:
    """Users, items and numbers: about seven tenths of what all could say of all."""
    n, m = USERS_AND_ITEMS
    rng = np.random.default_rng(0)
    root = rng.normal(size=(m, m)) / 2
    functions = 3 + rng.normal(size=m) + rng.normal(size=(n, m)) @ root.T
    users, items = np.nonzero(rng.random((n, m)) < 0.7)
    return users, items, functions[users, items] + 0.5 * rng.normal(size=len(users))


def divergence(kernel: Any, base: Any, tiers: Any, xp: Any = np) -> Any:
    """Twice the expected log ratio of the tiers' conditional densities under the base."""
    total = 0.0
    for start, end, worth in tiers:
        parts = []
        for matrix in (kernel, base):
            weights = xp.linalg.solve(matrix[:start, :start], matrix[:start, start:end])
            parts += [weights, matrix[start:end, start:end] - matrix[:start, start:end].T @ weights]
        weights, rest, its_weights, its_rest = parts
        shift = weights - its_weights
        spread = its_rest + shift.T @ base[:start, :start] @ shift
        ratio = xp.linalg.slogdet(rest)[1] - xp.linalg.slogdet(its_rest)[1]
        total += worth * (ratio + xp.trace(xp.linalg.solve(rest, spread)) - len(rest))
    return total
