"""Score tables read into arrays: systems by tasks, long or wide, or what harnesses write."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bayesrank._validate import are_equal
from bayesrank.datasets import cells
from bayesrank.datasets.data import ScoreKind, ScoreTable
from bayesrank.datasets.errors import DataError, tell
from bayesrank.datasets.layouts import ColumnRole, Found, Layout, find, fitting
from bayesrank.datasets.table import Column, Source, Table, read_table
from bayesrank.datasets.text import read_bytes

_SYSTEM = ColumnRole(
    ("system", "model", "llm", "agent", "method", "solver", "submission", "algorithm", "system_id")
    + ("model_name", "system_name", "model_id", "name")
)
_TASK = ColumnRole(
    ("task", "task_id", "instance", "instance_id", "problem", "problem_id", "question")
    + ("question_id", "example", "example_id", "sample_id", "test", "task_name", "item")
)
_COUNTS = ("successes", "num_correct")
_SCORE = ColumnRole(
    ("score", "resolved", "solved", "correct", "is_correct", "passed", "success", *_COUNTS)
    + ("reward", "accuracy", "grade", "value", "result")
)
_OF_TASKS = {
    "runs": ColumnRole(("runs", "num_runs", "n_runs", "num_trials", "of", "total"), True),
    "cluster": ColumnRole(("cluster", "cluster_id", "repo", "suite", "task_group"), True),
    "cost": ColumnRole(("cost", "cost_usd", "price"), True),
}
_OF_SYSTEMS = {"family": ColumnRole(("family", "model_family", "vendor", "organization"), True)}
LONG = Layout(
    "system,task,score",
    {"system": _SYSTEM, "task": _TASK, "score": _SCORE, **_OF_TASKS, **_OF_SYSTEMS},
)
_WIDE = {
    "systems": Layout("system,task1,task2,task3", {"system": _SYSTEM, **_OF_SYSTEMS}),
    "tasks": Layout("task,system1,system2", {"task": _TASK, **_OF_TASKS}),
}
_REPEATS = {"epoch", "run", "seed", "trial", "repeat", "attempt", "replicate"}
_BESIDE = {"date", "time", "year", "size", "params", "tokens", "rank"}
_BESIDE |= {"total", "score", "average", "avg", "mean", "cost"}  # no tasks of a wide table
_FIX = "write 0 or 1, true or false, 3/5 or a number, and nothing where the cell is missing"
_YES = {"true", "yes", "y", "pass", "passed", "resolved", "solved", "correct", "success"}
_NO = {"false", "no", "n", "fail", "failed", "unresolved", "unsolved", "incorrect", "wrong"}
_PARTS = re.compile(r"(\d+) *(?:/|of|out of) *(\d+)")
_MOST_GRADES, _CELLS_A_GRADE = 7, 10
_ROUNDING = 0.1  # runs by which a rounded share may miss a whole number of them
# What reports of harnesses list, and which of these lists name all that was run.
_WHOLE = {"unresolved", "submitted", "completed", "generated"}
_LISTS = _WHOLE | {"resolved", "error", "incomplete", "empty_patch", "no_generation", "no_logs"}
_LISTS |= {"with_logs", "no_apply", "applied", "install_fail", "reset_failed", "test_errored"}
_LISTS |= {"test_timeout"}
_REPORTS = '{"name": {"resolved": [...]}, ...}'


def read_scores(
    source: Source,
    *,
    kind: ScoreKind | None = None,
    rows: Literal["systems", "tasks"] | None = None,
    **columns: str,
) -> ScoreTable:
    """Read a score table: a file as for `read_comparisons`, or a data frame or mapping.

    - Long: columns for system, task and score under their usual names, and maybe ``runs`` (then the
      score counts how many of these succeeded, or is their share), ``cluster``, ``family`` and
      ``cost``. Rows of one cell are repeated runs.
    - Wide: a row a system and a column a task, or the other way round. The name of the first column
      (``system``, ``model``, ...; ``task``, ``instance_id``, ...) says which.
    - What harnesses write: ``{"name": {"resolved": [...], "unresolved": [...]}, ...}``, or
      ``{"tasks": [...], "systems": [{"name": ..., "resolved": [...]}]}``. Without a list of what
      was not resolved, all else counts as not solved.

    Cells are 0 or 1, true or false, ``3/5``, or numbers; empty ones are missing. At most seven
    different whole numbers are grades, and other numbers are numbers; a note says so.

    Parameters
    ----------
    source
        The table.
    kind
        What scores are, if it is not to be recognised.
    rows
        What the rows of a wide table are, if the name of its first column does not say so.
    **columns
        Names of columns that are not recognised: ``system``, ``task``, ``score``, ``runs``,
        ``cluster``, ``family``, ``cost``.

    Raises
    ------
    DataError
        If the table cannot be used as it is. The message is one line: file, row, column, problem,
        fix.

    Examples
    --------
    >>> from bayesrank.datasets import read_scores
    >>> board = {"x": {"resolved": ["a"], "unresolved": ["b"]}, "y": {"resolved": ["a", "b"]}}
    >>> read_scores(board).scores
    array([[1., 0.],
           [1., 1.]])
    """
    unknown = sorted(columns.keys() - LONG.roles)
    if unknown:
        raise TypeError(f"read_scores has no argument {unknown[0]!r}; columns are {[*LONG.roles]}")
    if kind is not None and kind not in get_args(ScoreKind):
        raise ValueError(f"kind is {kind!r}; choose one of {', '.join(get_args(ScoreKind))}")
    reports = reports_of(source)
    table = read_table(source if reports is None else reports, name="the scores")
    try:
        found = as_long(table, rows, columns) or find(table, (LONG,), columns)
    except DataError as error:
        raise error.with_fix(re.sub(r"--(\w+)", r"\1=...", error.fix)) from None
    return arranged_scores(found, kind)


def reports_of(source: Source) -> Any:
    """Columns of what a harness wrote, or of a frame whose index names systems or tasks; or None.

    Frames are those of pandas.
    """
    named = getattr(getattr(source, "index", None), "name", None)
    if isinstance(named, str) and named.lower() in (*_SYSTEM.usual, *_TASK.usual):
        return source.reset_index()
    held: Any = source
    path = Path(source) if isinstance(source, str | os.PathLike) else Path("the scores")
    if path.suffix.lower() == ".json":
        try:
            held = json.loads(read_bytes(path))
        except ValueError:  # the reader of tables says what is wrong
            return None
    if not isinstance(held, dict) or not held:
        return None
    alone, several, tasks = held.get("resolved"), held.get("systems"), ()
    if isinstance(alone, list) and any(isinstance(cell, str) for cell in alone):
        fix = f"put the reports of several systems into one file, {_REPORTS}"
        raise DataError(path, "this is the report of one system", fix)
    named = [*held.items()]
    if isinstance(several, list):
        named = [(isinstance(v, dict) and v.get("name"), v) for v in several]
        tasks = held.get("tasks", ())
    if not all(isinstance(v, dict) and isinstance(_listed(v, "resolved"), list) for _, v in named):
        return None
    return _report_columns(path, named, [*map(str, tasks)])


def _listed(report: Mapping[str, Any], name: str) -> Any:
    """A list of a report, under its name, with or without ``_ids``."""
    return report.get(name, report.get(f"{name}_ids"))


def _report_columns(
    path: Path, named: list[tuple[Any, dict[str, Any]]], tasks: list[str]
) -> dict[str, list[Any]]:
    """Columns of the reports of systems, by their names."""
    names = [name for name, _ in named]
    for place, name in enumerate(names, 1):
        if not isinstance(name, str) or names.index(name) < place - 1:
            said = f"{name!r} has two reports"
            problem = said if isinstance(name, str) else f"report {place} has no name"
            raise DataError(path, problem, "give each system one report and a name")
    lists = [
        {n: [*map(str, _listed(each, n))] for n in sorted(_LISTS) if _listed(each, n) is not None}
        for _, each in named
    ]
    if not tasks and not any(_WHOLE & {*each} for each in lists):
        tell(f"{path.name} lists no unresolved tasks: those that no system resolved are left out.")
    tasks = [*dict.fromkeys([*tasks, *(t for each in lists for own in each.values() for t in own)])]
    columns: dict[str, list[Any]] = {"system": [], "task": [], "score": []}
    for name, each in zip(names, lists, strict=True):
        solved, failed = {*each["resolved"]}, {*each.get("unresolved", ())}
        if solved & failed:
            problem = f"{name!r} has {min(solved & failed)!r} both resolved and unresolved"
            raise DataError(path, problem, "remove one of the two")
        run = {t for own in each.values() for t in own} if _WHOLE & {*each} else {*tasks}
        here = [task for task in tasks if task in run]
        columns["system"] += [name] * len(here)
        columns["task"] += here
        columns["score"] += [int(task in solved) for task in here]
    return columns


def as_long(
    table: Table, rows: str | None = None, columns: Mapping[str, str] | None = None
) -> Found | None:
    """The columns of a long score table, or of a wide one made long, if it is one of these."""
    columns = columns or {}
    if rows is None:
        long = fitting(table, (LONG,), columns)
        if long:
            return long[0]
        named = {key: value for key, value in columns.items() if key != "score"}
        ways = [way for way, layout in _WIDE.items() if fitting(table, (layout,), named)]
        if len(ways) != 1 or "score" in columns:
            return None
        rows = ways[0]
        first = fitting(table, (_WIDE[rows],), named)[0].columns[rows.removesuffix("s")]
    else:
        first = table.columns[0]
    one = rows.removesuffix("s")
    found = fitting(table, (_WIDE[rows],), {**columns, one: first.name})[0].columns
    kept = {name: column for name, column in found.items() if name != one}
    taken = {first.name, *(column.name for column in kept.values())}
    others = [column for column in table.columns if column.name not in taken]
    wide = [c for c in others if c.name.lower() not in _BESIDE and _mostly_scores(c)]
    if len(wide) < max(2, len(others) / 2):
        return None
    return _stacked(table, one, first, wide, kept, [c for c in others if c not in wide])


def _stacked(
    table: Table,
    one: str,
    first: Column,
    wide: list[Column],
    kept: Mapping[str, Column],
    rest: list[Column],
) -> Found:
    """The columns of a wide table, one below the other."""
    for column in wide:
        table.refuse(column, lambda cell: _parsed(cell) is None, "is not a score", _FIX)
    _refuse_odd(table, wide)
    count, many = len(table.rows), np.tile(np.arange(len(table.rows)), len(wide))
    other = "task" if one == "system" else "system"
    long = Table(
        table.path,
        (
            Column.of(one, first.cells[many]),
            Column.of(other, [c.name for c in wide for _ in range(count)]),
            Column.of("score", np.concatenate([c.cells for c in wide])),
            *(Column.of(name, c.cells[many]) for name, c in kept.items()),
            *(c._replace(codes=c.codes[many]) for c in rest),
        ),
        table.rows[many],
        (*table.notes, f"The table has a row a {one} and a column a {other}."),
    )
    return find(long, (LONG,), {name: name for name in ("system", "task", "score", *kept)})


def _mostly_scores(column: Column) -> bool:
    """Whether a column holds scores, some of them perhaps misspelled."""
    said = [
        _parsed(cell) is not None for cell in column.values if cell.lower() not in cells.NOTHING
    ]
    return 2 * sum(said) >= len(said)


def _refuse_odd(table: Table, wide: list[Column]) -> None:
    """Refuse a column of large numbers among many that hold 0 and 1: it is none of these."""
    most = [max((score for score, _ in map(_read, c.values)), default=0.0) for c in wide]
    if 2 * sum(m <= 1.0 for m in most) > len(wide) and max(most) > 1.0:
        counted = any(_PARTS.fullmatch(cell.lower()) for c in wide for cell in c.values)
        odd = wide[int(np.argmax(most))]
        if not counted:
            cell = max(odd.values, key=lambda cell: _read(cell)[0])
            problem = f"{cell!r} is not a score as in most columns, which are from 0 to 1"
            raise table.error(problem, "correct it, or remove the column", odd, odd.holds(cell))


def _parsed(cell: str) -> tuple[float, float] | None:
    """Score and runs of a cell, no runs where it says nothing; None of what is no score."""
    said = cell.lower()
    if said in cells.NOTHING:
        return 0.0, 0.0
    if said in _YES or said in _NO:
        return float(said in _YES), 1.0
    match = _PARTS.fullmatch(said)
    if match:
        return float(match[1]), float(match[2])
    value = cells.finite(said.removesuffix("%"))
    if not abs(value) <= cells.LARGEST or (said.endswith("%") and not 0.0 <= value <= 100.0):
        return None
    return value / (100.0 if said.endswith("%") else 1.0), 1.0


def _read(cell: str) -> tuple[float, float]:
    """Score and runs of a cell that is a score."""
    return _parsed(cell) or (0.0, 0.0)


def arranged_scores(found: Found, kind: ScoreKind | None) -> ScoreTable:
    """The cells of a long table as arrays."""
    all_tasks = found.columns["task"].values
    for role in ("system", "task"):
        cells.text(found.table, found.columns[role])
        cells.refuse_nothing(found.table, found.columns[role])
    _refuse_copies(found)
    found = _done(found, ~cells.nothing(found.columns["score"]))
    values, runs, counted = _counts(found)
    found, values, runs = _done(found, runs > 0), values[runs > 0], runs[runs > 0]
    table, columns = found.table, found.columns
    system, task, score = columns["system"], columns["task"], columns["score"]
    place = system.codes, task.codes
    total, all_runs, rows = np.zeros((3, len(system.values), len(task.values)))
    for sums, each in ((total, values), (all_runs, runs), (rows, 1.0)):
        np.add.at(sums, place, each)
    several = bool((rows > 1).any())
    kind, note = _kind(values, counted, kind, several)
    _refuse_values(table, score, values, kind, counted)
    notes = [*table.notes, note] if note else [*table.notes]
    if several:
        notes.append(f"Cells with several rows, which are repeated runs: {(rows > 1).sum():,}.")
    if kind == "grade" and several:
        problem = "repeated runs have grades, which have no mean"
        raise table.error(problem, "read them as numbers, or keep one run a cell", score)
    if kind != "solved":
        total, all_runs = total / np.maximum(all_runs, 1.0), np.minimum(all_runs, 1.0)
    if len(task.values) < len(all_tasks):
        left = len(all_tasks) - len(task.values)
        notes.append(f"Tasks that nobody ran, left out: {left:,}.")
    for what, column in (("system", system), ("task", task)):
        if len(column.values) < 2:
            raise table.error(f"there is one {what}", f"add the scores of another {what}")
    return ScoreTable(
        system.values,
        task.values,
        total,
        all_runs,
        kind,
        *_labels(table, columns.get("cluster"), task, "task"),
        *_labels(table, columns.get("family"), system, "system"),
        _costs(found),
        tuple(notes),
        tuple(c.name for c in found.rest if c.name.lower() not in _REPEATS),
    )


def _done(found: Found, done: NDArray[np.bool_]) -> Found:
    """The rows of cells that were run, if each system has some."""
    columns = {role: column.kept(done) for role, column in found.columns.items()}
    system, ran = found.columns["system"], {*columns["system"].values}
    for name in system.values:
        if name not in ran:
            problem, fix = f"{name!r} was run on no task", "add its scores, or remove it"
            raise found.table.error(problem, fix, system, system.holds(name))
    return found._replace(table=found.table.kept(done), columns=columns)


def _refuse_copies(found: Found) -> None:
    """Refuse a run that is there twice, where a column numbers the runs of a cell."""
    numbers = [column for column in found.rest if column.name.lower() in _REPEATS]
    if numbers:
        cell = (found.columns["system"], found.columns["task"])
        found.table.refuse_twice(*cell, *numbers)


def _counts(found: Found) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Score and runs of each row, and whether scores count runs."""
    table, columns, score = found.table, found.columns, found.columns["score"]
    table.refuse(score, lambda cell: _parsed(cell) is None, "is not a score", _FIX)
    said = np.array([_read(cell) for cell in score.values])
    marked = np.array([cell.endswith("%") for cell in score.values])
    plain = ~marked & (np.abs(said[:, 0]) > 1.0)
    if marked.any() and plain.any():
        odd = score.values[int(np.argmax(plain))]
        problem = f"{odd!r} has no percent sign, and others have"
        raise table.error(problem, "write all in one way", score, score.holds(odd))
    values, runs = said[score.codes].T
    counted = any(_PARTS.fullmatch(cell.lower()) for cell in score.values)
    if "runs" in columns and not counted:
        fix = "count the runs of the cell"
        runs = cells.whole(table, columns["runs"], least=0, fix=fix).astype(np.float64)
        values, counted = _successes(table, score, values, runs), True
    wrong = (values > runs) | (values < 0) | (values % 1 > 0)
    if counted and wrong.any():
        k = int(np.argmax(wrong))
        problem = f"{values[k]:g} of {runs[k]:g} runs cannot have succeeded"
        raise table.error(problem, "correct the score or the runs", score, wrong)
    return values, runs, counted


