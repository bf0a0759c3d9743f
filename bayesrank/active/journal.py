r"""A file of answers that loses none: append-only, one JSON object a line, synced before it counts.

The first line binds the file to its items; each line after it is a record with a running number
``n``. Every line ends with the CRC-32 of what stands before it:

.. code-block:: json

    {"bayesrank":"journal","version":1,"items":3,"names":"...","features":"...","crc":"1b9e0c5a"}
    {"n":1,"event":"answer","winner":2,"loser":0,"labels":["Filter","Instant"],"crc":"93f0d7a2"}

A record is written, flushed and synced before `Journal.append` returns. If the process dies before
that, at whatever byte, the file ends in a piece of a line, which is recognised by its checksum and
dropped when the journal is next opened. So a journal holds exactly the records that were
acknowledged, and perhaps the one that was whole on disk but whose acknowledgement was cut off. A
line that is damaged with others below it was acknowledged once: that is refused, not mended.

One process at a time: the file is locked (``flock``) while it is open, and a second one is refused.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["Journal", "JournalContents", "JournalError", "read_journal"]

_FORMAT: dict[str, Any] = {"bayesrank": "journal", "version": 1}
_SEAL = b',"crc":"'


class JournalError(Exception):
    """A journal cannot be opened or written; the message is one line with the cure."""


class JournalContents(NamedTuple):
    """What a journal holds.

    Attributes
    ----------
    lines
        Every line, the first one included, with the number of bytes up to its end.
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


class Journal:
    """An open journal, locked against every other process and every other `Journal`.

    Parameters
    ----------
    path
        The file. It is begun if it does not exist.
    header
        What the journal is about; a journal that was begun with another header is refused.

    Attributes
    ----------
    path
        The file.
    torn
        What was dropped from the end when the journal was opened: an unfinished line.

    Raises
    ------
    JournalError
        If the file cannot be used: it cannot be opened or written, is open elsewhere, is damaged,
        or is about something else.

    Notes
    -----
    Windows has no ``flock``, and a journal is refused there rather than kept unlocked; use WSL. On
    a network drive locks may not hold; a journal that grew by another hand is refused all the same.

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
        self.torn = b""
        # Every line with the byte after its end. What is on disk and what is known of it change in
        # one step, the append to this list, whenever an interrupt comes.
        self._lines: list[tuple[dict[str, Any], int]] = []
        self._file, self._broken, self._owner = _open_locked(self.path), "", os.getpid()
        try:
            self._load({**_FORMAT, **header})
        except BaseException:
            os.close(self._file)
            raise

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records so far, in order."""
        return [record for record, _ in self._lines[1:]]

    def append(self, record: Mapping[str, Any]) -> None:
        """Put a record on disk. When this returns, it is there; when it raises, it is not.

        Parameters
        ----------
        record
            What JSON can hold. Its number ``n`` is added.

        Raises
        ------
        JournalError
            If it cannot be written, for instance because the disk is full. What was written of it
            is taken back. Where even that fails, every later call is refused, too: open the journal
            again, which sees what is there.
        """
        self._check_still_ours()
        self._write({"n": len(self._lines), **record})

    def close(self) -> None:
        """Close the file and release the lock. Nothing is left to be written."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _size(self) -> int:
        return self._lines[-1][1] if self._lines else 0

    def _load(self, header: dict[str, Any]) -> None:
        raw = _read_all(self._file, self.path)
        first = _sealed(header)
        if first.startswith(raw) and len(raw) < len(first):  # new, or killed while it was begun
            self._truncate(len(raw))
            self._write(header)
            _sync_folder(self.path)
            return
        contents = _parse(raw, self.path)
        _check_header(contents.header, header, self.path)
        self._lines, self.torn = list(contents.lines), contents.torn
        self._truncate(len(raw))

    def _truncate(self, found: int) -> None:
        if found == self._size:
            return
        try:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        except OSError as error:
            raise _failed(self.path, "mended", error) from error

    def _write(self, record: dict[str, Any]) -> None:
        line = _sealed(record)
        try:
            _write_all(self._file, line)
            os.fsync(self._file)
            self._lines.append((record, self._size + len(line)))
        except BaseException as error:  # an interrupted write is taken back like a failed one
            self._take_back()
            if isinstance(error, OSError):
                raise _failed(self.path, "written", error) from error
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
            self._broken = _what_changed(self._file, self.path, self._size)
        if self._broken:
            raise JournalError(
                f"{self.path}: {self._broken}; nothing more is written: open the journal again"
            )


def read_journal(
    path: str | os.PathLike[str], header: Mapping[str, Any] | None = None
) -> JournalContents:
    """Read a journal without locking or changing it, also while another process writes to it.

    Parameters
    ----------
    path
        The file.
    header
        What the journal should be about, if that is to be checked.

    Returns
    -------
    JournalContents
        Its records; an unfinished last line is not one.

    Raises
    ------
    JournalError
        If there is no such file, it is not a journal, is damaged, or is about something else.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _failed(path, "read", error) from error
    contents = _parse(raw, path)
    if header is not None:
        _check_header(contents.header, {**_FORMAT, **header}, path)
    return contents


