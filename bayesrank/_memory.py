"""How much memory there is, so that what will not fit is refused before hours of work."""

from __future__ import annotations

import os
from pathlib import Path

# GiB of addresses that a command takes: one that predicts, or fits.  Each core adds some, for its
# threads.
PREDICTS, FITS = 1.6, 3.1
_EACH_CORE = 0.2


class TooLargeError(ValueError):
    """What is asked for does not fit into memory."""


def available() -> int | None:
    """Bytes that this process can still have, by machine, container and limit; or None."""
    bounds = [bound for bound in (_machine(), _container(), _limit()) if bound is not None]
    return max(min(bounds), 0) if bounds else None


def check_memory(need: float, what: str, fix: str) -> None:
    """Refuse, by a `TooLargeError`, what would take more memory than there is."""
    room = available()
    if room is not None and need > room:
        raise TooLargeError(
            f"{what} take {size_of(need)} of memory, and {size_of(room)} are free; {fix}"
        )


def check_start(room: float) -> None:
    """Refuse to start where `ulimit -v` leaves no room for the threads of compiled code."""
    most = _most()
    need = 2**30 * (room + _EACH_CORE * (os.cpu_count() or 1))
    if most is not None and most < need:
        raise TooLargeError(
            f"this process may use {size_of(most)} of address space, and the command takes "
            f"{size_of(need)} at the least; raise the limit (ulimit -v)"
        )


def size_of(count: float) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> size_of(1.6e12), size_of(25e6)
    ('1.46 TiB', '23.8 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.2f} TiB"


def _machine() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # another system
        return None


def _container() -> int | None:
    most, used = (_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if not most or not used or not most[0].isdigit():
        return None
    return int(most[0]) - int(used[0])


def _most() -> int | None:
    """Bytes of addresses that this process may use in all (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if most == resource.RLIM_INFINITY else most


def _limit() -> int | None:
    most, pages = _most(), _lines("/proc/self/statm")
    if most is None or not pages:
        return None
    return most - int(pages[0].split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
