"""Comparisons files read into arrays."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._memory import available, size_of
from bayesrank.datasets._data import ComparisonData, OrderEvents
from bayesrank.datasets._preflib import SUFFIXES, read_orders
from bayesrank.datasets.columns import Column, ColumnTable, read_columns
from bayesrank.datasets.covariates import Covariates, overlooked, read_covariates
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.items import Items, read_items
from bayesrank.datasets.layouts import LAYOUTS, ColumnNames, Sides
from bayesrank.datasets.order_cells import read_order_cells
from bayesrank.datasets.outcomes import LOSS, TIE

NamedOrder = tuple[tuple[str, ...], ...]


def read_comparisons(
    path: str | Path,
    items: str | Path | None = None,
    *,
    time: str | None = None,
    columns: ColumnNames | None = None,
) -> ComparisonData:
    r"""Read comparisons, and the features of the items if there is a file of them.

    **Comparisons** are comma-separated UTF-8 text with a header, JSON lines (.jsonl, .ndjson) or
    Parquet (.parquet, with pyarrow); text may be compressed (.gz). The layout is recognised by its
    columns, in any order and case, or named by `columns`:

    - ``winner,loser`` and optionally ``tie`` (1, true or yes where the two were judged equal; 0,
      false, no or nothing otherwise);
    - ``model_a,model_b,winner``, ``item_a,item_b,preference``, ``home,away,result`` and their like:
      the outcome is one of the two columns' names, ``tie``, ``tie (bothbad)``, ``both_bad``, the
      name of the winner, an answer such as "A is much better" (how much is not used), or a number
      around zero;
    - ``home,away,home_score,away_score``: more points win, and ``neutral`` may say that nobody was
      at home. Where a column of outcomes
      contradicts the scores, the file is refused until one of them is named;
    - ``order``, with cells like ``a > b = c``.

    Each may have columns ``judge``, ``group`` or ``category``, and ``weight`` or ``count``. Other
    columns are not used, and are listed in ``ignored_columns``; where one looks as if it should
    have been, a sentence of ``overlooked`` says so. The same comparison may come any number of
    times: each row is evidence of its own. A row that compares an item with itself is a mistake
    between ``winner`` and ``loser``, and is refused; in the other layouts it is left out, and a
    sentence of ``notes`` counts them.

    Files that end in .soc, .soi, .toc or .toi are PrefLib's orders, and ``orders`` has them, as it
    has those of a column. An item beats every item of every later group, once a voter; items in one
    tied group, or left out of an order, are not compared.

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
    columns
        Columns that go by other names, or are not to be used.

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
    chosen = ColumnNames() if columns is None else columns
    chosen = chosen if time is None else replace(chosen, time=time)
    known = None if items is None else read_items(items)
    if path.suffix.lower() in SUFFIXES:
        if chosen.time is not None:
            raise DataError(path, "orders have no column of times", "leave out --time")
        names, orders = read_orders(path)
        said = [(order.row, order.voters, order.groups) for order in orders]
        return _from_orders(path, names, said, known)
    table = _without_ignored(read_columns(path), chosen)
    for layout in LAYOUTS:
        at = layout.find(table, chosen) if chosen.order is None else None
        if at is not None:
            _refuse_unused(table, chosen, layout.takes)
            return _from_sides(table, layout.read(table, at, chosen), known, chosen)
    order = table.position(chosen.order or "order")
    if order is not None:
        _refuse_unused(table, chosen, frozenset(("order",)))
        return _from_order_cells(table, order, known, chosen)
    raise _unrecognised(table, chosen)


