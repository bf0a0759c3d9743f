"""Files that are either complete or untouched: drafts, publishing in one step, and locks.

A writer opens a draft beside the place of the file. Nobody can foresee its name, and it must be
new and no link. The writer forces it to the disk and renames it. While it writes, the process holds
a lock on the draft (``flock``). The next one that writes there removes drafts without a lock, which
killed processes left behind. Windows has no such locks: there these drafts stay.

Of several files that belong together all old ones step aside first, as ``name.old-...``, so old and
new never mix. If the system refuses something, the old ones come back. Nothing that is not back is
removed, and the error names it. They are locked, too: those that a killed process left aside go
when a later one has put a file of that name in place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

_TRIES = 100  # of names, before locks are taken not to work

_MADE: set[Path] = set()  # drafts of this process


class PlacedError(OSError):
    """Something failed after files were put in place; the message says which are where."""


def reason_of(error: OSError) -> str:
    """What the system says is wrong."""
    return error.strerror or type(error).__name__


def abandon() -> None:
    """Remove all drafts of this process, which is about to end."""
    for path in list(_MADE):
        _remove(path)


@contextlib.contextmanager
def published(path: str | Path) -> Iterator[IO[bytes]]:
    """Give a file to write bytes to, and put it in the place of `path` at once if all went well."""
    with errors_name(path), published_together([path]) as (file,):
        yield file


@contextlib.contextmanager
def published_together(paths: Sequence[str | Path]) -> Iterator[list[IO[bytes]]]:
    """Give a file to write to for each path, and put all in place, or none.

    Raises
    ------
    PlacedError
        If the files are in place, but the system did not confirm that they are on the disk, or if
        what stood there could neither be replaced nor put back. Nothing of it is removed.
    OSError
        If a file cannot be written; all are as they were.
    """
    with contextlib.ExitStack() as stack:
        files, drafts = [], {}
        for path in paths:
            with errors_name(path):
                file, draft = _opened(path, stack)
            files.append(file)
            if draft is not None:
                drafts[path] = draft
        yield files
        for path, file in zip(paths, files, strict=True):
            with errors_name(path):
                file.flush()
                if path in drafts:
                    os.fsync(file.fileno())
                file.close()
        replace_together(drafts)


def replace_together(drafts: Mapping[str | Path, Path | None]) -> None:
    """Rename drafts to their places, all or none; without a draft, take away what is there."""
    with contextlib.ExitStack() as locks:
        places = _replaced(drafts, locks)
    _remove_aside(places)


def _replaced(
    drafts: Mapping[str | Path, Path | None], locks: contextlib.ExitStack
) -> Iterable[Path]:
    """Do what `replace_together` does, with locks on what stepped aside; return the places."""
    places = {path: Path(os.path.realpath(path)) for path in drafts}
    aside: dict[Path, Path] = {}
    fresh: list[Path] = []
    path = Path()
    try:
        for path, place in places.items():
            if os.path.lexists(place) and not (len(places) == 1 and drafts[path]):
                old = place.with_name(_aside(place) + os.urandom(4).hex())
                held = _hold(place)
                if held is not None:
                    locks.callback(os.close, held)
                os.rename(place, old)
                aside[place] = old
        for path, draft in drafts.items():
            if draft is not None:
                os.replace(draft, places[path])
                fresh.append(places[path])
    except OSError as error:
        failed = OSError(error.errno, error.strerror, str(path))
        left = _put_back(aside, [place for place in fresh if place not in aside])
        if left:
            raise PlacedError(f"{path}: {reason_of(error)}; {'; '.join(left)}") from None
        raise failed from None
    confirm({place.parent for place in places.values()}, aside.values())
    return places.values()


def _aside(place: Path) -> str:
    """How names begin that a file steps aside to."""
    return f"{place.name[:40]}.old-{zlib.crc32(os.fsencode(place.name)):08x}"


def _remove_aside(places: Iterable[Path]) -> None:
    """Remove what stepped aside for these places in processes that were killed."""
    for folder in {place.parent for place in places}:
        starts = tuple(_aside(place) for place in places if place.parent == folder)
        _remove_free(folder, lambda name, starts=starts: name.startswith(starts))


def _put_back(aside: Mapping[Path, Path], fresh: Sequence[Path]) -> list[str]:
    """Undo what was done; return what that failed for, each with what is there."""
    left = []
    for place in fresh:  # where nothing was
        try:
            place.unlink()
        except OSError:
            left.append(f"{place} is of the new results")
    for place, old in aside.items():
        try:
            os.replace(old, place)
        except OSError:
            left.append(f"the old {place.name} is in {old}; rename it back")
    return left


def confirm(folders: Iterable[Path], old: Iterable[Path] = ()) -> None:
    """Put names of files that are in place on the disk, and remove what they replaced."""
    try:
        for folder in folders:
            sync(folder)
        for path in old:
            path.unlink()
    except OSError as error:
        kept = [str(path) for path in old if os.path.lexists(path)]
        said = f"; what stood there is still in {', '.join(kept)}" if kept else ""
        raise PlacedError(
            f"the new files are in place, but the system reports {reason_of(error)!r}, so they may "
            f"be lost if the power fails{said}"
        ) from None


@contextlib.contextmanager
def errors_name(path: str | Path) -> Iterator[None]:
    """Let errors name what was asked for, not the draft."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def _opened(path: str | Path, stack: contextlib.ExitStack) -> tuple[IO[bytes], Path | None]:
    """Open a draft for a path, or what is there and is not a file to replace."""
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    stream = _stream(path)
    if stream is not None:
        return stack.enter_context(stream), None
    remove_stale(place.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY
    draft, handle = _claim(place.parent, lambda new: os.open(new, flags, 0o666))
    stack.callback(_discard, draft)
    return stack.enter_context(os.fdopen(handle, "wb")), draft


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
    """Give a new hidden folder in `parent`; remove it at the end, but for a `PlacedError`."""

    def make(new: Path) -> int:
        new.mkdir(mode=0o700)
        return -1 if fcntl is None else os.open(new, os.O_RDONLY | _NO_LINK)

    remove_stale(parent)
    draft, handle = _claim(parent, make)
    try:
        yield draft
    except PlacedError:  # what is left may be all that there is
        _MADE.discard(draft)
        raise
    finally:
        if draft in _MADE:
            _discard(draft)
        if handle >= 0:
            os.close(handle)


def remove_stale(folder: Path) -> None:
    """Remove drafts that processes which were killed have left in a folder."""
    _remove_free(folder, lambda name: bool(_DRAFT.fullmatch(name)))


def _remove_free(folder: Path, ours: Callable[[str], bool]) -> None:
    """Remove what is ours by its name in a folder, and no process has locked."""
    try:
        with os.scandir(folder) as entries:
            paths = [entry.path for entry in entries if ours(entry.name)]
    except OSError:  # whoever writes there says what is wrong with it
        return
    for path in map(Path, paths):
        held = _hold(path)
        if held is not None:
            _remove(path)
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


def _claim(folder: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    """Make a draft of a name that nobody can foresee, and lock it; return its open handle too."""
    for _ in range(_TRIES):
        draft = folder / f"{_PREFIX}{os.urandom(8).hex()}"
        _MADE.add(draft)
        try:
            handle = make(draft)
        except FileNotFoundError:  # another process has removed it already, or there is no folder
            if not folder.is_dir():
                raise
            continue
        if fcntl is None:
            return draft, handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, draft):
                return draft, handle
        except BlockingIOError:  # taken for one that was left behind, a moment ago
            pass
        except OSError as error:
            os.close(handle)
            _discard(draft)
            raise _no_locks(folder, error) from None
        os.close(handle)
        _discard(draft)
    raise _no_locks(folder)


def _no_locks(folder: Path, error: OSError | None = None) -> OSError:
    why = f": {reason_of(error)}" if error else ""
    return OSError(errno.ENOLCK, f"file locks do not work here{why}", str(folder))


def _discard(draft: Path) -> None:
    _remove(draft)
    _MADE.discard(draft)


def _remove(path: Path) -> None:
    """Remove a draft or lock; one that cannot be removed now, the next process will."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _hold(path: Path) -> int | None:
    """Lock what is one's own; None if that fails, as where a process works on it."""
    if fcntl is None:
        return None
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


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        there, ours = os.lstat(path), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
