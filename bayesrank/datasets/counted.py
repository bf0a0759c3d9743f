"""Logs that are counted where they lie: lazy frames, and Parquet files by DuckDB.

For all that a ranker knows of a log, its distinct rows and how often each came are enough. An
engine groups the columns that the layout reads, and the ordinary reader reads what is left.
"""

import glob
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._memory import available
from bayesrank._tables import Column
from bayesrank.datasets import cells
from bayesrank.datasets.battles import STATUS, places
from bayesrank.datasets.doubts import CRITERIA
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import (
    OUTCOME,
    WON_POINTS,
    ColumnNames,
    Found,
    all_sides,
    is_alike,
    naming,
    two_columns,
)
from bayesrank.datasets.outcomes import holds_points, numbers_mean, words_mean
from bayesrank.datasets.reshape import as_scores, in_layout
from bayesrank.datasets.table import PARQUET_SUFFIXES, Source, Table, plain_key, read_table
from bayesrank.datasets.unused import covariate_columns

_OfAny = Callable[[Any], Any]
_collected: _OfAny = methodcaller("collect", "pyarrow")

_SAMPLE = 100  # rows by which the layout is recognised
_LARGE = 100_000_000  # bytes of one Parquet file from which on DuckDB counts it, if it is there
_EACH = 400  # bytes that reading and fitting take for a distinct row
_FIX = "bin it (see what a bin costs), keep a sample of clusters, or take more memory"
_GRID = 10_000  # different numbers or times beyond which a column is not one of a grid
COUNTED = "Rows were counted where they lie; columns that are not used were not looked at."


def is_counted(source: Source) -> bool:
    """Whether a source is counted where it lies: a lazy frame, a pattern, or a large file."""
    if not isinstance(source, str | os.PathLike):
        import narwhals as nw
        from narwhals.dependencies import is_pandas_dataframe

        eager = is_pandas_dataframe(source)  # whose names may be there twice
        return not eager and isinstance(nw.from_native(source, pass_through=True), nw.LazyFrame)
    path = Path(source)
    if not path.exists():
        return glob.has_magic(str(path))
    large = path.suffix.lower() in PARQUET_SUFFIXES and path.stat().st_size > _LARGE
    return large and find_spec("duckdb") is not None


def read_counted(source: Source, chosen: ColumnNames, callback: _OfAny | None = None) -> Table:
    """The distinct rows of a source in the columns that are read, and how often each came.

    Parameters
    ----------
    source
        A lazy frame of any library that narwhals knows, or the path of Parquet files.
    chosen
        Names of columns.
    callback
        Called again and again while DuckDB counts files, with the share that is done.

    Raises
    ------
    DataError
        If the layout is not recognised; if files are missing, do not fit together, or cannot be
        counted; if too many rows are distinct.
    """
    if isinstance(source, str | os.PathLike):
        return _of_files(Path(source), chosen, callback or (lambda share: None))
    return _counted(Path("the comparisons"), source, chosen)


def distinct_rows(frame: Any) -> Any:
    """Rows of a lazy frame once each, as a data frame whose column `weight` says how often."""
    import narwhals as nw

    path, whole = Path("comparisons"), nw.from_native(frame)
    names = whole.collect_schema().names()
    columns = {name: nw.col(name) for name in names}
    rows, counts, _ = _distinct(path, whole, columns, nw.lit(1.0), _collected, "time")
    table, counted = rows.to_native().to_pandas(), counts.astype(float)
    known = [name for name in names if name.strip().lower() == "weight"]
    weight = table[known[0]].astype(float) * counted if known else counted
    return table.drop(columns=known).assign(weight=weight)


def _counted(
    path: Path, frame: Any, chosen: ColumnNames, collect: _OfAny = _collected, check: _OfAny = list
) -> Table:
    """Distinct rows in the order of their cells, beside columns without cells that nobody reads."""
    import narwhals as nw

    frame = nw.from_native(frame)
    whole = read_table(collect(frame.head(_SAMPLE)).to_native(), name=str(path))
    sample = whole.without(chosen.ignore)
    if as_scores(sample, chosen) is not None:
        problem = "score tables are not counted where they lie"
        raise sample.error(problem, "collect it into a data frame, or write a smaller file")
    found = in_layout(sample, chosen)
    standard = found.table is sample
    said = [covariate_columns(found.rest, name) for name in chosen.covariates]
    read = {column.name for columns in (_read(found), *said) for column in columns}
    names = [c.name for c in sample.columns if not standard or c.name in read]
    check(names)
    kinds = frame.collect_schema()
    keys, total = _expressions(found, said, kinds) if standard else ({}, nw.lit(1.0))
    keys = {name: keys.get(name, nw.col(name)) for name in names}
    distinct, counts, weights = _distinct(path, frame, keys, total, collect, chosen.time)
    table = read_table(distinct.to_native(), name=str(path))
    real = _on_no_grid(distinct, chosen.time)
    little = f"Counting saves little, for {real!r} is on no grid: {_FIX}, if the fit takes long."
    notes = (COUNTED, *(little,) * (real is not None))
    rows, nothing = table.rows - 1, np.zeros(len(table.rows), np.int64)
    own = table.by_name
    columns = [own.get(c.name.lower(), Column(c.name, ("",), nothing)) for c in whole.columns]
    beside = {"rows": nothing, "counts": counts[rows].astype(int), "weights": weights[rows]}
    return replace(table, columns=tuple(columns), notes=notes, **beside)


