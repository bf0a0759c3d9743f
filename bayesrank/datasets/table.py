"""The one reader of tables: CSV (gzip too), JSON lines and arrays, Parquet, and data frames.

What cannot be understood is refused, with its row.
"""

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank._memory import check_room
from bayesrank._tables import Column, column_names, from_frame
from bayesrank.datasets.errors import DataError

__all__ = ["Source", "Table", "read_table", "read_text"]

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
PARQUET_SUFFIXES = (".parquet", ".pq")
_SPACE = 4  # a file's bytes, its text, and texts of cells: at the least so many times its size
Source = Any  # the path of a file, or a data frame: of pandas, Polars or Arrow


class Table(NamedTuple):
    """A file or a frame as columns.

    Attributes
    ----------
    path
        The file, or the name of what was given in its place.
    columns
        In their order.
    rows
        Line of the file on which each row ends, the header being line 1, shape (K,).
    """

    path: Path
    columns: tuple[Column, ...]
    rows: NDArray[np.int64]

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def quoted(self) -> str:
        """Names of the columns, as a message has them."""
        return ", ".join(map(repr, self.header))

    def column(self, *names: str) -> Column | None:
        """The column of the first of these names that is there, whatever the case."""
        known = {column.name.lower(): column for column in self.columns}
        return next((known[name] for name in map(str.lower, names) if name in known), None)

    def error(
        self, problem: str, cure: str, column: Column | None = None, where: Any = None
    ) -> DataError:
        """Error about a column, or about its first row of those where the mask is true."""
        row = None if where is None else int(self.rows[int(np.argmax(where))])
        label = None if column is None else column.name
        return DataError(self.path, problem, cure, row=row, column=label)

    def kept(self, mask: NDArray[np.bool_]) -> "Table":
        """Some of the rows, and of the cells those that they hold."""
        columns = tuple(column.kept(mask) for column in self.columns)
        return self._replace(columns=columns, rows=self.rows[mask])

    def without(self, names: Sequence[str]) -> "Table":
        """The table without some of its columns."""
        for name in names:
            if self.column(name) is None:
                problem = f"there is no column {name!r} among {self.quoted}"
                raise self.error(problem, "name one of these with --ignore")
        hidden = {name.lower() for name in names}
        return self._replace(
            columns=tuple(column for column in self.columns if column.name.lower() not in hidden)
        )

    def refuse_twice(self, *columns: Column) -> None:
        """Refuse a row whose cells in these columns are those of a row above it."""
        codes = np.zeros(len(self.rows), np.int64)
        for column in columns:
            codes = np.unique(codes * len(column.values) + column.codes, return_inverse=True)[1]
        _, first = np.unique(codes, return_index=True)
        again = np.ones(len(codes), bool)
        again[first] = False
        if again.any():
            k = int(np.argmax(again))
            named = ", ".join(f"{c.name} {_start(c.values[c.codes[k]])}" for c in columns)
            row = self.rows[first[codes[k]]]
            label = columns[0] if len(columns) == 1 else None
            problem = f"{named} is already in row {row}"
            raise self.error(problem, "keep one of the two", label, again)


def read_text(path: str | Path) -> str:
    """Contents of a UTF-8 file, unpacked if its name ends in .gz, without a byte-order mark."""
    path = Path(path)
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
    try:
        cure = "divide it, or leave out rows or columns"
        check_room(_SPACE * path.stat().st_size, f"{path}: its text and its cells", cure)
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
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


def read_table(source: Source, text: str | None = None, *, name: str = "the table") -> Table:
    """Read a table with a header."""
    if not isinstance(source, str | os.PathLike):
        return _framed(Path(name), source)
    path = Path(source)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    if suffixes[-1:] and suffixes[-1] in PARQUET_SUFFIXES:
        return _read_parquet(path)
    text = read_text(path) if text is None else text
    if text.lstrip()[0] == "{" or (suffixes[-1:] and suffixes[-1] in JSON_SUFFIXES):
        return _read_json(path, text)
    return _read_plain(path, text) or _read_quoted(path, text)


def _read_plain(path: Path, text: str) -> Table | None:
    """Read text without quotes or blank lines, all rows of one length, by a fast reader.

    None for any other: the strict reader takes it, and says what is wrong.
    """
    if '"' in text or "\r" in text.replace("\r\n", ""):
        return None
    header = [cell.strip() for cell in text.split("\n", 1)[0].split(",")]
    lines = _num_lines(text, len(header) - 1)
    if len(header) < 2 or lines < 2 or not any(header):
        return None
    _check_header(path, 1, header)
    cells, width = text.removesuffix("\n").replace("\n", ",").split(","), len(header)
    columns = tuple(Column.of(name, cells[width + k :: width]) for k, name in enumerate(header))
    if np.logical_and.reduce([column.holds("") for column in columns]).any():
        return None
    return Table(path, columns, np.arange(2, lines + 1))


