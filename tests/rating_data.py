"""Ratings for tests of many users who share a model."""

from typing import Any

import numpy as np

__all__ = ["USERS_AND_ITEMS", "draw_numbers"]

USERS_AND_ITEMS = 12, 4


def draw_numbers() -> tuple[Any, Any, Any]:
    """Users, items and numbers: about seven tenths of what all could say of all."""
    n, m = USERS_AND_ITEMS
    rng = np.random.default_rng(0)
    root = rng.normal(size=(m, m)) / 2
    functions = 3 + rng.normal(size=m) + rng.normal(size=(n, m)) @ root.T
    users, items = np.nonzero(rng.random((n, m)) < 0.7)
    return users, items, functions[users, items] + 0.5 * rng.normal(size=len(users))
