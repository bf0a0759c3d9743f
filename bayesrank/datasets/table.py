"""The one reader of tables: text, JSON, Parquet, spreadsheets, and data frames.

What cannot be understood is refused, with its row.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import Column, column_names, from_frame
from bayesrank.datasets.errors import DataError, quoted, tell
from bayesrank.datasets.text import opened, plain_columns, read_bytes, separated, strict_lines

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")

Record = dict[str, Any]
_TAG = re.compile(r'\[\s*(\w+)\s+"((?:[^"\\]|\\.)*)"\s*\]\s*')


def read_json(path: Path, text: str) -> list[tuple[int, Record]]:
    """Read one object a line; or, of a file that ends in .json, one array of objects."""
    if text.startswith('{"bayesrank":"journal"'):
        fix = f"export its answers: bayesrank ask ITEMS --journal {path} --export answers.csv"
        raise DataError(path, "this is a journal of ask", fix, row=1)
    whole = _json(text) if ".json" in path.suffixes else None
    whole = _transposed(whole) if isinstance(whole, dict) else whole
    whole = whole if isinstance(whole, list) else None
    lines: Any = enumerate(text.split("\n") if whole is None else whole, start=1)
    records: list[tuple[int, Record]] = []
    for number, line in lines:
        if whole is None and not line.strip():
            continue
        record = _json(line) if whole is None else line
        if not isinstance(record, dict):
            problem = "this line is not a JSON object with each key once"
            fix = 'write objects, as in {"winner": "Ada", "loser": "Bob"}'
            raise DataError(path, problem, fix, row=number)
        records += [(number, each) for each in _annotations(record)]
    return records


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


def _annotations(record: Record) -> Iterator[Record]:
    """Records of one of JSON: itself, or of Label Studio's tasks one for each answer."""
    if isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list):
        for annotation in filter(_is_answer, record["annotations"]):
            for answer in annotation.get("result") or ():
                value = answer.get("value") if isinstance(answer, dict) else None
                if isinstance(value, dict) and ("selected" in value or "ranker" in value):
                    yield {**record["data"], "judge": _judge(annotation), **_said(value)}
        return
    yield dict(part for name, value in record.items() for part in _parts(name, value))


def _is_answer(annotation: Any) -> bool:
    return isinstance(annotation, dict) and not annotation.get("was_cancelled")


def _judge(annotation: Record) -> Any:
    """Who answered; newer versions say more of them than their number."""
    judge = annotation.get("completed_by")
    return judge.get("id") if isinstance(judge, dict) else judge


def _said(value: Record) -> Record:
    """The side that was chosen, or the order."""
    if "selected" in value:
        return {"selected": value["selected"]}
    ranked = value["ranker"]
    lists = list(ranked.values()) if isinstance(ranked, dict) else [ranked]
    return {"order": lists[0] if lists else None}


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """A value, or what a record in its place says; of Label Studio's, the side that was chosen."""
    if not isinstance(value, dict) or any(isinstance(v, dict | list) for v in value.values()):
        return [(name, value)]
    return [(name if part == "selected" else f"{name}.{part}", v) for part, v in value.items()]


def read_games(path: Path, text: str) -> list[tuple[int, Record]]:
    """Tags of chess games in PGN; games without a result are left out."""
    games: list[tuple[int, Record]] = []
    inside = False
    for row, line in enumerate(text.split("\n"), start=1):
        tag = _TAG.fullmatch(line.strip())
        if tag is not None:
            if not inside:
                games.append((row, {}))
            games[-1][1][tag[1].lower()] = re.sub(r"\\(.)", r"\1", tag[2])
        inside = tag is not None
    ended = [(row, game) for row, game in games if game.get("result") != "*"]
    if len(ended) < len(games):
        tell(f"Games of {path.name} without a result, left out: {len(games) - len(ended):,}.")
    if not ended:
        raise DataError(path, "there is no game with a result", "give one with its tags")
    names = ("white", "black", "result", "date")
    return [(row, {name: game.get(name) for name in names}) for row, game in ended]


