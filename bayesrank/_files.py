"""Files that are either complete or untouched: drafts, publishing in one step, and locks.

A writer opens a draft beside the place of the file. Nobody can foresee its name, and it must be
new and no link. The writer forces it to the disk and renames it. While it writes, the process holds
a lock on the draft (``flock``). The next one that writes there removes drafts without a lock, which
killed processes left behind. Windows has no such locks: there these drafts stay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_PREFIX = ".bayesrank-"
_DRAFT = re.compile(r"\.bayesrank-[0-9a-f]{16}")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)

_MADE: set[Path] = set()  # drafts and locks of this process


def reason_of(error: OSError) -> str:
    """What the system says is wrong."""
    return error.strerror or type(error).__name__


def abandon() -> None:
    """Remove all drafts and locks of this process, which is about to end."""
    for path in list(_MADE):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def published(path: str | Path) -> Iterator[IO[bytes]]:
    """Give a file to write bytes to, and put it in the place of `path` at once if all went well."""
    place = Path(os.path.realpath(path))
    try:
        if place.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        stream = _stream(path)
        if stream is not None:
            with stream:
                yield stream
            return
        remove_stale(place.parent)
        draft, handle = _new_draft(place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(draft, place)
        finally:
            draft.unlink(missing_ok=True)
            _MADE.discard(draft)
        sync(place.parent)
    except OSError as error:
        if error.errno is None:
            raise
        # Name what was asked for, not the draft.
        raise OSError(error.errno, error.strerror, str(path)) from None


def _stream(path: str | Path) -> IO[bytes] | None:
    """Open what is there and is not a file to replace: a device, a pipe, or standard output."""
    try:
        found = os.stat(path)
    except OSError:  # nothing is there, or it cannot be reached, which who writes will say
        return None
    with contextlib.suppress(OSError):  # it may be closed
        if os.path.samestat(found, os.fstat(1)):
            return os.fdopen(os.dup(1), "wb")
    return None if stat.S_ISREG(found.st_mode) else open(path, "wb")


@contextlib.contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """Give a new hidden folder in `parent`, and remove what is left of it at the end."""
    remove_stale(parent)
    while True:
        draft = _new_name(parent)
        draft.mkdir(mode=0o700)
        held = _hold(draft)
        if held is not None:
            break
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _MADE.discard(draft)
        _release(held)


@contextlib.contextmanager
def withdrawn(path: Path) -> Iterator[None]:
    """Take a file away, which is put back if the block fails."""
    place = Path(os.path.realpath(path))
    if not place.is_file():
        yield
        return
    with draft_folder(place.parent) as folder:
        old = folder / place.name
        os.rename(place, old)
        try:
            yield
        except BaseException:
            os.rename(old, place)
            raise


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold a lock on `path`, by a hidden file beside it; a `BlockingIOError` if another has it."""
    place = Path(os.path.realpath(path))
    lock = place.with_name(f".{place.name}.lock")
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = _is_at(handle, lock)
        except BaseException:
            os.close(handle)
            raise
        if ours:  # else whoever had it removed the file meanwhile
            break
        os.close(handle)
    _MADE.add(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        _MADE.discard(lock)
        os.close(handle)


def remove_stale(folder: Path) -> None:
    """Remove drafts that processes which were killed have left in a folder."""
    if fcntl is None:
        return
    try:
        with os.scandir(folder) as entries:
            drafts = [entry.path for entry in entries if _DRAFT.fullmatch(entry.name)]
    except OSError:  # whoever writes there says what is wrong with it
        return
    for draft in map(Path, drafts):
        held = _hold(draft)
        if held is None:
            continue
        if stat.S_ISDIR(os.fstat(held).st_mode):
            shutil.rmtree(draft, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                draft.unlink()
        os.close(held)


def sync(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to the disk."""
    folder = path.is_dir()
    if folder and not hasattr(os, "O_DIRECTORY"):  # Windows cannot
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def ordinary_mode(mode: int) -> int:
    """Permissions that a new file or folder ordinarily gets here, of those in `mode`."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask


def _new_name(folder: Path) -> Path:
    """A name for a draft that nobody can foresee; it counts as this process's own."""
    draft = folder / f"{_PREFIX}{os.urandom(8).hex()}"
    _MADE.add(draft)
    return draft


def _new_draft(folder: Path) -> tuple[Path, int]:
    """Open a new draft for writing, with a lock on it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY
    while True:
        draft = _new_name(folder)
        handle = os.open(draft, flags, 0o666)
        try:
            if fcntl is None:
                return draft, handle
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, draft):
                return draft, handle
        except BlockingIOError:  # taken for one that was left behind, a moment ago
            pass
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        os.close(handle)


def _hold(path: Path) -> int | None:
    """Lock a draft of one's own; None if somebody else has, or it is gone or a link."""
    if fcntl is None:
        return -1
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_uid == os.geteuid() and _is_at(handle, path):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _release(held: int) -> None:
    if held >= 0:
        os.close(held)


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        there, ours = os.lstat(path), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
