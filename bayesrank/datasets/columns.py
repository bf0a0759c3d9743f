"""Tables of text read column by column: CSV (gzip too), JSON lines and Parquet.

A column is kept as its distinct cells and, for each row, which of them it holds: a log of a million
rows has few distinct names, and everything is checked once a distinct cell.
"""

import json
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import check_header, read_table, read_text

__all__ = ["Column", "ColumnTable", "read_columns"]

JSON_SUFFIXES = (".jsonl", ".ndjson")
PARQUET_SUFFIXES = (".parquet", ".pq")


class Column(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    name
        As the file spells it.
    values
        The distinct cells in the order of their first appearance, blanks around them removed; a
        cell that holds nothing is "".
    codes
        Which of them each row holds, shape (K,).
    """

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.int64]


class ColumnTable(NamedTuple):
    """A file as columns.

    Attributes
    ----------
    path
        The file.
    columns
        In the order of the file.
    rows
        Line of the file on which each row ends, shape (K,).
    """

    path: Path
    columns: tuple[Column, ...]
    rows: NDArray[np.int64]

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    def position(self, *names: str) -> int | None:
        """Index of the column of the first of these names that is there, whatever the case."""
        lowered = [name.lower() for name in self.header]
        return next(
            (lowered.index(name) for name in map(str.lower, names) if name in lowered), None
        )

    def error(
        self, problem: str, cure: str, column: Column | None = None, where: Any = None
    ) -> DataError:
        """Error about a column, or about its first row of those where the mask is true."""
        row = None if where is None else int(self.rows[int(np.argmax(where))])
        label = None if column is None else column.name
        return DataError(self.path, problem, cure, row=row, column=label)

    def kept(self, mask: NDArray[np.bool_]) -> "ColumnTable":
        """Some of the rows, and of the cells those that they hold."""
        columns = tuple(
            _by_appearance(column._replace(codes=column.codes[mask])) for column in self.columns
        )
        return self._replace(columns=columns, rows=self.rows[mask])


def read_columns(path: str | Path) -> ColumnTable:
    """Read a file with a header: .jsonl or .ndjson, .parquet, and comma-separated text otherwise.

    Text may be compressed by gzip, with a name that ends in ``.gz``. Lists in JSON are kept as
    their text, and other nested values are left out.

    Raises
    ------
    DataError
        If the file cannot be read as what its name says, or has no rows.
    """
    path = Path(path)
    kind = _kind(path)
    if kind in PARQUET_SUFFIXES:
        return _read_parquet(path)
    text = read_text(path)
    if kind in JSON_SUFFIXES:
        return _read_json_lines(path, text)
    return _read_plain(path, text) or _read_quoted(path, text)


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else path.suffix.lower()


def _column(name: str, cells: Any) -> Column:
    """Distinct cells, without the blanks around them."""
    codes, values = pd.factorize(np.asarray(cells, object))
    return _stripped(name, values, codes)


def _stripped(name: str, values: Any, codes: Any) -> Column:
    """Cells that are the same without the blanks around them become one."""
    texts = np.array([str(value).strip() for value in values] or [""], object)
    merged, distinct = pd.factorize(texts)
    return Column(name, tuple(distinct.tolist()), merged[np.asarray(codes)].astype(np.int64))


def _read_plain(path: Path, text: str) -> ColumnTable | None:
    """Read text without quotes or blank lines, all rows of one length, by a fast reader.

    None for any other: the strict reader takes it, and says what is wrong.
    """
    if '"' in text or "\r" in text.replace("\r\n", ""):
        return None
    header = [cell.strip() for cell in text.split("\n", 1)[0].split(",")]
    lines = _num_lines(text, len(header) - 1)
    if len(header) < 2 or lines < 2 or not any(header):
        return None
    check_header(path, 1, header)
    frame: Any = pd.read_csv(
        StringIO(text), dtype=object, na_filter=False, header=0, names=header, quoting=3
    )  # categories would be numbers where all cells look like some: 1.10 and 1.1 are two names
    columns = [_by_appearance(_column(name, frame[name])) for name in header]
    table = ColumnTable(path, tuple(columns), np.arange(2, lines + 1))
    blank = np.all([_is_blank(column) for column in columns], axis=0)
    return None if blank.any() or len(frame) != lines - 1 else table


def _num_lines(text: str, num_commas: int) -> int:
    """Number of lines if each has so many commas, else 0."""
    raw = np.frombuffer(text.encode(), np.uint8)
    ends = np.flatnonzero(raw == ord("\n"))
    if not len(ends) or ends[-1] != len(raw) - 1:
        ends = np.append(ends, len(raw))
    commas = np.diff(np.searchsorted(np.flatnonzero(raw == ord(",")), ends), prepend=0)
    return len(ends) if (commas == num_commas).all() else 0


def _is_blank(column: Column) -> NDArray[np.bool_]:
    if "" not in column.values:
        return np.zeros(len(column.codes), bool)
    return column.codes == column.values.index("")


def _by_appearance(column: Column) -> Column:
    codes, seen = pd.factorize(column.codes)
    return Column(column.name, tuple(column.values[i] for i in seen), codes.astype(np.int64))


def _read_quoted(path: Path, text: str) -> ColumnTable:
    table = read_table(path, text)
    rows = np.array([row.number for row in table.rows])
    columns = [
        _column(name, [row.cells[i] for row in table.rows]) for i, name in enumerate(table.header)
    ]
    return ColumnTable(path, tuple(columns), rows)


def _read_json_lines(path: Path, text: str) -> ColumnTable:
    records: list[dict[str, Any]] = []
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError(
                path, "this line is no JSON object", "write one object a line", row=number
            )
        records.append(record)
        rows.append(number)
    if not records:
        raise DataError(path, "there is no line with data", "add the data")
    names = [str(name) for name in dict.fromkeys(name for record in records for name in record)]
    flat = [n for n in names if not any(isinstance(record.get(n), dict) for record in records)]
    check_header(path, 1, flat)
    columns = [_column(n, [_json_cell(record.get(n)) for record in records]) for n in flat]
    return ColumnTable(path, tuple(columns), np.array(rows))


def _json_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_parquet(path: Path) -> ColumnTable:
    if path.is_dir():
        raise DataError(path, "this is a directory", "give the path of a file")
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
    if frame.empty:
        raise DataError(path, "the table has no rows", "add the data")
    names = [str(name) for name in frame.columns]
    check_header(path, 1, names)
    columns = [_frame_column(n, frame.iloc[:, i]) for i, n in enumerate(names)]
    return ColumnTable(path, tuple(columns), np.arange(1, len(frame) + 1))


def _frame_column(name: str, cells: Any) -> Column:
    try:
        codes, values = pd.factorize(cells, use_na_sentinel=True)
    except TypeError:  # lists
        return _column(name, [_json_cell(_plain(cell)) for cell in cells])
    texts = [*map(str, values), ""]
    return _by_appearance(_stripped(name, texts, np.where(codes < 0, len(values), codes)))


def _plain(cell: Any) -> Any:
    """Lists in place of arrays, at any depth, and text in place of what JSON does not know."""
    if isinstance(cell, dict):
        return {str(key): _plain(value) for key, value in cell.items()}
    if isinstance(cell, np.ndarray | list | tuple):
        return [_plain(value) for value in cell]
    if isinstance(cell, np.generic):
        return _plain(cell.item())
    return cell if cell is None or isinstance(cell, str | bool | int | float) else str(cell)
