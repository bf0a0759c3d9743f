"""Layouts that become one of the four standard ones: one table, a function each.

A function takes a table and gives another, with the columns `winner` and `loser`, two sides and
`winner`, or `order`; or None if the table is not laid out as it knows. It judges by the cells as
well as by the names of columns where another layout looks alike.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesrank.datasets import cells
from bayesrank.datasets.ballots import (
    TAIL,
    answers,
    best_worst,
    by_place,
    free_for_all,
    is_race,
    marked,
    wide_ranks,
)
from bayesrank.datasets.data import ScoreTable
from bayesrank.datasets.doubts import refuse_team_columns
from bayesrank.datasets.layouts import (
    COMPARISONS,
    RATINGS,
    WINS,
    ColumnNames,
    Found,
    find,
    fitting,
    naming,
    option_name,
    sides_of,
    two_columns,
)
from bayesrank.datasets.scores import LONG, arranged_scores, as_long
from bayesrank.datasets.table import Column, Table, plain_key


class Reshape(NamedTuple):
    """A layout by an example of its header, and what turns it into a standard one."""

    example: str
    turned: Callable[[Table], Table | None]
    together: bool = False  # whether one row says something only beside others


_BESIDE = {"judge", "category", "weight", "time"}  # roles that any layout may have
# Options that tell how to read comparisons.
_OF_COMPARISONS = ("covariates", "outcome_codes", "date_format", "fold_names")
_SUMS = {"total", "totals", "sum", "grand total", "all"}  # of a square table


def reshaped(table: Table, layouts: Sequence[Reshape]) -> Table:
    """The table as the first of these layouts turns it that knows it, or as it is."""
    for each in layouts:
        turned = each.turned(table)
        if turned is not None:
            if each.together and table.counts is not None and (table.counts > 1).any():
                problem = f"rows that belong together, as in {each.example}, are there twice"
                raise table.error(problem, "keep each once")
            return turned
    return table


def in_layout(table: Table, chosen: ColumnNames) -> Found:
    """The columns of comparisons, in a standard layout or one that becomes it."""
    named = chosen.named
    if named.keys() <= _BESIDE and not fitting(table, COMPARISONS[:1], named):
        table = reshaped(table, BY_NAMES)
        if not fitting(table, COMPARISONS, named):
            table = reshaped(table, BY_CELLS)
        if not fitting(table, COMPARISONS, named):
            refuse_team_columns(table)
        if not fitting(table, COMPARISONS, named) and fitting(table, (RATINGS,), {}):
            file = table.path.name if table.path.suffix else "FILE"
            fix = f"rate it: bayesrank rate {file} (in Python: CollaborativeOrdinalGP)"
            raise table.error("this looks like ratings and not like comparisons", fix)
        yes = [{cell.lower() for cell in column.values} for column in table.columns[1:]]
        unread = chosen.scores is None and not fitting(table, COMPARISONS, named)
        if unread and len(yes) > 1 and all(said <= cells.TRUTH.keys() for said in yes):
            problem = "this looks like a score table, systems by tasks"
            raise table.error(problem, "call its first column system or task, whichever it names")
    return find(table, COMPARISONS, named)


def as_scores(table: Table, chosen: ColumnNames) -> ScoreTable | None:
    """The score table that a table is, unless it is comparisons; what may be both is refused."""
    asked = chosen.scores not in (None, "none")
    if chosen.scores == "none" or (not asked and fitting(table, COMPARISONS, chosen.named)):
        return None
    others = [*chosen.named, *(name for name in _OF_COMPARISONS if getattr(chosen, name))]
    if others and not asked:
        return None
    if others:
        problem = f"--{option_name(others[0])} does not go with score tables"
        raise table.error(problem, "leave it out")
    wide = not fitting(table, (LONG,), {})
    if wide and not asked and reshaped(table, BY_NAMES) is not table:
        return None
    found = as_long(table)
    if found is None and asked:
        fix = f"name the columns as in {LONG.example}, or call the first one system or task"
        raise table.error(f"the columns {table.quoted} are no score table", fix)
    if found is None or (not asked and {*table.header[1:]} == {*table.columns[0].values}):
        return None
    read = arranged_scores(found, None if chosen.scores in (None, "none") else chosen.scores)
    if not asked and _are_orders(table, found, read):
        problem = "this may be a score table, systems by tasks, or an order of items a row or task"
        raise table.error(problem, f"say which: --scores {read.kind}, or --scores none")
    return read


def _are_orders(table: Table, found: Found, read: ScoreTable) -> bool:
    """Whether a score table may be orders: points in races, or ranks in each row."""
    if found.table is table:
        return read.kind != "solved" and read.scores.max() > 1.0 and is_race(table)
    return wide_ranks(table) is not None


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
        note += f" Rows without one, left out: {table.count(~given):,}."
    return table.having(note, preference=words[column.codes]).kept(given)


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


def _survey(table: Table) -> Table | None:
    """Qualtrics: below the header a row of questions, and one of identifiers."""
    second = [column.values[column.codes[min(1, len(table.rows) - 1)]] for column in table.columns]
    if len(table.rows) < 3 or not all(cell.startswith('{"ImportId"') for cell in second):
        return None
    asked = [column.values[column.codes[0]] for column in table.columns]
    columns = [
        c._replace(name=name) if TAIL.fullmatch(name) and asked.count(name) == 1 else c
        for c, name in zip(table.columns, asked, strict=True)
    ]
    return reshaped(table.with_columns(columns).kept(np.arange(2, len(table.rows))), BY_NAMES)


BY_NAMES = (
    Reshape("Q1_1,Q1_2,Q1_3", _survey, True),
    Reshape("model_a,model_b,winner_model_a,winner_model_b,winner_tie", _one_hot),
    Reshape("model_1,model_2,g1_winner,g2_winner", _both_orders),
    Reshape("player1,player2,wins1,wins2", _counts),
    Reshape("generator_1,generator_2,preference", _one_and_two),
    Reshape("set,item,best,worst", marked, True),
    Reshape("item1,item2,item3,best,worst", best_worst),
    Reshape("game,player,place", free_for_all, True),
)
BY_CELLS = (
    Reshape("rank1,rank2,rank3", by_place),
    Reshape("team,Ada,Bob,Cy", _square, True),
    Reshape("Tea,Coffee,Milk", wide_ranks),
    Reshape("Rank the drinks", answers),
)
