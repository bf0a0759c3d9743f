"""Layouts that become one of the four standard ones: one table, a function each.

A function takes a table and gives another, with the columns `winner` and `loser`, two sides and
`winner`, or `order`; or None if the table is not laid out as it knows. It judges by the cells as
well as by the names of columns where another layout looks alike.
"""

import json
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets import cells
from bayesrank.datasets.doubts import refuse_team_rows, refuse_teams
from bayesrank.datasets.layouts import (
    COMPARISONS,
    WINS,
    fitting,
    naming,
    sides_of,
    two_columns,
)
from bayesrank.datasets.table import Column, Table, plain_key


class Reshape(NamedTuple):
    """A layout by an example of its header, and what turns it into a standard one."""

    example: str
    turned: Callable[[Table], Table | None]


_EVENTS = (
    *("playid", "gameid", "matchid", "raceid", "eventid", "heatid", "contestid", "tournamentid"),
    *("game_no", "tableid", "ballotid", "setid", "taskid", "questionid"),
    *("game", "match", "race", "event", "heat", "contest", "tournament", "session", "ballot"),
    *("set", "task", "question", "round", "trial"),
)
_VOTERS = (
    *("voter", "judge", "voterid", "judgeid", "respondent", "respondentid", "rater", "resp"),
    *("participant", "participantid", "respnum", "sysrespnum", "user", "userid", "username"),
    *("annotator", "annotatorid", "worker", "workerid", "reviewer", "assessor"),
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
_SUMS = {"total", "totals", "sum", "grand total", "all"}  # of a square table
_RANK = re.compile(
    r"(?:rank |place |choice |[#=t])?(\d{1,4})(?:\.0|st|nd|rd|th)?(?: choice| place)?[.=]?",
    re.ASCII,
)
_TAIL = re.compile(r".*(?: - |\[)([^\[\]]+?)\]?")  # of a survey: its question, then the item
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
_NOBODY = {"undervote", "overvote", "skipped", *cells.NOTHING} - {""}  # where a name may stand


def reshaped(table: Table, layouts: Sequence[Reshape]) -> Table:
    """The table as the first of these layouts turns it that knows it, or as it is."""
    for each in layouts:
        turned = each.turned(table)
        if turned is not None:
            return turned
    return table


def _one_hot(table: Table) -> Table | None:
    """A column for each outcome, with 1 in one of them."""
    sides = sides_of(table)
    found = [table.column(f"winner{plain_key(side.name)}") for side in sides]
    hot = [column for column in (*found, table.column("winnertie", "tie", "ties")) if column]
    if not sides or None in found:
        return None
    said = np.stack([cells.truth(table, column) for column in hot])
    wrong = said.sum(0) != 1
    if wrong.any():
        names = ", ".join(repr(column.name) for column in hot)
        raise table.error(f"not one of {names} is 1", "let one of them be 1", hot[0], wrong)
    words = np.array([side.name for side in sides] + ["tie"], object)
    return table.without([column.name for column in hot]).having(winner=words[said.argmax(0)])


def _both_orders(table: Table) -> Table | None:
    """A pair judged twice, each item shown first once: `g1_winner` and `g2_winner`."""
    sides = sides_of(table)
    found = [table.column(name) for name in ("g1winner", "g2winner")]
    if not sides or found[0] is None or found[1] is None:
        return None
    one, other = (side.cells for side in sides)
    words = []
    for column in (column for column in found if column):
        word = np.array([cell.lower() for cell in column.values], object)[column.codes]
        here = [word == side.name.lower() for side in sides]
        words.append(np.select(here, (one, other), column.cells))
    count = np.arange(len(table.rows))
    twice = table.without([c.name for c in (*sides, *found) if c]).kept(np.tile(count, 2))
    note = "Each pair was judged twice, with either shown first: both judgements count."
    first, second = np.concatenate([one, other]), np.concatenate([other, one])
    return twice.having(note, model_a=first, model_b=second, winner=np.concatenate(words))


def _counts(table: Table) -> Table | None:
    """How often either side won; or how often the first did, of how many games."""
    sides = sides_of(table)
    found = two_columns(table, list(zip(*WINS, strict=True)))
    won = table.column("wins", "w", "successes")
    lost, games = table.column("losses", "l"), table.column("n", "games", "trials", "total")
    if not sides or not (found or (won and (lost or games))):
        return None
    ties = table.column("ties", "draws", "d")
    used = found or tuple(column for column in (won, lost or games) if column)
    counts = [cells.whole(table, c, least=0, fix="count the wins") for c in used]
    tied = cells.whole(table, ties, least=0) if ties else 0 * counts[0]
    if not found and not lost:
        counts[1] = counts[1] - counts[0] - tied
        if (counts[1] < 0).any():
            fix = "count games, and those of them that the first side won"
            raise table.error("more were won than played", fix, won, counts[1] < 0)
    others = [found for found in fitting(table, COMPARISONS, {}) if sides_of(table)]
    for other in (*others, table.column("weight", "count")):
        if other is not None:
            weight = isinstance(other, Column)
            name, hidden = (other.name,) * 2 if weight else (other.layout.example, used[0].name)
            problem = f"{used[0].name!r} counts wins beside {name}, which may say another thing"
            raise table.error(problem, f"leave one of them out, as in {naming('ignore', hidden)}")
    words = np.repeat(np.array([side.name for side in sides] + ["tie"], object), len(table.rows))
    rest = table.without([c.name for c in (*used, ties) if c])
    much = rest.kept(np.tile(np.arange(len(table.rows)), 3))
    names = " and ".join(repr(column.name) for column in used)
    note = f"Each of the wins that {names} count is a comparison of its own."
    return much.having(note, winner=words, weight=np.concatenate([*counts, tied]).astype(str))


def _one_and_two(table: Table) -> Table | None:
    """Preferences from 1 (the first) to 2 (the second): annotators of AlpacaEval."""
    sides = sides_of(table)
    column = table.column("preference")
    if not sides or column is None or not sides[0].name.endswith("1"):
        return None
    values = cells.numbers(table, column)
    known = (values == 0) | ((values >= 1) & (values <= 2))
    blank = np.array([cell.lower() in cells.NOTHING for cell in column.values])
    if not (known | blank).all() or not (values > (1 if 0 in values else 0)).any():
        return None
    words = np.where(values < 1.5, sides[0].name, sides[1].name).astype(object)
    words[(values == 1.5) | (values == 0)] = "tie"
    given = ~blank[column.codes]
    note = (
        "A preference below 1.5 is for the first side, above it for the second, and 0 is a tie; "
        "how strong it is, is not used."
    )
    if not given.all():
        note += f" Rows without one, left out: {(~given).sum():,}."
    return table.having(note, preference=words[column.codes]).kept(given)


def _best_worst(table: Table) -> Table | None:
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


def _marked(table: Table) -> Table | None:
    """A row for each item of a set, with 1 where it is the best and 1 where it is the worst."""
    event = table.column(*_EVENTS) or table.column(*_VOTERS)
    item, best, worst = table.column("item", "option"), table.column("best"), table.column("worst")
    if event is None or item is None or best is None or worst is None:
        return None
    value = cells.truth(table, best).astype(int) - cells.truth(table, worst).astype(int)
    note = "In each set, the best is above the others, and these above the worst."
    return _events(table, event, item, -value, note)


def _free_for_all(table: Table) -> Table | None:
    """A row for each participant of a game, with a place, or a score."""
    event, item, place = table.column(*_EVENTS), table.column(*_PLAYERS), table.column(*_PLACES)
    place = place if place and any(map(_RANK.fullmatch, place.values)) else None
    event = event or (table.column(*_VOTERS) if place else None)
    column = place or table.column(*_POINTS)
    if event is None or item is None or event is item or column is None or sides_of(table):
        return None
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
            fix = "write 1 for the first, and nothing where there is none"
            fix = fix if place == 0 else f"write the last place for who did not finish, or {fix}"
            problem = f"{cells.quoted(cell)} {what}"
            raise table.error(problem, fix, column, column.holds(cell))
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
    voter, season = table.column(*_VOTERS), table.column("season", "year")
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


def _by_place(table: Table) -> Table | None:
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
    counts = (
        (
            sum(c.holds(v).sum() for c in columns for v in over),
            "Cells with several names, left out",
        ),
        (sum(map(len, rows)) - sum(map(len, orders)), "Names that a row gives again, left out"),
    )
    note += "".join(f" {what}: {count:,}." for count, what in counts if count)
    return _ordered(table.without([c.name for c in columns]), orders, note)


def _tail(name: str) -> str:
    """What stands behind the question of a survey, or the whole name."""
    match = _TAIL.fullmatch(name)
    return name if match is None else match[1].strip()


def _wide_ranks(table: Table) -> Table | None:
    """A column for each item, with its rank among the others; most rows rank without ties."""
    columns = [c for c in table.columns if not _BESIDE.fullmatch(plain_key(c.name))]
    tailed = [c for c in columns if _TAIL.fullmatch(c.name)]
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
    said = np.sort(distinct, axis=1)
    dense = np.cumsum(np.diff(said, axis=1, prepend=0) > 0, axis=1)
    place = np.arange(1, len(columns) + 1)
    whole = np.where(np.isnan(said), True, said == place).all(1)
    gaps = np.where(np.isnan(said), True, said <= place).all(1) & (said[:, 0] == 1)
    ties = np.where(np.isnan(said), True, said == dense).all(1)
    some = np.isnan(said).any(1) & ~(np.diff(said, axis=1) == 0).any(1) & (said[:, 0] == 1)
    blank = np.asarray(np.isnan(said).all(1))
    if (~blank).sum() < 2:  # rows that say the same are more likely to be something else
        return None
    most = (whole & ~blank)[codes.ravel()].mean() >= 0.5
    if not most or not (gaps | ties | some | blank).all():
        return None
    note = ""
    if zero.any():
        if not (whole & ~np.isnan(said[:, -1])).any():
            if np.nanmax(ranks) == 1:  # marks, and no ranks
                return None
            problem = "'0' may be the first place, or none"
            fix = "write 1 for the first, and nothing where there is none"
            raise table.error(problem, fix, columns[int(zero.any(0).argmax())], zero.any(1))
        note = " 0 is for items that are not ranked."
    said = [json.dumps(_by_value(names, row), ensure_ascii=False) for row in distinct]
    orders = np.array(said, object)[codes.ravel()]
    shown = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    note = f"The columns {shown} are items, and their cells are ranks; 1 is the best.{note}"
    rest = table.without([column.name for column in columns])
    return rest.having(note, order=orders).kept(~blank[codes.ravel()])


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


def _square(table: Table) -> Table | None:
    """A row and a column for each item, and how often the row beat the column."""
    label, *others = table.columns
    sums = [cell for cell in label.values if cell.lower() in _SUMS]
    if sums:
        table = table.kept(~label.holds(sums[0]))
        label, *others = table.columns
    others = [column for column in others if column.name.lower() not in _SUMS]
    names = [column.name for column in others]
    if len(names) < 2 or set(names) != set(label.values) or len(label.codes) != len(names):
        return None
    counts = np.zeros((len(names), len(names)))
    for j, column in enumerate(others):
        blank = cells.nothing(column) | column.holds("x") | column.holds("X")
        counts[:, j] = np.where(blank, 0.0, cells.numbers(table, column)[column.codes])
    order = [names.index(label.values[code]) for code in label.codes]
    wins = np.zeros_like(counts)
    wins[order] = counts
    itself = np.eye(len(names), dtype=bool)
    if not (wins[~itself] >= 0).all() or (wins != np.round(wins)).any() or wins[itself].any():
        fix = "write how often the row beat the column, and nothing beside an item itself"
        raise table.error("a square table holds what is not a count of wins", fix)
    if (wins == wins.T).all():
        fix = "count the wins of the row, not the games"
        raise table.error("a square table is the same turned round", fix)
    winner, loser = np.nonzero(wins)
    rows = table.kept(np.argsort(order)[winner]).with_columns(())
    cells_ = {"winner": np.array(names, object)[winner], "loser": np.array(names, object)[loser]}
    note = "A cell of the square table says how often its row beat its column."
    summed = [*sums, *(c.name for c in table.columns if c.name.lower() in _SUMS)]
    note += f" {summed[0]!r} is not an item." if summed else ""
    return rows.having(note, **cells_, weight=wins[winner, loser].astype(int).astype(str))


def _answers(table: Table) -> Table | None:
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


def _survey(table: Table) -> Table | None:
    """Qualtrics: below the header a row of questions, and one of identifiers."""
    second = [column.values[column.codes[min(1, len(table.rows) - 1)]] for column in table.columns]
    if len(table.rows) < 3 or not all(cell.startswith('{"ImportId"') for cell in second):
        return None
    asked = [column.values[column.codes[0]] for column in table.columns]
    columns = [
        c._replace(name=name) if _TAIL.fullmatch(name) and asked.count(name) == 1 else c
        for c, name in zip(table.columns, asked, strict=True)
    ]
    return reshaped(table.with_columns(columns).kept(np.arange(2, len(table.rows))), BY_NAMES)


BY_NAMES = (
    Reshape("Q1_1,Q1_2,Q1_3", _survey),
    Reshape("model_a,model_b,winner_model_a,winner_model_b,winner_tie", _one_hot),
    Reshape("model_1,model_2,g1_winner,g2_winner", _both_orders),
    Reshape("player1,player2,wins1,wins2", _counts),
    Reshape("generator_1,generator_2,preference", _one_and_two),
    Reshape("set,item,best,worst", _marked),
    Reshape("item1,item2,item3,best,worst", _best_worst),
    Reshape("game,player,place", _free_for_all),
)
BY_CELLS = (
    Reshape("rank1,rank2,rank3", _by_place),
    Reshape("team,Ada,Bob,Cy", _square),
    Reshape("Tea,Coffee,Milk", _wide_ranks),
    Reshape("Rank the drinks", _answers),
)
