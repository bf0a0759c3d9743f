"""Documents, queries and links in files: JSON lines and comma-separated text."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import cells
from bayesrank.datasets.layouts import LINKS, TEXTS, find
from bayesrank.datasets.table import read_table


@dataclass(frozen=True)
class TextData:
    r"""Texts by name, in the order of the file.

    Parameters
    ----------
    names
        Name of each.
    titles
        Title of each, empty where there is none.
    texts
        Text of each, without the title.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesrank.datasets import read_texts
    >>> path = Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("id,text\nd1,red fish\n")
    >>> read_texts(path).texts
    ('red fish',)
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
    path : str or Path
        The file.

    Returns
    -------
    TextData
        Names, titles (empty where there are none) and texts, in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be used as it is. One line: file, row, problem, fix.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "docs.jsonl"
    ...     _ = path.write_text('{"id": "a", "title": "Fish", "text": "They swim."}\n')
    ...     read_texts(path).whole
    ['Fish They swim.']
    """
    found = find(read_table(path), (TEXTS,))
    table, columns = found.table, found.columns
    names = cells.text(table, columns["id"], "the id is empty", "name each text")
    table.refuse_twice(columns["id"])
    titles, texts = (
        [""] * len(names) if column is None else column.cells.tolist()
        for column in (columns.get("title"), columns["text"])
    )
    return TextData(tuple(names), tuple(titles), tuple(texts))


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
    found = find(read_table(path), (LINKS,))
    known = {name: number for number, name in enumerate(names)}
    pairs = []
    for role in ("from", "to"):
        column = found.columns[role]
        for name in column.values:
            if name not in known:
                problem = f"there is no document {name!r}"
                raise found.table.error(problem, "remove the link", column, column.holds(name))
        pairs.append(np.array([known[name] for name in column.values])[column.codes])
    return np.stack(pairs, axis=1)
