"""Runs and relevance judgements read from comma-separated or TREC files."""

import math
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bayesrank._tables import Column
from bayesrank._validate import check_choice
from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import QRELS, RUN, Found, Layout, find
from bayesrank.datasets.table import Table, read_table
from bayesrank.datasets.text import FIELD, LINE, read_text


class Run(NamedTuple):
    """Scores of retrieved items."""

    path: Path
    scores: dict[tuple[str, str, str], float]  #: by draw, query and item; one draw is named ""


class Qrels(NamedTuple):
    """Relevance labels of judged items."""

    path: Path
    labels: dict[tuple[str, str], int]  #: by query and item


class _Trec(NamedTuple):
    """A kind of TREC lines: number of fields, place of the value, and an example."""

    width: int
    value: int
    line: str


_TREC = {
    RUN.example: _Trec(6, 4, "query Q0 item rank score tag"),
    QRELS.example: _Trec(4, 3, "query 0 item label"),
}


def read_run(path: str | Path) -> Run:
    """Read scores of a ranker, the higher the better; a `DataError` if the file cannot be used.

    A CSV file has the columns ``query``, ``item``, ``score`` and maybe ``draw``, or names such as
    ``qid``, ``topic``, ``docno``, ``doc``. A TREC run has ``query Q0 item rank score tag`` a line.
    """
    found = _read(Path(path), RUN)
    table, columns = found.table, found.columns
    scores = cells.number(table, columns["score"], largest=math.inf)
    keys = [columns[role] for role in ("query", "item")]
    table.refuse_twice(*keys, *([columns["draw"]] if "draw" in columns else []))
    texts = [column.cells.tolist() for column in keys]
    draws = [""] * len(scores)
    if "draw" in columns:
        draws = columns["draw"].cells.tolist()
    return Run(Path(path), dict(zip(zip(draws, *texts, strict=True), scores.tolist(), strict=True)))


def read_qrels(path: str | Path, *, negative: Literal["refuse", "zero"] = "refuse") -> Qrels:
    """Read judgements, whole numbers from 0; a `DataError` if the file cannot be used.

    A CSV file has the columns ``query``, ``item`` and ``label`` (or ``rel``, ``grade``).
    A TREC file has ``query 0 item label`` a line. With ``negative="zero"`` labels below 0 are 0.
    """
    check_choice(negative, "negative", "refuse", "zero")
    found = _read(Path(path), QRELS)
    table, column = found.table, found.columns["label"]
    labels = cells.whole(table, column, fix="number the levels 0, 1, 2, ...")
    if negative == "refuse" and (labels < 0).any():
        fix = "write 0, or take them as 0 by --negative-labels zero"
        lowest = column.values[column.codes[int(np.argmax(labels < 0))]]
        raise table.error(f"the label {lowest} is below zero", fix, column, labels < 0)
    keys = [found.columns[role] for role in ("query", "item")]
    table.refuse_twice(*keys)
    texts = [key.cells.tolist() for key in keys]
    judged = np.maximum(labels, 0).tolist()
    return Qrels(Path(path), dict(zip(zip(*texts, strict=True), judged, strict=True)))


def _read(path: Path, layout: Layout) -> Found:
    """Columns of a file of either kind; a query or an item without a name is refused."""
    text = read_text(path)
    table = _from_trec(path, text, layout) if _is_trec(text, layout) else read_table(path, text)
    found = find(table, (layout,))
    for role in ("query", "item"):
        cells.text(table, found.columns[role])
    return found


def _is_trec(text: str, layout: Layout) -> bool:
    """Whether the first line is one of a TREC file, right or wrong, and no header."""
    first = next(line for line in LINE.split(text) if line.strip())
    fields, trec = FIELD.findall(first), _TREC[layout.example]
    if len(fields) == trec.width and not math.isnan(cells.finite(fields[trec.value])):
        return True
    names = {name for role in layout.roles.values() for name in role.usual}
    other = set(",;") & set(first) or names & set(first.lower().split())
    return len(fields) > 1 and not other and not first.startswith("{")


def _from_trec(path: Path, text: str, layout: Layout) -> Table:
    trec, rows, kept = _TREC[layout.example], [], []
    for row, line in enumerate(LINE.split(text), start=1):
        fields = FIELD.findall(line)
        if fields and len(fields) != trec.width:
            problem = f"{len(fields)} fields where a TREC line has {trec.width}"
            raise DataError(path, problem, f"write {trec.line}", row=row)
        if fields:
            rows.append(row)
            kept.append((fields[0], fields[2], fields[trec.value]))
    columns = map(Column.of, layout.example.split(","), zip(*kept, strict=True))
    return Table(path, tuple(columns), np.array(rows))