def _successes(table: Table, score: Column, values: Any, runs: Any) -> Any:
    """How many of several runs succeeded, of scores that count them or are their share."""
    if score.name.lower() in _COUNTS or (values > 1.0).any():
        return values
    if not (values % 1.0).any():
        unclear = (runs > 1) & (values == 1.0)
        if unclear.any():
            problem = f"1 may be one run of {runs.max():g} or all of them"
            raise table.error(problem, "write cells such as 1/5, without runs", score, unclear)
        return values
    found = np.round(values * runs)
    wrong = np.abs(values * runs - found) > _ROUNDING
    if wrong.any():
        k = int(np.argmax(wrong))
        problem = f"{values[k]:g} is not a share of {runs[k]:g} runs"
        raise table.error(problem, "correct the score or the runs", score, wrong)
    return found


def _kind(
    values: NDArray[np.float64], counted: bool, kind: ScoreKind | None, repeated: bool
) -> tuple[ScoreKind, str]:
    """What scores are, and a sentence on it unless they are 0 and 1."""
    levels = np.unique(values)
    if kind is not None:
        return kind, ""
    if counted or np.isin(levels, (0.0, 1.0)).all():
        return "solved", ""
    whole = (levels % 1 == 0).all() and len(levels) <= _MOST_GRADES
    if whole and len(values) >= _CELLS_A_GRADE * len(levels) and not repeated:
        said = ", ".join(f"{level:g}" for level in levels)
        return "grade", f"Scores are read as grades: {said} (say number to read them as numbers)."
    averaged = "; repeated runs are averaged" if repeated else ""
    return "number", f"Scores are read as numbers from {levels[0]:g} to {levels[-1]:g}{averaged}."


