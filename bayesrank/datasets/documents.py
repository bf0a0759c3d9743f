"""Documents, queries and links in files: JSON lines and comma-separated text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import read_table, read_text

__all__ = ["TextData", "read_links", "read_texts"]

_ID = ("id", "_id", "docno", "query", "qid")
_FROM = ("from", "source", "citing")
_TO = ("to", "target", "cited")


@dataclass(frozen=True)
class TextData:
    """Texts by name, in the order of the file.

    Parameters
    ----------
    names
        Name of each.
    titles
        Title of each, empty where there is none.
    texts
        Text of each, without the title.
    """

    names: tuple[str, ...]
    titles: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def whole(self) -> list[str]:
        """Title and text of each."""
        pairs = zip(self.titles, self.texts, strict=True)
        return [f"{title} {text}".strip() for title, text in pairs]


def read_texts(path: str | Path) -> TextData:
    r"""Read documents or queries.

    Each line is a JSON object with ``id`` and ``text`` and perhaps ``title``; or the file is
    comma-separated text with columns of these names. The name may be called ``_id``, ``docno``,
    ``query`` or ``qid`` too.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line: file, row, problem, cure.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "docs.jsonl"
    ...     _ = path.write_text('{"id": "a", "title": "Fish", "text": "They swim."}\n')
    ...     read_texts(path).whole
    ['Fish They swim.']
    """
    path = Path(path)
    text = read_text(path)
    records = _json_lines(path, text) if text.lstrip()[0] in "{[" else _columns(path, text)
    rows: dict[str, tuple[str, str]] = {}
    for row, name, title, body in records:
        if not name:
            raise DataError(path, "the id is empty", "name each text", row=row)
        if name in rows:
            raise DataError(path, f"id {name!r} is there twice", "keep one", row=row)
        rows[name] = (title, body)
    titles, texts = zip(*rows.values(), strict=True)
    return TextData(tuple(rows), titles, texts)


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, str, str, str]]:
    cure = 'write {"id": ..., "text": ...} in each line'
    for row, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(path, "the line is no JSON", cure, row=row) from None
        if not isinstance(record, dict):
            raise DataError(path, "the line is no JSON object", cure, row=row)
        name = next((record[key] for key in _ID if key in record), None)
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise DataError(path, "the object has no id", cure, row=row)
        parts = [record.get(key) or "" for key in ("title", "text")]
        if "text" not in record or not all(isinstance(part, str) for part in parts):
            raise DataError(path, "the object has no text", cure, row=row)
        yield row, str(name).strip(), parts[0], parts[1]


def _columns(path: Path, text: str) -> Iterator[tuple[int, str, str, str]]:
    table = read_table(path, text)
    expected = "id,title,text"
    name = table.position(*_ID, expected=expected)
    body = table.position("text", expected=expected)
    lowered = [column.lower() for column in table.header]
    title = lowered.index("title") if "title" in lowered else None
    for row in table.rows:
        yield (
            row.number,
            row.cells[name],
            "" if title is None else row.cells[title],
            row.cells[body],
        )


def read_links(path: str | Path, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Read links between documents, from comma-separated text with columns ``from`` and ``to``.

    Parameters
    ----------
    path
        The file.
    names
        Names of the documents.

    Returns
    -------
    ndarray of shape (L, 2)
        Numbers of the documents of each link.

    Raises
    ------
    DataError
        If the file cannot be used as it is, or names a document that there is not.
    """
    table = read_table(path)
    expected = "from,to"
    places = [table.position(*each, expected=expected) for each in (_FROM, _TO)]
    known = {name: number for number, name in enumerate(names)}
    pairs = []
    for row in table.rows:
        pair = [row.cells[place] for place in places]
        for name in pair:
            if name not in known:
                problem = f"there is no document {name!r}"
                raise DataError(table.path, problem, "remove the link", row=row.number)
        pairs.append([known[name] for name in pair])
    return np.array(pairs, np.int64)