# ---------------------------------------------------------------- lines


def _sealed(record: Mapping[str, Any]) -> bytes:
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


def _parse(raw: bytes, path: Path) -> JournalContents:
    """Split what a journal holds into records; only the last line may be unfinished."""
    *whole, rest = raw.split(b"\n")
    found = [_opened(line) for line in whole]
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
            raise JournalError(
                f"{path}: line {number + 1} is damaged, with others below it; restore the file "
                "from a copy, or remove that line and those below it (their answers are then lost)"
            )
        end += len(whole[number]) + 1
        lines.append((record, end))
    return JournalContents(tuple(lines), rest)


def _check_header(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    if found.get("version") != wanted["version"]:
        raise JournalError(
            f"{path}: this journal has version {found.get('version')}, and this program writes "
            f"version {wanted['version']}; use the program that began it"
        )
    other = [key for key in wanted if found.get(key) != wanted[key]]
    if other:
        raise JournalError(
            f"{path}: this journal was begun with other items (not the same {' and '.join(other)});"
            " give the items it was begun with, in their order, or another path for a new journal"
        )


# ---------------------------------------------------------------- the file


def _open_locked(path: Path) -> int:
    if fcntl is None:
        raise JournalError(
            f"{path}: a journal needs file locks, which this system does not have; on Windows use "
            "WSL, or keep the loop in memory with journal=None"
        )
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise _failed(path, "opened", error) from error
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
        raise _failed(path, "locked", error) from error
    except JournalError:
        os.close(file)
        raise
    return file


def _read_all(file: int, path: Path) -> bytes:
    try:
        size = os.fstat(file).st_size
        raw = os.pread(file, size, 0)
    except OSError as error:
        raise _failed(path, "read", error) from error
    if len(raw) != size:
        raise JournalError(f"{path}: only {len(raw)} of {size} bytes could be read; try again")
    return raw


def _write_all(file: int, line: bytes) -> None:
    while line:
        line = line[os.write(file, line) :]


def _what_changed(file: int, path: Path, size: int) -> str:
    """What another hand did to an open journal, or nothing."""
    try:
        ours, there = os.fstat(file), os.stat(path)
    except OSError:
        return "the file was moved or deleted while it was open"
    if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino):
        return "the file was replaced by another while it was open"
    return "" if ours.st_size == size else "something else wrote to the file while it was open"


def _sync_folder(path: Path) -> None:
    """Put the name of a new file on disk."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _failed(path, "written", error) from error


def _failed(path: Path, what: str, error: OSError) -> JournalError:
    reason = error.strerror or type(error).__name__
    kept = "this answer is not saved, those before it are; " if what == "written" else ""
    return JournalError(
        f"{path}: the journal cannot be {what} ({reason}); {kept}mend that or give another path"
    )
