"""Text files: bytes to UTF-8, what separates the columns, and the cells of each line."""

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import numpy as np

from bayesrank._files import reason_of
from bayesrank._memory import check_memory
from bayesrank._tables import Column, numbered
from bayesrank.datasets.errors import DataError, tell

_MARKS = {
    codecs.BOM_UTF8: ("utf-8",),
    codecs.BOM_UTF32_LE: ("utf-32",),  # begins as the mark of UTF-16 does
    codecs.BOM_UTF32_BE: ("utf-32",),
    codecs.BOM_UTF16_LE: ("utf-16",),
    codecs.BOM_UTF16_BE: ("utf-16",),
    b"": ("utf-8", "cp1252"),
}
_PACKED = {
    b"\x1f\x8b": ("this is packed by gzip", "unpack it, or let its name end in .gz"),
    b"PK\3\4": ("this is a zip archive", "unpack it; the name of a spreadsheet ends in .xlsx"),
}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_HEAD = 1_000_000  # bytes that are looked at to find what separates columns
_BLOCK = 1_000_000  # bytes that are split at once, so that what is in between stays small
_SPACE = 4  # a file's bytes, its text, and texts of cells: at the least so many times its size


@contextmanager
def opened(path: Path) -> Iterator[None]:
    """Refuse, in one line, what cannot be opened as a file."""
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
    try:
        yield
    except FileNotFoundError:
        raise DataError(path, "there is no such file", "check the path") from None
    except OSError as error:
        problem = f"the file cannot be read ({reason_of(error)})"
        raise DataError(path, problem, "check it") from None


def read_text(path: str | Path) -> str:
    """Contents of a text file, unpacked if its name ends in .gz, without a byte-order mark."""
    text = read_bytes(Path(path)).decode()
    if text.isspace():
        raise DataError(path, "the file is empty", "give one with rows")
    return text


def read_bytes(path: Path) -> bytes:
    """A text file as UTF-8; ``-`` is standard input."""
    with opened(path):
        if str(path) == "-":
            raw = sys.stdin.buffer.read()
        else:
            fix = "divide it, or leave out rows or columns"
            check_memory(_SPACE * path.stat().st_size, f"{path}: its text and its cells", fix)
            raw = path.read_bytes()
        try:
            raw = gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
        except (gzip.BadGzipFile, EOFError, zlib.error):
            problem = "this is not a complete gzip file"
            raise DataError(path, problem, "compress it again") from None
    if path.suffix == ".npz":
        raise DataError(path, "this is a saved model", "give the comparisons themselves")
    packed = next((each for each in _PACKED if raw.startswith(each)), None)
    if packed is not None:
        raise DataError(path, *_PACKED[packed])
    raw, encoding = _as_utf8(path, raw)
    if b"\0" in raw:
        row = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise DataError(path, "there is a zero byte", "save it as UTF-8 text", row=row)
    if encoding == "cp1252":
        tell(f"{path.name} is not UTF-8 text and is read as Windows-1252: check its accents.")
    if not raw or raw.isspace():
        raise DataError(path, "the file is empty", "give one with a header and rows")
    return raw


def _as_utf8(path: Path, raw: bytes) -> tuple[bytes, str]:
    """Text of any encoding as UTF-8, and the encoding that it had."""
    mark = next((mark for mark in _MARKS if raw.startswith(mark)), b"")
    if mark == codecs.BOM_UTF8:
        raw = raw[len(mark) :]
    if raw.isascii():
        return raw, "utf-8"
    row = 1
    for encoding in _MARKS[mark]:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError as error:
            row = raw.count(b"\n", 0, error.start) + 1
            continue
        return (raw if encoding == "utf-8" else text.encode()), encoding
    fix = "save it as UTF-8"
    raise DataError(path, "this is neither UTF-8 nor Windows-1252 text", fix, row=row)


def separated(path: Path, raw: bytes) -> tuple[str, bytes]:
    """What separates columns, and the text without a spreadsheet's own line that says so."""
    separator = _most_regular(raw)
    stated = re.match(rb"sep=([,;\t|])(?=\r?\n)", raw, re.IGNORECASE)
    if stated is not None:  # the end of the line stays, and counts
        separator, raw = stated[1].decode(), raw[stated.end() :]
    if separator != ",":
        tell(f"The columns of {path.name} are separated by {_SEPARATORS[separator]}.")
    return separator, raw


def _most_regular(raw: bytes) -> str:
    """The separator that the first lines all have equally often, and most often."""
    head = raw[:_HEAD].decode(errors="ignore")
    found = []
    for separator in _SEPARATORS:
        reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
        widths = [0]
        with suppress(csv.Error):
            widths = [len(cells) for cells in islice(reader, 100) if any(map(str.strip, cells))]
        widths = widths[:-1] if len(raw) > _HEAD and len(widths) > 1 else widths
        found.append((len(set(widths)) == 1, (widths or [0])[0], separator))
    regular, width, _ = max(found, key=lambda each: each[:2])
    if width < 2:
        return ","
    return next(each[2] for each in found if each[:2] == (regular, width))


def plain_columns(raw: bytes, separator: str) -> list[Column]:
    """Columns of text without quotes or blank lines, all rows of one length, by a fast reader.

    Of any other text there are none; `strict_lines` reads and judges it.
    """
    if b'"' in raw or (b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n")):
        return []
    end = raw.find(b"\n") + 1
    header = [cell.strip() for cell in raw[:end].decode().split(separator)]
    if len(header) < 2 or not any(header) or not all(header[1:-1]):
        return []
    columns = _parsed(raw, end, separator, header)
    if columns and all("" in column.values for column in columns):
        blank = np.all([column.holds("") for column in columns], axis=0)
        return [] if blank.any() else columns
    return columns


def _parsed(raw: bytes, start: int, separator: str, header: Sequence[str]) -> list[Column]:
    """Columns of lines that all have as many cells, block by block; none if some have not."""
    width = len(header)
    line = separator.encode() * (width - 1) + b"\n"
    others = bytes(set(range(256)) - set(line))
    numbers = [defaultdict(count().__next__) for _ in header]
    codes = np.empty((width, raw.count(b"\n", start) + (raw[-1:] != b"\n")), np.int64)
    row = 0
    while start < len(raw):
        end = raw.find(b"\n", start + _BLOCK) + 1 or len(raw)
        block = raw[start:end].removesuffix(b"\n")
        marks = block.translate(None, others) + b"\n"
        many = len(marks) // width
        if marks != line * many:
            return []
        cells = block.decode().replace("\n", separator).split(separator)
        for place, number in enumerate(numbers):
            own, texts = numbered(cells[place::width])
            merged = np.array([number[text.strip()] for text in texts], np.int64)
            codes[place, row : row + many] = merged[own]
        row, start = row + many, end
    return [Column(*each) for each in zip(header, map(tuple, numbers), codes, strict=True) if row]


def strict_lines(path: Path, text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Numbers and cells of the lines of text with quotes and blank lines, which are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        lines = ((reader.line_num, [cell.strip() for cell in line]) for line in reader)
        return [(row, cells) for row, cells in lines if any(cells)]
    except csv.Error as error:
        problem = f"this is not comma-separated text ({error})"
        raise DataError(path, problem, "check the quotation marks", row=reader.line_num) from None
