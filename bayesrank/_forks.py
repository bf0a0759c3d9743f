"""JAX does not survive a fork: say so, where it would hang."""

from __future__ import annotations

import os

__all__ = ["refuse_forked_child"]

_started: int | None = None  # the process that computed first


def refuse_forked_child() -> None:
    """Refuse to compute in a process that was forked after its parent had computed.

    JAX computes in threads, and a forked child has none of them: it would wait for ever.

    Raises
    ------
    RuntimeError
        In such a child.
    """
    global _started
    if _started is None:
        _started = os.getpid()
    elif _started != os.getpid():
        raise RuntimeError(
            "this process was forked after its parent had computed with JAX, whose threads do not "
            "survive that: it would hang; start processes by multiprocessing.get_context('spawn'), "
            "or leave joblib its default, loky"
        )
