"""Score tables read into arrays: systems by tasks, long or wide, or what harnesses write."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import ColumnRole, Found, Layout, find, fitting
from bayesrank.datasets.table import Column, Source, Table, read_table
from bayesrank.datasets.text import read_bytes

Kind = Literal["solved", "grade", "number"]

_SYSTEM = ColumnRole(
    ("system", "model", "llm", "agent", "method", "solver", "submission", "algorithm", "system_id")
    + ("model_name", "system_name", "model_id", "name")
)
_TASK = ColumnRole(
    ("task", "task_id", "instance", "instance_id", "problem", "problem_id", "question")
    + ("question_id", "example", "example_id", "sample_id", "test", "task_name", "item")
)
_SCORE = ColumnRole(
    ("score", "resolved", "solved", "correct", "is_correct", "passed", "success", "successes")
    + ("num_correct", "reward", "accuracy", "grade", "value", "result")
)
_OPTIONAL = {
    "runs": ColumnRole(("runs", "num_runs", "n_runs", "num_trials", "of", "total"), True),
    "cluster": ColumnRole(("cluster", "cluster_id", "repo", "suite", "task_group"), True),
    "cost": ColumnRole(("cost", "cost_usd", "price"), True),
}
_LONG = Layout(
    "system,task,score", {"system": _SYSTEM, "task": _TASK, "score": _SCORE, **_OPTIONAL}
)
_BY_SYSTEM = Layout("system,task1,task2,task3", {"system": _SYSTEM})
_BY_TASK = Layout("task,system1,system2", {"task": _TASK, **_OPTIONAL})
_REPEATS = {"epoch", "run", "seed", "trial", "repeat", "attempt", "replicate"}
_BESIDE = {"date", "time", "year", "family", "size", "params", "tokens", "rank"}
_BESIDE |= {"total", "score", "average", "avg", "mean", "cost"}  # no tasks of a wide table
_FIX = "write 0 or 1, true or false, 3/5 or a number, and nothing where the cell is missing"
_YES = {"true", "yes", "y", "pass", "passed", "resolved", "solved", "correct", "success"}
_NO = {"false", "no", "n", "fail", "failed", "unresolved", "unsolved", "incorrect", "wrong"}
_PARTS = re.compile(r"(\d+) *(?:/|of|out of) *(\d+)")
_MOST_GRADES, _CELLS_A_GRADE = 7, 10


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of systems on tasks.

    Parameters
    ----------
    names, task_names
        Names of the systems and of the tasks, in the order of their first appearance.
    scores
        Shape (n, T): runs that succeeded, grades as in the file, or (mean) numbers; 0 where there
        are no runs.
    runs
        Shape (n, T): number of runs; 0 where the cell is missing.
    kind
        What scores are: "solved", "grade" or "number".
    clusters, cluster_names
        Cluster of each task, shape (T,), and names of the clusters; None and empty without these.
    costs
        Mean cost of a run of each task, shape (T,), if there is such a column.
    notes
        Sentences on how the table was understood.
    ignored_columns
        Columns that were not used.

    Examples
    --------
    >>> from bayesrank.datasets import read_scores
    >>> table = {"system": ["x", "x", "y", "y"], "task": [1, 2, 1, 2], "score": [1, 0, 1, 1]}
    >>> read_scores(table).scores
    array([[1., 0.],
           [1., 1.]])
    """

    names: tuple[str, ...]
    task_names: tuple[str, ...]
    scores: NDArray[np.float64]
    runs: NDArray[np.float64]
    kind: Kind
    clusters: NDArray[np.int64] | None = None
    cluster_names: tuple[str, ...] = ()
    costs: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.scores, self.runs):
            array.setflags(write=False)


