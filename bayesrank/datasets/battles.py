"""Rows of two items: which are used, and who won each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank._tables import Column
from bayesrank.datasets import cells
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.layouts import (
    OUTCOME,
    WON_POINTS,
    ColumnNames,
    Found,
    all_sides,
    naming,
    two_columns,
)
from bayesrank.datasets.outcomes import (
    LOSS,
    TIE,
    WIN,
    holds_points,
    numbers_mean,
    tells_how_much,
    words_mean,
)
from bayesrank.datasets.table import Table

STATUS = ("status", "state", "matchstatus", "gamestatus")
_NOT_PLAYED = {
    *("postponed", "cancelled", "canceled", "abandoned", "suspended", "scheduled", "upcoming"),
    *("not started", "ns", "in progress"),
}
_PLACES = {1.0, 0.0, -1.0}  # of who won: first, neither, second
_FEWEST = 10  # decided rows; a fair coin falls on one side so often in one of 500 files
_WON_ALL = "won every time: that is taken for how the file is written, not for an advantage."


@dataclass(frozen=True)
class Battles:
    """What rows say: the rows that are used, their two items, and which of these was better.

    `position` is 1 where the first item has the advantage of its position and 0 where neither has,
    or None if unknown. `repeating` is a column of outcomes that repeats the points, if any.
    """

    found: Found
    first: Column
    second: Column
    outcome: NDArray[np.integer[Any]]
    position: NDArray[np.float64] | None = None
    position_label: str = ""
    notes: tuple[str, ...] = ()
    repeating: Column | None = None


def _without(found: Found, mask: NDArray[np.bool_], what: str) -> tuple[Found, tuple[str, ...]]:
    """The other rows, and a sentence on those that are left out, if any."""
    if not mask.any():
        return found, ()
    note = f"{what}, left out: {found.table.count(mask):,}."
    columns = {role: column.kept(~mask) for role, column in found.columns.items()}
    return found._replace(table=found.table.kept(~mask), columns=columns), (note,)


def places(table: Table) -> tuple[Column, ...]:
    """A column that may say who stood first, by some of its cells."""
    column = table.column("position")
    said = column is not None and {*map(cells.finite, column.values)} <= _PLACES
    return (column,) if column is not None and said else ()


def with_position(found: Found) -> Found:
    """Add a column `position` of winners and losers: 1 and -1, and 0 where neither was first."""
    for column in places(found.table):
        if {1.0, -1.0} <= {*map(cells.finite, column.values)}:
            return found._replace(columns={**found.columns, "position": column})
    return found


def read_wins(found: Found) -> Battles:
    """Rows that name who won and who lost; a winner that is its own loser is a mistake."""
    first, second = found.columns["winner"], found.columns["loser"]
    itself = _itself(first, second)
    if itself.any():
        name = second.values[second.codes[int(np.argmax(itself))]]
        problem = f"item {name!r} is compared with itself"
        raise found.table.error(problem, "remove the row", second, itself)
    named = {side.name.lower() for pair in all_sides(found.table) for side in pair}
    fix = f"write the item in its place, or add {naming('ignore', second.name)}"
    called = "is the name of a column"
    found.table.refuse(first, lambda name: name.lower() in named, called, fix)
    outcome = np.full(len(itself), WIN, np.int8)
    beside = None if "tie" in found.columns else found.table.column("result", "outcome")
    for column in filter(None, (first, second, beside)):
        other = f"leave it out with {naming('ignore', column.name)}"
        other = other if column is beside else "correct the name"
        fix = f"mark ties by 1 in a column tie, or {other}"
        equal = "may say that the two were equal"
        found.table.refuse(column, lambda cell: cell.lower() in cells.TIED, equal, fix)
    if "tie" in found.columns:
        outcome[cells.truth(found.table, found.columns["tie"])] = TIE
    _refuse_contradiction(found.table, outcome)
    place, label = None, ""
    if "position" in found.columns:
        column, label = found.columns["position"], "being shown first"
        place = cells.numbers(found.table, column)[column.codes]
    return Battles(found, first, second, outcome, place, label)


def _refuse_contradiction(table: Table, outcome: NDArray[np.integer[Any]]) -> None:
    """Refuse rows whose winner has fewer points than the loser."""
    columns = two_columns(table, list(zip(*WON_POINTS, strict=True)))
    if not columns:
        return
    won, lost = (cells.numbers(table, column)[column.codes] for column in columns)
    wrong = (won < lost) & (outcome == WIN)
    if wrong.any():
        fix = f"correct the row, or leave the scores out with {naming('ignore', columns[0].name)}"
        raise table.error("the scores say that the loser won", fix, columns[0], wrong)


def _refuse_other_points(
    found: Found, outcome: NDArray[np.integer[Any]], chosen: ColumnNames
) -> None:
    """Refuse points in one cell, as 3-1, that contradict outcomes whose column nobody named."""
    first, second = found.columns["first"].name, found.columns["second"].name
    header, said = found.table.header, found.columns["outcome"]
    if chosen.outcome or chosen.winner or header.index(first) > header.index(second):
        return
    for column in (c for c in found.rest if all(map(holds_points, c.values))):
        points = np.array([words_mean(cell, first, second) for cell in column.values])
        other = points[column.codes] != outcome
        if other.any():
            fix = f"{naming('outcome', said.name)}, or {naming('outcome', column.name)}"
            problem = f"it contradicts {said.name!r}"
            raise found.table.error(problem, f"say which counts: {fix}", column, other)


def read_sides(found: Found, chosen: ColumnNames) -> Battles:
    """Rows that name two items side by side; those of one item alone say nothing of skills."""
    repeating = None
    itself = _itself(found.columns["first"], found.columns["second"])
    if itself.all():
        fix = "give other comparisons"
        raise found.table.error("every row compares an item with itself", fix)
    found, notes = _without(found, itself, "Comparisons of an item with itself")
    found = _with_ties(found)
    if "outcome" in found.columns:
        outcome, said = _told(found, found.columns["outcome"], chosen)
        _refuse_other_points(found, outcome, chosen)
        notes += said
    else:
        scores = [found.columns[f"{side}_score"] for side in ("first", "second")]
        absent = np.all([cells.nothing(column) for column in scores], axis=0)
        found, said = _without(found, absent & ~absent.all(), "Rows without points")
        notes += said
        scores = [found.columns[f"{side}_score"] for side in ("first", "second")]
        points = [cells.number(found.table, column) for column in scores]
        outcome = np.sign(points[0] - points[1]).astype(int) + TIE
        repeating = _repeating(found, outcome, chosen)
        if np.abs(points[0] - points[1]).max() > 1:
            notes += ("More points win; by how many is not used.",)
    table, first, second = found.table, found.columns["first"], found.columns["second"]
    _refuse_not_played(table)
    position: NDArray[np.float64] | None = np.ones(len(table.rows))
    if "neutral" in found.columns:
        position[cells.truth(table, found.columns["neutral"])] = 0.0
    one = _always_better(table, np.where(position != 0, outcome, TIE), first, second)
    if one is not None:
        position, notes = None, (*notes, f"Who stands in {one.name!r} {_WON_ALL}")
    name = first.name.lower()
    label = "playing white" if name == "white" else "being shown first"
    label = "playing at home" if "home" in name else label
    return Battles(found, first, second, outcome, position, label, notes, repeating)


def _with_ties(found: Found) -> Found:
    """The outcomes with a tie where a column of its own says so."""
    tie, said = found.columns.get("tie"), found.columns.get("outcome")
    if tie is None or said is None:
        return found
    tied = cells.truth(found.table, tie)
    sides = (found.columns[side].name for side in ("first", "second"))
    first, second = sides
    open_ = np.array([words_mean(cell, first, second) == TIE for cell in said.values])[said.codes]
    other = tied & ~open_ & ~cells.nothing(said)
    if other.any():
        cell = said.values[said.codes[int(np.argmax(other))]]
        problem = f"it says that the two were equal, and {said.name!r} says {cell!r}"
        raise found.table.error(problem, "correct one of them", tie, other)
    outcome = Column.of(said.name, np.where(tied, "tie", said.cells)) if tied.any() else said
    return found._replace(columns={**found.columns, "outcome": outcome})


def _always_better(
    table: Table, outcome: NDArray[np.integer[Any]], *sides: Column
) -> Column | None:
    """The side that won whenever one did, if there are many such rows: winners stand there."""
    decided = outcome[outcome != TIE]
    if table.count(outcome != TIE) < _FEWEST or (decided != decided[0]).any():
        return None
    return sides[0] if decided[0] == WIN else sides[1]


def _refuse_not_played(table: Table) -> None:
    """Refuse games of which a column says that they have no result yet."""
    status = table.column(*STATUS)
    if status is not None:
        fix = f"remove such rows, or use them with {naming('ignore', status.name)}"
        problem = "says that there is no result"
        table.refuse(status, lambda cell: cell.lower() in _NOT_PLAYED, problem, fix)


def _itself(first: Column, second: Column) -> NDArray[np.bool_]:
    """Rows whose two items have one name; an empty one is none."""
    number = {name: i for i, name in enumerate(first.values) if name}
    same = np.array([number.get(name, -1) for name in second.values])
    return same[second.codes] == first.codes


def _told(
    found: Found, column: Column, chosen: ColumnNames
) -> tuple[NDArray[np.integer[Any]], tuple[str, ...]]:
    """Read a column of outcomes: numbers, words, or the names of the items themselves."""
    first, second = found.columns["first"], found.columns["second"]
    sides = f"{first.name}, {second.name} or tie"
    if chosen.outcome_codes:
        return _by_codes(found, column, chosen.outcome_codes), ()
    by_number = numbers_mean(cells.numbers(found.table, column), chosen.positive)
    _refuse_turned_points(found, column, chosen)
    named = np.full(len(column.codes), -1, np.int8)
    others = [pair for pair in all_sides(found.table) if pair[0] is not first]
    for one, other in (*others, (first, second)):
        named[_itself(one, column)] = WIN
        named[_itself(other, column)] = LOSS
    meant: Any = by_number
    if not isinstance(by_number, list):
        words = [words_mean(cell, first.name, second.name) for cell in column.values]
        meant = [-1 if each is None else each for each in words]
    outcome = np.array(meant, np.int8)[column.codes]
    clash = (outcome >= 0) & (named >= 0) & (outcome != named)
    if clash.any():
        cell = column.values[column.codes[int(np.argmax(clash))]]
        by = "a number" if isinstance(by_number, list) else "a word"
        problem = f"{cell!r} is the name of an item and also {by} for another outcome"
        raise found.table.error(problem, f"write {sides}", column, clash)
    if isinstance(by_number, list):
        return outcome, _rule(column, first, second, chosen)
    outcome = np.where(outcome >= 0, outcome, named)
    _refuse_unclear(found, column, outcome < 0, by_number)
    if np.array_equal(outcome, named):
        return outcome, ()
    strong = any(map(tells_how_much, column.values))
    coded = f"In {column.name!r}, 1 is for {first.name} and 2 for {second.name}."
    notes = (f"How much better one side is in {column.name!r} is not used.",) * strong
    return outcome, (*notes, *(coded,) * bool({"1", "2"} & set(column.values)))


def _refuse_unclear(found: Found, column: Column, unclear: Any, by_number: str | None) -> None:
    """Refuse cells that mean no outcome, or numbers that may mean several things."""
    if not unclear.any():
        return
    first, second = found.columns["first"].name, found.columns["second"].name
    cell = column.values[column.codes[int(np.argmax(unclear))]]
    if by_number is not None:
        problem = f"it {by_number}, which may mean several things"
        fix = f"say which are for {first}, {second} and ties: --outcome-codes FIRST,SECOND,TIE"
    else:
        missing = cell.lower() in cells.NOTHING
        problem = "the outcome is missing" if missing else f"{cell!r} is not a recognised outcome"
        fix = (
            f"write {first}, {second} or tie, the name of the winner, 'A is better', or numbers "
            "from -2 to 2; or say what cells mean: --outcome-codes FIRST,SECOND,TIE"
        )
        fix = f"write {first}, {second} or tie, or remove the row" if missing else fix
    raise found.table.error(problem, fix, column, unclear)


def _refuse_turned_points(found: Found, column: Column, chosen: ColumnNames) -> None:
    """Refuse 3-1 where the second side stands in front of the first."""
    first, second = found.columns["first"], found.columns["second"]
    header = found.table.header
    turned = header.index(first.name) > header.index(second.name) and "first" not in chosen.named
    if turned and "white" not in first.name.lower():
        options = f"{naming('first', second.name)} {naming('second', first.name)}"
        fix = f"say whose come first, as in {options}"
        found.table.refuse(column, holds_points, "may be the points of either first", fix)


def _by_codes(found: Found, column: Column, codes: tuple[str, ...]) -> NDArray[np.int64]:
    """Outcomes by what the person says that they mean."""
    meaning: dict[str, int] = {}
    for outcome, alike in zip((WIN, LOSS, TIE), codes, strict=False):
        for code in alike.split("|"):
            if meaning.setdefault(code.strip().lower(), outcome) != outcome:
                problem = f"--outcome-codes gives two meanings to {code.strip()!r}"
                raise found.table.error(problem, "give it one", column)
    fix = "name it with --outcome-codes FIRST,SECOND,TIE, or remove the row"
    found.table.refuse(column, lambda cell: cell.lower() not in meaning, "is not a code", fix)
    return np.array([meaning[cell.lower()] for cell in column.values])[column.codes]


def _repeating(found: Found, by_points: NDArray[np.int64], chosen: ColumnNames) -> Column | None:
    """The column of outcomes that agree with the points; others are refused, unless asked for."""
    column = found.table.column(*OUTCOME.usual)
    if column is None or chosen.first_score is not None:
        return None
    try:
        said, _ = _told(found, column, chosen)
    except DataError:  # not outcomes, but such as 2-1
        return None
    other = said != by_points
    if other.any():
        points = (f"{side}_score" for side in ("first", "second"))
        scores = " ".join(naming(role, found.columns[role].name) for role in points)
        fix = f"say which counts: {naming('outcome', column.name)}, or {scores}"
        raise found.table.error("the scores say that the outcome is another", fix, column, other)
    return column


def _rule(column: Column, first: Column, second: Column, chosen: ColumnNames) -> tuple[str, ...]:
    """How numbers were understood."""
    if not any(cell.startswith("-") for cell in column.values):
        return (f"In {column.name!r}, 1 is for {first.name}, 0 for {second.name}; 0.5 is a tie.",)
    side, other = (first, second) if chosen.positive == "first" else (second, first)
    opposite = "second" if chosen.positive == "first" else "first"
    return (
        f"Numbers above 0 in {column.name!r} favour {side.name}, and those below 0 {other.name} "
        f"(if it is the other way round: --positive {opposite}); their size is not used.",
    )
