"""The file of a journal: opened and locked, written whole, synced, and watched for other hands."""

import os
import stat
from pathlib import Path

from bayesrank.active.store.lines import JournalError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def open_locked(path: Path) -> int:
    """Open a file to append to, begun if it does not exist, and lock it; return its descriptor."""
    if fcntl is None:
        raise JournalError(
            f"{path}: a journal needs file locks, which this system does not have; on Windows use "
            "WSL, or keep the loop in memory with journal=None"
        )
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise failed(path, "opened", error) from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise JournalError(f"{path}: this is not a file; give the path of one for the journal")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise JournalError(
            f"{path}: this journal is open in another process, or twice in this one; close it "
            "there first, or give another path"
        ) from None
    except OSError as error:
        os.close(file)
        raise failed(path, "locked", error) from error
    except JournalError:
        os.close(file)
        raise
    return file


def read_all(file: int, path: Path) -> bytes:
    """Return everything in an open file."""
    try:
        size = os.fstat(file).st_size
        raw = os.pread(file, size, 0)
    except OSError as error:
        raise failed(path, "read", error) from error
    if len(raw) != size:
        raise JournalError(f"{path}: only {len(raw)} of {size} bytes could be read; try again")
    return raw


def write_all(file: int, line: bytes) -> None:
    """Write a line, in as many pieces as the system takes."""
    while line:
        line = line[os.write(file, line) :]


def what_changed(file: int, path: Path, size: int) -> str:
    """What another hand did to an open journal, or nothing."""
    try:
        ours, there = os.fstat(file), os.stat(path)
    except OSError:
        return "the file was moved or deleted while it was open"
    if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino):
        return "the file was replaced by another while it was open"
    return "" if ours.st_size == size else "something else wrote to the file while it was open"


def sync_folder(path: Path) -> None:
    """Put the name of a new file on disk."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise failed(path, "written", error) from error


def failed(path: Path, what: str, error: OSError) -> JournalError:
    """What to raise where the system refused something; `what` could not be done."""
    reason = error.strerror or type(error).__name__
    kept = "this answer is not saved, those before it are; " if what == "written" else ""
    return JournalError(
        f"{path}: the journal cannot be {what} ({reason}); {kept}fix that or give another path"
    )