def read_scores(
    source: Source,
    *,
    kind: Kind | None = None,
    rows: Literal["systems", "tasks"] | None = None,
    **columns: str,
) -> ScoreTable:
    """Read a score table: a file as for `read_comparisons`, or a data frame or mapping.

    - Long: columns for system, task and score under their usual names, and maybe ``runs`` (then the
      score counts how many of these succeeded, or is their share), ``cluster`` and ``cost``. Rows
      of one cell are repeated runs.
    - Wide: a row a system and a column a task, or the other way round. The name of the first column
      (``system``, ``model``, ...; ``task``, ``instance_id``, ...) says which.
    - What harnesses write: ``{"name": {"resolved": [...], "unresolved": [...]}, ...}``, or
      ``{"tasks": [...], "systems": [{"name": ..., "resolved": [...]}]}``.

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
        ``cluster``, ``cost``.

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
    unknown = sorted(columns.keys() - _LONG.roles)
    if unknown:
        raise TypeError(f"read_scores has no argument {unknown[0]!r}; columns are {[*_LONG.roles]}")
    listed = _of_harness(source)
    table = read_table(source if listed is None else listed, name="the scores")
    try:
        found = _wide(table, rows, columns) or find(table, (_LONG,), columns)
    except DataError as error:
        raise error.with_fix(re.sub(r"--(\w+)", r"\1=...", error.fix)) from None
    return _arranged(found, kind)


def refuse_scores(table: Table) -> None:
    """Refuse a long score table where comparisons are read: an order a task is another question."""
    found = fitting(table, (_LONG,), {})
    if not found or found[0].columns["task"].name.lower() == "item":
        return
    if all(_parsed(cell) is not None for cell in found[0].columns["score"].values):
        fix = f"rank it in Python: ScoreRanker().fit({str(table.path)!r}); or, if each task is one "
        fix += f"race, call the column {found[0].columns['task'].name!r} race"
        raise table.error("this is a score table, systems by tasks, and no comparisons", fix)


def _of_harness(source: Source) -> dict[str, list[Any]] | None:
    """Columns of what a harness wrote, if it is that."""
    held: Any = source
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json":
        try:
            held = json.loads(read_bytes(Path(source)))
        except ValueError:  # the reader of tables says what is wrong
            return None
    if not isinstance(held, dict) or not held:
        return None
    tasks: list[Any] = []
    if isinstance(held.get("systems"), list):
        tasks = [*held.get("tasks", ())]
        held = {each["name"]: each for each in held["systems"] if isinstance(each, dict)}
    if not all(isinstance(v, dict) and isinstance(v.get("resolved"), list) for v in held.values()):
        return None
    lists = {
        name: {key: list(map(str, v)) for key, v in each.items() if isinstance(v, list)}
        for name, each in held.items()
    }
    said = [task for each in lists.values() for own in each.values() for task in own]
    tasks = [*dict.fromkeys([*map(str, tasks), *said])]
    solved = {name: {*each["resolved"]} for name, each in lists.items()}
    return {
        "system": [name for name in lists for _ in tasks],
        "task": [task for _ in lists for task in tasks],
        "score": [int(task in solved[name]) for name in lists for task in tasks],
    }


def _wide(table: Table, rows: str | None, columns: Mapping[str, str]) -> Found | None:
    """A wide table made long, if it is one."""
    if not rows and (fitting(table, (_LONG,), columns) or {*columns} & {"score"}):
        return None
    first = table.columns[0]
    if rows is None:
        named = {key: value for key, value in columns.items() if key != "score"}
        at = [fitting(table, (each,), named) for each in (_BY_SYSTEM, _BY_TASK)]
        if bool(at[0]) == bool(at[1]):
            return None
        rows = "systems" if at[0] else "tasks"
        first = (at[0] or at[1])[0].columns["system" if at[0] else "task"]
    beside = fitting(table, (_BY_TASK,), {**columns, "task": first.name})[0].columns
    kept = {name: c for name, c in beside.items() if name in _OPTIONAL and rows == "tasks"}
    taken = {first.name, *(c.name for c in kept.values())}
    others = [c for c in table.columns if c.name not in taken]
    wide = [c for c in others if c.name.lower() not in _BESIDE and _mostly_scores(c)]
    for column in wide:
        table.refuse(column, lambda cell: _parsed(cell) is None, "is not a score", _FIX)
    if len(wide) < 2:
        raise table.error("fewer than two columns hold scores", _FIX)
    count, many = len(table.rows), np.tile(np.arange(len(table.rows)), len(wide))
    one, other = ("system", "task") if rows == "systems" else ("task", "system")
    long = Table(
        table.path,
        (
            Column.of(one, first.cells[many]),
            Column.of(other, [c.name for c in wide for _ in range(count)]),
            Column.of("score", np.concatenate([c.cells for c in wide])),
            *(Column.of(name, c.cells[many]) for name, c in kept.items()),
            *(c._replace(codes=c.codes[many]) for c in others if c not in wide),
        ),
        table.rows[many],
        (*table.notes, f"The table has a row a {one} and a column a {other}."),
    )
    return find(long, (_LONG,), {name: name for name in ("system", "task", "score", *kept)})


def _mostly_scores(column: Column) -> bool:
    """Whether a column holds scores, some of them perhaps misspelled."""
    said = [
        _parsed(cell) is not None for cell in column.values if cell.lower() not in cells.NOTHING
    ]
    return 2 * sum(said) >= len(said)


def _parsed(cell: str) -> tuple[float, float] | None:
    """Score and runs of a cell, no runs where it says nothing; None of what is no score."""
    said = cell.lower().strip()
    if said in cells.NOTHING:
        return 0.0, 0.0
    if said in _YES or said in _NO:
        return float(said in _YES), 1.0
    match = _PARTS.fullmatch(said)
    if match:
        return float(match[1]), float(match[2])
    value = cells.finite(said.removesuffix("%"))
    return None if np.isnan(value) else (value / (100.0 if said.endswith("%") else 1.0), 1.0)


def _arranged(found: Found, kind: Kind | None) -> ScoreTable:
    """The cells of a long table as arrays."""
    table, columns = found.table, found.columns
    system, task, score = (columns[role] for role in ("system", "task", "score"))
    for column in (system, task):
        cells.text(table, column)
        cells.refuse_nothing(table, column)
    values, runs, counted = _counts(found)
    shape, place = (len(system.values), len(task.values)), (system.codes, task.codes)
    total, all_runs, rows = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for sums, each in ((total, values * (runs > 0)), (all_runs, runs), (rows, runs > 0)):
        np.add.at(sums, place, each)
    kind, note = _kind(values[runs > 0], counted, kind, bool((rows > 1).any()))
    _refuse_values(table, score, values, runs, kind, counted)
    notes = [*table.notes, note] if note else [*table.notes]
    if (rows > 1).any():
        notes.append(f"Cells with several rows, which are repeated runs: {(rows > 1).sum():,}.")
    if kind != "solved":
        total, all_runs = total / np.maximum(all_runs, 1.0), np.minimum(all_runs, 1.0)
    kept = all_runs.sum(0) > 0
    if not kept.all():
        notes.append(f"Tasks that nobody ran, left out: {(~kept).sum():,}.")
    _refuse_empty(table, system, all_runs.sum(1) == 0, kept)
    cluster, names = _clusters(table, columns.get("cluster"), task)
    costs = None
    if "cost" in columns:
        paid = np.bincount(task.codes, cells.number(table, columns["cost"]))
        costs = (paid / np.bincount(task.codes))[kept]
    return ScoreTable(
        system.values,
        tuple(name for name, there in zip(task.values, kept, strict=True) if there),
        total[:, kept],
        all_runs[:, kept],
        kind,
        None if cluster is None else np.unique(cluster[kept], return_inverse=True)[1],
        () if cluster is None else tuple(names[c] for c in np.unique(cluster[kept])),
        costs,
        tuple(notes),
        tuple(c.name for c in found.rest if c.name.lower() not in _REPEATS),
    )


def _counts(found: Found) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Score and runs of each row, and whether scores count runs."""
    table, columns, score = found.table, found.columns, found.columns["score"]
    table.refuse(score, lambda cell: _parsed(cell) is None, "is not a score", _FIX)
    said = np.array([_parsed(cell) for cell in score.values])
    parts = [bool(_PARTS.fullmatch(cell.lower())) for cell in score.values]
    values, runs = said[score.codes].T
    counted, there = any(parts), runs > 0
    if "runs" in columns and not counted:
        count = cells.whole(table, columns["runs"], least=0, fix="count the runs of the cell")
        shares = (values[there] <= 1.0).all() and (values[there] % 1.0 > 0.0).any()
        values = np.where(shares, np.round(values * count), values)
        runs, counted = np.where(there, count, 0.0), True
    wrong = (values > runs) | (values < 0) | (values % 1 > 0)
    if counted and wrong.any():
        k = int(np.argmax(wrong))
        problem = f"{values[k]:g} of {runs[k]:g} runs cannot have succeeded"
        raise table.error(problem, "correct the score or the runs", score, wrong)
    return values, runs, counted


