"""What the person sees: the question, the keys, how far it is, and who leads."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from bayesrank._names import shown
from bayesrank.datasets.items import Items
from bayesrank.estimators.checks import standardization
from bayesrank.ranking import RankSummary
from bayesrank.ranking.columns import columns_of

if TYPE_CHECKING:
    from bayesrank.active import Progress

# Narrower screens show less of each leader, and the progress in words alone.
WIDE = 64
# From the fullest layout to the barest: leaders, blank lines, and features that must find room.
_LAYOUTS = (((5, True), 4), ((3, True), 3), ((3, False), 2), ((1, False), 2), ((0, False), 2))


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


def draw_screen(view: View, console: Console) -> RenderableType:
    """Lay out the fullest screen that there is room for, the two items and the keys before all."""
    names = list(view.items.names)
    # No name takes more than three lines of its half of the screen.
    size = max(3 * ((console.width - 16) // 2), 8)
    names[view.pair[0]], names[view.pair[1]] = shortened(
        (names[view.pair[0]], names[view.pair[1]]), size
    )
    view = view._replace(items=view.items._replace(names=tuple(names)))
    count = 0 if view.items.features is None else view.items.features.shape[1]
    room = console.height - 1  # the cursor stands below
    screens = [(partial(_screen, view, console.width, *each), n) for each, n in _LAYOUTS]
    screens += [(partial(_bare, view, parts), 0) for parts in (2, 1, 0)]
    for screen, fewest in screens:
        features = range(min(fewest, count), min(count, room) + 1)
        fitting = bisect_right(features, room, key=lambda n, s=screen: _lines(s(n), console))
        if fitting:
            return screen(features[fitting - 1])
    return Group(feature_table(view.items, view.pair, 0))


def _bare(view: View, parts: int, features: int) -> RenderableType:
    """The two items and the keys; before them the question if `parts`, below the note if two."""
    question = [Text(view.question, style="bold")] if parts else []
    note = [Text(view.note, style="green")] if parts > 1 and view.note else []
    keys = Text("1, 2, = equal, s can't say, u undo, q quit")
    return Group(*question, feature_table(view.items, view.pair, features), keys, *note)


def shortened(pair: tuple[str, str], size: int | None) -> tuple[str, str]:
    """Two names, each cut in the middle to so many columns, and still different."""
    if size is None:
        return pair
    first, second = (_cut(name, size) for name in pair)
    if first == second != pair[0]:  # they differ in what was cut out: begin shortly before that
        place = max(len(os.path.commonprefix(pair)) - 4, 0)
        first, second = (_cut("\u2026" + name[place:], size) for name in pair)
    return first, second


def _cut(name: str, size: int) -> str:
    if cell_len(name) <= size:
        return name
    half = (size - 1) // 2
    back = set_cell_size(name[::-1], half)[::-1]
    return set_cell_size(name, size - 1 - half) + "\u2026" + back


def _lines(screen: RenderableType, console: Console) -> int:
    return len(console.render_lines(screen, pad=False))


def _screen(view: View, width: int, leaders: int, spaced: bool, features: int) -> RenderableType:
    # Where not all features are shown, a line says so.
    blank = [Text("")] if spaced else []
    parts: list[RenderableType] = [
        Rule(Text(f"{shown(view.items.path.name)}: {_count(view)}", style="dim"), align="left"),
        *blank,
        Text(view.question, style="bold"),
        *blank,
        feature_table(view.items, view.pair, features),
        *blank,
        _keys(),
        *([Text(view.note, style="green")] if view.note or spaced else []),
        _bar(view, width),
    ]
    if leaders:
        parts += [*blank, _leaders(view, min(leaders, len(view.items.names)), width)]
    return Group(*parts)


def feature_table(items: Items, pair: tuple[int, int], room: int) -> Group:
    """Two items side by side; of many features, those in which they differ most."""
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 3, 0, 0))
    table.add_column("", style="dim", overflow="fold")
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
    less = ", in which they differ less" if shown else " features"
    rest = [Text(f"... {left} more{less}", style="dim")] if left else []
    return Group(table, *rest)


def _most_different(
    features: np.ndarray, pair: tuple[int, int], room: int
) -> tuple[Sequence[int], int]:
    """Features to show, in their own order, and the number of the others."""
    count = features.shape[1]
    if count <= room:
        return range(count), 0
    difference = np.abs(features[pair[0]] - features[pair[1]]) / standardization(features)[1]
    shown = np.sort(np.argsort(-difference, kind="stable")[:room])
    return shown.tolist(), count - room


def progress_line(progress: Progress, top: int, sure: float) -> str:
    """How far it is, in words."""
    best = "Best item" if top == 1 else f"Top {top}"
    settled = 0.0 if progress.settled is None else progress.settled
    return f"{best}: {100 * settled:.0f}% certain (stops at {100 * sure:g}%)"


def _count(view: View) -> str:
    parts = [f"{view.progress.answers} answered"]
    if view.progress.skipped:
        parts.append(f"{view.progress.skipped} skipped")
    return ", ".join(parts)


def _keys() -> Columns:
    keys = []
    for names, meaning in (
        ("1←", "first"),
        ("2→", "second"),
        ("=", "about equal"),
        ("s", "can't say"),
        ("u", "undo"),
        ("q", "quit, all is saved"),
    ):
        key = Text()
        for name in names:
            key.append(name, style="bold reverse").append(" ")
        keys.append(key.append(meaning))
    return Columns(keys, padding=(0, 3))


def _bar(view: View, width: int) -> RenderableType:
    settled = 0.0 if view.progress.settled is None else view.progress.settled
    words = Text(progress_line(view.progress, view.top, view.sure), style="dim")
    if width < WIDE:
        return words
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=view.sure, completed=min(settled, view.sure), width=20), words)
    return grid


def _leaders(view: View, rows: int, width: int) -> RenderableType:
    if view.ranking is None:
        return Text("No answers yet.", style="dim")
    return leaders_table(view.ranking, rows, width)


def leaders_table(ranking: RankSummary, rows: int, width: int) -> Table:
    """The best items, one line each, with as many figures as a width allows."""
    count = min(rows, len(ranking))
    figures = {
        column.title: [column.cell(i) for i in range(count)]
        for column in columns_of(ranking)
        if column.title.endswith(("± SD", "(best)", "ranks"))
    }
    if width < WIDE:
        figures = {"P(best)": figures["P(best)"]}
    sizes = {head: max(len(head), *map(len, cells)) for head, cells in figures.items()}
    left = width - 3 - sum(size + 2 for size in sizes.values())
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", no_wrap=True, min_width=1)
    table.add_column("Best so far", overflow="ellipsis", no_wrap=True, max_width=max(left, 4))
    for head, size in sizes.items():
        table.add_column(head, justify="right", no_wrap=True, min_width=size)
    for i in range(count):
        table.add_row(str(i + 1), Text(ranking.names[i]), *(cells[i] for cells in figures.values()))
    return table
