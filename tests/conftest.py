"""Settings and fixtures shared by the tests."""

import os
from collections.abc import Iterator

import jax
import pytest
import scipy.linalg  # loads the libraries whose threads are limited  # noqa: F401
from threadpoolctl import threadpool_limits

# Two processes share the work already, and the matrices are small: threads within one of them would
# wait for those of the other.
threadpool_limits(limits=1, user_api="blas")

# Tests compile much and compute little: XLA spends less time on optimising, unless it is told to
# work as it does for users (JAX_DISABLE_MOST_OPTIMIZATIONS=0). What tests run in processes of
# their own, the command line and the notebooks, is optimised.
if "JAX_DISABLE_MOST_OPTIMIZATIONS" not in os.environ:
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def strict_rank() -> Iterator[None]:
    """Make JAX refuse silent broadcasting between arrays of unlike rank.

    For tests of our own pure functions: NumPyro's ``MultivariateNormal`` on a batch does not
    survive it, so it cannot be on for the whole suite.
    """
    with jax.numpy_rank_promotion("raise"):
        yield
