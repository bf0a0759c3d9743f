"""The one reader of tables: text, JSON, Parquet, spreadsheets, and data frames.

What cannot be understood is refused, with its row.
"""

import codecs
import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._memory import check_memory
from bayesrank._tables import Column, column_names, from_frame
from bayesrank.datasets.errors import DataError, tell
from bayesrank.datasets.exports import READERS, annotations

__all__ = ["Source", "Table", "read_table", "read_text"]

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
PARQUET_SUFFIXES = (".parquet", ".pq")
SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
_MARKS = {
    codecs.BOM_UTF8: ("utf-8",),
    codecs.BOM_UTF32_LE: ("utf-32",),  # begins as the mark of UTF-16 does
    codecs.BOM_UTF32_BE: ("utf-32",),
    codecs.BOM_UTF16_LE: ("utf-16",),
    codecs.BOM_UTF16_BE: ("utf-16",),
    b"": ("utf-8", "cp1252"),
}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_TITLE = "remove the lines above the one that names the columns"
_HEAD = 1_000_000  # bytes that are looked at to find what separates columns
_BLOCK = 20_000_000  # bytes that are read at once
_SPACE = 4  # a file's bytes, its text, and texts of cells: at the least so many times its size
_Cells = tuple[NDArray[np.int64], Sequence[str]]
Source = Any  # the path of a file, or a data frame: of pandas, Polars or Arrow


