"""Orders in several cells: sets with a best item, places in rows, and ranks in columns.

A function takes a table and gives one with the column `order`, or None if it is laid out otherwise.
"""

import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import cells
from bayesrank.datasets.doubts import refuse_team_rows, refuse_teams
from bayesrank.datasets.layouts import PEOPLE, naming, sides_of
from bayesrank.datasets.table import Column, Table, plain_key

_EVENTS = (
    *("playid", "gameid", "matchid", "raceid", "eventid", "heatid", "contestid", "tournamentid"),
    *("game_no", "tableid", "ballotid", "setid", "taskid", "questionid"),
    *("game", "match", "race", "event", "heat", "contest", "tournament", "session", "ballot"),
    *("set", "task", "question", "round", "trial"),
)
_PLAYERS = (
    *("player", "driver", "horse", "competitor", "runner", "athlete", "rider", "playername"),
    *("name", "participant", "item", "model", "bot", "option", "candidate", "alternative"),
    *("playerid", "driverid", "itemid", "object", "car", "team"),
)
_PLACES = (
    *("positionorder", "place", "rank", "position", "finish", "placement", "finishposition"),
    *("pos", "placing", "finalrank", "finalposition", "ranking"),
)
_POINTS = ("score", "points")
_CHOSEN = ("best", "choice", "chosen", "selected", "winner", "mostimportant", "most")
_WORST = ("worst", "leastimportant", "least")
_RANK = re.compile(
    r"(?:rank |place |choice |[#=t])?(\d{1,4})(?:\.0|st|nd|rd|th)?(?: choice| place)?[.=]?",
    re.ASCII,
)
TAIL = re.compile(r".*(?: - |\[)([^\[\]]+?)\]?")  # of a survey: its question, then the item
_MEMBER = re.compile(
    r"(item|option|alt|alternative|object|statement|attribute|model|player|team|system|song|"
    r"candidate|choice|product|photo|image|brand|feature|response|answer|name|opt)"
    r"(?:\d+|[a-z])"
)
_WORD = "rank|choice|pref|preference|place|position|vote|pick|top"
_IN_WORDS = ("first", "second", "third", "fourth", "fifth", "sixth")
_PLACE_OF = re.compile(rf"({_WORD})?(\d{{1,4}})(?:st|nd|rd|th)?({_WORD})?", re.ASCII)
_BESIDE = re.compile(
    r"(?:respondent|voter|judge|user|participant|subject|rater|person|response|row|ballot)?"
    r"(?:id|index|name|no|number)?|race|game|match|round|task|event|season|year|weight|count|votes|freq|frequency|n|age|time|date|progress|finished|status"
)
_NO_PLACE = "write 1 for the first, and nothing where there is none"
_NOBODY = {"undervote", "overvote", "skipped", *cells.NOTHING} - {""}  # where a name may stand


def best_worst(table: Table) -> Table | None:
    """Sets of items, in a column each, with the one that was chosen, and perhaps the worst."""
    matches = [(c, _MEMBER.fullmatch(plain_key(c.name))) for c in table.columns]
    kinds = [match[1] for _, match in matches if match]
    kind = max(kinds, key=kinds.count, default="")
    members = [column for column, match in matches if match and match[1] == kind]
    best, worst = table.column(*_CHOSEN), table.column(*_WORST)
    if best is None or len(members) < 3:
        if best is None or worst is None or table.column("item"):
            return None
        fix = "add the items of each set as item1, item2, ...; or name --winner and --loser"
        raise table.error("the best and the worst are there without their set", fix, best)
    shown = [c.cells for c in members]
    used = [column for column in (best, worst) if column]
    chosen = [_chosen(table, column, members, shown) for column in used]
    if worst is not None and (same := np.equal(*chosen)).any():
        problem, fix = "an item is both the best and the worst", "write another for one of them"
        raise table.error(problem, fix, worst, same)
    orders = []
    for k in range(len(table.rows)):
        own = [each[k] for each in chosen]
        rest = [each[k] for each in shown if each[k] and each[k] not in own]
        orders.append([own[:1], rest, own[1:]])
    note = "In each set, the best is above the others, and these above the worst, if there is one."
    return _ordered(table.without([c.name for c in (*members, *used)]), orders, note)