def _kind(
    values: NDArray[np.float64], counted: bool, kind: Kind | None, repeated: bool
) -> tuple[Kind, str]:
    """What scores are, and a sentence on it unless they are 0 and 1."""
    levels = np.unique(values)
    if kind is not None:
        return kind, ""
    if counted or np.isin(levels, (0.0, 1.0)).all():
        return "solved", ""
    whole = (levels % 1 == 0).all() and len(levels) <= _MOST_GRADES
    if whole and len(values) >= _CELLS_A_GRADE * len(levels) and not repeated:
        said = ", ".join(f"{level:g}" for level in levels)
        return "grade", f"Scores are read as grades: {said} (kind='number' reads them as numbers)."
    averaged = "; repeated runs are averaged" if repeated else ""
    return "number", f"Scores are read as numbers from {levels[0]:g} to {levels[-1]:g}{averaged}."


def _refuse_values(
    table: Table, score: Column, values: Any, runs: Any, kind: Kind, counted: bool
) -> None:
    """Refuse scores that are none of their kind."""
    there = runs > 0
    if kind == "solved" and not counted and (there & (values != 0) & (values != 1)).any():
        wrong = there & (values != 0) & (values != 1)
        problem = f"{score.cells[int(np.argmax(wrong))]!r} is neither 0 nor 1"
        raise table.error(problem, "correct it, or read numbers by kind='number'", score, wrong)
    if kind != "solved" and len(np.unique(values[there])) < 2:
        raise table.error("every score is the same", "there is nothing to learn from it", score)


def _refuse_empty(table: Table, system: Column, idle: Any, kept: Any) -> None:
    """Refuse a system without a run, and a table of one system or task."""
    if idle.any():
        name = system.values[int(np.argmax(idle))]
        problem = f"{name!r} was run on no task"
        raise table.error(problem, "add its scores, or remove it", system, system.holds(name))
    if len(system.values) < 2 or kept.sum() < 2:
        what = "system" if len(system.values) < 2 else "task"
        raise table.error(f"there is one {what}", f"add the scores of another {what}")


def _clusters(
    table: Table, column: Column | None, task: Column
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Cluster of each task, and their names."""
    if column is None:
        return None, ()
    cells.text(table, column)
    cluster = column.codes[task.first()]
    wrong = column.codes != cluster[task.codes]
    if wrong.any():
        k = int(np.argmax(wrong))
        names = [column.values[c] for c in (cluster[task.codes[k]], column.codes[k])]
        problem = f"task {task.values[task.codes[k]]!r} is in {names[0]!r} and in {names[1]!r}"
        raise table.error(problem, "put each task in one cluster", column, wrong)
    return cluster, column.values
