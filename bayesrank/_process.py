"""What JAX asks of the process that it computes in.

No fork, an end to compiled code, and interrupts that its callbacks do not lose and that do not end
the process.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from bayesrank._stack import outside

FORGETTERS: list[Callable[[], object]] = []  # what forgets compiled code that JAX does not keep

# Each piece of compiled code takes some ten regions of memory, and Linux ends a process that comes
# to 65,530 of them by a segmentation fault.
_MOST_REGIONS = 45_000
_BETWEEN = 100  # pieces of compiled code between two looks at the regions
_SOON = 0.05  # seconds, in which a callback ends

# After an interrupt, a thread of JAX's goes on compiling what the frames hold that were left, and
# crashes if that is freed.
_CUT_SHORT: deque[TracebackType] = deque(maxlen=100)

_ON_ITS_WAY = threading.Lock()  # held while an interrupt waits to come again

_C = ctypes.CDLL(None) if os.name == "posix" else None

_started: int | None = None  # the process that computed first
_new = 0  # pieces of compiled code since the last look


def enter_jax() -> None:
    """Make sure that this process can compute with JAX; a forked child raises a `RuntimeError`."""
    global _started, _new
    if _started is None:
        import jax

        _started = os.getpid()
        jax.monitoring.register_event_duration_secs_listener(_attend)
        _repeat_lost_interrupts()
    _refuse_forked_child()
    if _new >= _BETWEEN:
        _new = 0
        if _regions() > _MOST_REGIONS:
            _forget()


def refuse_forked_child() -> None:
    """Raise a `RuntimeError` in a child of a process that had computed with JAX before the fork."""
    if _started is not None:
        _refuse_forked_child()


def _attend(event: str, duration_secs: float, **kwargs: str | int) -> None:
    """Hear of each step of JAX on its way to compiled code, tracing first."""
    global _new
    _refuse_forked_child()
    if "backend_compile" in event:
        _new += 1
        cut = sys.exc_info()[2]  # JAX tells of a step that an interrupt ends, too
        if cut is not None and "jax" in str(cut.tb_frame.f_globals.get("__name__")).split("."):
            _CUT_SHORT.append(cut)


def _refuse_forked_child() -> None:
    if _started != os.getpid():
        raise RuntimeError(
            "this process was forked after its parent had computed with JAX, whose threads do not "
            "survive a fork, so it would hang; start processes by "
            "multiprocessing.get_context('spawn'), keep joblib's default, loky, or load and fit in "
            "the child alone"
        )


def _repeat_lost_interrupts() -> None:
    """Interrupt again where Python drops a KeyboardInterrupt, as in JAX's hook of the collector."""
    before = sys.unraisablehook

    def hear(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
        elif _ON_ITS_WAY.acquire(blocking=False):
            _thread.start_new_thread(_interrupt_soon, ())

    sys.unraisablehook = hear


def _interrupt_soon() -> None:
    time.sleep(_SOON)
    _ON_ITS_WAY.release()
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main and callable(signal.getsignal(signal.SIGINT)):
        signal.pthread_kill(main, signal.SIGINT)  # which ends a call that waits, too
    else:
        _thread.interrupt_main()


def _regions() -> int:
    """Number of memory regions of this process, if the system reports it."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def _forget() -> None:
    import jax

    for forget in FORGETTERS:
        forget()
    jax.clear_caches()
    gc.collect()
    if hasattr(_C, "malloc_trim"):  # else the C library keeps what compilers freed, in pieces
        _C.malloc_trim(0)
    warnings.warn(
        "this process has compiled code for so many shapes of data that Linux would end it, so "
        "compiled code was dropped, and is compiled again when it is needed; pass data of fewer "
        "shapes, or use several processes one after another",
        RuntimeWarning,
        stacklevel=outside(),
    )