def _chosen(
    table: Table, column: Column, members: Sequence[Column], shown: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    """The item of each row that a column names: by its name, or by its place or column."""
    said = column.cells
    place = {str(j + 1): j for j in range(len(members))}
    place |= {plain_key(member.name): j for j, member in enumerate(members)}
    named, placed = [np.full(len(said), "", object) for _ in range(2)]
    for k, cell in enumerate(said):
        named[k] = cell if any(cell == each[k] for each in shown) else ""
        placed[k] = shown[place[plain_key(cell)]][k] if plain_key(cell) in place else ""
    if (named != "").all() != (placed != "").all():
        return named if (named != "").all() else placed
    for wrong, what in (
        (
            (named != placed) & (named != "") & (placed != ""),
            "may be an item of the row or a place",
        ),
        ((named == "") & (placed == ""), "is not an item of the row"),
    ):
        if wrong.any():
            problem = f"{cells.quoted(said[int(np.argmax(wrong))])} {what}"
            fix = f"write the name of the item, or of its column, such as {members[0].name}"
            raise table.error(problem, fix, column, wrong)
    return np.where(named != "", named, placed)


def marked(table: Table) -> Table | None:
    """A row for each item of a set, with 1 where it is the best and 1 where it is the worst."""
    event = table.column(*_EVENTS) or table.column(*PEOPLE)
    item, best, worst = table.column("item", "option"), table.column("best"), table.column("worst")
    if event is None or item is None or best is None or worst is None:
        return None
    value = cells.truth(table, best).astype(int) - cells.truth(table, worst).astype(int)
    note = "In each set, the best is above the others, and these above the worst."
    return _events(table, event, item, -value, note)


def is_race(table: Table) -> bool:
    """Whether a table has a row for each participant of a game, with a place, or a score."""
    return _race(table) is not None


def _race(table: Table) -> tuple[Column, Column, Column, bool] | None:
    """Columns of the games, of who takes part, and of places, if these are none of points."""
    event, item, place = table.column(*_EVENTS), table.column(*_PLAYERS), table.column(*_PLACES)
    place = place if place and any(map(_RANK.fullmatch, place.values)) else None
    event = event or (table.column(*PEOPLE) if place else None)
    column = place or table.column(*_POINTS)
    if event is None or item is None or event is item or column is None or sides_of(table):
        return None
    return event, item, column, place is not None


def free_for_all(table: Table) -> Table | None:
    """A row for each participant of a game, with a place, or a score."""
    race = _race(table)
    if race is None:
        return None
    event, item, column, place = race
    value, best = (
        (_ranks_of(table, column), "lowest") if place else (-cells.number(table, column), "highest")
    )
    refuse_team_rows(table, event, item, value)
    note = f"Each {event.name} is one order of its rows, and the {best} {column.name} is best."
    note += "" if place else " If the lowest is, call the column place."
    return _events(table, event, item, value, note)


def _ranks_of(table: Table, column: Column) -> NDArray[np.float64]:
    """Places such as 1, 2nd or 3.; NaN where there is none."""
    places = list(map(_place, column.values))
    for cell, place in zip(column.values, places, strict=True):
        if place == 0 or (cell and np.isnan(place)):
            what = "may be the first place, or none" if place == 0 else "is not a place"
            last = "" if place == 0 else "write the last place for who did not finish, or "
            problem = f"{cells.quoted(cell)} {what}"
            raise table.error(problem, last + _NO_PLACE, column, column.holds(cell))
    return np.array(places)[column.codes]


def _place(cell: str) -> float:
    match = _RANK.fullmatch(cell.lower())
    return np.nan if match is None else float(match[1])


def _events(
    table: Table, event: Column, item: Column, value: NDArray[Any], note: str
) -> Table | None:
    """One order for each event, lowest values first; who has none is left out."""
    cells.refuse_nothing(table, item)
    refuse_teams(table, [item])
    voter, season = table.column(*PEOPLE), table.column("season", "year")
    event = _both(table, event, voter if voter is not item else None)
    if len({*zip(event.codes.tolist(), item.codes.tolist(), strict=True)}) < len(table.rows):
        event = _both(table, event, season)  # numbered anew in each
    fix = "repeats are not modelled yet: give each item one row, such as one with its mean"
    table.refuse_twice(event, item, fix=fix)
    rows = np.argsort(event.codes, kind="stable")
    names, ends = item.cells, np.flatnonzero(np.diff(event.codes[rows])) + 1
    said = [_by_value(names[own], value[own]) for own in np.split(rows, ends)]
    firsts = event.first()[[k for k, groups in enumerate(said) if groups]]
    said = [groups for groups in said if groups]
    if any(len(names) > 1 for groups in said for names in groups):
        note += " Equal rows are not compared."
    kept = () if voter is None or voter is item else (voter,)
    return _ordered(table.with_columns(kept).kept(firsts), said, note)


def _both(table: Table, one: Column, other: Column | None) -> Column:
    """One column that groups rows as both do; the first if there is no other."""
    cells.text(table, one, "the row belongs to nothing", "name it")
    if other is None or other is one:
        return one
    texts = [column.cells for column in (one, other)]
    return Column.of(one.name, map(", ".join, zip(*texts, strict=True)))


def _ordered(table: Table, orders: Sequence[list[list[str]]], note: str) -> Table:
    """A table of orders, as lists of groups."""
    texts = [json.dumps([g for g in groups if g], ensure_ascii=False) for groups in orders]
    return table.having(note, order=np.array(texts, object))


def by_place(table: Table) -> Table | None:
    """A column for each place, with the name of the item that has it."""
    found = {}
    named = False
    for column in table.columns:
        match = _PLACE_OF.fullmatch(plain_key(_tail(column.name)))
        if match is not None:
            found[int(match[2])] = column
            named |= bool(match[1] or match[3])
        elif (word := plain_key(column.name).removesuffix("choice")) in _IN_WORDS:
            found[_IN_WORDS.index(word) + 1] = column
    columns = [found[place] for place in sorted(found)]
    few = 3 if columns and plain_key(columns[0].name) == "first" else 2  # of two sides, too
    if len(columns) < few or sorted(found) != list(range(1, len(found) + 1)):
        return None
    texts = [cell for column in columns for cell in column.values if cell]
    if all(_RANK.fullmatch(cell.lower()) for cell in texts):
        if named:
            problem = f"{columns[0].name!r} may hold an item or the rank of one"
            fix = "write names of items, or name the columns as the items"
            raise table.error(problem, fix, columns[0])
        return None
    if len(set(texts)) == len(texts):  # items come in more than one place
        return None
    over = {v for v in texts if "|" in v and {part.strip() for part in v.split("|")} <= {*texts}}
    nobody = [["" if v.lower() in _NOBODY or v in over else v for v in c.values] for c in columns]
    shown = [c.renamed(values).cells for c, values in zip(columns, nobody, strict=True)]
    rows = [[each[k] for each in shown if each[k]] for k in range(len(table.rows))]
    orders = [[[name] for name in dict.fromkeys(row)] for row in rows]
    note = f"The columns {columns[0].name!r} to {columns[-1].name!r} name items, the best first."
    if _NOBODY & {text.lower() for text in texts}:
        note += f" Cells such as {min(_NOBODY & {text.lower() for text in texts})!r} name none."
    again = np.array([*map(len, rows)]) - np.array([*map(len, orders)])
    times = np.ones_like(again) if table.counts is None else table.counts
    counts = (
        (
            sum(table.count(c.holds(v)) for c in columns for v in over),
            "Cells with several names, left out",
        ),
        (int(again @ times), "Names that a row gives again, left out"),
    )
    note += "".join(f" {what}: {count:,}." for count, what in counts if count)
    return _ordered(table.without([c.name for c in columns]), orders, note)


def _tail(name: str) -> str:
    """What stands behind the question of a survey, or the whole name."""
    match = TAIL.fullmatch(name)
    return name if match is None else match[1].strip()


def wide_ranks(table: Table) -> Table | None:
    """A column for each item, with its rank among the others; most rows rank without ties."""
    columns = [c for c in table.columns if not _BESIDE.fullmatch(plain_key(c.name))]
    tailed = [c for c in columns if TAIL.fullmatch(c.name)]
    columns = tailed if len(tailed) > 2 else columns
    _refuse_from_zero(table, [c for c in columns if _are_ranks(c, 0, len(columns) - 1)])
    columns = [c for c in columns if _are_ranks(c, 0, len(columns))]
    names = [_tail(column.name) for column in columns]
    if len(columns) < 3 or len(set(names)) < len(names):
        return None
    ranks = np.stack([np.array([*map(_place, c.values)])[c.codes] for c in columns], axis=1)
    zero = ranks == 0
    ranks[zero] = np.nan
    distinct, codes = np.unique(ranks, axis=0, return_inverse=True)
    blank = np.asarray(np.isnan(distinct).all(1))
    whole = _whole(np.sort(distinct, axis=1))
    if whole is None or np.average((whole & ~blank)[codes.ravel()], weights=table.counts) < 0.5:
        return None
    if zero.any() and not (whole & np.isfinite(distinct).all(1)).any():
        if np.nanmax(ranks) == 1:  # marks, and no ranks
            return None
        problem, fix = "'0' may be the first place, or none", _NO_PLACE
        raise table.error(problem, fix, columns[int(zero.any(0).argmax())], zero.any(1))
    note = " 0 is for items that are not ranked." if zero.any() else ""
    said = [json.dumps(_by_value(names, row), ensure_ascii=False) for row in distinct]
    orders = np.array(said, object)[codes.ravel()]
    shown = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    note = f"The columns {shown} are items, and their cells are ranks; 1 is the best.{note}"
    rest = table.without([column.name for column in columns])
    return rest.having(note, order=orders).kept(~blank[codes.ravel()])


def _whole(said: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which rows of sorted ranks are 1, 2, 3, ...; None if some row is no order at all."""
    unknown = np.isnan(said)
    dense = np.cumsum(np.diff(said, axis=1, prepend=0) > 0, axis=1)
    place = np.arange(1, said.shape[1] + 1)
    gaps = (unknown | (said <= place)).all(1) & (said[:, 0] == 1)
    ties = (unknown | (said == dense)).all(1)
    some = unknown.any(1) & ~(np.diff(said, axis=1) == 0).any(1) & (said[:, 0] == 1)
    if not (gaps | ties | some | unknown.all(1)).all() or (~unknown.all(1)).sum() < 2:
        return None  # rows that all say the same are more likely to be something else
    return (unknown | (said == place)).all(1)


def _are_ranks(column: Column, least: int, most: int) -> bool:
    found = [_place(cell) for cell in column.values if cell]
    return bool(found) and all(least <= place <= most for place in found)


def _refuse_from_zero(table: Table, columns: Sequence[Column]) -> None:
    """Refuse rows that all have different ranks from 0 on."""
    if len(columns) < 3 or not any(0 in map(_place, column.values) for column in columns):
        return
    places = [np.array(list(map(_place, each.values)))[each.codes] for each in columns]
    ranks = np.sort(np.stack(places, axis=1), axis=1)
    if (ranks[:, 0] == 0).all() and not (np.diff(ranks, axis=1) == 0).any():
        problem = f"the ranks of {columns[0].name!r} and the others count from 0"
        raise table.error(problem, "write 1 for the best, 2 for the next, and so on")


def _by_value(names: Any, values: NDArray[Any]) -> list[list[str]]:
    """Groups of names of equal values, lowest first; those without one are left out."""
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    return [[names[i] for i in same] for _, same in groupby(order.tolist(), values.__getitem__)]


def answers(table: Table) -> Table | None:
    """One column of a form with all items in an order of preference: `a;b;c;`."""
    found = []
    for column in table.columns:
        lists = [cell.rstrip(";").split(";") for cell in column.values if cell]
        ended = all(cell.endswith(";") for cell in column.values if cell)
        if ended and lists and len(lists[0]) > 1 and len({frozenset(each) for each in lists}) == 1:
            found.append(column)
    if not found:
        return None
    column = found[0]
    if len(found) > 1:
        fix = f"name one, as in {naming('order', column.name)}"
        raise table.error("several columns hold orders", fix, column)
    orders = [json.dumps([n.strip() for n in c.rstrip(";").split(";")]) for c in column.values]
    given = np.array([bool(cell) for cell in column.values])[column.codes]
    note = f"Answers to {column.name!r} are orders, the best first."
    order = np.array(orders, object)[column.codes]
    return table.without([column.name]).having(note, order=order).kept(given)