def _refuse_unused(table: ColumnTable, chosen: ColumnNames, takes: frozenset[str]) -> None:
    """Refuse columns that were named and that this layout has no use for."""
    covariates = {"judge", "group", "weight", "time", "ignore", "positive"}
    for field in fields(chosen):
        if field.name in takes | covariates or getattr(chosen, field.name) is None:
            continue
        option = field.name.replace("_", "-")
        others = ", ".join(sorted(f"--{name.replace('_', '-')}" for name in takes))
        problem = f"--{option} does not go with the columns {', '.join(map(repr, table.header))}"
        raise table.error(problem, f"which are read by {others}")
    if chosen.outcome is not None and (chosen.first_score or chosen.second_score):
        raise table.error("both an outcome and scores are named", "leave one of them out")


def _without_ignored(table: ColumnTable, chosen: ColumnNames) -> ColumnTable:
    """Hide the columns that are not to be used."""
    for name in chosen.ignore:
        if table.position(name) is None:
            header = ", ".join(map(repr, table.header))
            problem = f"there is no column {name!r} among {header}"
            raise table.error(problem, "name one of these with --ignore")
    hidden = {name.lower() for name in chosen.ignore}
    columns = tuple(column for column in table.columns if column.name.lower() not in hidden)
    return table._replace(columns=columns)


def _unrecognised(table: ColumnTable, chosen: ColumnNames) -> DataError:
    header = ", ".join(map(repr, table.header))
    missing = chosen.order or _other_side(table, chosen)
    problem = f"there is no column {missing!r} among {header}"
    examples = "; ".join([*(layout.example for layout in LAYOUTS), "order"])
    cure = (
        f"name the columns as in {examples}, or say which they are: --winner and --loser, or "
        "--first, --second and --outcome, or --order"
    )
    return DataError(table.path, problem, cure, row=1)


def _other_side(table: ColumnTable, chosen: ColumnNames) -> str:
    """The column that is lacking beside the one that is there or named."""
    if chosen.winner is not None or table.position("winner") is not None:
        return "loser"
    if chosen.first is not None and chosen.second is not None:
        return "winner"
    return "second" if chosen.first is not None else "first" if chosen.second else "winner"


def _from_sides(
    whole: ColumnTable, sides: Sides, known: Items | None, chosen: ColumnNames
) -> ComparisonData:
    table = sides.table
    found = read_covariates(table, chosen, sides.used)
    numbers, names = _numbered(table, (sides.first, sides.second), known)
    lost = sides.outcome == LOSS
    numbers[lost] = numbers[lost, ::-1]
    position = sides.position
    if position is not None:
        position = np.where(lost, -position, position)
    ignored, sentences = overlooked(whole, sides.used | found.used, chosen)
    data = ComparisonData(
        names,
        numbers,
        sides.outcome == TIE,
        None if known is None else known.features,
        () if known is None else known.feature_names,
        ignored_columns=ignored,
        times=found.times,
        weights=found.weight,
        position=position,
        position_label=sides.position_label,
        notes=sides.notes,
        overlooked=sentences,
        **_labelled(found),
    )
    return data if found.weight is None else data.where(found.weight > 0)


def _labelled(found: Covariates) -> dict[str, Any]:
    """Judges and categories as numbers and names, of those that some row has."""
    labelled: dict[str, Any] = {}
    for role, column in (("judge", found.judge), ("group", found.group)):
        if column is not None:
            seen, codes = np.unique(column.codes, return_inverse=True)
            labelled[f"{role}s"] = codes.astype(np.int64)
            labelled[f"{role}_names"] = tuple(column.values[i] for i in seen)
    if found.group is not None:
        labelled["group_column"] = found.group.name
    return labelled


