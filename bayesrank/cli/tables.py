"""The ranking as a person reads it."""

from collections.abc import Collection, Mapping, Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from bayesrank._names import shown
from bayesrank.cli.trust import Check
from bayesrank.ranking import RankSummary
from bayesrank.ranking.columns import EloScale, RankingColumn, columns_of

_FIRST_TO_GO = ("Won-lost", "P(beats next)", "Tier", "P(best)")
_SHORTEST_NAME = 16
_GAP = 2
_STYLES = {"warning": "yellow", "ok": "green", "not checked": "dim", "n/a": "dim"}


def plain_table(titles: Sequence[str], folded: str) -> Table:
    """Columns of numbers, and one of texts, which folds where it is too long."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        if title == folded:
            table.add_column(title, overflow="fold")
        else:
            table.add_column(title, justify="right", no_wrap=True)
    return table


def ranking_table(
    summary: RankSummary, rows: int = 15, elo: EloScale | None = None, width: int = 100
) -> Table:
    """Lay out a ranking in a width: columns of less weight go, then names are shortened."""
    top, bottom = _shown(len(summary), rows)
    places = [*range(top), *range(len(summary) - bottom, len(summary))]
    columns, longest = _fitted(columns_of(summary, elo), places, width)
    table = plain_table([column.title for column in columns], "")
    item = [column.title for column in columns].index("Item")
    table.columns[item].justify = "left"
    for number, place in enumerate(places):
        if number == top:
            table.add_row(*(Text("..." if column.title == "Rank" else "") for column in columns))
        cells = [Text(column.cell(place)) for column in columns]  # never read as markup
        cells[item].truncate(longest, overflow="ellipsis")
        table.add_row(*cells)
    if len(places) < len(summary):
        said = f"({len(places)} of {len(summary):,} rows; --rows 0 shows all)"
        table.caption, table.caption_justify, table.caption_style = said, "left", "dim"
    return table


def _fitted(
    columns: list[RankingColumn], places: Sequence[int], width: int
) -> tuple[list[RankingColumn], int]:
    """The columns that fit, and the longest name."""
    sizes = {
        each.title: max(map(cell_len, [each.title, *map(each.cell, places)])) for each in columns
    }
    left = width - sum(sizes.values()) - _GAP * (len(sizes) - 1)
    for title in [each for start in _FIRST_TO_GO for each in sizes if each.startswith(start)]:
        if left + sizes["Item"] >= min(_SHORTEST_NAME, sizes["Item"]):
            break
        left += sizes.pop(title) + _GAP
    kept = [each for each in columns if each.title in sizes]
    return kept, max(sizes["Item"] + min(left, 0), len("Item"))


def legend(
    rankings: Sequence[RankSummary],
    titles: Collection[str],
    elo: EloScale | None = None,
    unit: str = "",
) -> dict[str, str]:
    """What columns of these titles mean in rankings; `unit` says what a unit of skill is."""
    first, *_ = rankings
    level = f"{100 * first.level:g}%"
    lines = {f"{level} ranks": f"{level} credible interval of the rank"}
    if first.measure != "skill":
        lines["Score ± SD"] = "mean over the tasks; ± is 1 standard deviation"
    elif elo is None:
        lines["Skill ± SD"] = f"relative to the average item; {unit}± is 1 standard deviation"
    else:
        of = f" of the difference to {elo.reference}" if elo.reference else ""
        lines["Elo"] = f"with {level} interval{of}; {elo.meaning}; 400 points are odds of 10 to 1"
    lines["P(beats next)"] = "probability of being better than the item in the next row"
    lines["Tier"] = (
        f"statistically tied with the first item of the tier ({level} level, one item at a time)"
    )
    lines = {name: line for name, line in lines.items() if name in titles}
    if "Tier" in titles and any(each.provisional.any() for each in rankings):
        lines["*"] = "provisional: too few comparisons to say much of the rank"
    return lines


def meanings(lines: Mapping[str, str]) -> Table:
    """Names at the left and what they mean beside them."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, meaning in lines.items():
        table.add_row(Text(name), Text(meaning))
    return table


def checks_table(checks: Sequence[Check], verbose: bool = False) -> Table:
    """The checks, with coloured status; the details of warnings alone, unless `verbose`."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.title, table.title_justify, table.title_style = "Checks", "left", "bold"
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, status, sentence in checks:
        sentence = sentence if verbose or status == "warning" else sentence.split("; ")[0]
        table.add_row(Text(f"  {status}", style=_STYLES[status]), Text(name), Text(shown(sentence)))
    return table


def _shown(n: int, rows: int) -> tuple[int, int]:
    """Numbers of items shown from the top and from the bottom."""
    if rows == 0 or n <= rows:
        return n, 0
    return rows - rows // 3, rows // 3
