"""How files of comparisons are laid out: each layout knows its columns and how to read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesrank.datasets.columns import Column, ColumnTable
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.outcomes import LOSS, TIE, WIN, numbers_mean, words_mean

__all__ = ["LAYOUTS", "ColumnNames", "Layout", "Sides"]

TRUTH = {
    **dict.fromkeys(("", "0", "0.0", "false", "no"), False),  # pandas writes 0.0 beside gaps
    **dict.fromkeys(("1", "1.0", "true", "yes"), True),
}
_OUTCOMES = ("winner", "preference", "outcome", "result", "ftr")


@dataclass(frozen=True)
class ColumnNames:
    """Which columns of a file hold what; those that are None are recognised by their names.

    Parameters
    ----------
    winner, loser, tie
        Items that won and lost, and whether the two were judged equal.
    first, second, outcome
        Items shown first and second, or at home and away, and what the outcome was.
    first_score, second_score
        Points of the two in the place of an outcome.
    order
        Orders of several items, best first, as in ``a > b = c``.
    judge
        Who compared.
    group
        Category of the comparison.
    time
        When it was; never recognised, because skills that move are another model.
    weight
        How often the row counts.
    ignore
        Columns that are not used, and of which nothing is said.
    positive
        Of outcomes that are numbers around zero, the side that those above zero are for.
    """

    winner: str | None = None
    loser: str | None = None
    tie: str | None = None
    first: str | None = None
    second: str | None = None
    outcome: str | None = None
    first_score: str | None = None
    second_score: str | None = None
    order: str | None = None
    judge: str | None = None
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    positive: Literal["first", "second"] = "first"


class Sides(NamedTuple):
    """Comparisons as a layout reads them.

    Attributes
    ----------
    first, second
        Columns of the two items, of the rows that are comparisons.
    outcome
        `WIN` of the first, `TIE` or `LOSS`, shape (K,).
    position
        1 where the first item has the advantage of its position, 0 where neither has, shape (K,);
        None if the file does not say who was shown first.
    position_label
        What the position is: "being shown first" or "playing at home".
    table
        The rows, without those that were left out.
    used
        Positions of the columns that were read.
    notes
        Sentences on what was left out or how it was understood.
    """

    first: Column
    second: Column
    outcome: NDArray[np.int64]
    position: NDArray[np.float64] | None
    position_label: str
    table: ColumnTable
    used: frozenset[int]
    notes: tuple[str, ...] = ()


class Layout(Protocol):
    """One way to write comparisons down."""

    @property
    def example(self) -> str:
        """How its header looks."""
        ...

    @property
    def takes(self) -> frozenset[str]:
        """The fields of `ColumnNames` that it makes use of."""
        ...

    def find(self, table: ColumnTable, names: ColumnNames) -> dict[str, int] | None:
        """Positions of its columns by what they hold, or None if this is another layout."""
        ...

    def read(self, table: ColumnTable, at: dict[str, int], names: ColumnNames) -> Sides:
        """Read the comparisons of a table that it has recognised."""
        ...


def _named(table: ColumnTable, name: str | None, *usual: str) -> int | None:
    """Position of the column that was named, or of one with a usual name."""
    if name is None:
        return table.position(*usual)
    position = table.position(name)
    if position is None:
        header = ", ".join(map(repr, table.header))
        raise table.error(f"there is no column {name!r} among {header}", "name one of these")
    return position


class WinnerLoser:
    """A row names who won and who lost; which was shown first is not known."""

    example = "winner,loser"
    takes = frozenset(("winner", "loser", "tie"))

    def find(self, table: ColumnTable, names: ColumnNames) -> dict[str, int] | None:
        """Both columns, and perhaps that of ties."""
        winner = _named(table, names.winner, "winner", "winner_name")
        loser = _named(table, names.loser, "loser", "loser_name")
        if winner is None or loser is None:
            return None
        at = {"winner": winner, "loser": loser}
        tie = _named(table, names.tie, "tie", "ties", "tied", "draw")
        return at if tie is None else {**at, "tie": tie}

    def read(self, table: ColumnTable, at: dict[str, int], names: ColumnNames) -> Sides:
        """Refuse a winner that is its own loser: one of the two names is wrong."""
        first, second = (table.columns[at[side]] for side in ("winner", "loser"))
        itself = _itself(first, second)
        if itself.any():
            name = second.values[second.codes[int(np.argmax(itself))]]
            problem = f"item {name!r} is compared with itself"
            raise table.error(problem, "remove the row", second, itself)
        outcome = np.full(len(table.rows), WIN)
        if "tie" in at:
            outcome[truths(table, table.columns[at["tie"]])] = TIE
        return Sides(first, second, outcome, None, "", table, frozenset(at.values()))


class Battle:
    """A row names two items side by side, and which of them was better, or their points."""

    example = "model_a,model_b,winner"
    takes = frozenset(("first", "second", "outcome", "winner", "first_score", "second_score"))
    _PAIRS = (
        ("model_a", "model_b"),
        ("item_a", "item_b"),
        ("option_a", "option_b"),
        ("response_a", "response_b"),
        ("system_a", "system_b"),
        ("home", "away"),
        ("home_team", "away_team"),
        ("hometeam", "awayteam"),
        ("white", "black"),
        ("left", "right"),
    )
    _SCORES = (
        ("home_score", "away_score"),
        ("home_goals", "away_goals"),
        ("home_points", "away_points"),
        ("score_home", "score_away"),
        ("fthg", "ftag"),
        ("score_a", "score_b"),
    )

    def find(self, table: ColumnTable, names: ColumnNames) -> dict[str, int] | None:
        """Both sides, and an outcome or both scores."""
        first, second = _both(table, (names.first, names.second), self._PAIRS)
        if first is None or second is None:
            return None
        scores = _both(table, (names.first_score, names.second_score), self._SCORES)
        at = {"first": first, "second": second}
        neutral = table.position("neutral")
        if neutral is not None:
            at["neutral"] = neutral
        if names.outcome is None and scores[0] is not None and scores[1] is not None:
            return {**at, "first_score": scores[0], "second_score": scores[1]}
        outcome = _named(table, names.outcome or names.winner, *_OUTCOMES)
        return None if outcome is None else {**at, "outcome": outcome}

    def read(self, table: ColumnTable, at: dict[str, int], names: ColumnNames) -> Sides:
        """Leave out comparisons of an item with itself, which say nothing of skills."""
        notes: tuple[str, ...] = ()
        itself = _itself(table.columns[at["first"]], table.columns[at["second"]])
        if itself.all():
            raise table.error("every row compares an item with itself", "give other comparisons")
        if itself.any():
            notes = (f"Comparisons of an item with itself, left out: {itself.sum():,}.",)
            table = table.kept(~itself)
        first, second = table.columns[at["first"]], table.columns[at["second"]]
        if "outcome" in at:
            outcome, said = _outcomes(table, table.columns[at["outcome"]], (first, second), names)
            notes += said
        else:
            points = [numbers(table, table.columns[at[f"{side}_score"]]) for side in _SIDES]
            outcome = np.where(
                points[0] > points[1], WIN, np.where(points[0] < points[1], LOSS, TIE)
            )
            _refuse_contradiction(table, (first, second), outcome, names)
        position = np.ones(len(table.rows))
        if "neutral" in at:
            position[truths(table, table.columns[at["neutral"]])] = 0.0
        label = _position_label(first.name.lower())
        return Sides(first, second, outcome, position, label, table, frozenset(at.values()), notes)


_SIDES = ("first", "second")
LAYOUTS: tuple[Layout, ...] = (WinnerLoser(), Battle())


def _position_label(first: str) -> str:
    if "home" in first:
        return "playing at home"
    return "playing white" if first == "white" else "being shown first"


def _both(
    table: ColumnTable,
    named: tuple[str | None, str | None],
    usual: Sequence[tuple[str, str]],
) -> tuple[int | None, int | None]:
    """Positions of two columns that belong together."""
    if named != (None, None):
        first, second = (_named(table, name) for name in named)
        return first, second
    for pair in usual:
        first, second = (table.position(name) for name in pair)
        if first is not None and second is not None:
            return first, second
    return None, None


def _itself(first: Column, second: Column) -> NDArray[np.bool_]:
    """Rows whose two items have one name."""
    number = {name: i for i, name in enumerate(first.values)}
    same = np.array([number.get(name, -1) for name in second.values])
    return same[second.codes] == first.codes


def truths(table: ColumnTable, column: Column) -> NDArray[np.bool_]:
    """Whether each row says yes.

    Raises
    ------
    DataError
        If a cell is neither yes nor no.
    """
    for number, cell in enumerate(column.values):
        if cell.lower() not in TRUTH:
            cure = "write 1 for a tie" if column.name.lower() != "neutral" else "write 1 for yes"
            where = column.codes == number
            raise table.error(f"{cell!r} is neither 0 nor 1", cure, column, where)
    return np.array([TRUTH[cell.lower()] for cell in column.values])[column.codes]


def numbers(table: ColumnTable, column: Column) -> NDArray[np.float64]:
    """Finite numbers of a column, shape (K,).

    Raises
    ------
    DataError
        If a cell is none.
    """
    found: Any = pd.to_numeric(np.array(column.values, object), errors="coerce")
    values = np.asarray(found, float)
    bad = ~np.isfinite(values)
    if bad.any():
        number = int(np.argmax(bad))
        cell = column.values[number]
        problem = f"{cell!r} is no finite number" if cell else "the number is missing"
        where = column.codes == number
        raise table.error(problem, "write a number, or remove the row", column, where)
    return values[column.codes]


def _outcomes(
    table: ColumnTable, column: Column, sides: tuple[Column, Column], names: ColumnNames
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read a column of outcomes: numbers, words, or the names of the items themselves."""
    first, second = sides
    by_number = numbers_mean(column.values, names.positive)
    named = np.full(len(table.rows), -1)
    named[_itself(first, column)] = WIN
    named[_itself(second, column)] = LOSS
    if isinstance(by_number, list):
        outcome = np.array(by_number)[column.codes]
        clash = (named >= 0) & (named != outcome)
        if clash.any():
            cell = column.values[column.codes[int(np.argmax(clash))]]
            problem = f"{cell!r} is the name of an item and also a number for another outcome"
            cure = f"write {first.name}, {second.name} or tie"
            raise table.error(problem, cure, column, clash)
        return outcome, _rule(column, first, second, names)
    meant = [words_mean(cell, first.name, second.name) for cell in column.values]
    words = np.array([-1 if each is None else each for each in meant])[column.codes]
    clash = (words >= 0) & (named >= 0) & (words != named)
    if clash.any():
        cell = column.values[column.codes[int(np.argmax(clash))]]
        problem = f"{cell!r} is the name of an item and also a word for another outcome"
        raise table.error(problem, "rename the item", column, clash)
    outcome = np.where(words >= 0, words, named)
    unclear = outcome < 0
    if unclear.any():
        cell = column.values[column.codes[int(np.argmax(unclear))]]
        problem = f"{cell!r} is no outcome" if cell else "the outcome is missing"
        if by_number is not None:
            problem = f"it {by_number}, which may mean several things"
        cure = (
            f"write {first.name}, {second.name} or tie, the name of the winner, 'A is better', or "
            "numbers from -2 to 2"
        )
        raise table.error(problem, cure, column, unclear)
    return outcome, ()


def _refuse_contradiction(
    table: ColumnTable,
    sides: tuple[Column, Column],
    by_points: NDArray[np.int64],
    names: ColumnNames,
) -> None:
    """Refuse points of which a column of outcomes says otherwise, unless they were named."""
    position = table.position(*_OUTCOMES)
    if position is None or names.first_score is not None:
        return
    column = table.columns[position]
    try:
        said, _ = _outcomes(table, column, sides, names)
    except DataError:  # not outcomes, but such as 2-1
        return
    other = said != by_points
    if other.any():
        cure = f"say which counts: --outcome {column.name}, or --first-score and --second-score"
        raise table.error("the scores say that the outcome is another", cure, column, other)


def _rule(column: Column, first: Column, second: Column, names: ColumnNames) -> tuple[str, ...]:
    """How numbers were understood, unless they are the points of a game."""
    if not any(cell.startswith("-") for cell in column.values):
        return ()
    side, other = (first, second) if names.positive == "first" else (second, first)
    opposite = "second" if names.positive == "first" else "first"
    return (
        f"Above 0, numbers in {column.name!r} say that {side.name} is better, and below 0 that "
        f"{other.name} is (if it is the other way round: --positive {opposite}); how far they are "
        "from 0 is not used.",
    )
