"""Comparisons read into arrays, from files and data frames of every layout."""

import os
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._names import alike_note, first_spellings
from bayesrank._tables import Column
from bayesrank.datasets import cells, unused
from bayesrank.datasets.battles import Battles, read_sides, read_wins, with_position
from bayesrank.datasets.counted import is_counted, read_counted
from bayesrank.datasets.data import ComparisonData
from bayesrank.datasets.doubts import (
    NO_TEAMS,
    refuse_criteria,
    refuse_teams,
)
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.items import Items, read_items
from bayesrank.datasets.layouts import (
    ColumnNames,
    Found,
    is_alike,
    naming,
    option_name,
    unused_column_hints,
)
from bayesrank.datasets.orders import SUFFIXES, Order, implied, read_order_cells, read_orders
from bayesrank.datasets.outcomes import LOSS, TIE, WIN
from bayesrank.datasets.reshape import as_scores, in_layout
from bayesrank.datasets.scores import reports_of
from bayesrank.datasets.table import Source, Table, plain_key, read_table

IN_PYTHON = "options are arguments of ColumnNames: read_comparisons(table, columns=...)"


def read_comparisons(
    source: Source,
    items: str | Path | None = None,
    *,
    time: str | None = None,
    columns: ColumnNames | None = None,
    callback: Callable[[float], None] | None = None,
) -> ComparisonData:
    r"""Read comparisons, and the features of the items if there is a file of them.

    **Comparisons** are text with a header, JSON lines or an array (.json), Parquet (with pyarrow),
    or a spreadsheet (with openpyxl). Commas, semicolons, tabs or bars separate the columns of text,
    which may be compressed (.gz). Columns are recognised by their names, in any order and case, or
    named by `columns`. The page on files of the documentation lists all layouts; the main ones are:

    - ``winner,loser`` and maybe ``tie`` (1, true or yes if the two were judged equal);
    - ``model_a,model_b,winner``, ``home,away,result`` and their like. The outcome is a column's
      name, the winner's name, ``tie``, a number around zero, or an answer such as "A is much
      better". How much better is not used;
    - ``home,away,home_score,away_score``: more points win, and ``neutral`` may say that nobody was
      at home. If an outcome contradicts the scores, the file is refused until one of them is named;
    - ``order``, with cells like ``a > b = c``;
    - score tables, systems by tasks, which `scores` has, see `read_scores`.

    Comparisons may have columns ``judge``, ``category`` and ``weight``. Other columns are listed in
    ``ignored_columns``, and in ``unused_column_hints`` if they look useful. Each row is evidence of
    its own. A row that compares an item with itself is refused between ``winner`` and ``loser``,
    and left out, with a note, in other layouts.

    Files that end in .soc, .soi, .toc or .toi are PrefLib's orders; ``orders`` has them. Items in
    one tied group, or left out of an order, are not compared.

    **Items** are comma-separated, too: the first column, ``item`` or ``name``, holds the names, and
    all others are numeric features. Without the file, the items are those that are compared, in the
    order of their first appearance (in PrefLib's files: of the header).

    Parameters
    ----------
    source
        The comparisons: a file, or a data frame of pandas, Polars or Arrow. A lazy frame (DuckDB,
        Spark, Polars, Dask, Ibis), or a pattern of Parquet files such as ``battles/*.parquet``, is
        counted where it lies, and its distinct rows have `weights`.
    items
        The file of the items.
    time
        Column that says when each comparison was: numbers, or dates such as 2024-05-31, or
        2024-05-31T18:00 without a time zone.
    columns
        Names of columns that are not recognised, or are to be ignored.
    callback
        While files are counted, called with the share that is done.

    Raises
    ------
    DataError
        If a file cannot be used as it is. The message is one line: file, row, column, problem, fix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "games.csv"
    ...     _ = path.write_text("winner,loser\nAda,Bob\nAda,Cy\nBob,Cy\n")
    ...     data = read_comparisons(path)
    >>> data.names, data.comparisons.tolist()
    (('Ada', 'Bob', 'Cy'), [[0, 1], [0, 2], [1, 2]])
    """
    chosen = ColumnNames() if columns is None else columns
    chosen = chosen if time is None else replace(chosen, time=time)
    known = None if items is None else read_items(items)
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and path.suffix.lower() in SUFFIXES:
        _refuse_options(path, chosen)
        data = implied(path, *read_orders(path), known, chosen.fold_names)
    else:
        try:
            if is_counted(source):
                table = read_counted(source, chosen, callback)
            else:
                reports = reports_of(source)
                table = read_table(source if reports is None else reports, name="the comparisons")
            data = _from_table(table, known, chosen)
        except DataError as error:
            if path is None and "--" in error.fix:
                raise error.with_fix(f"{error.fix} ({IN_PYTHON})") from None
            raise
    alike = alike_note(data.names, "If they are: --fold-names.")
    alike += alike_note(data.judge_names, "If they are, write these judges alike.")
    return replace(data, unused_column_hints=(*data.unused_column_hints, *alike))