def _numbered(
    table: ColumnTable, sides: tuple[Column, Column], known: Items | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Numbers of the items of each row, and their names in the order of first appearance."""
    index = {} if known is None else {name: i for i, name in enumerate(known.names)}
    for column in sides:
        for number, name in enumerate(column.values):
            if not name and (where := column.codes == number).any():
                cure = "name it, or remove the row"
                raise table.error("the item has no name", cure, column, where)
    numbers = np.empty((len(table.rows), 2), np.int64)
    if known is None:
        distinct = {name: i for i, name in enumerate((*sides[0].values, *sides[1].values))}
        for side, column in enumerate(sides):
            own = np.array([distinct[name] for name in column.values])
            numbers[:, side] = own[column.codes]
        seen, first, inverse = np.unique(numbers.ravel(), return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        texts = {i: name for name, i in distinct.items()}
        names = tuple(texts[int(i)] for i in seen[order])
        return place[inverse].reshape(-1, 2), names
    for side, column in enumerate(sides):
        for number, name in enumerate(column.values):
            if name not in index and (where := column.codes == number).any():
                row = int(table.rows[int(np.argmax(where))])
                raise known.unknown(name, table.path, row, column.name)
        own = np.array([index.get(name, -1) for name in column.values])
        numbers[:, side] = own[column.codes]
    return numbers, tuple(index)


def _from_order_cells(
    table: ColumnTable, position: int, known: Items | None, chosen: ColumnNames
) -> ComparisonData:
    column = table.columns[position]
    for role in ("judge", "group", "time"):
        if getattr(chosen, role) is not None:
            raise DataError(table.path, f"orders have no column of {role}s", f"leave out --{role}")
    found = read_covariates(table, chosen, frozenset((position,)), ("weight",))
    orders = read_order_cells(table, column)
    weight = np.ones(len(table.rows)) if found.weight is None else found.weight
    voters = np.bincount(column.codes, weight, minlength=len(orders))
    if (voters % 1 != 0).any():
        raise table.error("orders have whole numbers as weights", "count people", column)
    first = {code: row for row, code in reversed(list(enumerate(column.codes.tolist())))}
    said = [
        (int(table.rows[first[code]]), int(voters[code]), groups)
        for code, groups in enumerate(orders)
    ]
    names = tuple(dict.fromkeys(name for order in orders for group in order for name in group))
    data = _from_orders(table.path, names, said, known)
    ignored, sentences = overlooked(table, found.used | {position}, chosen)
    return replace(data, ignored_columns=ignored, overlooked=sentences)


def _from_orders(
    path: Path,
    names: tuple[str, ...],
    orders: list[tuple[int, int, NamedOrder]],
    known: Items | None,
) -> ComparisonData:
    """Comparisons that orders imply, from the row, the voters and the groups of each."""
    if known is not None:
        names = known.names
    index = {name: i for i, name in enumerate(names)}
    if known is not None:
        for row, _, order in orders:
            for name in (name for group in order for name in group):
                if name not in index:
                    raise known.unknown(name, path, row)
    _refuse_more_than_fit(path, sum(voters * _num_pairs(order) for _, voters, order in orders))
    blocks = []
    for _, voters, order in orders:
        pairs = [(index[winner], index[loser]) for winner, loser in _pairs(order)]
        blocks.append(np.tile(np.array(pairs, dtype=np.int64).reshape(-1, 2), (voters, 1)))
    comparisons = np.concatenate(blocks)
    if not len(comparisons):
        raise DataError(path, "no order puts one item above another", "give orders of two or more")
    said = [(voters, order) for _, voters, order in orders if len(order) > 1 and voters]
    groups = tuple(
        tuple(tuple(index[name] for name in group) for group in order) for _, order in said
    )
    events = OrderEvents(groups, np.array([voters for voters, _ in said], dtype=np.int64))
    features = None if known is None else known.features
    feature_names = () if known is None else known.feature_names
    tied = np.zeros(len(comparisons), dtype=bool)
    return ComparisonData(names, comparisons, tied, features, feature_names, orders=events)


def _num_pairs(order: NamedOrder) -> int:
    sizes = [len(group) for group in order]
    return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2


def _pairs(order: NamedOrder) -> Iterator[tuple[str, str]]:
    """(winner, loser) of every pair of items in different groups."""
    for place, group in enumerate(order):
        for worse in order[place + 1 :]:
            yield from ((winner, loser) for winner in group for loser in worse)


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