def _num_lines(text: str, num_commas: int) -> int:
    """Number of lines if each has so many commas, else 0."""
    raw = np.frombuffer(text.encode(), np.uint8)
    ends = np.flatnonzero(raw == ord("\n"))
    if not len(ends) or ends[-1] != len(raw) - 1:
        ends = np.append(ends, len(raw))
    commas = np.diff(np.searchsorted(np.flatnonzero(raw == ord(",")), ends), prepend=0)
    return len(ends) if (commas == num_commas).all() else 0


def _read_quoted(path: Path, text: str) -> Table:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [
            (reader.line_num, cells)
            for cells in ([cell.strip() for cell in line] for line in reader)
            if any(cells)
        ]
    except csv.Error as error:
        problem = f"this is not comma-separated text ({error})"
        raise DataError(path, problem, "check the quotation marks", row=reader.line_num) from None
    if not lines:
        raise DataError(path, "no cell holds anything", "give a header and rows")
    (first, header), *records = lines
    _check_header(path, first, header)
    if not records:
        raise DataError(path, "there is a header but no row below it", "add the data")
    for row, cells in records:
        if len(cells) != len(header):
            problem = f"{len(cells)} cells where the header has {len(header)}"
            cure = "give every row one cell a column, and quote a cell that contains a comma"
            raise DataError(path, problem, cure, row=row)
    rows, table = zip(*records, strict=True)
    columns = map(Column.of, header, zip(*table, strict=True))
    return Table(path, tuple(columns), np.array(rows))


def _read_json(path: Path, text: str) -> Table:
    """Read one object a line; or, of a file that ends in .json, one array of objects."""
    whole = _json(text) if text.lstrip()[0] == "[" and ".json" in path.suffixes else None
    lines = enumerate(text.split("\n") if whole is None else whole, start=1)
    records: list[dict[str, Any]] = []
    rows = []
    for number, line in lines:
        if whole is None and not line.strip():
            continue
        record = _json(line) if whole is None else line
        if not isinstance(record, dict):
            problem, cure = "this line is no JSON object", "write one object a line"
            raise DataError(path, problem, cure, row=number)
        records.append(record)
        rows.append(number)
    if not records:
        raise DataError(path, "there is no line with data", "add the data")
    names = [name for record in records for name in record]
    flat = [n for n in dict.fromkeys(names) if not any(type(r.get(n)) is dict for r in records)]
    _check_header(path, 1, flat)
    columns = [Column.of(n, [_json_cell(record.get(n)) for record in records]) for n in flat]
    if not columns:
        raise DataError(path, "no cell holds anything", "write one object a line")
    table = Table(path, tuple(columns), np.array(rows))
    _refuse_halves(table)
    return table


def _json(text: str) -> Any:
    """What JSON text says; None where it is none, or an object has one key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("one key twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None


def _json_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _refuse_halves(table: Table) -> None:
    """Refuse half of a pair of surrogates, which no file can hold."""
    for column in table.columns:
        for cell in column.values:
            if not cell.isascii() and any("\ud800" <= letter <= "\udfff" for letter in cell):
                problem = f"{ascii(cell)[:60]} holds half of a character"
                raise table.error(problem, "correct it", column, column.holds(cell))


def _read_parquet(path: Path) -> Table:
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
    import pandas as pd  # text does not wait for it

    try:
        frame = pd.read_parquet(path)
    except ImportError:
        cure = "install it (pip install pyarrow), or save the file as CSV or JSON lines"
        raise DataError(path, "reading Parquet needs the package pyarrow", cure) from None
    except FileNotFoundError:
        raise DataError(path, "there is no such file", "check the path") from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(path, f"this is no Parquet file ({reason})", "check it") from None
    return _framed(path, frame)


def _framed(path: Path, frame: Any) -> Table:
    """A data frame as a table; its rows are counted from 1."""
    names = column_names(frame) if not isinstance(frame, dict) else list(frame)
    _check_header(path, None, [str(name).strip() for name in names or ()])
    try:
        columns = from_frame(frame)
    except TypeError:
        problem = f"{type(frame).__name__} is neither the path of a file nor a data frame"
        raise DataError(path, problem, "give one of these") from None
    count = len(columns[0].codes) if columns else 0
    if not count:
        raise DataError(path, "the table has no rows", "add the data")
    return Table(path, columns, np.arange(1, count + 1))


def _check_header(path: Path, row: int | None, header: Sequence[str]) -> None:
    """Refuse a header with a column that has no name, or one twice, or the wrong separator."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            problem = f"its columns are separated by {name}"
            raise DataError(path, problem, "save it with commas", row=row)
    seen: set[str] = set()
    for position, column in enumerate(header, start=1):
        if not column:
            problem = f"column number {position} has no name"
            raise DataError(path, problem, "name or remove it", row=row)
        if column.lower() in seen:
            problem = "this column is there twice"
            raise DataError(path, problem, "rename one of the two", row=row, column=column)
        seen.add(column.lower())


def _start(text: str) -> str:
    """A text as it is quoted in a message, which has no room for thousands of letters."""
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