def _refuse_options(path: Path, chosen: ColumnNames) -> None:
    """Refuse options that name columns of a file that has none."""
    usual = ColumnNames(fold_names=chosen.fold_names)
    for name in (f.name for f in fields(chosen)):
        if getattr(chosen, name) != getattr(usual, name):
            fix = f"leave out --{option_name(name)}"
            raise DataError(path, "files of orders have no columns", fix)


def _from_table(table: Table, known: Items | None, chosen: ColumnNames) -> ComparisonData:
    table = table.without(chosen.ignore)
    scores = as_scores(table, chosen)
    if scores is not None:
        if known is not None:
            fix = "leave the file of items out"
            raise table.error("systems of a score table have no features", fix)
        return ComparisonData.of_scores(scores)
    found = in_layout(table, chosen)
    for name, role in (("outcome_codes", "outcome"), ("date_format", "time")):
        if getattr(chosen, name) and role not in found.columns:
            problem = f"--{option_name(name)} tells how to read {role}s, and no column holds these"
            raise found.table.error(problem, f"name it with --{role} COLUMN")
    if "order" in found.columns:
        return _from_order_cells(found, known, chosen)
    found = _folded(found, known) if chosen.fold_names else found
    if "winner" in found.columns:
        found = with_position(found)
        return _from_outcomes(found, read_wins(found), known, chosen)
    outcomes = read_sides(found, chosen)
    return _from_outcomes(found, outcomes, known, chosen)


def _folded(found: Found, known: Items | None) -> Found:
    """Names of items that are alike as the one that comes first."""
    roles = ("winner", "loser", "first", "second", "outcome")
    columns = {role: found.columns[role] for role in roles if role in found.columns}
    cells_ = [zip(c.first(), c.values, strict=True) for c in columns.values()]
    rows = sorted((each for column in cells_ for each in column), key=lambda each: each[0])
    spelled = first_spellings([*(known.names if known else ()), *(name for _, name in rows)])
    columns = {r: c.renamed([spelled[cell] for cell in c.values]) for r, c in columns.items()}
    return found._replace(columns={**found.columns, **columns})


def _from_outcomes(
    whole: Found, said: Battles, known: Items | None, chosen: ColumnNames
) -> ComparisonData:
    found = said.found
    times = found.columns.get("time")
    weight = _weight(found)
    numbers, names = _numbered(found.table, (said.first, said.second), known)
    if plain_key(said.second.name) in ("opponent", "opp"):
        _refuse_both_sides(found.table, numbers, said.outcome)
    rest = [column for column in whole.rest if column is not said.repeating]
    refuse_criteria(found.table, found.rest, found.columns.get("judge"), numbers)
    lost = said.outcome == LOSS
    turned = np.flatnonzero(lost)
    numbers[turned] = numbers[turned][:, ::-1]
    more, used = unused.covariates(found.table, found.rest, lost, chosen.covariates)
    rest = [column for column in rest if column.name not in used]
    others = [column for column in found.rest if column.name not in used]
    position = said.position
    if position is not None:
        np.negative(position, out=position, where=lost)
    data = ComparisonData(
        names,
        numbers,
        said.outcome == TIE,
        None if known is None else known.features,
        () if known is None else known.feature_names,
        ignored_columns=tuple(c.name for c in whole.rest if c.name not in used),
        times=None if times is None else cells.time(found.table, times, chosen.date_format),
        weights=weight,
        position=position,
        position_label=said.position_label,
        notes=(*whole.table.notes, *said.notes),
        layout=whole.layout.example,
        unused_column_hints=unused_column_hints(whole, rest, known is not None),
        clusters=unused.clusters(others),
        contrasts=unused.contrasts(others, lost),
        covariates=more,
        covariate_names=chosen.covariates,
        **_labelled(found),
    )
    return data if weight is None else data.where(weight > 0)


def _refuse_both_sides(
    table: Table, numbers: NDArray[np.int64], outcome: NDArray[np.integer[Any]]
) -> None:
    """Refuse games if nearly all of them occur twice, once from either side."""
    rows = np.column_stack([numbers, outcome])
    other = np.column_stack([numbers[:, ::-1], WIN + LOSS - outcome])
    _, codes = np.unique(np.concatenate([rows, other]), axis=0, return_inverse=True)
    halves = np.split(codes.ravel(), 2)
    one, two = (np.bincount(half, table.counts, codes.max() + 1) for half in halves)
    if np.minimum(one, two).sum() >= 0.9 * one.sum():
        problem = "every game, or nearly so, is there twice, once from each side"
        raise table.error(problem, "keep one of the two")


