"""Settings and fixtures shared by the tests."""

import os
import warnings
from importlib.metadata import version

import compiled_code

# Tests compile much and compute little: XLA spends less time on optimising, here and in the
# processes that tests start, unless it is told to work as it does for users
# (JAX_DISABLE_MOST_OPTIMIZATIONS=0).
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# JAX 0.10 compiles two to three times as fast with the older of its two code generators, and faster
# by a twentieth if it does not divide a program among threads; later ones have one generator, and
# end the process at a flag that they do not know.
if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1" and version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"
        " --xla_cpu_parallel_codegen_split_count=1"
    )
# All processes of a session, and the sessions of a week, share what one has compiled.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(compiled_code.folder())
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# Two processes share the work already, and the matrices are small: threads within one of them would
# wait for those of the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc  # noqa: E402
from collections.abc import Iterator  # noqa: E402

import jax  # noqa: E402
import pytest  # noqa: E402
import scipy.linalg  # noqa: E402, F401 - its library, too, may have been loaded by a plugin
from threadpoolctl import threadpool_limits  # noqa: E402
from worlds import (  # noqa: E402, F401
    averaged,
    featured,
    labelled,
    logged,
    moving,
    ordered,
    paired,
)

from bayesrank import _process  # noqa: E402

threadpool_limits(limits=1, user_api="blas")
# Variables are not read again if a plugin has loaded JAX already.
jax.config.update(
    "jax_disable_most_optimizations", os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
)
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_runtestloop(session: pytest.Session) -> None:
    """Load what the package loads late, and let the garbage collector pass over what is there.

    No test is to pay for the import. A session traces many programs, and keeps them: looking
    through all of that over and over takes about a twentieth of its time.
    """
    if session.config.getoption("numprocesses", None):  # the workers run the tests
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from matplotlib import pyplot  # noqa: F401
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def strict_rank() -> Iterator[None]:
    """Make JAX refuse silent broadcasting between arrays of unlike rank.

    For tests of our own pure functions: NumPyro's ``MultivariateNormal`` on a batch does not
    survive it, so it cannot be on for the whole suite.
    """
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(autouse=True)
def _forgets_before_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package forget compiled code in front of a test, never within one that counts it."""
    _process.enter_jax()
    monkeypatch.setattr(_process, "_BETWEEN", float("inf"))
