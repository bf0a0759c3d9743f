"""What JAX compiles while a test looks."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import pytest


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Names of the events of compiling so far, in this block; no other listener is touched."""
    events: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if "backend_compile" in event:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def keep_covariances_up_to(size: int, patch: pytest.MonkeyPatch) -> None:
    """Have EP keep covariances of so many latents; code that was compiled before does not count."""
    patch.setattr("bayesrank.infer.reader.structure.MOST_DENSE", size)
    patch.setattr("bayesrank.infer.compiled._ENTRIES", OrderedDict())
