"""What the person sees: the question, the keys, how far it is, and who leads."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from bayesrank.active import Progress
from bayesrank.datasets._items import Items
from bayesrank.ranking import RankSummary

__all__ = ["View", "draw_screen", "feature_table", "progress_line"]

# Lines that are always there: title, question, heads of tables, keys, note, progress, blank ones.
_FIXED_LINES = 12
_LEADERS = 5


class View(NamedTuple):
    """All that a screen shows."""

    items: Items
    question: str
    pair: tuple[int, int]
    progress: Progress
    sure: float
    top: int
    ranking: RankSummary | None
    note: str


def draw_screen(view: View, height: int) -> RenderableType:
    """Lay out a screen of a given height."""
    leaders = min(_LEADERS, len(view.items.names))
    room = max(2, height - _FIXED_LINES - leaders)
    parts: list[RenderableType] = [
        Rule(Text(f"{view.items.path.name}: {_count(view)}", style="dim"), align="left"),
        Text(""),
        Text(view.question, style="bold"),
        Text(""),
        feature_table(view.items, view.pair, room),
        Text(""),
        _keys(),
        Text(view.note, style="green"),
        _bar(view),
        Text(""),
        _leaders(view, leaders),
    ]
    return Group(*parts)


def feature_table(items: Items, pair: tuple[int, int], room: int) -> Group:
    """Two items side by side; of many features, those in which they differ most."""
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 3, 0, 0))
    table.add_column("", style="dim")
    for key, item, style in (("1", pair[0], "bold cyan"), ("2", pair[1], "bold magenta")):
        table.add_column(Text(f"[{key}] {items.names[item]}", style=style), justify="left")
    if items.features is None:
        return Group(table)
    shown, left = _most_different(items.features, pair, room)
    first, second = items.features[pair[0]], items.features[pair[1]]
    for k in shown:
        style = "dim" if first[k] == second[k] else ""
        cells = (Text(f"{value[k]:g}", style=style) for value in (first, second))
        table.add_row(Text(items.feature_names[k]), *cells)
    rest = [Text(f"... {left} more, in which they differ less", style="dim")] if left else []
    return Group(table, *rest)


def _most_different(
    features: np.ndarray, pair: tuple[int, int], room: int
) -> tuple[Sequence[int], int]:
    """Features to show, in their own order, and the number of the others."""
    count = features.shape[1]
    if count <= room:
        return range(count), 0
    difference = np.abs(features[pair[0]] - features[pair[1]]) / features.std(axis=0)
    shown = np.sort(np.argsort(-difference, kind="stable")[: room - 1])
    return shown.tolist(), count - (room - 1)


def progress_line(progress: Progress, top: int, sure: float) -> str:
    """How far it is, in words."""
    best = "best item" if top == 1 else f"best {top}"
    settled = 0.0 if progress.settled is None else progress.settled
    return f"the {best} settled: {100 * settled:.0f}% sure, of {100 * sure:g}% wanted"


def _count(view: View) -> str:
    parts = [f"{view.progress.answers} answered"]
    if view.progress.skipped:
        parts.append(f"{view.progress.skipped} skipped")
    return ", ".join(parts)


def _keys() -> Text:
    text = Text()
    for key, meaning in (
        ("1", ""),
        ("←", "first   "),
        ("2", ""),
        ("→", "second   "),
        ("s", "can't say   "),
        ("u", "undo   "),
        ("q", "quit, all is saved"),
    ):
        text.append(key, style="bold reverse").append(f" {meaning}")
    return text


def _bar(view: View) -> Table:
    settled = 0.0 if view.progress.settled is None else view.progress.settled
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=view.sure, completed=min(settled, view.sure), width=20)
    grid.add_row(bar, Text(progress_line(view.progress, view.top, view.sure), style="dim"))
    return grid


def _leaders(view: View, rows: int) -> RenderableType:
    if view.ranking is None:
        return Text("Nothing is known of the ranking yet.", style="dim")
    ranking = view.ranking
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", no_wrap=True, min_width=1)
    table.add_column("Best so far", overflow="ellipsis", no_wrap=True)
    table.add_column("Skill ± sd", justify="right", no_wrap=True)
    table.add_column("P(best)", justify="right", no_wrap=True)
    table.add_column(f"{100 * ranking.prob:g}% rank interval", justify="right", no_wrap=True)
    for i in range(min(rows, len(ranking))):
        table.add_row(
            str(i + 1),
            Text(ranking.name[i]),
            f"{ranking.mean[i]:+.2f} ± {ranking.sd[i]:.2f}",
            f"{100 * ranking.prob_best[i]:.0f}%",
            f"{ranking.rank_lower[i]:.0f} to {ranking.rank_upper[i]:.0f}",
        )
    return table
