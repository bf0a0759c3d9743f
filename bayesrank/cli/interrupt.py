"""Ctrl-C and SIGTERM: a flag that the command looks at between its steps.

An exception raised wherever the program happens to be can be lost: JAX's hook of the garbage
collector, for one, swallows it. So the first signal sets a flag, and `look` raises where nothing is
half done. A thread sees signals, too, while compiled code runs. It ends the process at the second
one, or when no step has ended for some seconds. Before that it removes drafts and shows the cursor
again, and it waits while results are put in their place.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from bayesrank._files import abandon
from bayesrank._names import shown

_ENDING = (signal.SIGINT, signal.SIGTERM)
_QUIET, _PATIENCE = 0.5, 4.5  # seconds until it says that it is ending, and then until it does
_STOP = b"\0"


class Interrupted(BaseException):
    """The process was asked to end.

    Attributes
    ----------
    code
        Its exit code: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.code = 128 + number
        super().__init__(f"signal {number}")


class _Watch:
    """What has come, and what it may not disturb."""

    def __init__(self) -> None:
        self.number = 0
        self.kept = "nothing was written"
        self.waits = False
        self.whole = threading.RLock()  # held while results are put in place

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, in the main thread, once compiled code has returned."""
        self.number = self.number or number
        if self.waits:
            raise Interrupted(self.number)

    def attend(self, signals: socket.socket) -> None:
        """Read the numbers of signals as they come, in a thread of its own."""
        patience = (None, _QUIET, _PATIENCE)
        with signals:
            for turn in range(3):
                signals.settimeout(patience[turn])
                try:
                    number = signals.recv(1)
                    while number[0] not in (*_ENDING, _STOP[0]):
                        number = signals.recv(1)
                except TimeoutError:
                    number = b""
                if number == _STOP:
                    return
                if number and turn:
                    break
                if number:
                    self.number = self.number or number[0]
                elif turn == 1:
                    sys.stderr.write("\nInterrupted; ending. Ctrl-C again ends at once.\n")
            self.end()  # with the socket open, which the main thread may still write to

    def end(self) -> None:
        """End the process, whatever the main thread is doing, except putting results in place."""
        with self.whole:
            abandon()
            shows = b"\x1b[?25h" if os.isatty(2) else b""  # the cursor, which progress hides
            os.write(2, shows + f"\nError: Interrupted; {self.kept}.\n".encode())
            os._exit(128 + self.number)


_watch = _Watch()


@contextlib.contextmanager
def watched(*, to_the_end: bool = False) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM by a flag while the block runs."""
    global _watch
    _watch = watch = _Watch()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Where the shell has a command ignore Ctrl-C, as behind nohup, it goes on being ignored.
    before = {n: signal.getsignal(n) for n in _ENDING}
    before = {n: handler for n, handler in before.items() if handler != signal.SIG_IGN}
    here, there = socket.socketpair()
    there.setblocking(False)
    thread = threading.Thread(target=watch.attend, args=(here,), daemon=True)
    thread.start()
    known = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
    try:
        for number in before:
            signal.signal(number, watch.take)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if to_the_end else handler)
        signal.set_wakeup_fd(known)
        there.send(_STOP)
        thread.join()
        there.close()
        _watch = _Watch()  # what came is no matter of what is run next


def look() -> None:
    """Raise if the process was asked to end."""
    if _watch.number:
        raise Interrupted(_watch.number)


class waiting:  # noqa: N801 - read as a statement
    """While the block waits for input, a signal ends it at once."""

    def __enter__(self) -> None:
        _watch.waits = True
        look()

    def __exit__(self, *error: Any) -> None:
        _watch.waits = False


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """Let nothing end the process while the block puts results in their place."""
    with _watch.whole:
        yield


def keep(kept: str) -> None:
    """Say what there is on disk, for the message of an interrupted run."""
    _watch.kept = shown(kept)


def kept() -> str:
    """What there is on disk."""
    return _watch.kept
