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


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Have XLA spend less time on optimising: for tests that compile much and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