def _distinct(
    path: Path, frame: Any, keys: dict[str, Any], total: Any, collect: _OfAny, time: str | None
) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Distinct rows of some columns in order, how often each came, and what these weigh."""
    import narwhals as nw

    plain = [f"key{k}" for k in range(len(keys))]  # which every engine takes
    columns = (column.alias(key) for column, key in zip(keys.values(), plain, strict=True))
    select = frame.select(*columns, total.alias("weight"))
    totals = nw.len().alias("rows"), nw.col("weight").sum().alias("weight")
    most = (available() or 10_000_000 * _EACH) // _EACH
    named = [nw.col(key).alias(name) for key, name in zip(plain, keys, strict=True)]
    # Numbers on no grid leave nearly every row, which is known before all are counted.
    name = _on_no_grid(collect(select.head(2 * _GRID)).select(named), time)
    if name is None or collect(select.select(nw.len().alias("rows")))["rows"][0] <= most:
        counted = collect(select.group_by(*plain).agg(*totals).head(most + 1).sort(*plain))
        rows = counted.select(named)
        if len(rows) <= most:
            return rows, counted["rows"].to_numpy(), counted["weight"].to_numpy()
        name = max(keys, key=lambda name: rows[name].n_unique())
    problem = f"more than {most:,} rows are distinct, which memory does not hold"
    raise DataError(path, problem, f"{_FIX}, or {naming('ignore', name)}", column=name)


def _on_no_grid(rows: Any, time: str | None) -> str | None:
    """The name of a column of fractions or times of which many are different."""
    for column in rows.iter_columns():
        kind = column.dtype
        real = kind.is_float() or kind.is_decimal() or str(kind).startswith("Datetime")
        if (real or (str(kind) == "String" and column.name == time)) and column.n_unique() > _GRID:
            return column.name
    return None


def _read(found: Found) -> list[Column]:
    """Columns of a standard layout that its reader looks at."""
    table, roles = found.table, found.columns
    beside = [table.column(*STATUS)]
    criteria = next((c for c in found.rest if plain_key(c.name) in CRITERIA), None)
    if criteria is not None:
        beside += [criteria, *(c for c in found.rest if is_alike(c.name, "judge"))]
    if "winner" in roles:
        beside += [table.column("result", "outcome"), *places(table), *_points(found)]
    elif "first" in roles:
        said = roles.get("outcome") or table.column(*OUTCOME.usual)
        beside += [said, *(() if said is None else _others(found, said))]
        beside += [c for c in found.rest if all(map(holds_points, c.values))]
    return [*roles.values(), *filter(None, beside)]


def _points(found: Found) -> tuple[Column, ...]:
    """Columns of both sides' points, if there are two."""
    if "winner" in found.columns:
        return two_columns(found.table, list(zip(*WON_POINTS, strict=True)))
    return tuple(c for role, c in found.columns.items() if role.endswith("_score"))


def _others(found: Found, said: Column) -> list[Column]:
    """Further names of both sides, where outcomes may be among them."""
    first, second = found.columns["first"], found.columns["second"]
    names = {*first.values, *second.values}
    numbers = np.array([*map(cells.finite, texts := said.values)])
    clear = isinstance(numbers_mean(numbers, "first"), list) or all(
        cell in names or words_mean(cell, first.name, second.name) is not None for cell in texts
    )
    others = [column for pair in all_sides(found.table) for column in pair]
    ids = {cell for column in others for cell in column.values}
    numbered = np.isfinite(numbers).any() and any(np.isfinite(cells.finite(cell)) for cell in ids)
    return others if numbered or not clear or ids & {*texts} else []