@dataclass(frozen=True, eq=False)
class Table:
    """A file or a frame as columns.

    Attributes
    ----------
    path
        The file, or the name of what was given in its place.
    columns
        In their order.
    rows
        Line of the file on which each row ends, the header being line 1, shape (K,).
    notes
        Sentences on how it was understood.
    separator
        What stands between its columns, if it is text.
    """

    path: Path
    columns: tuple[Column, ...]
    rows: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    separator: str = ","

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
        known = self.by_name
        return next((known[name] for name in map(str.lower, names) if name in known), None)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by their names, and by these without blanks, points, dashes and underscores."""
        plain = {plain_key(column.name): column for column in reversed(self.columns)}
        return plain | {column.name.lower(): column for column in self.columns}

    def error(
        self, problem: str, cure: str, column: Column | None = None, where: Any = None
    ) -> DataError:
        """Error about a column, or about its first row of those where the mask is true."""
        row = None if where is None else int(self.rows[int(np.argmax(where))])
        label = None if column is None else column.name
        return DataError(self.path, problem, cure, row=row, column=label)

    def kept(self, rows: NDArray[Any]) -> "Table":
        """Some of the rows, by a mask or their numbers, and of the cells those that they hold."""
        columns = tuple(column.kept(rows) for column in self.columns)
        return replace(self, columns=columns, rows=self.rows[rows])

    def having(self, note: str = "", **cells: Any) -> "Table":
        """The table with further columns, in front of others of these names, and a note."""
        new = [Column.of(name, each) for name, each in cells.items()]
        others = [column for column in self.columns if column.name.lower() not in cells]
        notes = (*self.notes, note) if note else self.notes
        return replace(self, columns=(*new, *others), notes=notes)

    def without(self, names: Sequence[str]) -> "Table":
        """The table without some of its columns."""
        for name in names:
            if self.column(name) is None:
                problem = f"there is no column {name!r} among {self.quoted}"
                raise self.error(problem, "name one of these with --ignore")
        hidden = {name.lower() for name in names}
        columns = tuple(column for column in self.columns if column.name.lower() not in hidden)
        return replace(self, columns=columns)

    def with_columns(self, columns: Sequence[Column]) -> "Table":
        """The same rows with these columns alone."""
        return replace(self, columns=tuple(columns))

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


def plain_key(name: str) -> str:
    """A name of a column as it is compared: in lower case, letters and digits alone."""
    return re.sub(r"^(?:input|answer)\.|[\s_.\-]+", "", name.lower())  # of Mechanical Turk


def read_text(path: str | Path) -> str:
    """Contents of a text file, unpacked if its name ends in .gz, without a byte-order mark."""
    text = _read_bytes(Path(path)).decode()
    if text.isspace():
        raise DataError(path, "the file is empty", "give one with rows")
    return text


def _read_bytes(path: Path) -> bytes:
    """A text file as UTF-8; ``-`` is standard input."""
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
    try:
        cure = "divide it, or leave out rows or columns"
        if str(path) == "-":
            raw = sys.stdin.buffer.read()
        else:
            check_memory(_SPACE * path.stat().st_size, f"{path}: its text and its cells", cure)
            raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(path, "this is not a complete gzip file", "compress it again") from None
    except FileNotFoundError:
        raise DataError(path, "there is no such file", "check the path") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(path, f"the file cannot be read ({reason})", "check it") from None
    raw = _as_utf8(path, raw)
    if b"\0" in raw:
        row = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise DataError(path, "there is a zero byte", "give a text file", row=row)
    if not raw or raw.isspace():
        raise DataError(path, "the file is empty", "give one with a header and rows")
    return raw


def _as_utf8(path: Path, raw: bytes) -> bytes:
    """Text of another encoding as UTF-8; without a byte-order mark, Windows-1252 is said."""
    mark = next((mark for mark in _MARKS if raw.startswith(mark)), b"")
    if mark == codecs.BOM_UTF8:
        raw = raw[len(mark) :]
    if raw.isascii():
        return raw
    row = 1
    for encoding in _MARKS[mark]:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError as error:
            row = raw.count(b"\n", 0, error.start) + 1
            continue
        if encoding == "utf-8":
            return raw
        if encoding == "cp1252":
            tell(f"{path.name} is not UTF-8 text and is read as Windows-1252: check its accents.")
        return text.encode()
    cure = "save it as UTF-8"
    raise DataError(path, "this is neither UTF-8 nor Windows-1252 text", cure, row=row)


def read_table(source: Source, text: str | None = None, *, name: str = "the table") -> Table:
    """Read a table with a header."""
    if not isinstance(source, str | os.PathLike):
        return _framed(Path(name), source)
    path = Path(source)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in PARQUET_SUFFIXES:
        import pandas as pd  # text does not wait for it

        def read(path: Path) -> Table:  # some cells are looked at only where they are asked for
            return _framed(path, pd.read_parquet(path))

        return _loaded(path, read, "Parquet file", "pyarrow")
    if suffix in SHEET_SUFFIXES:
        return _read_sheet(path)
    raw = _read_bytes(path) if text is None else text.encode()
    if suffix in READERS:
        return _from_records(path, READERS[suffix](path, raw.decode()))
    if raw.lstrip()[:1] == b"{" or suffix in JSON_SUFFIXES:
        return _read_json(path, raw.decode())
    separator = separator_of(raw)
    stated = re.match(rb"sep=([,;\t|])(?=\r?\n)", raw, re.IGNORECASE)
    if stated is not None:  # a spreadsheet's own line; its end stays, and counts
        separator, raw = stated[1].decode(), raw[stated.end() :]
    if separator != ",":
        tell(f"The columns of {path.name} are separated by {_SEPARATORS[separator]}.")
    table = _read_plain(path, raw, separator) or _read_strict(path, raw.decode(), separator)
    return replace(table, separator=separator)


def separator_of(raw: bytes) -> str:
    """What separates columns: what each of the first lines has as often, most often."""
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


def _read_plain(path: Path, raw: bytes, separator: str) -> Table | None:
    """Read text without quotes or blank lines, all rows of one length, by a fast reader.

    None for any other: the strict reader takes it, and says what is wrong.
    """
    if b'"' in raw or (b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n")):
        return None
    end = raw.find(b"\n") + 1
    header = [cell.strip() for cell in raw[: end or None].decode().split(separator)]
    if len(header) < 2 or not any(header) or not all(header[1:-1]):
        return None
    columns = _parsed(raw, end, separator, header)
    hold = [column for column in columns or () if "" in column.values]
    blank = len(hold) == len(header) and np.all([column.holds("") for column in hold], axis=0)
    if not columns or np.any(blank):
        return None
    return Table(path, _checked(path, 1, columns), np.arange(2, len(columns[0].codes) + 2))


def _parsed(raw: bytes, start: int, separator: str, header: Sequence[str]) -> list[Column]:
    """Columns of lines that all have as many cells, block by block; none if some have not."""
    marks = separator.encode()
    line = marks * (len(header) - 1) + b"\n"
    others = bytes(set(range(256)) - set(line))
    numbers = [defaultdict(count().__next__) for _ in header]
    codes = np.empty((len(header), raw.count(b"\n", start) + (raw[-1:] != b"\n")), np.int64)
    numeric: set[int] = set()
    row = 0
    while start < len(raw):
        end = raw.find(b"\n", start + _BLOCK) + 1 or len(raw)
        block = raw[start:end] if raw[end - 1 : end] == b"\n" else raw[start:] + b"\n"
        lines = block.translate(None, others)
        if lines != line * (len(lines) // len(line)):
            return []
        cells = _by_pandas if len(raw) > _BLOCK else _by_python
        for place, (own, texts) in enumerate(cells(block, separator, len(header), numeric)):
            merged = np.array([numbers[place][text.strip()] for text in texts], np.int64)
            codes[place, row : row + len(own)] = merged[own]
        row += len(lines) // len(line)
        start = end
    return [Column(*each) for each in zip(header, map(tuple, numbers), codes, strict=True) if row]


def _by_python(block: bytes, separator: str, width: int, numeric: set[int]) -> Iterator[_Cells]:
    """Cells of a few lines, column by column: their codes, and texts."""
    cells = block.decode().removesuffix("\n").replace("\n", separator).split(separator)
    for place in range(width):
        column = Column.of("", cells[place::width])
        yield column.codes, column.values


def _by_pandas(block: bytes, separator: str, width: int, numeric: set[int]) -> Iterator[_Cells]:
    """The same of very many lines, in a third of the time."""
    import pandas as pd  # few lines do not wait for it

    def read(places: Any) -> Any:
        kinds: Any = {place: object if place in numeric else "category" for place in places}
        return pd.read_csv(
            io.BytesIO(block), sep=separator, dtype=kinds, na_filter=False, header=None,
            names=range(width), usecols=places, quoting=csv.QUOTE_NONE, skip_blank_lines=False,
        )  # fmt: skip

    frame = read(range(width))
    # Categories that are numbers are no texts: 1.10 would be 1.1.
    new = {
        p
        for p in range(width)
        if p not in numeric and frame[p].cat.categories.inferred_type != "string"
    }
    numeric |= new
    texts = read(sorted(new)) if new else frame
    for place in range(width):
        own, values = pd.factorize((texts if place in new else frame)[place].array)
        yield own, list(values)


def _read_strict(path: Path, text: str, separator: str) -> Table:
    """Read text with quotes and blank lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        lines = [
            (reader.line_num, cells)
            for cells in ([cell.strip() for cell in line] for line in reader)
            if any(cells)
        ]
    except csv.Error as error:
        problem = f"this is not comma-separated text ({error})"
        raise DataError(path, problem, "check the quotation marks", row=reader.line_num) from None
    return _of_lines(path, lines)


