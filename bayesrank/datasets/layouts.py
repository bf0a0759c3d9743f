"""How files are laid out: one table of layouts, their roles, and the usual names of their columns.

Every command and every face finds its columns here. A new layout is a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np

from bayesrank.datasets.errors import DataError
from bayesrank.datasets.table import Column, Table

__all__ = ["COMPARISONS", "ColumnNames", "Found", "Layout", "ColumnRole", "find", "overlooked"]


class ColumnRole(NamedTuple):
    """What a column may hold.

    Attributes
    ----------
    usual
        Names by which it is recognised, whatever the case; the first that is there counts.
    optional
        Whether a file of the layout may be without it.
    alike
        Names that look like it; where such a column is passed over, a sentence says so.
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
        return tuple(column for column in self.table.columns if column.name not in taken)


_JUDGES = (
    *("judge", "judges", "judge_id", "judge_name", "judge_model", "annotator", "annotator_id"),
    *("rater", "assessor", "reviewer", "evaluator", "voter", "user", "user_id"),
)
_CATEGORIES = (
    *("group", "groups", "category", "categories", "topic", "task", "domain", "language"),
    "surface",
)
_TIMES = ("time", "date", "datetime", "timestamp", "tstamp", "tourney_date")
_WEIGHTS = ("weight", "weights", "count", "counts", "votes", "frequency", "num_votes")
_TIES = ("tie", "ties", "tied", "draw", "draws", "is_tie")
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
OUTCOME = ColumnRole(
    ("winner", "preference", "outcome", "result", "ftr"),
    alike=("preference", "outcome", "result"),
    plural="outcomes",
    also="winner",
)
_WEIGHT = ColumnRole(("weight", "count"), True, _WEIGHTS, "weights")
_BESIDE = {
    "judge": ColumnRole(("judge",), True, _JUDGES, "judges"),
    "category": ColumnRole(("group", "category"), True, _CATEGORIES, "categories"),
    "weight": _WEIGHT,
    # Times are never recognised, because skills that move are another model.
    "time": ColumnRole((), True, _TIMES, "times"),
}
_FIRST, _SECOND = (ColumnRole(names) for names in zip(*_PAIRS, strict=True))
_POINTS, _OTHER_POINTS = (ColumnRole(names) for names in zip(*_SCORES, strict=True))
_SHOWN = {"first": _FIRST, "second": _SECOND, "neutral": ColumnRole(("neutral",), True), **_BESIDE}
COMPARISONS = (
    Layout(
        "winner,loser",
        {
            "winner": ColumnRole(("winner", "winner_name")),
            "loser": ColumnRole(("loser", "loser_name")),
            "tie": ColumnRole(("tie", "ties", "tied", "draw"), True, _TIES, "ties"),
            **_BESIDE,
        },
        options=True,
    ),
    Layout(
        "home,away,home_score,away_score",
        {**_SHOWN, "first_score": _POINTS, "second_score": _OTHER_POINTS},
        (("first", "second"), ("first_score", "second_score")),
        options=True,
    ),
    Layout(
        "model_a,model_b,winner",
        {**_SHOWN, "outcome": OUTCOME},
        (("first", "second"),),
        options=True,
    ),
    Layout(
        "order",
        {
            "order": ColumnRole(("order",), alike=("order", "ranking"), plural="orders"),
            "weight": _WEIGHT,
        },
        options=True,
    ),
)
_COMPARED = {name: role for layout in COMPARISONS for name, role in layout.roles.items()}

_QUERY = ColumnRole(("query", "qid", "topic"))
_LABEL = ColumnRole(("label", "relevance", "rel", "grade"))
_DOCUMENT = ColumnRole(("item", "docno", "doc", "document"))
ITEMS = Layout("item,price,weight", {"item": ColumnRole(("item", "name"))})
RATINGS = Layout(
    "user,item,rating",
    {
        "user": ColumnRole(("user", "userid", "user_id", "reader")),
        "item": ColumnRole(("item", "itemid", "item_id", "movieid", "movie_id")),
        "rating": ColumnRole(("rating", "level", "stars")),
    },
)
RUN = Layout(
    "query,item,score",
    {
        "query": _QUERY,
        "item": _DOCUMENT,
        "score": ColumnRole(("score",)),
        "draw": ColumnRole(("draw",), optional=True),
    },
)
QRELS = Layout("query,item,label", {"query": _QUERY, "item": _DOCUMENT, "label": _LABEL})
LISTS = Layout(
    "query,label,feature1,feature2",
    {"query": _QUERY, "label": _LABEL, "item": ColumnRole(("item", "name"), optional=True)},
)
TEXTS = Layout(
    "id,title,text",
    {
        "id": ColumnRole(("id", "_id", "docno", "query", "qid")),
        "text": ColumnRole(("text",)),
        "title": ColumnRole(("title",), optional=True),
    },
)
LINKS = Layout(
    "from,to",
    {"from": ColumnRole(("from", "source", "citing")), "to": ColumnRole(("to", "target", "cited"))},
)


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
    category
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
    category: str | None = None
    time: str | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    positive: Literal["first", "second"] = "first"

    @property
    def named(self) -> dict[str, str]:
        """Columns that were named, by what they hold."""
        chosen = {each.name: getattr(self, each.name) for each in fields(self)}
        del chosen["ignore"], chosen["positive"]
        return {role: name for role, name in chosen.items() if name is not None}


