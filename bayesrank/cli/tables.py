"""The ranking as a person reads it."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from bayesrank._names import count_of
from bayesrank.ranking import RankSummary
from bayesrank.ranking.columns import columns_of


def plain_table(titles: Sequence[str], folded: str) -> Table:
    """Columns of numbers, and one of texts, which folds where it is too long."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        if title == folded:
            table.add_column(title, overflow="fold")
        else:
            table.add_column(title, justify="right", no_wrap=True)
    return table


def ranking_table(summary: RankSummary, rows: int = 15, elo: float | None = None) -> Table:
    """Lay out a ranking: rank, item, tier, skill, probabilities, ranks and record."""
    table = plain_table(ranking_titles(summary, elo), "Item")
    top, bottom = _shown(len(summary), rows)
    for cells in ranking_cells(summary, range(top), elo):
        table.add_row(*map(Text, cells))  # never read as markup
    if top + bottom < len(summary):
        table.add_row("", Text(f"... {len(summary) - top - bottom} more ...", style="dim"))
    for cells in ranking_cells(summary, range(len(summary) - bottom, len(summary)), elo):
        table.add_row(*map(Text, cells))
    return table


def ranking_titles(summary: RankSummary, elo: float | None = None) -> list[str]:
    """Titles of the columns of a ranking."""
    return [column.title for column in columns_of(summary, elo)]


def ranking_cells(
    summary: RankSummary, places: range, elo: float | None = None
) -> Iterator[list[str]]:
    """Cells of the rows at these places of a ranking, as text."""
    columns = columns_of(summary, elo)
    for i in places:
        yield [column.cell(i) for column in columns]


def legend(rankings: Sequence[RankSummary], elo: float | None = None) -> str:
    """What the columns of rankings mean, in a few sentences."""
    first, *others = rankings
    sentences = [
        "Rows stand in the order of mean skill; ± is one standard deviation."
        if elo is None
        else "Rows stand in the order of Elo, with 90% intervals; the average item has 1500.",
        "The items of one tier cannot be told from its first.",
        "P(> next): the chance of being better than the item in the next row.",
    ]
    if any(each.provisional.any() for each in rankings):
        number = "" if others else f" ({count_of(int(first.provisional.sum()), 'item')})"
        sentences.append(
            "* provisional: its ranks span more than half of what they would without comparisons"
            f"{number}."
        )
    if first.records is not None:
        won = "won-lost-tied" if first.records.ties.any() else "won-lost"
        sentences.append(f"Record: comparisons {won}.")
    return " ".join(sentences)


def _shown(n: int, rows: int) -> tuple[int, int]:
    """Numbers of items shown from the top and from the bottom."""
    if rows == 0 or n <= rows:
        return n, 0
    return rows - rows // 3, rows // 3