def _of_lines(path: Path, lines: Sequence[tuple[int, Sequence[str]]]) -> Table:
    """A table of numbered rows of cells, none of them empty; the header comes first."""
    if not lines:
        raise DataError(path, "no cell holds anything", "give a header and rows")
    (first, header), *records = _one_header(lines)
    if not records:
        _checked(path, first, [Column(name, ("x",), np.zeros(1, int)) for name in header])
        raise DataError(path, "there is a header but no row below it", "add the data")
    for row, cells in records:
        if len(cells) != len(header):
            problem = f"{len(cells)} cells where the header has {len(header)}"
            cure = "give every row one cell a column, and quote a cell that contains a comma"
            cure = f"{_TITLE}, or {cure}" if len(header) == 1 else cure
            raise DataError(path, problem, cure, row=row)
    rows, table = zip(*records, strict=True)
    columns = list(map(Column.of, header, zip(*table, strict=True)))
    return Table(path, _checked(path, first, columns), np.array(rows))


def _one_header(lines: Sequence[tuple[int, Sequence[str]]]) -> list[tuple[int, Sequence[str]]]:
    """Lines whose header is one: SurveyMonkey has questions, and below them what they ask of."""
    (first, header), *records = lines
    below = records[0][1] if records else [""]
    blank = [j for j, name in enumerate(header) if j and not name]
    if len(below) != len(header) or below[0] or not blank or not all(below[j] for j in blank):
        return [*lines]
    question, names = "", []
    for name, item in zip(header, below, strict=True):
        question = name or question
        names.append(f"{question} - {item}" if item else name)
    return [(first, names), *records[1:]]


def _read_sheet(path: Path) -> Table:
    """The first sheet of a spreadsheet."""
    import pandas as pd

    read = partial(pd.read_excel, header=None, dtype=object, sheet_name=None, na_filter=False)
    sheets = _loaded(path, read, "spreadsheet", "odfpy" if path.suffix == ".ods" else "openpyxl")
    name, frame = next(iter(sheets.items()))
    if len(sheets) > 1:
        tell(f"Of the {len(sheets)} sheets of {path.name}, the first is read: {name}.")
    lines = [[str(cell).strip() for cell in line] for line in frame.itertuples(index=False)]
    return _of_lines(path, [(row, cells) for row, cells in enumerate(lines, 1) if any(cells)])


