"""Runs and relevance judgements read from comma-separated or TREC files."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from bayesrank.datasets import DataError
from bayesrank.datasets.table import Table, read_table, read_text

_QUERY = ("query", "qid", "topic")
_ITEM = ("item", "docno", "doc", "document")
_SCORE = ("score",)
_LABEL = ("label", "relevance", "rel", "grade")
_DRAW = "draw"
_LARGEST = 10**9
# Lines and fields of TREC files end here alone: Python's own ideas of what ends a line, or is a
# blank, include some that names contain, such as \x1c and \x85.
_LINE = re.compile(r"\r\n|\n|\r")
_FIELD = re.compile(r"[^ \t]+")


class Run(NamedTuple):
    """Scores of retrieved items."""

    path: Path
    scores: dict[tuple[str, str, str], float]  #: by draw, query and item; one draw is named ""


class Qrels(NamedTuple):
    """Relevance labels of judged items."""

    path: Path
    labels: dict[tuple[str, str], int]  #: by query and item


class _Record(NamedTuple):
    row: int
    query: str
    item: str
    value: str
    draw: str = ""


class _Columns(NamedTuple):
    """Where a kind of file keeps what, and what to call it."""

    value: tuple[str, ...]
    expected: str
    trec_width: int
    trec_value: int
    trec_line: str


_RUN = _Columns(_SCORE, "query,item,score", 6, 4, "query Q0 item rank score tag")
_QRELS = _Columns(_LABEL, "query,item,label", 4, 3, "query 0 item label")


def read_run(path: str | Path) -> Run:
    r"""Read the scores that a ranker gave.

    Either comma-separated UTF-8 text with the columns ``query`` (or ``qid``, ``topic``), ``item``
    (or ``docno``, ``doc``, ``document``) and ``score``, and optionally ``draw``, which tells the
    posterior draws of one score apart. Or a TREC run, ``query Q0 item rank score tag`` a line; its
    ranks are not used.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Run
        The scores; higher is better.

    Raises
    ------
    DataError
        If the file cannot be used as it is: a score that is not a finite number, an item twice in
        a query, an empty name. One line, with file, row and column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.csv"
    ...     _ = path.write_text("query,item,score\nq1,a,0.9\nq1,b,0.4\n")
    ...     read_run(path).scores
    {('', 'q1', 'a'): 0.9, ('', 'q1', 'b'): 0.4}
    """
    path = Path(path)
    scores: dict[tuple[str, str, str], float] = {}
    for record, fail in _records(path, _RUN):
        value = _number(record.value)
        if not math.isfinite(value):
            raise fail(f"the score {record.value!r} is not a finite number", "give one, or no row")
        key = (record.draw, record.query, record.item)
        if key in scores:
            raise fail(f"item {record.item!r} is in query {record.query!r} twice", "remove one")
        scores[key] = value
    return Run(path, scores)


def read_qrels(path: str | Path, *, negative: Literal["refuse", "zero"] = "refuse") -> Qrels:
    """Read relevance judgements.

    Either comma-separated UTF-8 text with the columns ``query``, ``item`` (other names as in
    `read_run`) and ``label`` (or ``relevance``, ``rel``, ``grade``), or a TREC file, ``query 0 item
    label`` a line. Labels are whole numbers, 0 for not relevant.

    Parameters
    ----------
    path
        The file.
    negative
        Labels below zero, which some TREC files have for junk, are refused or taken as 0.

    Returns
    -------
    Qrels
        The labels.

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line, with file, row and column.
    ValueError
        If `negative` is neither.
    """
    if negative not in ("refuse", "zero"):
        raise ValueError(f"negative must be 'refuse' or 'zero', got {negative!r}")
    path = Path(path)
    labels: dict[tuple[str, str], int] = {}
    for record, fail in _records(path, _QRELS):
        value = _number(record.value)
        if not math.isfinite(value) or value != round(value):
            raise fail(f"the label {record.value!r} is not a whole number", "number the levels")
        if abs(value) > _LARGEST:
            raise fail(f"{record.value!r} is no label", "number the levels 0, 1, 2, ...")
        if value < 0 and negative == "refuse":
            raise fail(
                f"the label {record.value} is below zero",
                "write 0, or take them as 0 by --negative-labels zero",
            )
        key = (record.query, record.item)
        if key in labels:
            raise fail(
                f"item {record.item!r} is judged twice in query {record.query!r}", "keep one"
            )
        labels[key] = max(int(value), 0)
    return Qrels(path, labels)


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _records(
    path: Path, columns: _Columns
) -> Iterator[tuple[_Record, Callable[[str, str], DataError]]]:
    """Give each record, and how to refuse it at its place."""
    text = read_text(path)
    if _is_trec(text, columns):
        names = ("query", "item", columns.value[0])
        records = _from_trec(path, text, columns)
    else:
        table = read_table(path, text)
        wanted = (_QUERY, _ITEM, columns.value)
        places = [table.position(*known, expected=columns.expected) for known in wanted]
        names = tuple(table.header[place] for place in places)
        records = _from_table(table, places, with_draw=columns is _RUN)
    for record in records:

        def fail(
            problem: str, cure: str, column: str = names[2], row: int = record.row
        ) -> DataError:
            return DataError(path, problem, cure, row=row, column=column)

        for name, cell in zip(names, (record.query, record.item), strict=False):
            if not cell:
                raise fail("the cell is empty", "fill it, or remove the row", name)
        yield record, fail


def _is_trec(text: str, columns: _Columns) -> bool:
    """Whether the first line is one of a TREC file, right or wrong, and no header."""
    first = next(line for line in _LINE.split(text) if line.strip())
    fields = _FIELD.findall(first)
    if len(fields) == columns.trec_width and not math.isnan(_number(fields[columns.trec_value])):
        return True
    names = {*_QUERY, *_ITEM, *columns.value}
    return len(fields) > 1 and not set(",;") & set(first) and not names & set(first.lower().split())


def _from_trec(path: Path, text: str, columns: _Columns) -> Iterator[_Record]:
    for row, line in enumerate(_LINE.split(text), start=1):
        fields = _FIELD.findall(line)
        if not fields:
            continue
        if len(fields) != columns.trec_width:
            raise DataError(
                path,
                f"{len(fields)} fields where a TREC line has {columns.trec_width}",
                f"write {columns.trec_line}",
                row=row,
            )
        yield _Record(row, fields[0], fields[2], fields[columns.trec_value])


def _from_table(table: Table, places: list[int], with_draw: bool) -> Iterator[_Record]:
    lowered = [name.lower() for name in table.header]
    draw = lowered.index(_DRAW) if with_draw and _DRAW in lowered else None
    for row in table.rows:
        query, item, value = (row.cells[place] for place in places)
        yield _Record(row.number, query, item, value, "" if draw is None else row.cells[draw])