PARQUET_SUFFIXES = (".parquet", ".pq")
SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
_TITLE = "remove the lines above the one that names the columns"
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
        Line of the file on which each row ends, the header being line 1, shape (K,); 0 where rows
        have no lines, because each stands for all that are equal to it.
    notes
        Sentences on how it was understood.
    separator
        What stands between its columns, if it is text.
    counts, weights
        Of distinct rows: how many rows each stands for, and what these weigh together; else None.
    """

    path: Path
    columns: tuple[Column, ...]
    rows: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    separator: str = ","
    counts: NDArray[np.int64] | None = None
    weights: NDArray[np.float64] | None = None

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def quoted(self) -> str:
        """Names of the columns, as a message has them."""
        return ", ".join(map(repr, self.header))

    def column(self, *names: str) -> Column | None:
        """The column of the first of these names that is there, whatever joins their parts."""
        keys = (key for name in names for key in (name.lower(), plain_key(name)))
        return next((self.by_name[key] for key in keys if key in self.by_name), None)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by their names, and by these without blanks, points, dashes and underscores."""
        plain = {plain_key(column.name): column for column in reversed(self.columns)}
        return plain | {column.name.lower(): column for column in self.columns}

    def error(
        self, problem: str, fix: str, column: Column | None = None, where: Any = None
    ) -> DataError:
        """Error about a column, or about its first row of those where the mask is true."""
        row = None if where is None else int(self.rows[int(np.argmax(where))])
        label = None if column is None else column.name
        return DataError(self.path, problem, fix, row=row, column=label)

    def refuse(self, column: Column, wrong: Callable[[str], bool], problem: str, fix: str) -> None:
        """Refuse the first cell of a column that is wrong; `problem` goes on behind the cell."""
        for cell in filter(wrong, column.values):
            raise self.error(f"{quoted(cell)} {problem}", fix, column, column.holds(cell))

    def kept(self, rows: NDArray[Any]) -> "Table":
        """Some of the rows, by a mask or their numbers, and of the cells those that they hold."""
        columns = tuple(column.kept(rows) for column in self.columns)
        beside = {n: getattr(self, n) for n in ("rows", "counts", "weights")}
        beside = {n: each if each is None else each[rows] for n, each in beside.items()}
        return replace(self, columns=columns, **beside)

    def count(self, mask: NDArray[np.bool_]) -> int:
        """How many rows of the data are those where the mask is true."""
        return int(mask.sum() if self.counts is None else self.counts[mask].sum())

    def having(self, note: str = "", **cells: Any) -> "Table":
        """The table with further columns, in front of others of these names, and a note."""
        new = [Column.of(name, each) for name, each in cells.items()]
        others = [column for column in self.columns if column.name.lower() not in cells]
        notes = (*self.notes, note) if note else self.notes
        return replace(self, columns=(*new, *others), notes=notes)

    def without(self, names: Sequence[str]) -> "Table":
        """The table without some of its columns."""
        hidden = [self.column(name) for name in names]
        if None in hidden:
            problem = f"there is no column {names[hidden.index(None)]!r} among {self.quoted}"
            raise self.error(problem, "name one of these with --ignore")
        named = {column.name for column in hidden if column}
        return self.with_columns([column for column in self.columns if column.name not in named])

    def with_columns(self, columns: Sequence[Column]) -> "Table":
        """The same rows with these columns alone."""
        return replace(self, columns=tuple(columns))

    def refuse_twice(self, *columns: Column, fix: str = "keep one of the two") -> None:
        """Refuse a row whose cells in these columns are those of a row above it."""
        codes = np.zeros(len(self.rows), np.int64)
        for column in columns:
            codes = np.unique(codes * len(column.values) + column.codes, return_inverse=True)[1]
        _, first = np.unique(codes, return_index=True)
        again = np.ones(len(codes), bool)
        again[first] = False
        if again.any():
            k = int(np.argmax(again))
            named = ", ".join(f"{c.name} {quoted(c.values[c.codes[k]])}" for c in columns)
            row = self.rows[first[codes[k]]]
            label = columns[0] if len(columns) == 1 else None
            problem = f"{named} is already in row {row}"
            raise self.error(problem, fix, label, again)


def plain_key(name: str) -> str:
    """A name of a column as it is compared: in lower case, letters and digits alone."""
    return re.sub(r"^(?:input|answer)\.|[\s_.\-]+", "", name.lower())  # of Mechanical Turk


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
    raw = read_bytes(path) if text is None else text.encode()
    if suffix == ".pgn":
        return _from_records(path, read_games(path, raw.decode()))
    if raw.lstrip()[:1] == b"{" or suffix in JSON_SUFFIXES:
        return _from_records(path, read_json(path, raw.decode()))
    separator, raw = separated(path, raw)
    columns = plain_columns(raw, separator)
    if not columns:
        table = _of_lines(path, strict_lines(path, raw.decode(), separator))
        return replace(table, separator=separator)
    rows = np.arange(2, len(columns[0].codes) + 2)
    return Table(path, _checked(path, 1, columns), rows, separator=separator)


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
            fix = "give every row one cell a column, and quote a cell that contains a comma"
            fix = f"{_TITLE}, or {fix}" if len(header) == 1 else fix
            raise DataError(path, problem, fix, row=row)
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
        tell(f"{path.name} has {len(sheets)} sheets; the first is read: {name}.")
    lines = [[str(cell).strip() for cell in line] for line in frame.itertuples(index=False)]
    return _of_lines(path, [(row, cells) for row, cells in enumerate(lines, 1) if any(cells)])


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
    with opened(path):
        try:
            return read(path)
        except ImportError:
            fix = f"install it (pip install {package}), or save the file as CSV"
            problem = f"reading a {kind} needs the package {package}"
            raise DataError(path, problem, fix) from None
        except (DataError, FileNotFoundError):
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
    except UnicodeDecodeError:
        problem = "a cell holds bytes that are not UTF-8 text"
        raise DataError(path, problem, "decode its column") from None
    count = len(columns[0].codes) if columns else 0
    table = Table(path, _checked(path, None, columns), np.arange(1, count + 1))
    blank = np.zeros(count, bool)
    if all("" in column.values for column in columns):
        blank = np.all([column.holds("") for column in columns], axis=0)
    if np.all(blank):
        raise DataError(path, "the table has no rows", "add the data")
    return table.kept(~blank) if np.any(blank) else table


def _refuse_again(path: Path, row: int | None, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            problem, fix = "this column is there twice", "rename one of the two"
            raise DataError(path, problem, fix, row=row, column=name)
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
            fix = "name or remove it" if any(c.name for c in columns[1:]) else _TITLE
            raise DataError(path, problem, fix, row=row)
        kept.append(column)
    return tuple(kept)
