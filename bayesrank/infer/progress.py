"""A function that is called after each sweep of compiled code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax import Array

__all__ = ["SweepCallback"]


class SweepCallback:
    """What compiled sweeps call: it passes on to whom a run names.

    Compiled code keeps the object, so that runs with different functions share the code.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._function: Callable[[int, float], None] | None = None
        self._failure: Exception | None = None

    def after(self, sweep: Array, delta: Array) -> None:
        """To be traced: call the function with a sweep's number and how far it moved margins."""
        jax.debug.callback(self._call, sweep, delta)

    def _call(self, sweep: Any, delta: Any) -> None:
        if self._function is None or self._failure is not None:
            return
        try:
            self._function(int(sweep), float(delta))
        except Exception as failure:  # compiled code cannot raise it
            self._failure = failure

    @contextmanager
    def passing_to(self, function: Callable[[int, float], None]) -> Iterator[None]:
        """Pass on to a function, and raise at the end what it raised."""
        with self._lock:
            self._function, self._failure = function, None
            try:
                yield
                jax.effects_barrier()
            finally:
                self._function = None
            if self._failure is not None:
                raise self._failure
