"""How files are laid out: one table of layouts, their roles, and the usual names of their columns.

Every reader finds its columns here. A new layout is a row.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from bayesrank.datasets.cells import quoted
from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Column, Table, plain_key


class ColumnRole(NamedTuple):
    """What a column may hold.

    Attributes
    ----------
    usual
        Names by which it is recognised, whatever the case and what joins their parts; the first
        that is there counts.
    optional
        Whether a file of the layout may be without it.
    alike
        Names that look like it; a sentence says so if such a column is not used.
    plural
        What it holds, in that sentence.
    also
        Another option that names it.
    """

    usual: tuple[str, ...] = ()
    optional: bool = False
    alike: tuple[str, ...] = ()
    plural: str = ""
    also: str = ""


class Layout(NamedTuple):
    """One way to write a kind of data down.

    Attributes
    ----------
    example
        How its header looks.
    roles
        Its columns.
    together
        Pairs of roles whose usual names belong together, place by place.
    options
        Whether options name its columns, so that messages may speak of these.
    """

    example: str
    roles: Mapping[str, ColumnRole]
    together: tuple[tuple[str, str], ...] = ()
    options: bool = False


class Found(NamedTuple):
    """The columns of a table by what they hold, and those that are left."""

    layout: Layout
    table: Table
    columns: dict[str, Column]

    @property
    def rest(self) -> tuple[Column, ...]:
        """Columns that hold none of it."""
        taken = {column.name for column in self.columns.values()}
        return tuple(c for c in self.table.columns if c.name and c.name not in taken)


_WHO = "judge annotator rater reviewer voter user respondent participant worker".split()
_BY_ID = (f"{who}_id" for who in (*_WHO, "visitor", "subject", "person", "panelist"))
PEOPLE = (*_WHO, *_BY_ID, "judges", "judge_name", "judge_model", "assessor", "evaluator", "labeler")
PEOPLE += ("username", "public_username", "resp", "respnum", "sys_respnum", "panelist")
_CATEGORIES = (
    *("group", "groups", "category", "categories", "topic", "task", "domain", "language"),
    *("surface", "selected_category"),
)
_TIMES = ("time", "date", "datetime", "timestamp", "tstamp", "tourney_date")
_WEIGHTS = (
    *("weight", "weights", "count", "counts", "votes", "frequency", "freq", "num_votes"),
    *("n", "wins", "times"),
)
_TIES = ("tie", "ties", "tied", "draw", "draws", "is_tie")
_SIDES = (
    *(("a", "b"), ("1", "2"), ("home", "away"), ("home", "visitor"), ("white", "black")),
    *(("left", "right"), ("first", "second"), ("one", "two"), ("i", "j"), ("r", "b")),
    ("red", "blue"),
)
_THIRD = {"1": "3", **dict(a="c", first="third", one="three", i="k", red="green")}  # beside two
_CHOICES = (
    *(("winner", "loser"), ("winning", "losing"), ("better", "worse"), ("better", "other")),
    *(("winner", "other"), ("winner", "opponent"), ("accepted", "rejected")),
    *(("morepreferred", "lesspreferred"), ("preferred", "lesspreferred")),
    *(("preferred", "dispreferred"), ("favorite", "other"), ("favored", "other")),
    *(
        (chosen, other)
        for chosen in ("preferred", "chosen", "selected", "picked")
        for other in ("other", "rejected", f"un{chosen}", f"not{chosen}", f"non{chosen}")
    ),
)
# Sides that need no other word.
_WORDS = ("home", "white", "left", "first", "a", "red", *(chosen for chosen, _ in _CHOICES))
_THINGS = (
    *("", "model", "llm", "generator", "system", "assistant", "method", "algorithm", "player"),
    *("team", "name", "item", "option", "candidate", "product", "alternative", "username", "user"),
    *("choice", "essay", "photo", "picture", "video", "audio", "sample", "variant", "stimulus"),
    *("design", "song", "artist", "translation", "file", "url", "id", "image", "document", "text"),
    *("response", "answer", "output", "completion", "summary", "fighter", "competitor", "agent"),
    *("participant", "contestant", "bot", "engine", "stim", "word", "statement", "prompt", "img"),
)
_OPPONENTS = tuple(
    (one, other)
    for one in ("player", "team", "model", "name", "fighter")
    for other in ("opponent", "opp", "baseline", "reference")
)
_POINTS_OF = ("score", "goal", "goals", "points", "pts", "runs", "sets", "scores")
_FORMS = (
    *("{thing}{side}", "{side}{thing}", "{side}{thing}name", "{thing}{side}name"),
    *("{thing}name{side}", "{side}{thing}id", "{thing}{side}id", "{thing}id{side}"),
)


def _spelled(things: Sequence[str], sides: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Names of two columns, as `home_team` and `away_team`, without what joins their parts."""
    return [
        tuple(form.format(thing=thing, side=side) for side in (one, other, _THIRD.get(one, one)))
        for thing in things
        for one, other in sides
        for form in _FORMS
        if thing or one in _WORDS
    ]