def _read_json(path: Path, text: str) -> Table:
    """Read one object a line; or, of a file that ends in .json, one array of objects."""
    whole = _json(text) if ".json" in path.suffixes else None
    whole = _transposed(whole) if isinstance(whole, dict) else whole
    whole = whole if isinstance(whole, list) else None
    lines: Any = enumerate(text.split("\n") if whole is None else whole, start=1)
    records: list[tuple[int, dict[str, Any]]] = []
    for number, line in lines:
        if whole is None and not line.strip():
            continue
        record = _json(line) if whole is None else line
        if not isinstance(record, dict):
            problem = "this line is no JSON object with each key once"
            cure = 'write objects, as in {"winner": "Ada", "loser": "Bob"}'
            raise DataError(path, problem, cure, row=number)
        records += [(number, each) for each in annotations(record)]
    return _from_records(path, records)


def _transposed(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one object that holds columns, as lists or by the rows' names; or a list in it."""
    held = list(record.values())
    lists = [each for each in held if isinstance(each, list | dict)]
    if len(lists) == 1 and isinstance(lists[0], list) and all(type(r) is dict for r in lists[0]):
        return lists[0] or [record]
    if len(held) < 2 or not all(isinstance(column, list | dict) for column in held):
        return [record]
    if len({len(each) if isinstance(each, list) else (*each,) for each in held}) > 1:
        return [record]
    columns = [each if isinstance(each, list) else list(each.values()) for each in held]
    return [dict(zip(record, row, strict=True)) for row in zip(*columns, strict=True)]


def _from_records(path: Path, records: Sequence[tuple[int, dict[str, Any]]]) -> Table:
    """A table of numbered records; what holds further records is left out."""
    if not records:
        raise DataError(path, "there is no line with data", "add the data")
    names = [name for _, record in records for name in record]
    flat = [n for n in dict.fromkeys(names) if not any(type(r.get(n)) is dict for _, r in records)]
    columns = [Column.of(n, [_json_cell(record.get(n)) for _, record in records]) for n in flat]
    if not columns:
        raise DataError(path, "no cell holds anything", "write one object a line")
    rows = np.array([row for row, _ in records])
    table = Table(path, _checked(path, 1, columns), rows)
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


def _loaded(path: Path, read: Callable[[Path], Any], kind: str, package: str) -> Any:
    """What a reader of pandas makes of a file, by a package that may not be there."""
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
    try:
        return read(path)
    except ImportError:
        cure = f"install it (pip install {package}), or save the file as CSV"
        problem = f"reading a {kind} needs the package {package}"
        raise DataError(path, problem, cure) from None
    except FileNotFoundError:
        raise DataError(path, "there is no such file", "check the path") from None
    except DataError:
        raise
    except Exception as error:  # the packages have errors of their own
        reason = " ".join(str(error).split())
        raise DataError(path, f"this is not a valid {kind} ({reason})", "check it") from None


def _framed(path: Path, frame: Any) -> Table:
    """A data frame as a table; its rows are counted from 1."""
    if type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    names = list(frame) if isinstance(frame, dict) else column_names(frame)
    _refuse_again(path, None, [str(name).strip() for name in names or ()])
    # A square table may name its rows by the index; one without names counts both from 0.
    index = getattr(frame, "index", ())
    if names and 0 not in names and not callable(index) and {*index} == {*names}:
        frame = frame.reset_index(names="")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        columns = from_frame(frame)
    except TypeError:
        problem = f"{type(frame).__name__} is neither the path of a file nor a data frame"
        raise DataError(path, problem, "give one of these") from None
    count = len(columns[0].codes) if columns else 0
    if not count:
        raise DataError(path, "the table has no rows", "add the data")
    return Table(path, _checked(path, None, columns), np.arange(1, count + 1))


def _refuse_again(path: Path, row: int | None, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            problem, cure = "this column is there twice", "rename one of the two"
            raise DataError(path, problem, cure, row=row, column=name)
        seen.add(name.lower())


def _checked(path: Path, row: int | None, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Columns whose names are single; of those without a name, the first may number the rows."""
    _refuse_again(path, row, [column.name for column in columns if column.name])
    kept = []
    for position, column in enumerate(columns, start=1):
        if not column.name and column.values == ("",):
            continue
        if not column.name and position > 1:
            problem = f"column number {position} has no name"
            cure = "name or remove it" if any(c.name for c in columns[1:]) else _TITLE
            raise DataError(path, problem, cure, row=row)
        kept.append(column)
    return tuple(kept)


def _start(text: str) -> str:
    """A text as it is quoted in a message, which has no room for thousands of letters."""
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
