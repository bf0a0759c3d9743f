"""Fixtures shared by the tests."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def strict_rank() -> Iterator[None]:
    """Make JAX refuse silent broadcasting between arrays of unlike rank.

    For tests of our own pure functions: NumPyro's ``MultivariateNormal`` on a batch does not
    survive it, so it cannot be on for the whole suite.
    """
    with jax.numpy_rank_promotion("raise"):
        yield
