"""Text files read strictly: what cannot be understood is refused, with its row."""

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bayesrank._memory import available, size_of
from bayesrank.datasets.errors import DataError

_SPACE = 4  # a file's bytes, its text, and texts of cells: at the least so many times its size


class Row(NamedTuple):
    """One record of a table."""

    number: int  #: line of the file on which the record ends, the header being line 1
    cells: list[str]  #: one text a column, surrounding blanks removed


class Table(NamedTuple):
    """A comma-separated file: its header and its rows, all cells as text."""

    path: Path
    header: tuple[str, ...]
    rows: list[Row]

    def position(self, *names: str, expected: str) -> int:
        """Index of the first of `names` in the header, whatever the case.

        Raises
        ------
        DataError
            If none is there; `expected` shows how the header should look.
        """
        lowered = [column.lower() for column in self.header]
        for name in names:
            if name in lowered:
                return lowered.index(name)
        wanted = " or ".join(repr(name) for name in names)
        raise DataError(
            self.path,
            f"there is no column {wanted} among {', '.join(map(repr, self.header))}",
            f"the first line must name the columns, as in {expected}",
            row=1,
        )


def read_text(path: str | Path) -> str:
    """Contents of a UTF-8 file, unpacked if its name ends in .gz, without a byte-order mark.

    Raises
    ------
    DataError
        If the file is missing, a directory, unreadable, empty, or not UTF-8 text.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
    try:
        _refuse_large(path)
        raw = gzip.decompress(path.read_bytes()) if _compressed(path) else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(path, "this is no whole gzip file", "compress it again") from None
    except FileNotFoundError:
        raise DataError(path, "there is no such file", "check the path") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(path, f"the file cannot be read ({reason})", "check it") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise DataError(path, "this is not UTF-8 text", "save it as UTF-8", row=row) from None
    if "\0" in text:
        row = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(path, "there is a zero byte", "give a text file", row=row)
    if not text.strip():
        raise DataError(path, "the file is empty", "give one with a header and rows")
    return text


def _compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _refuse_large(path: Path) -> None:
    """Refuse a file whose text will not fit into memory: all of its cells are held at once."""
    size, room = path.stat().st_size, available()
    if room is not None and _SPACE * size > room:
        raise DataError(
            path,
            f"it has {size_of(size)}, reading it takes at least {size_of(_SPACE * size)} of "
            f"memory, and {size_of(room)} are free",
            "divide it, or leave out rows or columns",
        )


def read_table(path: str | Path, text: str | None = None) -> Table:
    """Read a comma-separated file with a header.

    Blank lines are skipped, and blanks around a cell are removed.

    Parameters
    ----------
    path
        The file.
    text
        Its contents, if they have been read: a pipe is read once.

    Raises
    ------
    DataError
        If the file is unreadable, has no rows, repeats a column, or has rows of unlike length.
    """
    path = Path(path)
    records = _records(path, read_text(path) if text is None else text)
    if not records:
        raise DataError(path, "no cell holds anything", "give a header and rows")
    (first, header), rows = (records[0].number, records[0].cells), records[1:]
    check_header(path, first, header)
    if not rows:
        raise DataError(path, "there is a header but no row below it", "add the data")
    for row in rows:
        if len(row.cells) != len(header):
            raise DataError(
                path,
                f"{len(row.cells)} cells where the header has {len(header)}",
                "give every row one cell a column, and quote a cell that contains a comma",
                row=row.number,
            )
    return Table(path, tuple(header), rows)


def _records(path: Path, text: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [
            Row(reader.line_num, [cell.strip() for cell in cells])
            for cells in reader
            if any(cell.strip() for cell in cells)
        ]
    except csv.Error as error:
        raise DataError(
            path,
            f"this is not comma-separated text ({error})",
            "check the quotation marks",
            row=reader.line_num,
        ) from None


def check_header(path: Path, row: int, header: Sequence[str]) -> None:
    """Refuse a header with a column that has no name, or one twice, or the wrong separator.

    Raises
    ------
    DataError
        If it is such a header.
    """
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise DataError(
                path, f"its columns are separated by {name}", "save it with commas", row=row
            )
    seen: set[str] = set()
    for position, column in enumerate(header, start=1):
        if not column:
            raise DataError(
                path, f"column number {position} has no name", "name or remove it", row=row
            )
        if column.lower() in seen:
            raise DataError(
                path, "this column is there twice", "rename one of the two", row=row, column=column
            )
        seen.add(column.lower())
