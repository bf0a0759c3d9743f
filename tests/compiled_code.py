"""Where tests keep what JAX has compiled."""

import hashlib
import os
import platform
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

_KEPT = 7 * 24 * 3600  # seconds


def folder() -> Path:
    """Folder of the user's cache for these versions, settings and this processor.

    Compiled code holds instructions of the processor that it was made for. Older files go: they
    are of programs that have changed, or are compiled anew once a week.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayesrank-tests"
    made_for = [version("jax"), version("jaxlib"), platform.machine(), _features()]
    made_for += [os.environ.get(k, "") for k in ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")]
    name = hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for path in cache.glob("*/*"):
            with suppress(FileNotFoundError):  # another session was first
                if time.time() - path.stat().st_mtime > _KEPT:
                    path.unlink()
    try:
        (cache / name).mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="bayesrank-tests-"))
    return cache / name


def _features() -> str:
    """What the processor can do, as Linux lists it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
