"""The ranking as a person reads it."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bayesrank._names import shown
from bayesrank.ranking import RankSummary

_WIDE = 10_000  # a file or a pipe has no edge to fold at


def stdout_console() -> Console:
    """Return a console on standard output that folds lines on a terminal only."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def ranking_table(summary: RankSummary, rows: int = 15) -> Table:
    """Lay out a ranking: rank, item, skill and its sd, P(best), and the rank interval.

    Parameters
    ----------
    summary
        The ranking, best first.
    rows
        How many items to show, two thirds of them from the top and the rest from the bottom; 0
        shows all.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Rank", justify="right")
    table.add_column("Item", overflow="fold")
    table.add_column("Skill ± sd", justify="right", no_wrap=True)
    table.add_column("P(best)", justify="right", no_wrap=True)
    table.add_column(f"{100 * summary.prob:g}% rank interval", justify="right", no_wrap=True)
    top, bottom = _shown(len(summary), rows)
    for cells in _cells(summary, range(top)):
        table.add_row(*cells)
    if top + bottom < len(summary):
        table.add_row("", Text(f"... {len(summary) - top - bottom} more ...", style="dim"))
    for cells in _cells(summary, range(len(summary) - bottom, len(summary))):
        table.add_row(*cells)
    return table


def _shown(n: int, rows: int) -> tuple[int, int]:
    """Numbers of items shown from the top and from the bottom."""
    if rows == 0 or n <= rows:
        return n, 0
    return rows - rows // 3, rows // 3


def _cells(summary: RankSummary, places: range) -> Iterator[tuple[str | Text, ...]]:
    for i in places:
        yield (
            str(i + 1),
            Text(shown(summary.name[i])),  # never read as markup
            f"{summary.mean[i]:+.2f} ± {summary.sd[i]:.2f}",
            _percent(float(summary.prob_best[i])),
            f"{summary.rank_lower[i]:.0f} to {summary.rank_upper[i]:.0f}",
        )


def _percent(share: float) -> str:
    """Return a share of draws as a percentage; no number of draws makes it 0 or 100."""
    if share < 0.001:
        return "<0.1%"
    return f"{100 * share:.1f}%" if share <= 0.999 else ">99.9%"