_ALSO = (("p1", "p2", "p3"), ("p1name", "p2name", "p3name"))
_PAIRS = (*_spelled(_THINGS, _SIDES), *((*pair, pair[0]) for pair in _OPPONENTS), *_ALSO)
_THIRDS = {one: third for one, _, third in _PAIRS if one != third}
_SCORES = (
    *(
        (form.format(one), form.format(other))
        for who in ("", "team", "player", "model", "item")
        for what in _POINTS_OF
        for one, other in (*_SIDES, ("h", "a"), ("h", "v"))
        for form in (f"{who}{{}}{what}", f"{what}{who}{{}}")
    ),
    *(
        (f"{one}{what}", f"{other}{what}")
        for one, other in (*_OPPONENTS, ("team", "opp"), ("", "opponent"), ("", "opp"))
        for what in _POINTS_OF
    ),
    *(("fthg", "ftag"), ("hg", "ag"), ("pf", "pa"), ("pointsfor", "pointsagainst")),
)
WINS = [each[:2] for each in _spelled(("win", "wins", "won", "numwins", "nwins", "votes"), _SIDES)]
OUTCOME = ColumnRole(
    (
        *("winner", "preference", "preferred", "outcome", "result", "ftr", "choice", "chosen"),
        *("selected", "selection", "comparison", "pairwise", "vote", "verdict", "judgment"),
        *("judgement", "decision", "response", "label", "winner_name", "preferred_item"),
        *("preferred_model", "winning_model", "winning_team", "chosen_model", "chosen_model_name"),
        *("score", "ft", "res", "answer", "margin"),
    ),
    alike=("preference", "outcome", "result"),
    plural="outcomes",
    also="winner",
)
_EQUAL = ColumnRole(("tie", "is_tie", "is_draw", "both_equal", "is_equal"), True)
_WEIGHT = ColumnRole(("weight", "count"), True, _WEIGHTS, "weights")
_BESIDE = {
    "judge": ColumnRole(("judge",), True, PEOPLE, "judges"),
    "category": ColumnRole(("group", "category"), True, _CATEGORIES, "categories"),
    "weight": _WEIGHT,
    # Times are never recognised, because skills that move are another model.
    "time": ColumnRole((), True, _TIMES, "times"),
}
_FIRST, _SECOND = (ColumnRole(names) for names in [*zip(*_PAIRS, strict=True)][:2])
_POINTS, _OTHER_POINTS = (ColumnRole(names) for names in zip(*_SCORES, strict=True))
_SHOWN = {"first": _FIRST, "second": _SECOND, "neutral": ColumnRole(("neutral",), True), **_BESIDE}
_WON, _LOST = zip(
    *(("winner", "loser"), ("winner_name", "loser_name"), ("winner_text", "loser_text")),
    *(("winner_id", "loser_id"), ("winner/tie", "loser/tie"), ("winning_team", "losing_team")),
    *(("chosen_model", "rejected_model"), ("chosen", "rejected"), ("better", "worse")),
    *(("wteam", "lteam"), ("wteamid", "lteamid"), ("preferred", "rejected"), ("winners", "losers")),
    strict=True,
)
WON_POINTS = [
    tuple(form.format(side, what) for side in sides)
    for what in ("score", "goals", "runs", "sets", "scores")
    for sides in (("winner", "loser"), ("winning", "losing"), ("w", "l"))
    for form in ("{}{}", "{1}{0}")
]
_TIED = ColumnRole(("tie", "ties", "tied", "draw", "is_tie", "is_draw"), True, _TIES, "ties")
_BY_NAME = {"winner": ColumnRole(_WON), "loser": ColumnRole(_LOST), "tie": _TIED, **_BESIDE}
_SPELLED = (each[:2] for each in _spelled(_THINGS, _CHOICES))
_CHOSEN, _OTHER = (ColumnRole(names) for names in zip(*_SPELLED, strict=True))
COMPARISONS = (
    Layout("winner,loser", _BY_NAME, options=True),
    Layout(
        "home,away,home_score,away_score",
        {**_SHOWN, "first_score": _POINTS, "second_score": _OTHER_POINTS},
        (("first", "second"), ("first_score", "second_score")),
        options=True,
    ),
    Layout(
        "model_a,model_b,winner",
        {**_SHOWN, "outcome": OUTCOME, "tie": _EQUAL},
        (("first", "second"),),
        options=True,
    ),
    Layout(
        "order",
        {
            "order": ColumnRole(
                ("order", "ranking", "ballot", "orders"),
                alike=("order", "ranking"),
                plural="orders",
            ),
            "weight": _WEIGHT,
        },
        options=True,
    ),
    Layout(
        "preferred item,other item",
        _BY_NAME | {"winner": _CHOSEN, "loser": _OTHER},
        (("winner", "loser"),),
        options=True,
    ),
)
_NUMBER = re.compile(r"\w+")  # of a ballot or a row; an order has signs between items
_NOT_OF_ORDERS = {"judge": "judges", "category": "categories", "time": "times"}
_COMPARED = {name: role for layout in COMPARISONS for name, role in layout.roles.items()}

