"""Stores of answers: a journal on disk, or the memory of this process.

A file of answers that loses none: append-only, one JSON object a line, synced before it counts.

The first line binds the file to its items; each line after it is a record with a running number
``n``. Every line ends with the CRC-32 of what stands before it:

.. code-block:: json

    {"bayesrank":"journal","version":2,"items":3,"names":"...","features":"...","crc":"1b9e0c5a"}
    {"n":1,"event":"answer","winner":2,"loser":0,"labels":["Filter","Instant"],"crc":"93f0d7a2"}

A record is written, flushed and synced before `Journal.append` returns. If the process dies before
that, the file may end in a piece of a line. Its checksum shows that, and the next opening drops it;
a line that lacks only its end is whole. So a journal holds exactly the acknowledged records, and
perhaps one that was whole on disk when its acknowledgement was cut off. A damaged line with others
below it was acknowledged once: opening refuses it, and does not repair it.

One process at a time: the file is locked (``flock``) while it is open, and a second one is refused.
Threads of that process take turns.
"""

import json
import os
import stat
import threading
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bayesrank._files import reason_of, sync

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class JournalError(Exception):
    """A journal cannot be opened or written; the message is one line with the fix.

    Examples
    --------
    >>> from bayesrank.active import JournalError
    >>> issubclass(JournalError, Exception)
    True
    """


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
        sync(path.resolve().parent)
    except OSError as error:
        raise failed(path, "written", error) from error


def failed(path: Path, what: str, error: OSError) -> JournalError:
    """What to raise where the system refused something; `what` could not be done."""
    kept = "this answer is not saved, those before it are; " if what == "written" else ""
    problem = f"{path}: the journal cannot be {what} ({reason_of(error)})"
    return JournalError(f"{problem}; {kept}fix that or give another path")


FORMAT: dict[str, Any] = {"bayesrank": "journal", "version": 2}
_SEAL = b',"crc":"'
_BEGINNING = b'{"bayesrank":"journal",'


@dataclass(frozen=True)
class JournalContents:
    """What a journal holds.

    Attributes
    ----------
    lines
        Every line, the first one included, with the number of bytes up to its end; a last line may
        lack its end, which then does not count.
    torn
        The bytes of an unfinished last line, which was never acknowledged; empty if there is none.
    """

    lines: tuple[tuple[dict[str, Any], int], ...]
    torn: bytes

    @property
    def header(self) -> dict[str, Any]:
        """The first line: what the journal is about."""
        return self.lines[0][0]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records, in order."""
        return [record for record, _ in self.lines[1:]]


def sealed(record: Mapping[str, Any]) -> bytes:
    """One line: the record as JSON, ending with the checksum of what stands before it."""
    body = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    start = body[:-1].encode("utf-8", "backslashreplace")  # half a surrogate pair becomes \\udc80
    return b'%s%s%08x"}\n' % (start, _SEAL, zlib.crc32(start))


def _opened(line: bytes) -> dict[str, Any] | None:
    """The record in a line, or None if the line is not whole."""
    start, seal, end = line.rpartition(_SEAL)
    if not seal or end != b'%08x"}' % zlib.crc32(start):
        return None
    return json.loads(start + b"}")


def parse(raw: bytes, path: Path) -> JournalContents:
    """Split what a journal holds into records; only the last line may be unfinished."""
    *whole, rest = raw.split(b"\n")
    if _opened(rest) is not None:  # a whole line that lost no more than its end
        whole, rest = [*whole, rest], b""
    found = [_opened(line) for line in whole]
    if found and found[0] is None and _BEGINNING in raw[: 2 * len(_BEGINNING)]:
        raise JournalError(
            f"{path}: the first line of this journal is damaged, or another program has saved the "
            "file with other line ends; restore the file from a copy, or give another path"
        )
    if not found or found[0] is None or found[0].get("bayesrank") != "journal":
        raise JournalError(
            f"{path}: this is not a journal of answers, and is left as it is; give another path"
        )
    if found[-1] is None:  # a line whose pages did not all reach the disk can end, too
        found.pop()
        rest = whole[-1] + b"\n" + rest
    lines, end = [], 0
    for number, record in enumerate(found):
        if record is None or (number and record.get("n") != number):
            raise _damaged(whole, number, path)
        end = min(end + len(whole[number]) + 1, len(raw))
        lines.append((record, end))
    return JournalContents(tuple(lines), rest)


def _damaged(whole: list[bytes], number: int, path: Path) -> JournalError:
    """What to raise where a line is not the one that belongs there."""
    place = f"line {number + 1}"
    if whole[number] == whole[number - 1]:
        return JournalError(
            f"{path}: {place} repeats the line above it, as a copy put together from two does; "
            f"remove {place}, and nothing is lost"
        )
    if number + 1 == len(whole):
        return JournalError(
            f"{path}: {place}, the last, is whole but does not follow the line above it: lines are "
            f"missing or in another order; restore the file from a copy, or remove {place} (its "
            "answer is then lost)"
        )
    return JournalError(
        f"{path}: {place} is damaged, with others below it; restore the file "
        "from a copy, or remove that line and those below it (their answers are then lost)"
    )


def check_header(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Refuse a journal that is about something else."""
    if found.get("version") != wanted["version"]:
        raise JournalError(
            f"{path}: this journal has version {found.get('version')}, and this program reads "
            f"version {wanted['version']}; use the program that began it, or begin a new journal"
        )
    other = [key for key in wanted if key != "version" and found.get(key) != wanted[key]]
    other = ["number of items" if key == "items" else key for key in other]
    if other:
        raise JournalError(
            f"{path}: this journal was begun with other items (not the same {' or '.join(other)}); "
            "give the items it was begun with, in their order, or another path for a new journal"
        )


