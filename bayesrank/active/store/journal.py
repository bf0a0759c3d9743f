"""A file of answers that loses none: append-only, one JSON object a line, synced before it counts.

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

import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from bayesrank.active.store.files import (
    failed,
    open_locked,
    read_all,
    sync_folder,
    what_changed,
    write_all,
)
from bayesrank.active.store.lines import (
    FORMAT,
    JournalContents,
    JournalError,
    check_header,
    parse,
    sealed,
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