ITEMS = Layout("item,price,weight", {"item": ColumnRole(("item", "name"))})
RATINGS = Layout(
    "user,item,rating",
    {
        "user": ColumnRole(("user", "userid", "user_id", "reader")),
        "item": ColumnRole(("item", "itemid", "item_id", "movieid", "movie_id")),
        "rating": ColumnRole(("rating", "level", "stars")),
    },
)


@dataclass(frozen=True)
class ColumnNames:
    """Names of the columns of a file; columns that are None are recognised by their names.

    Parameters
    ----------
    winner, loser, tie
        The winner, the loser, and whether the two tied.
    first, second, outcome
        The item shown first or at home, the other item, and the outcome.
    first_score, second_score
        Points of the two, instead of an outcome.
    order
        Orders of several items, best first, as in ``a > b = c``.
    judge, category
        Who compared, and the category of the comparison.
    time
        When it was. Never recognised, because skills that change are another model.
    weight
        How often the row counts.
    covariates
        What counts beside skill: ``"length"`` for the columns ``length_a`` and ``length_b``, or a
        column of how much more the first item has.
    ignore
        Columns to leave out without a note.
    outcome_codes
        Codes for "the first won", "the second won" and, if given, "tie". Bars separate several
        codes of one meaning, as in ``("1|2", "4|5")``.
    date_format
        Format of the times, as in ``"%d/%m/%Y"``, if it is ambiguous.
    fold_names
        Whether names that differ in case, blanks, Unicode form, or as 1 and 1.0 do, are one item.
    positive
        The side that a positive number favours.
    scores
        What scores of systems by tasks are; "none" if there are none. By default recognised.

    Examples
    --------
    >>> from bayesrank.datasets import ColumnNames
    >>> ColumnNames(first="red", second="blue", outcome="who").first
    'red'
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
    category: str | None = None
    time: str | None = None
    weight: str | None = None
    covariates: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    outcome_codes: tuple[str, ...] = ()
    date_format: str | None = None
    fold_names: bool = False
    positive: Literal["first", "second"] = "first"
    scores: Literal["solved", "grade", "number", "none"] | None = None

    @property
    def named(self) -> dict[str, str]:
        """Columns that were named, by what they hold."""
        chosen = {name: getattr(self, name, None) for name in _COMPARED}
        return {role: name for role, name in chosen.items() if isinstance(name, str)}


def find(table: Table, layouts: Sequence[Layout], named: Mapping[str, str] | None = None) -> Found:
    """Find the layout of a table, and the columns that hold what it speaks of.

    If several fit, it takes the first that uses all `named` columns.
    """
    named = dict(named or {})
    found = fitting(table, layouts, named)
    used = next((f for f in found if not named.keys() - _options(f.layout)), None)
    if used is None:
        raise _unused(found[0], named) if found else _unrecognised(table, layouts, named)
    _refuse_second_header(used)
    return used


def fitting(table: Table, layouts: Sequence[Layout], named: Mapping[str, str]) -> list[Found]:
    """The columns by each layout of which none is lacking."""
    found = [Found(each, table, _columns(table, each, named)) for each in layouts]
    return [
        each
        for each in found
        if all(name in each.columns or role.optional for name, role in each.layout.roles.items())
    ]


def _options(layout: Layout) -> set[str]:
    """Options that name its columns."""
    return {*layout.roles, *(role.also for role in layout.roles.values() if role.also)}


def _columns(table: Table, layout: Layout, named: Mapping[str, str]) -> dict[str, Column]:
    """Columns of a layout that are there: the named ones first, then those with a usual name."""
    found: dict[str, Column] = {}
    for name, role in layout.roles.items():
        chosen = named.get(name, named.get(role.also))
        if chosen is None:
            continue
        column = table.column(chosen)
        if column is None:
            problem = f"there is no column {chosen!r} among {table.quoted}"
            raise table.error(problem, f"name one of these with --{option_name(name)}")
        found[name] = column
    for pair in layout.together:
        if not found.keys() & set(pair):
            two = two_columns(table, [layout.roles[side].usual for side in pair])
            found |= dict(zip(pair, two, strict=False))
    taken = {column.name for column in found.values()}
    paired = {name for pair in layout.together for name in pair}
    for name, role in layout.roles.items():
        column = None if name in found or name in paired else table.column(*role.usual)
        numbered = name == "order" and column and all(map(_NUMBER.fullmatch, column.values))
        if column is not None and column.name not in taken and not numbered:
            found[name] = column
            taken.add(column.name)
    return found


def sides_of(table: Table) -> tuple[Column, ...]:
    """The columns of the two items of each row, if there are two."""
    return two_columns(table, (_FIRST.usual, _SECOND.usual))


def all_sides(table: Table) -> list[tuple[Column, Column]]:
    """All pairs of columns whose names say that they are two sides."""
    known = table.by_name
    return [(known[one], known[two]) for one, two, _ in _PAIRS if one in known and two in known]


def two_columns(table: Table, usual: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    """The first two columns whose names belong together, or none; one of three is none of two."""
    for one, other in zip(*usual, strict=True):
        if one in table.by_name and other in table.by_name:
            third = _THIRDS.get(one) in table.by_name
            return () if third else (table.by_name[one], table.by_name[other])
    return ()


def option_name(role: str) -> str:
    """The option that names the column of a role, without its dashes."""
    return role.replace("_", "-")


def naming(role: str, name: str) -> str:
    """An option that names a column, as a shell takes it."""
    return f"--{option_name(role)} {shlex.quote(name)}"


def _unused(found: Found, named: Mapping[str, str]) -> DataError:
    odd = next(option_name(name) for name in named if name not in _options(found.layout))
    if "order" in found.columns and odd in _NOT_OF_ORDERS:
        return found.table.error(f"orders have no {_NOT_OF_ORDERS[odd]} yet", f"leave out --{odd}")
    problem = f"--{odd} does not go with the columns {found.table.quoted}"
    fix = f"these are read by {_options_for(sorted(_options(found.layout)))}"
    return found.table.error(problem, fix)


def _unrecognised(table: Table, layouts: Sequence[Layout], named: Mapping[str, str]) -> DataError:
    """What is lacking of the layout that comes closest, and the options that would name it."""
    needed = [[n for n, role in each.roles.items() if not role.optional] for each in layouts]
    there = [_columns(table, each, named) for each in layouts]
    shares = [sum(n in own for n in n_) / len(n_) for n_, own in zip(needed, there, strict=True)]
    best = int(np.argmax(shares))
    closest = layouts[best]
    lacking = [name for name in needed[best] if name not in there[best]]
    wanted = " or ".join(map(repr, closest.roles[lacking[0]].usual))
    problem = f"there is no column {wanted} among {table.quoted}"
    fix = f"the first line must name the columns, as in {closest.example}"
    if len(table.columns) == 1 and not shares[best]:
        problem = f"there is one column, {quoted(table.header[0])}"
        fix = f"separate columns by commas, and name them in the first line: {closest.example}"
        fix = "write order above it" if ">" in table.header[0] else fix
    elif closest.options and _is_data(table):
        problem = f"the columns are called {table.quoted}: the first line holds items"
        fix = f"write {layouts[0].example} above it"
    elif closest.options and not shares[best]:
        problem = f"the columns {table.quoted} are not recognised as comparisons"
        ways = "; or ".join(dict.fromkeys(map(_options_for, needed)))
        fix = f"say which they are, by {ways}; or rename them as in {layouts[0].example}"
    elif closest.options:
        what = {"first": "first item", "second": "second item"}.get(lacking[0], lacking[0])
        what = what.replace("_", " ")
        problem = f"none of the columns {table.quoted} is recognised as the {what}"
        also = {
            "outcome": f", or by {_options_for(('first_score', 'second_score'))}",
            "loser": ", or, if it names the winner of two, by --first and --second",
        }.get(lacking[0] if len(lacking) == 1 else "", "")
        fix = f"say which is, by {_options_for(lacking)}{also}; or rename them as in "
        fix += closest.example
    return DataError(table.path, problem, fix, row=1)


def _options_for(roles: Sequence[str]) -> str:
    """Options as a sentence has them: `--first, --second and --outcome`."""
    *others, last = (f"--{option_name(role)}" for role in roles)
    return f"{', '.join(others)} and {last}" if others else last


def _is_data(table: Table) -> bool:
    """Whether a table of two columns has a cell that equals a column's name."""
    cells = {cell for column in table.columns for cell in column.values}
    return len(table.columns) == 2 and any(name in cells for name in table.header)