class Journal:
    """An open journal, locked against every other process and every other `Journal`.

    Parameters
    ----------
    path, header
        The file, begun if it does not exist, and what the journal is about. A journal that was
        begun with another header is refused.

    Attributes
    ----------
    path, torn
        The file, and the unfinished line that opening the journal dropped from the end, if any.

    Raises
    ------
    JournalError
        If the file cannot be opened or written, is open elsewhere, is damaged, or is about
        something else.

    Notes
    -----
    Windows has no ``flock``, so a journal does not open there; use WSL. On a network drive locks
    may not hold; a journal that grew by another hand is refused all the same.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder + "/answers.jsonl", {"items": 3}) as journal:
    ...         journal.append({"event": "answer", "winner": 2, "loser": 0})
    ...     read_journal(folder + "/answers.jsonl").records
    [{'n': 1, 'event': 'answer', 'winner': 2, 'loser': 0}]
    """

    def __init__(self, path: str | os.PathLike[str], header: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._place = Path(os.path.abspath(path))  # wherever the process goes
        self._turn = threading.Lock()
        self.torn = b""
        # Every line with the byte after its end. What is on disk and what is known of it change in
        # one step, the append to this list, whenever an interrupt comes.
        self._lines: list[tuple[dict[str, Any], int]] = []
        self._file, self._broken, self._owner = open_locked(self.path), "", os.getpid()
        # A journal that nobody can close any more, as in a notebook, does not stay locked.
        self._release = weakref.finalize(self, os.close, self._file)
        try:
            self._load({**FORMAT, **header})
        except BaseException:
            self.close()
            raise

    @property
    def header(self) -> dict[str, Any]:
        """The first line: which items the journal is about."""
        return self._lines[0][0]

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records so far, in order."""
        return self.records_from(0)

    def records_from(self, place: int) -> list[dict[str, Any]]:
        """All records but the first so many, in order."""
        return [record for record, _ in self._lines[1 + place :]]

    def __len__(self) -> int:
        return max(len(self._lines) - 1, 0)

    def append(self, record: Mapping[str, Any]) -> None:
        """Put a record on disk. When this returns, it is there; when it raises, it is not.

        Parameters
        ----------
        record
            What JSON can hold. Its number ``n`` is added.

        Raises
        ------
        JournalError
            If it cannot be written, for instance because the disk is full. The journal takes back
            what it wrote of it. If even that fails, it refuses every later call: open the journal
            again, which sees what is there.
        """
        with self._turn:
            self._check_still_ours()
            self._write({"n": len(self._lines), **record})

    def close(self) -> None:
        """Close the file and release the lock. Nothing is left to be written."""
        self._file = -1
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _size(self) -> int:
        return self._lines[-1][1] if self._lines else 0

    def _load(self, header: dict[str, Any]) -> None:
        raw = read_all(self._file, self.path)
        first = sealed(header)
        if first.startswith(raw) and len(raw) < len(first):  # new, or killed while it was begun
            self._truncate(len(raw))
            self._write(header)
            sync_folder(self.path)
            return
        contents = parse(raw, self.path)
        check_header(contents.header, header, self.path)
        self._lines, self.torn = list(contents.lines), contents.torn
        self._truncate(len(raw))
        self._end_last_line(raw)

    def _end_last_line(self, raw: bytes) -> None:
        """Give a last line that is whole the end that it has lost."""
        if raw[: self._size].endswith(b"\n"):
            return
        try:
            write_all(self._file, b"\n")
            os.fsync(self._file)
        except OSError as error:
            raise failed(self.path, "repaired", error) from error
        record, size = self._lines[-1]
        self._lines[-1] = record, size + 1

    def _truncate(self, found: int) -> None:
        if found == self._size:
            return
        try:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        except OSError as error:
            raise failed(self.path, "repaired", error) from error

    def _write(self, record: dict[str, Any]) -> None:
        line = sealed(record)
        try:
            write_all(self._file, line)
            os.fsync(self._file)
            self._lines.append((record, self._size + len(line)))
        except BaseException as error:  # an interrupted write is taken back like a failed one
            self._take_back()
            if isinstance(error, OSError):
                raise failed(self.path, "written", error) from error
            raise

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        except OSError:
            self._broken = "an earlier write failed half-way"

    def _check_still_ours(self) -> None:
        if self._file < 0:
            raise JournalError(f"{self.path}: the journal is closed; open it again")
        if os.getpid() != self._owner:
            raise JournalError(
                f"{self.path}: the journal was opened before this process was forked; open it in "
                "the process that writes"
            )
        if not self._broken:
            self._broken = what_changed(self._file, self._place, self._size)
        if self._broken:
            raise JournalError(
                f"{self.path}: {self._broken}; nothing more is written: open the journal again"
            )


def read_journal(
    path: str | os.PathLike[str], header: Mapping[str, Any] | None = None
) -> JournalContents:
    """Read a journal's records without locking or changing it, also while another process writes.

    Parameters
    ----------
    path, header
        The file, and what the journal should be about, if that is to be checked. An unfinished last
        line is not a record.

    Raises
    ------
    JournalError
        If there is no such file, it is not a journal, is damaged, or is about something else.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise failed(path, "read", error) from error
    contents = parse(raw, path)
    if header is not None:
        check_header(contents.header, {**FORMAT, **header}, path)
    return contents


class MemoryLog:
    """Holds records in memory, in place of a journal."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self.records)

    def records_from(self, place: int) -> list[dict[str, Any]]:
        """All records but the first so many."""
        return self.records[place:]

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep a record."""
        self.records.append({"n": len(self.records) + 1, **record})

    def close(self) -> None:
        """Nothing to close."""
