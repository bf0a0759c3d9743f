"""What looks like comparisons of single items and is not: teams, and a row for each criterion."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bayesrank.datasets.cells import quoted
from bayesrank.datasets.layouts import is_alike, naming
from bayesrank.datasets.table import Column, Table, plain_key

NO_TEAMS = "teams are not modelled yet: write one item a cell"
_MARKS = ("|", ";", "&", "+", "/", ",", " and ")
_IN_NO_NAME = "|;"
_TEAMS = ("team", "side", "squad", "teamname", "teamid", "alliance", "faction", "crew")
_MEMBER_OF = re.compile(
    r"(winn(?:er|ing)|los(?:er|ing)|team(?:\d|[ab])|side(?:\d|[ab])|home|away|red|blue)(?:team)?"
    r"(?:player|member|name|p)?(?:\d|[ab])"
)
CRITERIA = ("criteria", "criterion", "aspect", "dimension", "attribute", "rubric", "metric")


def refuse_teams(table: Table, columns: Sequence[Column]) -> None:
    """Refuse cells that name several items, which stand at other places in other cells."""
    team = first_team(cell for column in columns for cell in column.values if cell)
    for column in columns:
        if team is not None and team in column.values:
            problem = f"{quoted(team)} is more than one item"
            raise table.error(problem, NO_TEAMS, column, column.holds(team))


def first_team(names: Iterable[str]) -> str | None:
    """The first name of several items, which stand at other places in other names."""
    whole = dict.fromkeys(names)
    for mark in _MARKS:
        parts = {cell: [part.strip() for part in cell.split(mark)] for cell in whole}
        parts = {cell: own for cell, own in parts.items() if len(own) > 1 and all(own)}
        found = _first_team(whole, parts, mark) if len(parts) > 1 or mark in _IN_NO_NAME else None
        if found is not None:
            return found
    return None


def _first_team(whole: dict[str, None], parts: dict[str, list[str]], mark: str) -> str | None:
    """The first cell that is a team, by what it shares with others."""
    sets = Counter(frozenset(own) for own in parts.values())
    first = {own[0] for own in parts.values() if len(parts) == len(whole) and mark != ","}
    for cell, own in parts.items():
        alone = mark in _IN_NO_NAME and any(part in whole for part in own)
        if sets[frozenset(own)] > 1 or not first.isdisjoint(own[1:]) or alone:
            return cell
    return None


def refuse_team_columns(table: Table) -> None:
    """Refuse columns that name two players or more of each side."""
    matches = (_MEMBER_OF.fullmatch(plain_key(name)) for name in table.header)
    sides = Counter(match[1] for match in matches if match)
    if len([side for side, count in sides.items() if count > 1]) > 1:
        problem = f"the columns {table.quoted} name several players of each side"
        raise table.error(problem, "teams are not modelled yet: give one item for each side")


def refuse_team_rows(table: Table, event: Column, item: Column, value: NDArray[np.float64]) -> None:
    """Refuse events in which members of a team have a row each, and share one result."""
    team = table.column(*_TEAMS)
    if team is None or team is item or team is event:
        return
    keys = event.codes * len(team.values) + team.codes
    _, own, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    results = np.unique(np.column_stack([own, np.nan_to_num(value, nan=np.inf)]), axis=0)
    several = sizes[own] > 1
    if several.any() and len(results) == len(sizes):
        problem = f"rows of one {event.name} are of one {team.name}"
        raise table.error(problem, "teams are not modelled yet: give one row a team", team, several)


def refuse_criteria(
    table: Table, rest: Sequence[Column], judge: Column | None, pairs: NDArray[np.int64]
) -> None:
    """Refuse comparisons that have a row for each criterion: they are not independent."""
    column = next((c for c in rest if plain_key(c.name) in CRITERIA), None)
    if column is None or len(column.values) < 2:
        return
    judge = judge or next((c for c in rest if is_alike(c.name, "judge")), None)
    sides = np.sort(pairs, axis=1)
    who = np.zeros(len(pairs), np.int64) if judge is None else judge.codes
    said = np.column_stack([sides, who, column.codes])
    _, own = np.unique(said[:, :3], axis=0, return_inverse=True)
    kinds = np.unique(np.column_stack([own.ravel(), column.codes]), axis=0)[:, 0]
    several = np.bincount(kinds)[own.ravel()] > 1
    if np.average(several, weights=table.counts) >= 0.5:
        name = column.name
        problem = "a comparison has a row for each criterion"
        fix = f"keep those of one, or add {naming('category', name)} (a skill in each), or pool "
        raise table.error(problem, f"{fix}them with {naming('ignore', name)}", column)
