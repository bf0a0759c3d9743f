"""Comparisons files read into arrays."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrank._memory import available, size_of
from bayesrank.datasets._data import ComparisonData, OrderEvents
from bayesrank.datasets._preflib import SUFFIXES, read_orders
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.items import Items, read_items
from bayesrank.datasets.table import Table, read_table

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
_TIE = {
    **dict.fromkeys(("", "0", "0.0", "false", "no"), False),  # pandas writes 0.0 beside gaps
    **dict.fromkeys(("1", "1.0", "true", "yes"), True),
}


def read_comparisons(
    path: str | Path, items: str | Path | None = None, *, time: str | None = None
) -> ComparisonData:
    r"""Read comparisons, and the features of the items if there is a file of them.

    **Comparisons** are comma-separated UTF-8 text with the columns ``winner`` and ``loser``, in
    any order and case, and optionally ``tie`` (1, true or yes where the two were judged equal; 0,
    false, no or nothing otherwise). Other columns are not used, and are listed in
    ``ignored_columns``. The same comparison may come any number of times: each row is evidence of
    its own.

    Files that end in .soc, .soi, .toc or .toi are PrefLib's orders, and ``orders`` has them. An
    item beats every item of every later group, once a voter; items in one tied group, or left out
    of an order, are not compared.

    **Items** are comma-separated, too: the first column, ``item`` or ``name``, holds the names,
    each once, and all others are numeric features. Without the file, the items are those that are
    compared, in the order of their first appearance (in PrefLib's files: of the header).

    Parameters
    ----------
    path
        The comparisons.
    items
        The items.
    time
        Column of the comparisons that says when each was: numbers, or dates such as 2024-05-31, or
        2024-05-31T18:00 without a time zone.

    Returns
    -------
    ComparisonData
        Arrays over items ``0 .. n - 1``.

    Raises
    ------
    DataError
        If a file cannot be used as it is. The message is one line: file, row, column, what is
        wrong, and the cure.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "games.csv"
    ...     _ = path.write_text("winner,loser\nAda,Bob\nAda,Cy\nBob,Cy\n")
    ...     data = read_comparisons(path)
    >>> data.names
    ('Ada', 'Bob', 'Cy')
    >>> data.comparisons.tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    path = Path(path)
    known = None if items is None else read_items(items)
    if path.suffix.lower() in SUFFIXES:
        if time is not None:
            raise DataError(path, "orders have no column of times", "leave out --time")
        return _from_orders(path, known)
    return _from_table(read_table(path), known, time)


def _from_table(table: Table, known: Items | None, time: str | None) -> ComparisonData:
    expected = "winner,loser"
    columns = [table.position(name, expected=expected) for name in ("winner", "loser")]
    when = None if time is None else table.position(time, expected=f"{expected},{time}")
    lowered = [name.lower() for name in table.header]
    tie = lowered.index("tie") if "tie" in lowered else None
    index = {} if known is None else {name: i for i, name in enumerate(known.names)}
    comparisons = np.empty((len(table.rows), 2), dtype=np.int64)
    tied = np.zeros(len(table.rows), dtype=bool)
    for k, row in enumerate(table.rows):
        for side, column in enumerate(columns):
            name, label = row.cells[column], table.header[column]
            if not name:
                raise DataError(
                    table.path,
                    "the item has no name",
                    "name it, or remove the row",
                    row=row.number,
                    column=label,
                )
            if known is None:
                index.setdefault(name, len(index))
            elif name not in index:
                raise known.unknown(name, table.path, row.number, label)
            comparisons[k, side] = index[name]
        if comparisons[k, 0] == comparisons[k, 1]:
            raise DataError(
                table.path,
                f"item {row.cells[columns[0]]!r} is compared with itself",
                "remove the row",
                row=row.number,
                column=table.header[columns[1]],
            )
        if tie is not None:
            tied[k] = _tie(table, row.number, row.cells[tie], table.header[tie])
    ignored = [name for i, name in enumerate(table.header) if i not in (*columns, tie, when)]
    data = _build(tuple(index), comparisons, tied, known, tuple(ignored))
    return data if when is None else replace(data, times=_times(table, when))


def _times(table: Table, column: int) -> np.ndarray:
    """Numbers, if the first row holds one, or else dates."""
    label, first = table.header[column], table.rows[0].cells[column]
    numbers = _number(first) is not None
    read, kind = (_number, "number") if numbers else (_date, "date such as 2024-05-31")
    times = []
    for row in table.rows:
        cell = row.cells[column]
        value = read(cell)
        if value is None:
            cure = "write a number or a date in every row, and the same in all"
            raise DataError(
                table.path, f"{cell!r} is no {kind}", cure, row=row.number, column=label
            )
        times.append(value)
    return np.array(times)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _date(cell: str) -> np.datetime64 | None:
    if not _DATE.fullmatch(cell):
        return None
    try:
        return np.datetime64(cell.replace(" ", "T"), "us")
    except ValueError:  # the 31st of June
        return None


def _tie(table: Table, row: int, cell: str, column: str) -> bool:
    if cell.lower() not in _TIE:
        raise DataError(
            table.path, f"{cell!r} is neither 0 nor 1", "write 1 for a tie", row=row, column=column
        )
    return _TIE[cell.lower()]


def _from_orders(path: Path, known: Items | None) -> ComparisonData:
    names, orders = read_orders(path)
    if known is not None:
        names = known.names
    index = {name: i for i, name in enumerate(names)}
    if known is not None:
        for order in orders:
            for name in (name for group in order.groups for name in group):
                if name not in index:
                    raise known.unknown(name, path, order.row)
    _refuse_more_than_fit(path, sum(order.voters * order.num_pairs for order in orders))
    blocks = []
    for order in orders:
        pairs = [(index[winner], index[loser]) for winner, loser in order.pairs()]
        blocks.append(np.tile(np.array(pairs, dtype=np.int64).reshape(-1, 2), (order.voters, 1)))
    comparisons = np.concatenate(blocks)
    if not len(comparisons):
        raise DataError(path, "no order puts one item above another", "give orders of two or more")
    said = [order for order in orders if len(order.groups) > 1 and order.voters]
    groups = tuple(
        tuple(tuple(index[name] for name in group) for group in order.groups) for order in said
    )
    events = OrderEvents(groups, np.array([order.voters for order in said], dtype=np.int64))
    data = _build(names, comparisons, np.zeros(len(comparisons), dtype=bool), known, ())
    return replace(data, orders=events)


def _refuse_more_than_fit(path: Path, count: int) -> None:
    """Refuse more comparisons than there is memory for; two copies are made of them."""
    room = available()
    if room is not None and 32 * count > room:
        raise DataError(
            path,
            f"its orders make {count:,} comparisons, which take {size_of(32 * count)} of memory, "
            f"and {size_of(room)} are free",
            "see whether the counts of voters are right, or give fewer orders",
        )


def _build(
    names: tuple[str, ...],
    comparisons: np.ndarray,
    tied: np.ndarray,
    known: Items | None,
    ignored: tuple[str, ...],
) -> ComparisonData:
    if known is None:
        return ComparisonData(names, comparisons, tied, ignored_columns=ignored)
    return ComparisonData(
        names, comparisons, tied, known.features, known.feature_names, ignored_columns=ignored
    )