def _refuse_second_header(found: Found) -> None:
    """Refuse a row that says what the header says, as where files were put together."""
    if any(column.name not in column.values for column in found.table.columns):
        return
    where = np.all([column.holds(column.name) for column in found.table.columns], axis=0)
    if where.any():
        raise found.table.error("the header is there again", "remove the row", None, where)


def is_alike(name: str, role: str) -> bool:
    """Whether the name of a column looks as if it held what a role says."""
    return plain_key(name) in map(plain_key, _COMPARED[role].alike)


def unused_column_hints(
    found: Found, rest: Sequence[Column], still: bool = False
) -> tuple[str, ...]:
    """A sentence on each column that was not used and looks as if it should have been.

    With `still`, skills are of features: they cannot change, and columns of times are no news.
    Judges go neither with features nor with times, so that no option names them there.
    """
    sentences = []
    roles = found.layout.roles
    for name in (column.name for column in rest):
        role = next((role for role in _COMPARED if is_alike(name, role)), None)
        if role is None or (still and role == "time"):
            continue
        if role == "judge" and role not in roles:  # of orders, which `comparisons` speaks of
            continue
        alone = role == "judge" and (still or "time" in found.columns)
        ways = [naming(role, name)] if role in roles and not alone else []
        ways = " or ".join([*ways, naming("ignore", name)])
        what = _COMPARED[role].plural
        sentences.append(f"Column {name!r} looks like {what} and is not used: add {ways}.")
    return tuple(sentences)