def _refuse_values(
    table: Table, score: Column, values: Any, kind: ScoreKind, counted: bool
) -> None:
    """Refuse scores that are none of their kind."""
    wrong = (values != 0) & (values != 1)
    if kind == "solved" and not counted and wrong.any():
        problem = f"{score.cells[int(np.argmax(wrong))]!r} is neither 0 nor 1"
        raise table.error(problem, "correct it, or read the scores as numbers", score, wrong)
    if kind != "solved" and counted:
        raise table.error(f"counts of runs are no {kind}s", "leave the kind out", score)
    if kind != "solved" and are_equal(values.min(), values.max()):
        raise table.error("every score is the same", "there is nothing to learn from it", score)


def _labels(
    table: Table, column: Column | None, owner: Column, what: str
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Cluster of each task, or family of each system, and their names."""
    if column is None:
        return None, ()
    cells.text(table, column)
    label = column.codes[owner.first()]
    wrong = column.codes != label[owner.codes]
    if wrong.any():
        k = int(np.argmax(wrong))
        names = [column.values[c] for c in (label[owner.codes[k]], column.codes[k])]
        problem = f"{what} {owner.values[owner.codes[k]]!r} is in {names[0]!r} and in {names[1]!r}"
        raise table.error(problem, f"put each {what} in one", column, wrong)
    return label, column.values


def _costs(found: Found) -> NDArray[np.floating[Any]] | None:
    """Mean cost of the runs of each task."""
    column, task = found.columns.get("cost"), found.columns["task"].codes
    if column is None:
        return None
    paid = cells.number(found.table, column)
    if (paid < 0).any():
        fix = "write what a run costs"
        raise found.table.error("the cost is negative", fix, column, paid < 0)
    return np.bincount(task, paid) / np.bincount(task)