def _labelled(found: Found) -> dict[str, Any]:
    """Judges and categories as numbers and names, of those that some row has."""
    labelled: dict[str, Any] = {}
    for role, many in (("judge", "judges"), ("category", "categories")):
        column = found.columns.get(role)
        if column is not None:
            fix = f"name it, or leave it out with {naming('ignore', column.name)}"
            cells.text(found.table, column, f"the {role} has no name", fix)
            if role == "judge":  # a category may be North America
                cells.refuse_nothing(found.table, column)
            labelled[many], labelled[f"{role}_names"] = column.codes, column.values
    return labelled


def _weight(found: Found) -> NDArray[np.float64] | None:
    """How often each row counts."""
    column, several = found.columns.get("weight"), found.table.weights
    if column is None:
        return several
    weight = cells.number(found.table, column)
    if (weight < 0).any():
        fix = "write how often the row counts, from 0 on"
        raise found.table.error("the weight is negative", fix, column, weight < 0)
    weight = weight if several is None else weight * several
    if not weight.any():
        raise found.table.error("all weights are 0", "give some row a weight above 0", column)
    return weight


def _numbered(
    table: Table, sides: tuple[Column, Column], known: Items | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Numbers of the items of each row, and their names in the order of first appearance."""
    for column in sides:
        cells.refuse_nothing(table, column, known.names if known else ())
        table.refuse(column, _is_list, "is a list", NO_TEAMS)
    if known is None:
        refuse_teams(table, sides)
    names = (
        known.names if known is not None else dict.fromkeys((*sides[0].values, *sides[1].values))
    )
    index = {name: i for i, name in enumerate(names)}
    places, first = [], np.full(len(index), 2 * len(table.rows))
    for side, column in enumerate(sides):
        for name in column.values:
            if known is not None and name not in index:
                row = int(table.rows[int(np.argmax(column.holds(name)))])
                raise known.unknown(name, table.path, row, column.name)
        places.append(np.array([index[name] for name in column.values]))
        first[places[side]] = np.minimum(first[places[side]], 2 * column.first() + side)
    order = np.arange(len(index)) if known is not None else np.argsort(first)
    place = np.argsort(order)  # the inverse of a permutation
    numbers = np.empty((len(table.rows), 2), np.int64)
    for side, column in enumerate(sides):
        numbers[:, side] = place[places[side]][column.codes]
    texts = list(index)
    return numbers, tuple(texts[i] for i in order)


def _is_list(cell: str) -> bool:
    return cell.startswith(('["', "['", "[["))


def _of_one_judge(found: Found, checked: Collection[str]) -> tuple[str, ...]:
    """A sentence on people who gave several orders each, which count as those of others."""
    check = "; the check 'Independent rows' says by how much."
    return tuple(
        f"Orders have no judges yet: several of one {column.name} count as independent. If people "
        f"differ, intervals are too narrow{check if column.name in checked else '.'}"
        for column in found.rest
        if is_alike(column.name, "judge")
        and (found.table.counts is not None or 1 < len(column.values) < len(column.codes))
    )


def _from_order_cells(found: Found, known: Items | None, chosen: ColumnNames) -> ComparisonData:
    table, column = found.table, found.columns["order"]
    orders, notes = read_order_cells(table, column)
    weight = _weight(found)
    weight = np.ones(len(table.rows)) if weight is None else weight
    voters = np.bincount(column.codes, weight, minlength=len(orders))
    if (voters % 1 != 0).any():
        raise table.error("orders have whole numbers as weights", "count people", column)
    rows = table.rows[column.first()].tolist()
    said = [Order(*each) for each in zip(rows, voters.astype(int).tolist(), orders, strict=True)]
    names = dict.fromkeys(name for order in orders for group in order for name in group)
    data = implied(table.path, tuple(names), said, known, chosen.fold_names)
    compares = np.array([len(each.groups) > 1 for each in said])
    rows_kept = compares[column.codes] & (weight > 0)
    number = np.cumsum(compares & (voters > 0)) - 1  # of each order among those that compare
    clusters = unused.clusters(found.rest)
    answers = np.column_stack([number[column.codes], weight])[rows_kept].astype(np.int64)
    return replace(
        data,
        orders=data.orders and replace(data.orders, answers=answers),
        clusters={name: codes[rows_kept] for name, codes in clusters.items()},
        ignored_columns=tuple(column.name for column in found.rest),
        unused_column_hints=(
            *_of_one_judge(found, clusters),
            *unused_column_hints(found, found.rest),
        ),
        layout=found.layout.example,
        notes=(*table.notes, *notes),
    )
