"""Interrupts of a notebook's kernel whose cell fits in a loop: how soon each is obeyed."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

_CELL = """
import numpy as np
from bayesrank import PairwiseRanker

rng, count = np.random.default_rng({seed}), {count}
while True:
    {change}
    first = rng.integers(20, size=count)
    pairs = np.stack([first, (first + rng.integers(1, 20, size=count)) % 20], axis=1)
    PairwiseRanker(hyperparameters="map").fit(pairs)
    print("fit", flush=True)
"""
_CHANGES = {"one shape": "pass", "new shapes": "count += 1"}


def interrupt_kernel(kind: str, times: int, patience: float = 55.0) -> Iterator[tuple[float, bool]]:
    """Interrupt a cell that fits again and again; give the seconds until it ended each time.

    Second comes whether the interrupt was lost: none within `patience`, where a further one is
    sent.
    """
    from jupyter_client.manager import start_new_kernel

    rng = random.Random(0)
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for k in range(times):
            cell = _CELL.format(seed=k, count=30 + 10 * k, change=_CHANGES[kind])
            request = client.execute(cell, stop_on_error=False)
            _wait_for_output(client, request)
            time.sleep(rng.uniform(0.0, 3.0))
            manager.interrupt_kernel()
            start = time.perf_counter()
            reply = _reply(client, request, patience)
            lost = reply is None
            while reply is None:
                manager.interrupt_kernel()
                reply = _reply(client, request, patience)
            if reply["content"].get("ename") != "KeyboardInterrupt":
                raise AssertionError(f"the cell ended otherwise: {reply['content']}")
            yield time.perf_counter() - start, lost
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _wait_for_output(client: Any, request: str) -> None:
    while True:
        message = client.get_iopub_msg(timeout=300)
        ours = message["parent_header"].get("msg_id") == request
        if ours and message["msg_type"] == "stream" and "fit" in message["content"]["text"]:
            return


def _reply(client: Any, request: str, patience: float) -> Any:
    """The reply to a request, or None if there is none in time."""
    end = time.monotonic() + patience
    while (left := end - time.monotonic()) > 0.0:
        try:
            reply = client.get_shell_msg(timeout=left)
        except queue.Empty:
            return None
        if reply["parent_header"].get("msg_id") == request:
            return reply
    return None


@click.command()
@click.option("--times", type=click.IntRange(1), default=200, help="Interrupts of each loop.")
def notebook(times: int) -> None:
    """Interrupt fits in a Jupyter kernel again and again: each is obeyed, and how soon."""
    for kind in _CHANGES:
        found = []
        for k, (seconds, lost) in enumerate(interrupt_kernel(kind, times)):
            found.append(seconds)
            if lost:
                click.echo(f"{kind}: interrupt {k + 1} was lost")
        middle, late, last = np.quantile(found, [0.5, 0.95, 1.0])
        click.echo(
            f"{kind}: {times} interrupts, the cell ended after {middle:.2f} s (median), "
            f"{late:.2f} s (95%), {last:.2f} s (longest)"
        )


COMMANDS = (notebook,)