def find(table: Table, layouts: Sequence[Layout], named: Mapping[str, str] | None = None) -> Found:
    """Find the layout of a table, and the columns that hold what it speaks of.

    Of several that fit, the first is taken that makes use of all `named` columns.
    """
    named = dict(named or {})
    fitting = []
    for layout in layouts:
        columns = _columns(table, layout, named)
        if all(name in columns or role.optional for name, role in layout.roles.items()):
            fitting.append(Found(layout, table, columns))
    if not fitting:
        raise _unrecognised(table, layouts, named)
    used = next((f for f in fitting if not named.keys() - _options(f.layout)), None)
    if used is None:
        raise _unused(fitting[0], named)
    _refuse_second_header(used)
    return used


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
            raise table.error(problem, f"name one of these with --{_option(name)}")
        found[name] = column
    for pair in layout.together:
        names = zip(*(layout.roles[side].usual for side in pair), strict=True)
        for each in names if not found.keys() & set(pair) else ():
            first, second = map(table.column, each)
            if first is not None and second is not None:
                found.update(zip(pair, (first, second), strict=True))
                break
    taken = {column.name for column in found.values()}
    paired = {name for pair in layout.together for name in pair}
    for name, role in layout.roles.items():
        column = None if name in found or name in paired else table.column(*role.usual)
        if column is not None and column.name not in taken:
            found[name] = column
            taken.add(column.name)
    return found


def _option(role: str) -> str:
    return role.replace("_", "-")


def _unused(found: Found, named: Mapping[str, str]) -> DataError:
    option = next(_option(name) for name in named if name not in _options(found.layout))
    others = ", ".join(f"--{_option(name)}" for name in sorted(_options(found.layout)))
    problem = f"--{option} does not go with the columns {found.table.quoted}"
    return found.table.error(problem, f"which are read by {others}")


def _unrecognised(table: Table, layouts: Sequence[Layout], named: Mapping[str, str]) -> DataError:
    """What is lacking of the layout that comes closest, and how the columns may be called."""

    def needed(layout: Layout) -> list[str]:
        return [name for name, role in layout.roles.items() if not role.optional]

    there = {layout.example: _columns(table, layout, named) for layout in layouts}
    closest = max(
        layouts,
        key=lambda each: sum(n in there[each.example] for n in needed(each)) / len(needed(each)),
    )
    lacking = next(name for name in needed(closest) if name not in there[closest.example])
    if not closest.options:
        wanted = " or ".join(map(repr, closest.roles[lacking].usual))
        cure = f"the first line must name the columns, as in {closest.example}"
    else:
        wanted = repr("winner" if lacking == "outcome" else lacking)
        examples = "; ".join(layout.example for layout in layouts)
        cure = (
            f"name the columns as in {examples}, or say which they are: --winner and --loser, or "
            "--first, --second and --outcome, or --order"
        )
    problem = f"there is no column {wanted} among {table.quoted}"
    return DataError(table.path, problem, cure, row=1)


def _refuse_second_header(found: Found) -> None:
    """Refuse a row that says what the header says, as where files were put together."""
    if any(column.name not in column.values for column in found.table.columns):
        return
    where = np.all([column.holds(column.name) for column in found.table.columns], axis=0)
    if where.any():
        raise found.table.error("the header is there again", "remove the row", None, where)


def overlooked(rest: Sequence[Column]) -> tuple[str, ...]:
    """A sentence on each column that was not used and looks as if it should have been."""
    sentences = []
    for name in (column.name for column in rest):
        for role, (_, _, alike, what, _) in _COMPARED.items():
            if name.lower() in alike:
                option = f"--{_option(role)} {name}"
                sentences.append(
                    f"Column {name!r} looks like {what} and is not used: add {option}, or --ignore "
                    f"{name}."
                )
                break
    return tuple(sentences)