def _expressions(
    found: Found, said: Sequence[tuple[Column, ...]], kinds: Any
) -> tuple[dict[str, Any], Any]:
    """What is grouped in place of numbers, and the weight of a row.

    Of points, readers use which are more, and whether by more than one; of covariates, how much
    more the first side has; of weights, their sum. What they would refuse stays as it is.
    """
    import narwhals as nw

    def more(gap: Any) -> Any:
        some = nw.when(gap > 0).then(nw.lit(1)).otherwise(nw.lit(0))
        return nw.when(gap > 1).then(nw.lit(2)).otherwise(some)

    keys: dict[str, Any] = {}
    scores = {column.name for column in _points(found)}
    for columns in (_points(found), *said):
        if len(columns) != 2 or not all(kinds[column.name].is_numeric() for column in columns):
            continue
        whole = all(kinds[column.name].is_integer() for column in columns)
        one, two = (nw.col(c.name).cast(nw.Int64 if whole else nw.Float64) for c in columns)
        usable = (one.abs() <= cells.LARGEST) & (two.abs() <= cells.LARGEST)
        points = (more(one - two), more(two - one))
        less = points if columns[0].name in scores else (one - two, nw.lit(0))
        for column, plain, number in zip(columns, (one, two), less, strict=True):
            keys[column.name] = nw.when(usable).then(number).otherwise(plain)
    weight = found.columns.get("weight")
    if weight is None or not kinds[weight.name].is_numeric():
        return keys, nw.lit(1.0)
    many = nw.col(weight.name).cast(nw.Float64)
    usable = (many >= 0) & (many <= cells.LARGEST)
    keys[weight.name] = nw.when(usable).then(nw.lit(1.0)).otherwise(many)
    return keys, nw.when(usable).then(many).otherwise(nw.lit(1.0))


def _of_files(path: Path, chosen: ColumnNames, callback: _OfAny) -> Table:
    """Parquet files as DuckDB counts them."""
    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise DataError(path, "a pattern names Parquet files alone", "end it in .parquet")
    try:
        import duckdb
        import pyarrow  # noqa: F401 - by which DuckDB gives what it counted
    except ModuleNotFoundError as error:
        problem = f"counting files needs the package {error.name}"
        raise DataError(path, problem, "install it (pip install 'bayesrank[duckdb]')") from None
    pattern = glob.escape(str(path)) if path.exists() else str(path)
    if not glob.glob(pattern, recursive=True):
        fix = "check it, and quote it so that the shell leaves it as it is"
        raise DataError(path, "no file matches this pattern", fix)
    with tempfile.TemporaryDirectory(prefix="bayesrank-") as folder:
        try:
            with duckdb.connect() as engine:
                for name, value in settings_of(folder).items():
                    engine.execute(f"SET {name} = '{value}'")
                frame = engine.read_parquet(pattern, union_by_name=True)
                collect = partial(_watched, engine, callback)
                return _counted(path, frame, chosen, collect, partial(_check, engine, pattern))
        except duckdb.Error as error:
            reason = " ".join(str(error).split())
            full = isinstance(error, duckdb.OutOfMemoryException) or "space" in reason
            fix = f"free space in {Path(folder).parent}, or set TMPDIR to a larger disk"
            problem = f"DuckDB cannot count these files ({reason})"
            raise DataError(path, problem, fix if full else "check them") from None


def settings_of(folder: str) -> dict[str, Any]:
    """Settings of DuckDB: what is counted may take half of the memory, and goes on in a folder."""
    room = available()
    settings = {"temp_directory": folder.replace("'", "''"), "preserve_insertion_order": False}
    settings |= {"enable_progress_bar": True, "enable_progress_bar_print": False}
    return settings if room is None else settings | {"memory_limit": f"{room >> 21}MiB"}


def _watched(engine: Any, callback: _OfAny, frame: Any) -> Any:
    """What DuckDB counts in a thread of its own; it ends where the callback raises."""
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(frame.collect, "pyarrow")
        try:
            while not wait([counting], timeout=0.1).done:
                callback(max(engine.query_progress(), 0.0) / 100)  # below 0 if not known yet
        finally:
            if not counting.done():
                engine.interrupt()
    return counting.result()


def _check(engine: Any, pattern: str, names: Sequence[str]) -> None:
    """Refuse files of which some lack a column that is read, or have it in another type."""
    asked = "SELECT file_name, name, duckdb_type FROM parquet_schema(?)"
    rows = engine.execute(asked, [pattern]).fetchall()
    first, *others = files = sorted({file for file, _, _ in rows})
    for name in names:
        kinds = dict.fromkeys(files, "missing")
        kinds |= {file: kind for file, one, kind in rows if one == name}
        odd = next((file for file in others if kinds[file] != kinds[first]), None)
        if odd is not None:
            problem = f"it is {kinds[odd]} here, and {kinds[first]} in {Path(first).name}"
            raise DataError(odd, problem, "write all files alike", column=name)
