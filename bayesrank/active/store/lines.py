"""What stands in a journal: sealed lines, and how they are read; see `bayesrank.active.store`."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT: dict[str, Any] = {"bayesrank": "journal", "version": 2}
_SEAL = b',"crc":"'
_BEGINNING = b'{"bayesrank":"journal",'


class JournalError(Exception):
    """A journal cannot be opened or written; the message is one line with the fix.

    Examples
    --------
    >>> from bayesrank.active import JournalError
    >>> issubclass(JournalError, Exception)
    True
    """


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
